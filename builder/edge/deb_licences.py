"""Copyright files of Debian's packages, out of the tar of a root file system."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

from builder.core.deb_licences import DOCUMENTATION, copyright_path, deb_licences

_LARGEST = 4 << 20
"""Bytes of a copyright file; the longest of Debian 13's compilers has 0.1 MB."""


def read_licences(base: Path, packages: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Name the licences of packages, by a base.tar; packages that name none are absent."""
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
