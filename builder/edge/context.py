"""The build folder on disk: small files are written, large ones linked from where they lie."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

from builder.edge import files
from builder.edge.pool import Stop, each
from builder.edge.store import link, verified


def read_programs() -> dict[str, bytes]:
    """Return the programs of builder/runtime/ by file name."""
    found = sorted(resources.files("builder.runtime").iterdir(), key=lambda path: path.name)
    return {
        path.name: path.read_bytes()
        for path in found
        if path.name.endswith(".py") and path.name != "__init__.py"
    }


def read_templates(project: Path) -> dict[str, str]:
    """Return every template below images/, by its name there (`cpu/Dockerfile.j2`)."""
    images = project / "images"
    return {
        path.relative_to(images).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(images.glob("*/*.j2"))
    }


def write_context(folder: Path, texts: Mapping[str, bytes], links: Mapping[str, Path]) -> None:
    """Fill an empty folder; both map a name inside it, with folders, to its content.

    `links` lead to files of the store. Modes do not depend on the caller's umask: BuildKit copies
    them into the image.

    Raises HashMismatch when the disk damaged a file of the store, DiskFull.
    """

    def link_verified(row: tuple[str, Path], _: Stop) -> None:
        name, source = row
        link(verified(source, name), folder / name)

    for name, data in texts.items():
        files.write(folder / name, data)
    each(link_verified, links.items(), threads=4)
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


def installed_bytes(wheels: Iterable[Path]) -> int:
    """Bytes that wheels of the store hold unpacked, read from their directories.

    Raises HashMismatch when the disk damaged one.
    """
    total = 0
    for path in wheels:
        try:
            with zipfile.ZipFile(path) as wheel:
                total += sum(entry.file_size for entry in wheel.infolist())
        except zipfile.BadZipFile:
            verified(path, "a wheel")
            raise
    return total
