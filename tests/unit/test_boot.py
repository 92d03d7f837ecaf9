"""A boot as data: ends in words, owners."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from builder.core.boot import Exit, Owner
from builder.edge.owner import is_dead, this_process


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (Exit(code=1), "ended with status 1"),
        (Exit(code=0), "ended with status 0"),
        (Exit(code=137), "ended with status 137 (SIGKILL)"),
        (Exit(code=132), "ended with status 132 (SIGILL)"),
        (Exit(code=255), "ended with status 255 (signal 127)"),
        (Exit(code=137, out_of_memory=True), "was killed: out of memory"),
        (Exit(code=127, error="exec: not found"), "ended with status 127: exec: not found"),
    ],
)
def test_an_end_in_words(end: Exit, expected: str) -> None:
    """Signals by name, memory before all else."""
    assert expected == end.text


OWNER = Owner(boot="b", space="pid:[1]", pid=7, started=9)


def test_an_owner_is_read_back() -> None:
    """And nothing else is taken for one."""
    assert OWNER == Owner.parse(OWNER.text)
    for text in ("", "x", "b pid:[1] 7", "b pid:[1] x 9", "b pid:[1] 7 9 1"):
        assert Owner.parse(text) is None


def test_an_owner_is_dead_only_for_certain() -> None:
    """Numbers recur; another machine, boot or namespace may hold a living one."""
    me = this_process()
    assert os.getpid() == me.pid

    assert not is_dead(me, same_machine=True)
    assert is_dead(replace(me, started=me.started - 1), same_machine=False)
    assert is_dead(replace(me, pid=2**22 + 1), same_machine=False)
    assert not is_dead(replace(me, space="pid:[1]", pid=2**22 + 1), same_machine=True)
    assert not is_dead(replace(me, boot="other"), same_machine=False)
    assert is_dead(replace(me, boot="other"), same_machine=True)
