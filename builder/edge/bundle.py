"""A bundle on disk: filled file by file, so that a run that was cut short goes on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from builder.core.bundle import NAME, SUMS, Bundle, parse_sums, stored, sums
from builder.edge import files
from builder.edge.pool import Stop, each
from builder.edge.store import Store, hash_file, link, verified
from builder.errors import BadInput, HashMismatch

_PART = ".part"
"""End of the name of a file that is being copied."""


def require_ours(folder: Path) -> None:
    """Raise BadInput unless the folder is new, empty, or a bundle, whole or begun."""
    if not folder.exists() or (folder / NAME).is_file():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise BadInput(
            "the folder holds something else than a bundle",
            subject=str(folder),
            action="name a new folder, or remove that one",
        )


def bytes_to_copy(folder: Path, links: Mapping[str, Path]) -> int:
    """Bytes that `fill` will take: of files that are not there and cannot be linked."""
    place = folder
    while not place.exists():
        place = place.parent
    here = place.stat().st_dev
    return sum(
        source.stat().st_size
        for name, source in links.items()
        if source.stat().st_dev != here and not _has_size(folder / name, source)
    )


def fill(
    folder: Path,
    texts: Mapping[str, bytes],
    links: Mapping[str, Path],
    on_bytes: Callable[[int], None],
) -> None:
    """Make the folder hold exactly these files and SHA256SUMS, which comes last.

    `links` lead to files of the store, whose names are their hashes. What is there already is kept
    when its bytes are right. Raises HashMismatch when the disk damaged a file, DiskFull.
    """
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in texts.items()}
    digests |= {name: source.name for name, source in links.items()}
    listed = sums(digests)
    with suppress(FileNotFoundError):
        if (folder / SUMS).read_bytes() != listed:
            (folder / SUMS).unlink()
    # First, so that a folder that was begun is known as ours.
    files.write(folder / NAME, texts[NAME])
    _remove_others(folder, {*digests, SUMS})
    for name, data in texts.items():
        files.write(folder / name, data)

    def bring(row: tuple[str, Path], stop: Stop) -> None:
        name, source = row
        stop.check()
        _bring(folder / name, source, name)
        on_bytes(source.stat().st_size)

    each(bring, sorted(links.items(), key=lambda row: -row[1].stat().st_size), threads=4)
    files.write(folder / SUMS, listed)


def _bring(target: Path, source: Path, name: str) -> None:
    if _has_size(target, source):
        if target.samefile(source):
            verified(source, name)
            return
        if hash_file(target) == source.name:
            return
    part = target.with_name(f".{target.name}{_PART}")
    part.unlink(missing_ok=True)
    link(verified(source, name), part)
    part.replace(target)


def _has_size(target: Path, source: Path) -> bool:
    try:
        return target.stat().st_size == source.stat().st_size
    except FileNotFoundError:
        return False


def _remove_others(folder: Path, names: Iterable[str]) -> None:
    """Take away what an earlier bundle left; folders that are empty then go too."""
    kept = {str(folder / name) for name in names}
    for top, folders, found in os.walk(folder, topdown=False):
        for name in found:
            path = Path(top, name)
            if str(path) not in kept:
                path.unlink()
        for name in folders:
            with suppress(OSError):
                Path(top, name).rmdir()


def read(folder: Path) -> Bundle:
    """Read what a bundle says of itself; raises BadInput when it is none, or not whole."""
    try:
        bundle = Bundle.parse((folder / NAME).read_bytes(), str(folder / NAME))
        listed = parse_sums((folder / SUMS).read_text(), str(folder / SUMS))
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError) as error:
        missing = getattr(error, "filename", None) or folder
        raise BadInput(
            f"not a whole bundle: {Path(str(missing)).name} is not there or cannot be read",
            subject=str(folder),
            action="let `nightlock fetch IMAGE --bundle DIR` finish, then copy all of it",
        ) from None
    absent = [name for name in listed if not (folder / name).is_file()]
    if absent:
        raise BadInput(
            f"not a whole bundle: {len(absent)} files are not there: {', '.join(absent[:3])}",
            subject=str(folder),
            action="copy all of it again; `sha256sum --check SHA256SUMS` says what is missing",
        )
    return bundle


def missing(folder: Path, bundle: Bundle, store: Store) -> dict[str, str]:
    """List the files of a bundle that the store has not: name → hash."""
    listed = parse_sums((folder / SUMS).read_text(), str(folder / SUMS))
    return {
        name: listed[name]
        for name in stored(listed, bundle)
        if not store.has(listed[name], (folder / name).stat().st_size)
    }


def take_in(
    folder: Path, wanted: Mapping[str, str], store: Store, on_bytes: Callable[[int], None]
) -> None:
    """Copy files of a bundle into the store; raises HashMismatch for one that is not as listed."""

    def take(row: tuple[str, str], stop: Stop) -> None:
        name, digest = row
        stop.check()
        try:
            store.add(folder / name, digest)
        except HashMismatch as error:
            error.action = "copy the bundle again, and check it with sha256sum"
            raise
        on_bytes((folder / name).stat().st_size)

    each(take, wanted.items(), threads=4)
