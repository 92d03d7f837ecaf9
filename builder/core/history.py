"""The newest commits of a project, and what follows: order, dates, full commits of short ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from packaging.version import InvalidVersion, Version

from builder.errors import BadInput

_SHORT = re.compile(r"g?([0-9a-f]{7,40})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """One commit of the main branch."""

    sha: str
    """40 hex digits."""
    when: datetime | None = None
    """Commit date, with a time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The newest commits of the main branch, newest first; empty when nobody could be asked."""

    commits: tuple[Landed, ...] = ()

    def position(self, sha: str) -> int | None:
        """How many commits are newer; None when it is not among these."""
        return next((at for at, one in enumerate(self.commits) if one.sha == sha), None)

    def date(self, sha: str) -> datetime | None:
        """When it was committed."""
        at = self.position(sha)
        return None if at is None else self.commits[at].when

    def around(self, sha: str, depth: int) -> tuple[str, ...]:
        """Give the commits up to `depth` away from one; the newest `depth` when it is not here."""
        at = self.position(sha)
        first = 0 if at is None else max(0, at - depth)
        last = depth if at is None else at + depth + 1
        return tuple(one.sha for one in self.commits[first:last])


def release_tag(version: str) -> str:
    """Name the tag of a release, as vLLM and FlashInfer write it; a dev version has none."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return ""
    return "" if parsed.is_devrelease else f"v{parsed.public}"


def newest_first(
    commits: Iterable[str], versions: Mapping[str, Version], history: History, rolling: str = ""
) -> list[str]:
    """Order commits, the newest first; `versions` are public ones, of the commits that have any.

    `rolling` is the commit that was published last; it counts as the newest while neither its
    version nor its place in the history is known.

    Those of the history keep its order, for version numbers follow from tags, which anybody may
    set. Those it lacks are newer than all of it (a clone that was not fetched) when their version
    is above every known one of it, else older; among themselves they go by version.
    """
    wanted = set(commits)
    at = {sha: place for sha in wanted if (place := history.position(sha)) is not None}
    ceiling = max((versions[sha] for sha in at if sha in versions), default=None)
    lowest = Version("0.dev0")

    def rank(sha: str) -> tuple[int, int, Version, str]:
        version = versions.get(sha, lowest)
        if sha in at:
            return 1, -at[sha], lowest, sha
        if sha == rolling and sha not in versions:
            return 3, 0, version, sha
        newer = sha in versions and (ceiling is None or version > ceiling)
        return (2 if newer else 0), 0, version, sha

    return sorted(wanted, key=rank, reverse=True)


def full_commits(text: str, known: Iterable[str]) -> list[str]:
    """Find the known full commits that begin with what was typed; itself when it is a full one.

    Raises BadInput when it is no commit.
    """
    match = _SHORT.fullmatch(text.strip().lower())
    if match is None:
        raise BadInput(
            "a commit is given by its first 7 to 40 hex digits",
            subject=f"--commit {text}",
            action="copy it from the forge, or from the `+g…` of a version",
        )
    if len(match[1]) == 40:
        return [match[1]]
    return sorted({sha for sha in known if sha.startswith(match[1])})


def only_commit(text: str, found: Sequence[str]) -> str:
    """Take the one commit that was found; raises BadInput for none or several."""
    if len(found) == 1:
        return found[0]
    if not found:
        raise BadInput(
            "no known commit begins with these digits: neither the index's pages nor the lock nor "
            "the forge have one",
            subject=f"--commit {text}",
            action="give all 40 digits, or name a clone of the project in the setting `forges`",
        )
    raise BadInput(
        f"{len(found)} commits begin with these digits: {', '.join(found)}",
        subject=f"--commit {text}",
        action="give more digits",
    )
