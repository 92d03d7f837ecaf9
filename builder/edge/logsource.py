"""Bytes of a log as they come: a file, a pipe, standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from builder.errors import BadInput

CHUNK = 1 << 20
"""Bytes read at once."""


def size_of(path: Path) -> int | None:
    """Bytes of a file; None for what has no size, as a pipe, or is not there."""
    try:
        return path.stat().st_size or None
    except OSError:
        return None


def read_log(path: Path) -> Iterator[bytes]:
    """Read a file in pieces; BadInput when it is not there or may not be read."""
    try:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(CHUNK):
                yield piece
    except OSError as error:
        raise BadInput(
            f"the log cannot be read: {error.strerror or error}",
            subject=str(path),
            action="name a file of log, - for standard input, or container:NAME",
        ) from None


def read_stdin() -> Iterator[bytes]:
    """Read standard input as it comes, to its end; BadInput when it is closed."""
    if sys.stdin is None:
        raise BadInput("standard input is closed", subject="-", action="pipe a log into it")
    # Unbuffered: a pipe that is slow is read as it comes.
    while piece := os.read(sys.stdin.fileno(), CHUNK):
        yield piece
