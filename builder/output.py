"""The only printer: results to stdout, progress and prose to stderr, events to a file.

With `--json` stdout holds one document and nothing else, also on failure.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from builder.errors import BadInput

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_SHOW_AFTER = 2.0
"""Seconds before a bar appears: shorter work stays silent."""


@dataclass(slots=True)
class Bar:
    """Progress of one step, in bytes or pieces; silent until it has lasted two seconds."""

    label: str
    total: float | None
    unit: str
    output: Output
    _started: float = field(default_factory=time.monotonic)
    _done: float = 0.0
    _progress: Progress | None = None
    _task: TaskID | None = None
    _last_line: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def advance(self, amount: float) -> None:
        """Add to what is done; safe to call from several threads often."""
        with self._lock:
            self._done += amount
            now = time.monotonic()
            if now - self._started < _SHOW_AFTER:
                return
            if self.output.terminal:
                self._draw(amount)
            elif now - self._last_line > 10:
                self._last_line = now
                self.output.note(f"{self.label}: {self._text()}")

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self.output.drawing.release()

    def _draw(self, amount: float) -> None:
        if self._progress is None:
            # A terminal has room for one; the others are silent until it is gone.
            if not self.output.drawing.acquire(blocking=False):
                return
            self._progress = self._open()
            self._task = self._progress.add_task(self.label, total=self.total)
            amount = self._done
        if self._task is not None:
            self._progress.advance(self._task, amount)

    def _open(self) -> Progress:
        # Imported late: rich costs 50 ms and most calls never draw.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TransferSpeedColumn,
        )

        columns = (
            (DownloadColumn(), TransferSpeedColumn())
            if self.unit == "bytes"
            else (MofNCompleteColumn(),)
        )
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *columns,
            TimeElapsedColumn(),
            console=Console(stderr=True, no_color=not self.output.color),
            transient=True,
        )
        progress.start()
        return progress

    def _text(self) -> str:
        if self.unit == "bytes":
            done, total = f"{self._done / 1e6:.0f} MB", f"{(self.total or 0) / 1e6:.0f} MB"
        else:
            done, total = f"{self._done:.0f}", f"{self.total or 0:.0f}"
        return f"{done} of {total}" if self.total else done


@dataclass(slots=True)
class Output:
    """What one run of nightlock says, and where."""

    json: bool = False
    verbose: bool = False
    events: Path | None = None
    out: IO[str] = field(default_factory=lambda: sys.stdout or _nowhere())
    err: IO[str] = field(default_factory=lambda: sys.stderr or _nowhere())
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds of each finished step, by its name."""
    _changing: bool = False
    """Whether a line stands on the screen that the next one replaces."""
    drawing: threading.Lock = field(default_factory=threading.Lock)
    """Held by the one bar that is on the screen."""

    @property
    def terminal(self) -> bool:
        """Whether a person looks at stderr."""
        return self.err.isatty() and os.environ.get("TERM") != "dumb"

    @property
    def color(self) -> bool:
        """Colour only on a terminal, and never against NO_COLOR."""
        return self.terminal and not os.environ.get("NO_COLOR")

    def result(self, text: str) -> None:
        """Print what was asked for; silent under `--json`, where the document is the result."""
        if not self.json and text:
            self._print(text, self.out)

    def document(self, document: dict[str, Any]) -> None:
        """Print the one document of `--json`."""
        if self.json:
            self._print(json.dumps(document, indent=2, ensure_ascii=False), self.out)

    def note(self, text: str) -> None:
        """Say something to the person who waits."""
        self.changing("")
        self._print(text, self.err)

    def changing(self, text: str) -> None:
        """Show what goes on in one line that the next one replaces; silent without a terminal."""
        if not self.terminal or not (text or self._changing):
            return
        width = shutil.get_terminal_size().columns - 1
        line = _printable(text.replace("\n", " "), self.err)[:width]
        with suppress(BrokenPipeError):
            self.err.write(f"\r\x1b[2K{line}")
            self.err.flush()
        self._changing = bool(text)

    def detail(self, text: str) -> None:
        """Say it only under `--verbose`."""
        if self.verbose:
            self.note(text)

    def check_events(self) -> None:
        """Raise BadInput when `--events FILE` cannot be written."""
        if self.events is None:
            return
        try:
            self.events.open("a").close()
        except OSError as error:
            raise BadInput(
                f"--events: the file cannot be written: {error.strerror}",
                subject=str(self.events),
                action="name a file in a folder that exists and is yours",
            ) from error

    def event(self, name: str, **fields: object) -> None:
        """Append one NDJSON line to `--events FILE`; `time` is seconds since the epoch."""
        if self.events is not None:
            line = json.dumps({"time": round(time.time(), 3), "event": name, **fields}, default=str)
            with self.events.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    @staticmethod
    def _print(text: str, stream: IO[str]) -> None:
        """Print; a reader that left (`| head`) or was never there (`>&-`) stops no work."""
        with suppress(BrokenPipeError):
            print(_printable(text, stream), file=stream, flush=True)

    @contextmanager
    def step(self, name: str, text: str = "") -> Iterator[None]:
        """One step of a recipe: announced, timed, reported as events."""
        started = time.monotonic()
        self.event("step-started", step=name)
        self.note(f"· {text or name}")
        try:
            yield
        except BaseException as error:
            self.event("step-failed", step=name, error=str(error) or type(error).__name__)
            raise
        seconds = time.monotonic() - started
        self.phases[name] = self.phases.get(name, 0.0) + seconds
        self.event("step-finished", step=name, seconds=round(seconds, 3))
        if seconds >= _SHOW_AFTER:
            self.note(f"  {name}: {seconds:.1f} s")

    @contextmanager
    def bar(self, label: str, total: float | None = None, unit: str = "bytes") -> Iterator[Bar]:
        """Progress of something that may last over two seconds."""
        bar = Bar(label, total, unit, self)
        try:
            yield bar
        finally:
            bar.close()


def close_streams() -> None:
    """Flush both streams for good; Python would complain at exit about a reader that left."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (BrokenPipeError, OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _nowhere() -> IO[str]:
    """Stand in for a stream that was closed before we started."""
    return Path(os.devnull).open("w", encoding="utf-8")


def _printable(text: str, stream: IO[str]) -> str:
    """Spell what the stream's encoding cannot, as under LANG=C, with escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
