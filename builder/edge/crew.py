"""A few threads that do one piece of work many times."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class Crew:
    """Use as a context manager; left early, what has not begun is not done."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="burst")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Not waited for: a request that hangs has a limit of its own.
        self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self, work: Callable[[], T], times: int) -> list[T]:
        """Do it so many times, at most `size` at once; results in the order they were begun."""
        return [future.result() for future in [self._pool.submit(work) for _ in range(times)]]
