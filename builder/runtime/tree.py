"""Run while building: make a stage's tree a function of what was installed into it.

    tree.py ROOT PYTHON

Times, modes and the installer's lock file are the only things that differ between two builds of
one wheel group; scripts that would start another interpreter than PYTHON fail the build.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

TIME = 315532800
"""1980-01-01: constant, so that layers do not change with the lock, and a zip file can hold it."""


def settle(root: Path) -> int:
    """Give everything below `root`, and `root`, one time and one of four modes; count entries."""
    count = 0
    for folder, folders, files in os.walk(root, topdown=False):
        for name in files + folders:
            _settle_one(Path(folder, name))
            count += 1
    _settle_one(root)
    return count


def _settle_one(path: Path) -> None:
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode):
        path.chmod(0o1777 if status.st_mode & stat.S_ISVTX else 0o755)
    elif stat.S_ISREG(status.st_mode):
        path.chmod(0o755 if status.st_mode & stat.S_IXUSR else 0o644)
    os.utime(path, (TIME, TIME), follow_symlinks=False)


def foreign_scripts(folder: Path, python: str) -> list[str]:
    """Name the Python scripts in a bin folder that another interpreter would run."""
    wrong = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            line = file.readline(512).decode(errors="replace").rstrip()
        # `env python` finds the right one by PATH.
        if re.match(r"#!(?!/usr/bin/env ).*python", line) and line != f"#!{python}":
            wrong.append(f"{path.name}: {line}")
    return wrong


def main(root: str, python: str) -> int:
    """Settle the tree; 1 when a script is foreign."""
    environment = Path(root + python).parent.parent
    # uv's own lock on the target, empty; nothing lists it.
    (environment / ".lock").unlink(missing_ok=True)
    wrong = foreign_scripts(environment / "bin", python)
    for line in wrong:
        print(f"not run by {python}: {line}", file=sys.stderr)
    print(f"{settle(Path(root))} files and folders")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
