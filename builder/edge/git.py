"""Git, by its plumbing: files of a folder at a commit; commits between others, newest, by name."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from builder.core.diff_result import Commit
from builder.core.history import Landed
from builder.edge import process
from builder.errors import CommandFailed


def find_commit(repository: Path, revision: str) -> str:
    """Return the commit a revision names (gitrevisions(7)), 40 hex digits.

    Empty where it names none, or the folder lies in no repository. Raises ToolMissing.
    """
    if not revision or revision.startswith("-"):
        return ""
    try:
        found = _git(repository, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except CommandFailed:
        return ""
    return found.strip()


def list_folder(repository: Path, commit: str, folder: str) -> list[str]:
    """Names of the entries of a folder at a commit; none where it is not there.

    `folder` is relative to the repository's top, or to `repository` when it starts with `./`.
    """
    return sorted(name for name, _ in _tree(repository, commit, folder))


def read_folder(repository: Path, commit: str, folder: str) -> dict[str, bytes]:
    """Read the files of a folder at a commit, as they were committed; none where it is not there.

    Raises CommandFailed when an object cannot be read.
    """
    # An object that is not UTF-8 comes out altered; the digests in lock.toml find that.
    return {
        name: _git(repository, "cat-file", "blob", blob).encode()
        for name, blob in _tree(repository, commit, folder)
        if blob
    }


def commits_of(repository: Path, folder: str, limit: int) -> list[str]:
    """List the newest commits of the main line that changed a folder, newest first.

    `folder` is relative to `repository`. None where that is no repository, or has no commit.
    """
    if not find_commit(repository, "HEAD"):
        return []
    lines = _git(
        repository, "log", "--no-show-signature", "--first-parent", "--format=%H", f"-{limit}",
        "HEAD", "--", folder,
    )  # fmt: skip
    return lines.split()


def is_shallow(repository: Path) -> bool:
    """Whether a clone lacks older commits."""
    return _git(repository, "rev-parse", "--is-shallow-repository").strip() == "true"


def commits_between(clone: Path, old: str, new: str) -> list[Commit]:
    """List the commits that `new` has and `old` lacks, newest first, from a local clone.

    Raises CommandFailed when the clone has not got both.
    """
    first, last = find_commit(clone, old), find_commit(clone, new)
    if not first or not last:
        raise CommandFailed(
            "the clone has not got both commits",
            subject=f"{clone}: {old}...{new}",
            action="fetch in that clone",
        )
    lines = _git(clone, "log", "--no-show-signature", "--format=%H %s", f"{first}..{last}")
    pairs = (line.partition(" ") for line in lines.splitlines())
    return [Commit(sha=sha, title=title) for sha, _, title in pairs]


def recent_commits(clone: Path, limit: int) -> list[Landed]:
    """List the newest commits of the branch the clone follows, newest first.

    That is the remote's default branch as last fetched, else what is checked out. Raises
    CommandFailed when there is no commit.
    """
    branch = find_commit(clone, "refs/remotes/origin/HEAD") or "HEAD"
    lines = _git(clone, "log", "--no-show-signature", "--format=%H %cI", f"-{limit}", branch)
    pairs = (line.split(" ") for line in lines.splitlines())
    return [Landed(sha=sha, when=datetime.fromisoformat(when)) for sha, when in pairs]


def commits_named(clone: Path, digits: str) -> list[str]:
    """List the commits that begin with these hex digits, sorted; `digits` are 4 at least."""
    objects = _git(clone, "rev-parse", f"--disambiguate={digits}").split()
    return sorted(name for name in objects if _git(clone, "cat-file", "-t", name) == "commit\n")


def _tree(repository: Path, commit: str, folder: str) -> list[tuple[str, str]]:
    """Entries of a folder: name and blob; the blob is empty for what is not a file."""
    place = folder.rstrip("/")
    try:
        # Without --full-tree, nothing of a tree is listed from a folder inside the repository.
        listing = _git(repository, "ls-tree", "--full-tree", "-z", f"{commit}:{place}")
    except CommandFailed:
        return []
    entries = []
    for record in listing.split("\0"):
        kind, tab, name = record.partition("\t")
        if tab:
            mode, _, blob = kind.split(" ")
            entries.append((name, blob if mode.startswith("100") else ""))
    return entries


def _git(repository: Path, *arguments: str) -> str:
    return process.run(
        ["git", "-C", repository, *arguments],
        what="git could not answer",
        action="run the same command by hand in that folder",
    )
