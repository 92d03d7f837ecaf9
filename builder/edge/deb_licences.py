"""Copyright files of Debian's packages, out of the tar of a root file system."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

from builder.core.deb_licences import DOCUMENTATION, copyright_path, deb_licences
from builder.edge import files

_LARGEST = 4 << 20
"""Bytes of a copyright file; the longest of Debian 13's compilers has 0.1 MB."""


def read_licences(base: Path, packages: Iterable[str], kept: Path) -> dict[str, tuple[str, ...]]:
    """Name the licences of packages, by a base.tar; packages that name none are absent.

    What was read is kept in the file `kept`, which has to be named after the bytes of `base`: a
    second look would walk through half a gigabyte to say the same.
    """
    try:
        rows = json.loads(kept.read_bytes())
        return {str(name): tuple(map(str, licences)) for name, licences in rows.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        found = _read(base, packages)
        files.write(kept, json.dumps(found, separators=(",", ":")).encode())
        return found


def _read(base: Path, packages: Iterable[str]) -> dict[str, tuple[str, ...]]:
    texts: dict[str, str] = {}
    links: dict[str, str] = {}
    with tarfile.open(base, "r:") as archive:
        for member in archive:
            path = member.name.removeprefix("./")
            if not path.startswith(DOCUMENTATION):
                continue
            if member.issym():
                links[path] = member.linkname
            elif path.endswith("/copyright") and member.isfile() and member.size <= _LARGEST:
                file = archive.extractfile(member)
                texts[path] = file.read().decode(errors="replace") if file else ""
    found = {name: deb_licences(texts.get(copyright_path(name, links), "")) for name in packages}
    return {name: licences for name, licences in found.items() if licences}
