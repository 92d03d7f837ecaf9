"""An OCI image layout on disk (image-spec, image-layout.md), as buildx and skopeo write it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from builder.core.hash_change import other_bytes
from builder.core.lock import digest_of
from builder.core.manifest import OCI_INDEX, Descriptor, Manifest
from builder.edge.store import chunks
from builder.errors import BadInput, HashMismatch

_NAME = "org.opencontainers.image.ref.name"


class Layout:
    """One folder with `oci-layout`, `index.json` and `blobs/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def is_one(folder: Path) -> bool:
        """Whether a folder is a layout."""
        return (folder / "oci-layout").is_file()

    def manifest(self, tag: str = "") -> Manifest:
        """Read the manifest or index called `tag`, or the only one there is.

        Raises BadInput when there is none, or several and no tag; HashMismatch.
        """
        top = Manifest.parse(self._read(self.folder / "index.json"), OCI_INDEX, str(self.folder))
        rows = top.body.manifests
        named = [row for row in rows if not tag or row.annotations.get(_NAME) == tag]
        if len(named) != 1:
            names = sorted(row.annotations.get(_NAME, row.digest) for row in rows)
            raise BadInput(
                f"the layout has {len(named)} images" + (f" called {tag!r}" if tag else ""),
                subject=str(self.folder),
                action=f"name one as oci:DIR:NAME; there are: {', '.join(names) or 'none'}",
            )
        return self.child(named[0])

    def child(self, descriptor: Descriptor) -> Manifest:
        """Read a manifest by its descriptor; raises BadInput, HashMismatch."""
        return Manifest.parse(self.blob(descriptor.digest), descriptor.media_type, str(self.folder))

    def blob(self, digest: str) -> bytes:
        """Read a small blob; raises BadInput, HashMismatch."""
        data = self._read(self._path(digest))
        if digest_of(data) != digest:
            raise _damaged(self._path(digest), digest_of(data))
        return data

    def stream_blob(self, digest: str) -> Iterator[bytes]:
        """Yield a blob piece by piece; at its end raises HashMismatch when it is damaged."""
        hashed = hashlib.sha256()
        try:
            with self._path(digest).open("rb") as file:
                for piece in chunks(file):
                    hashed.update(piece)
                    yield piece
        except FileNotFoundError:
            raise _absent(self._path(digest)) from None
        if f"sha256:{hashed.hexdigest()}" != digest:
            raise _damaged(self._path(digest), f"sha256:{hashed.hexdigest()}")

    def _path(self, digest: str) -> Path:
        algorithm, _, value = digest.partition(":")
        return self.folder / "blobs" / algorithm / value

    @staticmethod
    def _read(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise _absent(path) from None


def _absent(path: Path) -> BadInput:
    return BadInput(
        "the layout lacks a file", subject=str(path), action="export the image again, whole"
    )


def _damaged(path: Path, found: str) -> HashMismatch:
    return other_bytes(
        f"the file's digest is {found}",
        subject=str(path),
        action="export the image again",
        key="blob-damaged",
    )
