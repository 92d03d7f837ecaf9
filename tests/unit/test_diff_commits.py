"""Commit ranges: counts from dev numbers, ends, compare links."""

from __future__ import annotations

import pytest

from builder.core.diff_commits import commit_ranges, ends, short_link, with_history
from builder.core.diff_result import Commit, CommitRange
from builder.core.lock import Lock, VllmTable
from tests.support.two_nightlies import (
    AMD64,
    NEW_COMMIT,
    NEW_VLLM,
    OLD_COMMIT,
    OLD_VLLM,
    make_lock,
    wheel,
)

PAGE = "https://github.com/vllm-project/vllm/compare/"


def of(version: str, commit: str = "", flashinfer: str = "0.7.2") -> Lock:
    """Make a lock of vLLM and FlashInfer alone."""
    return make_lock(
        {AMD64: [wheel("vllm", version), wheel("flashinfer-python", flashinfer)]},
        vllm=VllmTable(package="vllm", version=version, commit=commit),
    )


def one(old: Lock, new: Lock) -> CommitRange:
    """Give the only range between two locks."""
    (commits,) = commit_ranges(old, new)
    return commits


def test_dev_numbers_of_one_base_version_count_the_commits() -> None:
    """dev313 → dev344 is 31 commits, with the full commits in the link."""
    commits = one(of(OLD_VLLM, OLD_COMMIT), of(NEW_VLLM, NEW_COMMIT))
    assert (31, "version", False) == (commits.count, commits.counted_by, commits.backwards)
    assert f"{PAGE}{OLD_COMMIT}...{NEW_COMMIT}" == commits.compare
    assert f"{PAGE}{OLD_COMMIT[:12]}...{NEW_COMMIT[:12]}" == short_link(commits)


def test_a_rollback_says_so_and_links_from_the_older_end() -> None:
    """A compare page with its ends swapped shows nothing."""
    commits = one(of(NEW_VLLM, NEW_COMMIT), of(OLD_VLLM, OLD_COMMIT))
    assert (31, True) == (commits.count, commits.backwards)
    assert f"{PAGE}{OLD_COMMIT}...{NEW_COMMIT}" == commits.compare


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.33.1rc1.dev344+gea5f903f8", "0.33.1rc2.dev3+g3f0c1d2e4"),
        ("0.33.0", "0.33.1rc1.dev344+gea5f903f8"),
        ("0.33.0", "0.34.0"),
    ],
)
def test_other_base_versions_have_no_count(old: str, new: str) -> None:
    """Nothing in the versions tells; a wrong number would be worse than none."""
    assert (None, "") == (one(of(old), of(new)).count, one(of(old), of(new)).counted_by)


def test_commits_come_from_the_version_where_the_lock_names_none() -> None:
    """The abbreviation inside the wheel is enough for a link, with or without a variant."""
    commits = one(of("1.0rc1.dev1+g3f0c1d2e4.cpu"), of("1.0rc1.dev2+gea5f903f8.cpu"))
    assert f"{PAGE}3f0c1d2e4...ea5f903f8" == commits.compare


def test_releases_are_compared_by_their_tags() -> None:
    """A local label is no part of the tag."""
    assert f"{PAGE}v0.32.0...v0.33.0" == one(of("0.32.0+cpu"), of("0.33.0+cpu")).compare


def test_a_dev_version_without_commit_has_no_link() -> None:
    """There is nothing to link to; `ends` says so too."""
    commits = one(of("0.33.0"), of("0.33.1.dev5"))
    assert ("", ("", "")) == (commits.compare, ends(commits))


def test_the_same_commit_is_no_range_however_it_is_spelled() -> None:
    """Two locks of one commit, one of which knows only its abbreviation."""
    assert [] == commit_ranges(of(NEW_VLLM, NEW_COMMIT), of(NEW_VLLM, NEW_COMMIT[:9]))


def test_another_commit_under_the_same_version_is_a_range() -> None:
    """A version says nothing about what was built."""
    commits = one(of("1.0", OLD_COMMIT), of("1.0", NEW_COMMIT))
    assert f"{PAGE}{OLD_COMMIT}...{NEW_COMMIT}" == commits.compare


def test_flashinfer_has_its_own_range() -> None:
    """Releases by tag."""
    commits = one(of("1.0", flashinfer="0.7.2.post1"), of("1.0", flashinfer="0.7.4"))
    assert (
        "https://github.com/flashinfer-ai/flashinfer/compare/v0.7.2.post1...v0.7.4"
        == commits.compare
    )


def test_dates_are_not_counted() -> None:
    """FlashInfer's nightlies carry a date where others count commits."""
    old, new = (of("1.0", flashinfer=f"0.7.5.dev202611{day}") for day in (28, 30))
    assert None is one(old, new).count


def test_a_history_knows_better_than_the_version() -> None:
    """What a clone or forge counted replaces the number, with the titles."""
    commits = with_history(
        one(of(OLD_VLLM, OLD_COMMIT), of(NEW_VLLM, NEW_COMMIT)), 30, [Commit(sha="a", title="b")]
    )
    assert (30, "history", ["b"]) == (
        commits.count,
        commits.counted_by,
        [commit.title for commit in commits.commits],
    )
