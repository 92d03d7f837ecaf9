"""Makes a base as a program of its own.

`python -m tests.support.base_maker DEBS FOLDER MMDEBSTRAP`; the folder has store and records.
A process of its own can have another host name, umask and time zone, and can be interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path

from builder.core.lock import DebPin, data_lines
from builder.edge.rootfs import make_base
from builder.edge.store import Store


def main(debs: str, folder: str, program: str) -> None:
    """Make the base and print its sha256."""
    pins = tuple(DebPin.parse(line) for line in data_lines(Path(debs).read_bytes()))
    home = Path(folder)
    base = make_base("bookworm", pins, Store(home / "store"), home / "records", Path(program))
    sys.stdout.write(base.sha256 + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
