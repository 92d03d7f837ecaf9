"""A forge's REST interface, as GitHub has it: commits between others, the newest, one by name."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from builder.core.diff_result import Commit
from builder.core.history import Landed
from builder.edge.download import open_client
from builder.edge.userconfig import UserConfig
from builder.errors import NetworkError

_PATIENCE = 3.0
"""Seconds; titles are worth no more, so nothing is tried twice."""


class _Signature(BaseModel):
    model_config = ConfigDict(extra="ignore")

    date: datetime


class _Inner(BaseModel):
    model_config = ConfigDict(extra="ignore")

    message: str
    committer: _Signature | None = None


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


def recent(client: httpx.Client, project: str, limit: int) -> list[Landed]:
    """List the newest commits of the default branch, newest first (GitHub REST: "List commits").

    `limit` is 100 at most: one page. Raises NetworkError whenever that does not work.
    """
    url = f"{project.rstrip('/')}/commits?per_page={limit}"
    try:
        answer = client.get(url, timeout=_PATIENCE).raise_for_status()
        rows = TypeAdapter(list[_Entry]).validate_json(answer.content)
    except (httpx.HTTPError, httpx.InvalidURL, ValidationError) as error:
        raise _no_commits(url, error) from error
    return [
        Landed(sha=row.sha, when=row.commit.committer.date if row.commit.committer else None)
        for row in rows
    ]


def find(client: httpx.Client, project: str, revision: str) -> str:
    """Return the full commit of an abbreviation, or of `tags/NAME`.

    Empty where the forge knows none, or several.

    GitHub REST: "Get a commit". Raises NetworkError when the forge cannot be asked.
    """
    url = f"{project.rstrip('/')}/commits/{quote(revision)}"
    try:
        answer = client.get(url, timeout=_PATIENCE)
        if answer.status_code in (404, 409, 422):
            return ""
        return _Entry.model_validate_json(answer.raise_for_status().content).sha
    except (httpx.HTTPError, httpx.InvalidURL, ValidationError) as error:
        raise _no_commits(url, error) from error


def _no_commits(url: str, error: Exception) -> NetworkError:
    return NetworkError(
        f"the forge gave no commits: {error}",
        subject=url,
        action="name a mirror or a local clone in the setting `forges`, or do without",
    )
