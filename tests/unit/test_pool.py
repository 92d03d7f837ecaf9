"""Several things at once."""

from __future__ import annotations

import threading

import pytest

from builder.edge import pool
from builder.edge.pool import Stop, each
from builder.errors import BadInput, HashMismatch, Interrupted, NetworkError, worst


def test_results_come_in_the_order_of_the_items() -> None:
    """Whatever ends first."""
    gates = [threading.Event() for _ in range(3)]

    def work(number: int, _stop: Stop) -> int:
        if number < 2:
            gates[number + 1].wait(10)
        gates[number].set()
        return number * number

    assert [0, 1, 4] == each(work, range(3), threads=3)


def test_nothing_to_do_is_done() -> None:
    """No item, no thread."""
    assert [] == each(lambda item, _stop: item, [], threads=4)


def test_the_first_failure_ends_the_others_and_is_raised() -> None:
    """Work that runs hears of it; work that has not begun never does."""
    begun: list[int] = []
    running = threading.Event()

    def work(number: int, stop: Stop) -> None:
        begun.append(number)
        if number == 0:
            running.wait(10)
            raise ValueError("no")
        running.set()
        while True:
            stop.check()

    with pytest.raises(ValueError, match="no"):
        each(work, range(100), threads=2)
    assert [0, 1] == sorted(begun)


def test_a_stalled_one_does_not_hold_up_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is left behind after the grace."""
    monkeypatch.setattr(pool, "GRACE", 0.01)
    stalled = threading.Event()
    running = threading.Event()

    def work(number: int, _stop: Stop) -> None:
        if number == 0:
            running.set()
            stalled.wait(60)
        else:
            running.wait(10)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        each(work, range(2), threads=2)
    stalled.set()


def test_work_that_was_asked_to_end_raises_interrupted() -> None:
    """Which is no failure of its own."""
    stop = Stop()
    stop.check()
    stop.set()
    with pytest.raises(Interrupted):
        stop.check()


def test_of_several_failures_the_one_that_counts_most_is_raised() -> None:
    """A wrong hash came first, and another file could not be asked for: trying again may help."""
    together = threading.Barrier(3)

    def work(number: int, _stop: Stop) -> None:
        together.wait(10)
        raise (HashMismatch("wrong"), NetworkError("down"), HashMismatch("too"))[number]

    with pytest.raises(NetworkError, match="down"):
        each(work, range(3), threads=3)


BUG = KeyError("bug")
INPUT = BadInput("input")
WORLD = NetworkError("world")
NO = HashMismatch("no")
STOPPED = Interrupted("stopped")


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([STOPPED, NO, WORLD, INPUT, BUG], BUG),
        ([STOPPED, NO, WORLD, INPUT], INPUT),
        ([STOPPED, NO, WORLD], WORLD),
        ([STOPPED, NO], NO),
        ([NO, HashMismatch("later")], NO),
        ([STOPPED], STOPPED),
    ],
)
def test_exit_codes_have_a_precedence(errors: list[Exception], expected: Exception) -> None:
    """3, 2, 4, 1; of equals the first; an interruption only when there is nothing else."""
    assert expected is worst(errors)
