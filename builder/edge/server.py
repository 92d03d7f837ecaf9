"""A booted server: whether it still runs, and questions to it that its end cuts short."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from builder.core.boot import Exit, Expired
from builder.edge.logfile import LogFile

T = TypeVar("T")
_LOOK = 1.0
"""Seconds between two looks while somebody waits."""


class Server:
    """A container that runs, or has just ended."""

    def __init__(self, address: str, log: LogFile) -> None:
        self.address = address
        """`http://host:port` of its server, from here."""
        self.log = log
        self.exit: Exit | None = None
        self.inspected: dict[str, Any] = {}
        """What the engine says of the container, newest; JSON."""
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._inboxes: list[SimpleQueue[Any]] = []

    def wait(self, seconds: float) -> Exit | None:
        """Wait for its end, at most so long; None while it runs."""
        self._ended.wait(seconds)
        return self.exit

    def call(
        self, ask: Callable[[], T], seconds: float, waiting: Callable[[], None] | None = None
    ) -> T | Exit | Expired:
        """Run `ask` beside us; return its result, or at once the container's end, or the deadline.

        `waiting` is called about every second until then; what it raises ends the wait.
        After an end or a deadline `ask` may still run for as long as its own timeouts allow.
        """
        inbox: SimpleQueue[Any] = SimpleQueue()

        def work() -> None:
            try:
                inbox.put((ask(), None))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                inbox.put((None, error))

        with self._lock:
            if self.exit is not None:
                return self.exit
            self._inboxes.append(inbox)
        threading.Thread(target=work, daemon=True).start()
        try:
            got = _waited(inbox, seconds, waiting)
        except Empty:
            return Expired(seconds=seconds)
        finally:
            with self._lock:
                self._inboxes.remove(inbox)
        if isinstance(got, Exit):
            return got
        result, error = got
        if error is not None:
            raise error
        return cast("T", result)

    def ended(self, end: Exit) -> None:
        """Tell everybody who waits."""
        with self._lock:
            self.exit = end
            for inbox in self._inboxes:
                inbox.put(end)
        self._ended.set()


def _waited(inbox: SimpleQueue[Any], seconds: float, waiting: Callable[[], None] | None) -> Any:  # noqa: ANN401
    """Take what comes first; raises Empty after so many seconds."""
    if waiting is None:
        return inbox.get(timeout=seconds)
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        try:
            return inbox.get(timeout=max(min(left, _LOOK), 0))
        except Empty:
            if left <= _LOOK:
                raise
            waiting()
