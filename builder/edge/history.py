"""A project's commits, from a clone or its forge; nothing where neither can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import httpx

from builder.core.history import History
from builder.edge import forge, git
from builder.errors import Outside

_LENGTH = 100
"""Commits: what a forge gives on one page, some two days of vLLM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forge:
    """Where a project's commits are asked for."""

    place: str
    """An address as `https://forge.example/api/v3/repos/OWNER/NAME`, the folder of a clone, or
    `none` (settings, `forges`)."""
    client: httpx.Client

    def history(self) -> History:
        """Read the newest commits; none when that does not work, for nothing depends on them."""
        if self.place in ("", "none"):
            return History()
        try:
            if (clone := self._clone) is not None:
                return History(commits=tuple(git.recent_commits(clone, _LENGTH)))
            return History(commits=tuple(forge.recent(self.client, self.place, _LENGTH)))
        except Outside:
            return History()

    def commits(self, digits: str) -> list[str]:
        """Full commits that begin with these hex digits; none when nobody can be asked."""
        if self.place in ("", "none"):
            return []
        try:
            if (clone := self._clone) is not None:
                return git.commits_named(clone, digits)
            found = forge.find(self.client, self.place, digits)
        except Outside:
            return []
        return [found] if found else []

    def tagged(self, tag: str) -> str:
        """Full commit that a tag names now; empty where nobody can be asked, or it names none."""
        if self.place in ("", "none"):
            return ""
        try:
            if (clone := self._clone) is not None:
                return git.find_commit(clone, f"refs/tags/{tag}")
            return forge.find(self.client, self.place, f"tags/{tag}")
        except Outside:
            return ""

    @property
    def _clone(self) -> Path | None:
        folder = Path(self.place).expanduser()
        return folder if folder.is_dir() else None
