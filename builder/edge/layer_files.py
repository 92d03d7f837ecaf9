"""Layers read as they stream by: unpacked in memory, one file at a time, nothing is run."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO, cast

import zstandard
from isal import isal_zlib

from builder.core.audit.file import Examiner, FileFacts, is_kept, link_facts
from builder.core.audit.layer import Layer, removal, tidy
from builder.edge.pool import Stop
from builder.edge.zip_stream import UNPACK_ERROR
from builder.errors import Refused

_PIECE = 1 << 20
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP_BITS = 31
"""Window of 32 KiB, with gzip's header and checksum."""
_GZIP = b"\x1f\x8b"
_BROKEN = (tarfile.TarError, UNPACK_ERROR, zstandard.ZstdError, EOFError, OverflowError)


def read_layer(
    pieces: Iterable[bytes], digest: str, size: int, stop: Stop
) -> tuple[Layer, dict[str, bytes]]:
    """Examine every file of a layer's blob (a tar, plain, gzip or zstd), given in pieces.

    Returns the layer, and the texts that rules want. Raises Refused when it is no layer.
    """
    reading = _Reading()
    rest = iter(pieces)
    for member, content in members(rest, digest):
        stop.check()
        reading.take(member, content, stop)
    # What follows the archive's end is read too: whoever gives the pieces checks them at the last.
    for _ in rest:
        stop.check()
    layer = Layer(
        digest=digest,
        size=size,
        files=reading.files,
        folders=frozenset(reading.folders),
        gone=tuple(reading.gone),
        emptied=tuple(reading.emptied),
    )
    return layer, reading.texts


class _Reading:
    """What was read of one layer so far."""

    def __init__(self) -> None:
        self.files: dict[str, FileFacts] = {}
        self.folders: set[str] = set()
        self.gone: list[str] = []
        self.emptied: list[str] = []
        self.texts: dict[str, bytes] = {}

    def take(self, member: tarfile.TarInfo, content: Iterator[bytes], stop: Stop) -> None:
        """Take the next member; devices and pipes hold nothing, and are left out."""
        path = tidy(member.name)
        hides = removal(path)
        if hides is not None:
            (self.emptied if hides[1] else self.gone).append(hides[0])
        elif not path:
            return
        elif member.isdir():
            self.folders.add(path)
        elif member.issym():
            self.files[path] = link_facts(member.linkname)
        elif member.islnk():
            # The same file under another name; its bytes are in the layer once.
            target = self.files.get(tidy(member.linkname))
            if target is not None:
                self.files[path] = target
        elif member.isfile():
            self.texts.pop(path, None)
            self._examine(path, is_kept(path, member.size), content, stop)

    def _examine(self, path: str, kept: bool, content: Iterator[bytes], stop: Stop) -> None:
        text = bytearray()
        examiner = Examiner()
        for piece in content:
            stop.check()
            examiner.feed(piece)
            if kept:
                text += piece
        self.files[path] = examiner.facts()
        if kept:
            self.texts[path] = bytes(text)


def read_some(
    pieces: Iterable[bytes], digest: str, wanted: frozenset[str], largest: int
) -> dict[str, bytes]:
    """Read single files of a layer, those of at most `largest` bytes; others are left out."""
    found = {}
    for member, content in members(pieces, digest):
        path = tidy(member.name)
        if path in wanted and member.isfile() and member.size <= largest:
            found[path] = b"".join(content)
            if len(found) == len(wanted):
                break
    return found


def members(
    pieces: Iterable[bytes], digest: str
) -> Iterator[tuple[tarfile.TarInfo, Iterator[bytes]]]:
    """Yield each member of a layer's blob with the content it has, which is read at once or never.

    The blob is read to its very end, also behind that of the tar: only then has whoever gives the
    pieces seen all of it, and can tell whether its digest is right. Raises Refused when it is no
    layer.
    """
    blob = iter(pieces)
    try:
        with tarfile.open(fileobj=_Stream(_unpacked(blob)), mode="r|") as archive:
            for member in archive:
                yield member, _content(archive, member)
                # Else the archive remembers every member it ever met.
                archive.members = []  # type: ignore[attr-defined]
        for _ in blob:
            pass
    except _BROKEN as error:
        raise Refused(
            f"the layer cannot be read: {error}",
            subject=digest,
            action="push the image again; if it stays, the registry or its disk damages it",
        ) from error


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    file = archive.extractfile(member)
    if file is not None:
        while piece := file.read(_PIECE):
            yield piece


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress by the first bytes; media types lie now and then."""
    first = b""
    for piece in pieces:
        first += piece
        if len(first) >= len(_ZSTD):
            break
    if first.startswith(_ZSTD):
        yield from _zstd(first, pieces)
    elif first.startswith(_GZIP):
        yield from _gzip(first, pieces)
    else:
        yield first
        yield from pieces


def _zstd(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    source = cast("IO[bytes]", _Stream(_chain(first, pieces)))
    reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
    while data := reader.read(_PIECE):
        yield data


def _gzip(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    engine = isal_zlib.decompressobj(_GZIP_BITS)
    for piece in _chain(first, pieces):
        rest = piece
        while rest:
            yield engine.decompress(rest, _PIECE)
            rest = engine.unconsumed_tail
            if engine.eof:
                # Members may follow one another.
                rest = engine.unused_data
                engine = isal_zlib.decompressobj(_GZIP_BITS)


def _chain(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from pieces


class _Stream(io.BufferedIOBase):
    """Pieces of bytes as a file that can be read once, from the beginning."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = memoryview(b"")

    def read(self, size: int | None = -1) -> bytes:
        """Return at most `size` bytes, fewer only at the end."""
        found: list[memoryview] = []
        missing = -1 if size is None else size
        while missing:
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest = memoryview(piece)
                continue
            part = self._rest if missing < 0 else self._rest[:missing]
            found.append(part)
            self._rest = self._rest[len(part) :]
            missing -= len(part) if missing > 0 else 0
        return bytes(found[0]) if len(found) == 1 else b"".join(found)
