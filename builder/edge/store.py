"""The store: files by the sha256 of their bytes, `store/sha256/aa/aabb…`.

A file is in the store only whole and verified; half-made ones lie under `store/partial/` and are
taken up again by the next download.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from builder.core.hash_change import Arrived, other_bytes
from builder.edge import files

_CHUNK = 1 << 20


class Store:
    """Content-addressed files below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str) -> Path:
        """Where the file with these bytes lies or would lie; `sha256` is bare hex."""
        return self.root / "sha256" / sha256[:2] / sha256

    def has(self, sha256: str, size: int) -> bool:
        """Whether the file is here and of that size; its bytes were checked when it came in."""
        try:
            return self.path(sha256).stat().st_size == size
        except FileNotFoundError:
            return False

    def add(self, source: Path, sha256: str = "") -> str:
        """Take in a copy of `source`; return its sha256.

        Raises HashMismatch when `sha256` is given and the bytes differ.
        """
        found = hash_file(source)
        if sha256 and found != sha256:
            raise other_bytes(
                f"the file has sha256 {found}, the lock names {sha256}",
                subject=str(source),
                action="take the file from where the lock got it: `nightlock fetch`",
            )
        target = self.path(found)
        if not target.exists():
            with self._room(found) as scratch:
                copy(source, scratch)
                self._keep(scratch, target)
        return found

    @contextmanager
    def partial(self, sha256: str) -> Iterator[Path]:
        """Hold the half-made file of `sha256` for one writer at a time; it survives failures."""
        with self._room(sha256) as path:
            yield path

    def keep(self, scratch: Path, sha256: str, subject: str) -> Path:
        """Move a finished download into the store after checking it.

        Raises HashMismatch, with `arrived`, (and drops the file) when its bytes are not `sha256`.
        """
        found = hash_file(scratch)
        if found != sha256:
            with scratch.open("rb") as file:
                arrived = Arrived(sha256=found, size=scratch.stat().st_size, head=file.read(16))
            scratch.unlink()
            error = other_bytes(
                f"the bytes have sha256 {found}, the lock names {sha256}",
                subject=subject,
                action="try again, or name another place for the file; if the other bytes are "
                "right, lock again",
            )
            error.arrived = arrived
            raise error
        target = self.path(sha256)
        self._keep(scratch, target)
        return target

    @contextmanager
    def unnamed(self, url: str) -> Iterator[Path]:
        """Hold the half-made file of a URL whose sha256 nobody has said yet."""
        with self._room("url-" + hashlib.sha256(url.encode()).hexdigest()) as path:
            yield path

    def keep_unnamed(self, scratch: Path) -> str:
        """Move a finished download into the store under what it turns out to be; its sha256."""
        found = hash_file(scratch)
        self._keep(scratch, self.path(found))
        return found

    @contextmanager
    def _room(self, name: str) -> Iterator[Path]:
        folder = self.root / "partial"
        with files.locked(folder / f"{name}.lock", remove=True):
            yield folder / name

    @staticmethod
    def _keep(scratch: Path, target: Path) -> None:
        files.make_folder(target.parent)
        scratch.chmod(0o444)
        scratch.replace(target)


def verified(path: Path, name: str) -> Path:
    """Return `path`, a file of the store, after reading it all; `name` is what the lock calls it.

    Raises HashMismatch when the disk damaged it: it is gone from the store then, so that the next
    `fetch` brings it again.
    """
    found = hash_file(path)
    if found != path.name:
        path.unlink(missing_ok=True)
        raise other_bytes(
            f"{name} in the store was damaged: its bytes have sha256 {found}",
            subject=str(path),
            action="it was taken out of the store: run `nightlock fetch`, then this again; check "
            "the disk if that happens twice",
        )
    return path


def hash_file(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """sha256 of a file, bare hex; `on_bytes` hears how many bytes were read."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in chunks(file):
            digest.update(chunk)
            if on_bytes is not None:
                on_bytes(len(chunk))
    return digest.hexdigest()


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Read a file in pieces of 1 MiB."""
    while chunk := file.read(_CHUNK):
        yield chunk


def copy(source: Path, target: Path) -> None:
    """Make `target` the same bytes as `source`, independent of it; partial files are removed."""
    try:
        with (
            files.full_disk_explained(target),
            source.open("rb") as reader,
            target.open("wb") as writer,
        ):
            for chunk in chunks(reader):
                writer.write(chunk)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def link(source: Path, target: Path) -> None:
    """Hard-link a stored file under another name, or copy it where links are not possible."""
    files.make_folder(target.parent)
    try:
        os.link(source, target)
    except OSError:
        copy(source, target)
