"""Run while building: make a stage's tree a function of what was installed into it.

    tree.py ROOT PYTHON [LIBRARY]

Byte code is written beside the modules of the environment, or for the interpreter's own LIBRARY.
Times, modes and the installer's lock file are the only things that differ between two builds of
one wheel group; scripts that would start another interpreter than PYTHON fail the build.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import stat
import sys
import warnings
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


def compile_modules(root: str, folder: str) -> None:
    """Write byte code for the modules of `folder` (a path in the image) below `root`.

    Checked hashes, not times: all times are equal, and an edited module still takes effect
    (PEP 552). One process in sorted order, so that the bytes are the same each time. Modules that
    do not compile are templates and other Pythons' code; their importer would say so. Byte code
    that a wheel brought stays as its RECORD says.
    """
    brought = {path: path.read_bytes() for path in sorted(Path(root + folder).rglob("*.pyc"))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compileall.compile_dir(
            root + folder,
            stripdir=root,
            prependdir="/",
            quiet=2,
            force=True,
            workers=1,
            invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
        )
    for path, data in brought.items():
        if path.read_bytes() != data:
            # A new file: the old one may be a link into the installer's cache.
            path.unlink()
            path.write_bytes(data)


def keep_byte_code(folder: Path) -> None:
    """Remove everything but byte code: the modules themselves lie in a layer below."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.suffix != ".pyc":
            path.unlink()


def main(root: str, python: str, library: str = "") -> int:
    """Compile and settle the tree; 1 when a script is foreign."""
    if library:
        compile_modules(root, library)
        keep_byte_code(Path(root + library))
        print(f"{settle(Path(root))} files and folders of byte code")
        return 0
    environment = Path(root + python).parent.parent
    # uv's own lock on the target, empty; nothing lists it.
    (environment / ".lock").unlink(missing_ok=True)
    compile_modules(root, str(Path(python).parent.parent / "lib"))
    wrong = foreign_scripts(environment / "bin", python)
    for line in wrong:
        print(f"not run by {python}: {line}", file=sys.stderr)
    print(f"{settle(Path(root))} files and folders")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
