"""Several things at once, in threads: the first failure or Ctrl-C stops the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from builder.errors import Interrupted

T = TypeVar("T")
R = TypeVar("R")


class Stop:
    """Tells running work that nobody waits for it any more."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask all work to end."""
        self._event.set()

    def check(self) -> None:
        """Raise Interrupted when work was asked to end; long work calls this now and then."""
        if self._event.is_set():
            raise Interrupted("interrupted")


def each(
    work: Callable[[T, Stop], R], items: Iterable[T], *, threads: int, stop: Stop | None = None
) -> list[R]:
    """Call `work` for every item, `threads` at once; results in the items' order.

    The error of the first item that failed is raised after all running work has ended.
    """
    stop = stop or Stop()
    executor = ThreadPoolExecutor(max_workers=max(1, threads), thread_name_prefix="nightlock")
    try:
        futures = [executor.submit(work, item, stop) for item in items]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future in done:
                future.result()
        return [future.result() for future in futures]
    except BaseException:
        stop.set()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
