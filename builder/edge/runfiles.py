"""Run files and Dockerfiles on disk: which there are, their text, and writing it back."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from builder.edge import files
from builder.errors import BadInput

LARGEST = 4 << 20
"""Bytes; no run file comes near."""
_SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache"})


def below(folder: Path) -> Iterator[Path]:
    """Every file below a folder, sorted; folders of tools and links are left out."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            if path.name not in _SKIPPED:
                yield from below(path)
        elif path.is_file():
            yield path


def read(path: Path) -> str | None:
    """Read a text; None when it is too large or no UTF-8, as a picture or an archive is.

    Raises BadInput when there is no such file.
    """
    try:
        state = path.stat()
        if state.st_size > LARGEST or not stat.S_ISREG(state.st_mode):
            return None
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        return None
    except FileNotFoundError:
        raise BadInput(
            "there is no such file", subject=str(path), action="name a file or a folder"
        ) from None


def read_input() -> str:
    """Read standard input."""
    return sys.stdin.buffer.read(LARGEST).decode(errors="replace")


def write_back(path: Path, text: str) -> None:
    """Replace a file's text; its mode stays. Raises DiskFull when there is no room."""
    files.write(path.resolve(), text.encode(), mode=stat.S_IMODE(path.stat().st_mode))
