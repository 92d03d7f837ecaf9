"""How many commits lie between two versions of vLLM or FlashInfer, and where to read them.

setuptools-scm counts in `.devN` the commits since the last tag, so two nightlies of one base
version differ by their numbers: `0.33.1rc1.dev313+g… → dev344+g…` is 31 commits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from builder.core.diff_result import Commit, CommitRange
from builder.core.history import release_tag
from builder.core.lock import Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project whose commits matter."""

    name: str
    page: str
    """Its page at the forge."""
    api: str
    """The same in the forge's REST interface."""


PROJECTS = {
    "vllm": Project(
        name="vllm",
        page="https://github.com/vllm-project/vllm",
        api="https://api.github.com/repos/vllm-project/vllm",
    ),
    "flashinfer": Project(
        name="flashinfer",
        page="https://github.com/flashinfer-ai/flashinfer",
        api="https://api.github.com/repos/flashinfer-ai/flashinfer",
    ),
}
_FLASHINFER = "flashinfer-python"
_FIRST_DATE = 20_000_000
"""Dev numbers from here on are dates (FlashInfer's nightlies), not counts."""


def commit_ranges(old: Lock, new: Lock) -> list[CommitRange]:
    """Give the ranges of vLLM and FlashInfer, of those that moved."""
    vllm = [(lock.header.vllm.version, lock.header.vllm.commit) for lock in (old, new)]
    flashinfer = [(_version(lock), "") for lock in (old, new)]
    found = (
        _range(PROJECTS["vllm"], vllm[0], vllm[1]),
        _range(PROJECTS["flashinfer"], flashinfer[0], flashinfer[1]),
    )
    return [commits for commits in found if commits is not None]


def with_history(commits: CommitRange, count: int, titles: list[Commit]) -> CommitRange:
    """Add what a clone or a forge knows; its count is the true one."""
    return commits.model_copy(update={"count": count, "counted_by": "history", "commits": titles})


def ends(commits: CommitRange) -> tuple[str, str]:
    """Give the two ends that a history is asked for, older one first; empty when unknown."""
    old = commits.old_commit or release_tag(commits.old)
    new = commits.new_commit or release_tag(commits.new)
    if not old or not new:
        return "", ""
    return (new, old) if commits.backwards else (old, new)


def short_link(commits: CommitRange) -> str:
    """Shorten the commits of the compare link, so that it fits on a terminal's line."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", r"\1", commits.compare)


def _range(project: Project, old: tuple[str, str], new: tuple[str, str]) -> CommitRange | None:
    if not old[0] or not new[0]:
        return None
    commits = CommitRange(
        project=project.name,
        old=old[0],
        new=new[0],
        old_commit=_commit(*old),
        new_commit=_commit(*new),
    )
    if old == new or _same_commit(commits.old_commit, commits.new_commit):
        return None
    before, after = _parse(old[0]), _parse(new[0])
    if before is None or after is None:
        return _linked(commits, project)
    count = _count(before, after)
    update: dict[str, object] = {
        "backwards": Version(after.public) < Version(before.public),
        "count": count,
        "counted_by": "" if count is None else "version",
    }
    return _linked(commits.model_copy(update=update), project)


def _linked(commits: CommitRange, project: Project) -> CommitRange:
    first, last = ends(commits)
    if not first or first == last:
        return commits
    return commits.model_copy(update={"compare": f"{project.page}/compare/{first}...{last}"})


def _count(old: Version, new: Version) -> int | None:
    if old.dev is None or new.dev is None or max(old.dev, new.dev) >= _FIRST_DATE:
        return None
    if (old.epoch, old.release, old.pre, old.post) != (new.epoch, new.release, new.pre, new.post):
        return None
    return abs(new.dev - old.dev)


def _same_commit(old: str, new: str) -> bool:
    """Whether one is the other or an abbreviation of it."""
    return bool(old and new) and (old.startswith(new) or new.startswith(old))


def _commit(version: str, commit: str) -> str:
    if commit:
        return commit.removeprefix("g")
    match = re.search(r"\+(?:.*\.)?g([0-9a-f]{7,40})(?:\.|$)", version)
    return match[1] if match else ""


def _version(lock: Lock) -> str:
    pins = (content.wheel(_FLASHINFER) for _, content in sorted(lock.platforms.items()))
    return next((pin.version for pin in pins if pin is not None), "")


def _parse(version: str) -> Version | None:
    try:
        return Version(version)
    except InvalidVersion:
        return None
