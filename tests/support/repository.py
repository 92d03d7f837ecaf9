"""Git repositories of tests: an identity of their own, nothing of this machine's configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path

_IDENTITY = (
    "-c", "user.name=nightlock",
    "-c", "user.email=nightlock@example.invalid",
    "-c", "commit.gpgsign=false",
)  # fmt: skip


def run_git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; give what it printed."""
    argv = ["git", "-C", str(folder), *_IDENTITY, *arguments]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, message: str = "lock") -> str:
    """Commit everything; give the commit."""
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return run_git(folder, "rev-parse", "HEAD")
