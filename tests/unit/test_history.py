"""Order of commits, and full commits of short ones."""

from __future__ import annotations

import pytest
from packaging.version import Version

from builder.core.history import full_commits, newest_first, only_commit
from builder.errors import BadInput
from tests.support.discovering import history
from tests.support.nightly_index import NIGHT, sha

A, B, C, D = (sha(letter * 7) for letter in "abcd")


def versions(**texts: str) -> dict[str, Version]:
    """Name commits by their letter."""
    return {sha(letter * 7): Version(text) for letter, text in texts.items()}


@pytest.mark.parametrize(
    ("known", "landed", "wanted"),
    [
        # Without a history: release, then candidate, then dev number, as numbers.
        (versions(a="0.33.1rc1.dev999", b="0.33.1rc1.dev1000", c="0.34.0rc1.dev2"), (), [C, B, A]),
        (versions(a="0.33.1rc2.dev1", b="0.33.1rc10.dev1", c="0.33.1"), (), [C, B, A]),
        # A stray tag changed the version; the history knows better.
        (versions(a="0.33.1rc1.dev344", b="7.0.1.dev3"), (A, B), [A, B]),
        # A clone that was not fetched: what it lacks is newer by version, or older.
        (versions(a="0.33.1rc1.dev3", b="0.33.1rc1.dev9", c="0.33.1rc1.dev1"), (A,), [B, A, C]),
        # Commits that nothing is known of keep the history's order; what has neither is last.
        (versions(a="0.33.1rc1.dev3"), (B, A, C), [B, A, C, D]),
    ],
)
def test_the_newest_first(
    known: dict[str, Version], landed: tuple[str, ...], wanted: list[str]
) -> None:
    """Each case, from either end."""
    assert wanted == newest_first(wanted, known, history(*landed))
    assert wanted == newest_first(reversed(wanted), known, history(*landed))


def test_the_rolling_commit_is_the_newest_while_nothing_else_is_known_of_it() -> None:
    """Its version, once read, and the history say better."""
    old, new = versions(a="0.33.1rc1.dev344"), versions(a="0.33.1rc1.dev344", b="0.33.1rc1.dev9")
    assert [B, A] == newest_first([A, B], old, history(), rolling=B)
    assert [A, B] == newest_first([A, B], new, history(), rolling=B)
    assert [A, B] == newest_first([A, B], old, history(A, B), rolling=B)


def test_what_lies_around_a_commit() -> None:
    """Up to some on either side; the newest when it is not there."""
    commits = history(A, B, C, D)
    assert (A, B, C) == commits.around(B, 1)
    assert (A, B) == commits.around(sha("9999999"), 2)
    assert () == history().around(A, 20)
    assert (NIGHT, None) == (commits.date(A), commits.date(sha("9999999")))


def test_full_commits() -> None:
    """By their first digits, with or without git's `g`; a full one needs nobody."""
    other = "a" * 8 + "1" * 32
    assert [other] == full_commits(f"g{other[:9].upper()}", [A, other])
    assert sorted([A, other]) == full_commits("aaaaaaa", [A, other, other])
    assert [D] == full_commits(D, [])


@pytest.mark.parametrize("text", ["", "abc", "main", "v0.33.0", "a" * 41])
def test_what_is_no_commit(text: str) -> None:
    """It is said at once."""
    with pytest.raises(BadInput, match="7 to 40 hex digits"):
        full_commits(text, [A])


def test_unknown_and_ambiguous() -> None:
    """Both are said in words, with what to do."""
    assert A == only_commit("aaaaaaa", [A])
    with pytest.raises(BadInput, match="no known commit begins with these digits") as unknown:
        only_commit("aaaaaaa", [])
    assert "give all 40 digits" in unknown.value.action
    with pytest.raises(BadInput, match=f"2 commits begin with these digits: {A}, {B}"):
        only_commit("aaaaaaa", [A, B])
