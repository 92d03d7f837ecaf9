"""Several things at once, in threads: the first failure or Ctrl-C stops the rest."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from builder.errors import Interrupted, worst

T = TypeVar("T")
R = TypeVar("R")

GRACE = 5.0
"""Seconds that running work has to end after a failure or Ctrl-C; then nobody waits for it."""


class Stop:
    """Tells running work that nobody waits for it any more."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask all work to end."""
        self._event.set()

    @property
    def asked(self) -> bool:
        """Whether work was asked to end."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise Interrupted when work was asked to end; long work calls this now and then."""
        if self.asked:
            raise Interrupted("interrupted")


def each(work: Callable[[T, Stop], R], items: Iterable[T], *, threads: int) -> list[R]:
    """Call `work` for every item, `threads` at once; results in the items' order.

    Of several failures it raises that whose exit code counts most, then that of the earliest item.
    """
    crew = _Crew(work, items)
    # Daemons: a stalled read must not hold up the end of the program after Ctrl-C.
    workers = [
        threading.Thread(target=crew.run, daemon=True) for _ in range(min(threads, len(crew.todo)))
    ]
    for worker in workers:
        worker.start()
    try:
        for _ in workers:
            crew.ended.acquire()
            if crew.stop.asked:
                break
    finally:
        crew.stop.set()
        _wait(workers)
    if crew.failures:
        raise worst(crew.failures[number] for number in sorted(crew.failures))
    return [crew.results[number] for number in sorted(crew.results)]


class _Crew(Generic[T, R]):
    def __init__(self, work: Callable[[T, Stop], R], items: Iterable[T]) -> None:
        self.todo = deque(enumerate(items))
        self.results: dict[int, R] = {}
        self.failures: dict[int, BaseException] = {}
        self.stop = Stop()
        self.ended = threading.Semaphore(0)
        self._work = work

    def run(self) -> None:
        """Take items until there are none, or work was asked to end."""
        while not self.stop.asked:
            try:
                number, item = self.todo.popleft()
            except IndexError:
                break
            try:
                self.results[number] = self._work(item, self.stop)
            except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
                # An interruption by the failure of another one counts least in `worst`.
                self.failures[number] = error
                self.stop.set()
        self.ended.release()


def _wait(workers: Iterable[threading.Thread]) -> None:
    end = time.monotonic() + GRACE
    for worker in workers:
        worker.join(max(0.0, end - time.monotonic()))
