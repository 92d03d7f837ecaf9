"""A container's output on disk, as it comes, and its last lines at hand."""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from builder.core.timeline import PhaseName, Timeline
from builder.core.timeline_reader import TimelineReader

_KEPT = 4000
"""Lines kept at hand."""


class LogFile:
    """Use as a context manager; safe for one writer and many readers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._rest = b""
        self._lock = threading.Lock()
        self._changed = time.monotonic()
        self._complete = threading.Event()
        self._reader = TimelineReader()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._file.close()

    def add(self, piece: bytes) -> None:
        """Take bytes as they come, cut anywhere; each line begins with the engine's timestamp."""
        with self._lock:
            if self._file.closed:
                return
            self._file.write(piece)
            self._file.flush()
            *whole, self._rest = (self._rest + piece).split(b"\n")
            for line in whole:
                text = line.decode(errors="replace").partition(" ")[2]
                # Progress bars rewrite their line; what stands at its end is the newest.
                self._lines.append(text.rstrip("\r").rpartition("\r")[2])
            self._reader.feed(piece)
            self._changed = time.monotonic()

    def begin(self, when: float | None) -> None:
        """Say when the container began to run, by its engine's clock: seconds since the epoch."""
        with self._lock:
            self._reader.origin = when

    def timeline(self) -> Timeline:
        """Return the phases until now, in seconds since the container began to run."""
        with self._lock:
            return self._reader.timeline()

    def now(self) -> tuple[PhaseName | None, str]:
        """Return the phase it is in, and what to say of it."""
        with self._lock:
            return self._reader.current, self._reader.now

    def tail(self, count: int) -> list[str]:
        """Return the last lines, without timestamps."""
        with self._lock:
            return list(self._lines)[-count:]

    def settle(self, seconds: float = 3.0) -> None:
        """Wait until the source is at its end, at most so long."""
        self._complete.wait(seconds)

    def complete(self) -> None:
        """Say that nothing more will come."""
        self._complete.set()

    def silence(self) -> float:
        """Seconds since something came."""
        with self._lock:
            return time.monotonic() - self._changed
