"""A forge's REST interface, as GitHub has it: the commits between two others."""

from __future__ import annotations

from urllib.parse import quote

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from builder.core.diff_result import Commit
from builder.edge.download import open_client
from builder.edge.userconfig import UserConfig
from builder.errors import NetworkError

_PATIENCE = 3.0
"""Seconds; titles are worth no more, so nothing is tried twice."""


class _Inner(BaseModel):
    model_config = ConfigDict(extra="ignore")

    message: str


class _Entry(BaseModel):
    model_config = ConfigDict(extra="ignore")

    sha: str
    commit: _Inner


class _Comparison(BaseModel):
    model_config = ConfigDict(extra="ignore")

    total_commits: int
    commits: list[_Entry]


def compare(project: str, old: str, new: str, config: UserConfig) -> tuple[int, list[Commit]]:
    """Count and list the commits that `new` has and `old` lacks, newest first.

    `project` is the project's address, as `https://forge.example/api/v3/repos/OWNER/NAME`
    (GitHub REST: "Compare two commits"). The list may be shorter than the count: a forge gives 250.

    Raises NetworkError whenever that does not work, for whatever reason.
    """
    url = f"{project.rstrip('/')}/compare/{quote(old, safe='')}...{quote(new, safe='')}"
    try:
        with open_client(config, connections=1) as client:
            answer = client.get(url, timeout=_PATIENCE).raise_for_status()
        found = _Comparison.model_validate_json(answer.content)
    except (httpx.HTTPError, httpx.InvalidURL, ValidationError) as error:
        raise NetworkError(
            f"the forge gave no commits: {error}",
            subject=url,
            action="name a mirror or a local clone in the setting `forges`, or do without titles",
        ) from error
    commits = [
        Commit(sha=entry.sha, title=entry.commit.message.partition("\n")[0].strip())
        for entry in reversed(found.commits)
    ]
    return found.total_commits, commits
