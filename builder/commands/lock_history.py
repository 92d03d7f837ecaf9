"""Earlier locks of an image, from the project's git history: what layers are planned from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from builder.commands.context import Context
from builder.core.lock import Lock
from builder.edge import git
from builder.errors import BadInput, LockFileError

MOST = 60
"""Commits looked at: two months of nightlies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A lock as it was committed."""

    commit: str
    lock: Lock


def committed(context: Context, image: str) -> Iterator[Committed]:
    """Read the committed locks of an image on the main line, newest first, as they are asked for.

    None where the project is in no git repository. One that cannot be read is told and left out.
    Raises ToolMissing.
    """
    folder = f"lock/{image}"
    for commit in git.commits_of(context.project, folder, MOST):
        files = git.read_folder(context.project, commit, f"./{folder}")
        if "lock.toml" not in files:
            continue
        where = f"{commit[:9]}:{folder}"
        try:
            yield Committed(commit=commit, lock=Lock.parse(files, where))
        except LockFileError as error:
            context.output.detail(f"{where} does not count: {error.what}")


def past(context: Context, image: str, previous: Lock | None) -> list[Lock]:
    """Give all earlier locks of an image, oldest first; the last one is what lies there now.

    Raises BadInput in a shallow clone: a plan from a part of the history would be another one.
    """
    found = [row.lock for row in committed(context, image)][::-1]
    if found and git.is_shallow(context.project):
        raise BadInput(
            "this clone lacks older commits, and layers are planned from the locks in them",
            subject=f"--replan, {context.project}",
            action="run `git fetch --unshallow`, in CI with `fetch-depth: 0`",
        )
    if previous is not None and (not found or found[-1].digest != previous.digest):
        found.append(previous)
    return found
