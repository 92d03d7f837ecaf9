"""What a wheel says of itself, read from its end by range: no need to have the whole of it.

Needs no PEP 658, whose files lack the central directory; where a server does no ranges the whole
file comes, into the store. Kept by sha256, so that a second look costs nothing.
"""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import httpx
from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from builder.core.contents import contents
from builder.core.hash_change import Expected, arrived_from, other_bytes, refusal
from builder.core.simple import Candidate
from builder.core.wheel import VERSION_FILE, WheelFacts, cuda_in, seconds
from builder.edge import files
from builder.edge.download import download, path_of, read_range
from builder.edge.store import Store, hash_file
from builder.errors import HashMismatch, Refused

_TAIL = 64 << 10
"""Bytes asked for at first: most wheels have directory and METADATA in there."""
_STEP = 128 << 10
_SMALL_LIBRARY = 256 << 10
"""Bytes of a shared object that is read whole; vLLM has some that need CUDA's libraries."""


class WheelReader:
    """Reads facts of wheels, each once however many ask; `cache` keeps them by sha256."""

    def __init__(self, client: httpx.Client, store: Store, cache: Path) -> None:
        self._client = client
        self._store = store
        self._cache = cache
        self._guard = threading.Lock()
        self._busy: dict[str, threading.Lock] = {}
        self._hashed: dict[str, str] = {}

    def facts(self, wheel: Candidate, sha256: str) -> WheelFacts:
        """Read a wheel's facts.

        Raises HashMismatch when its size is not what the index says, Refused when it is no wheel.
        """
        with self._guard:
            mine = self._busy.setdefault(sha256, threading.Lock())
        with mine:
            found = self._kept(wheel, sha256)
        if wheel.size is not None and found.size != wheel.size:
            raise other_bytes(
                f"{wheel.file} has {found.size} bytes where it is served, {wheel.size} in the "
                "index's list",
                subject=wheel.url,
                action="try again later, or ask another mirror of that index with --index",
            )
        return found

    def _kept(self, wheel: Candidate, sha256: str) -> WheelFacts:
        kept = self._cache / sha256[:2] / f"{sha256}.json"
        try:
            found = _load(json.loads(kept.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError):
            found = self._read(wheel, sha256)
            files.write(kept, json.dumps(asdict(found), separators=(",", ":")).encode())
        return found

    def peek(self, wheel: Candidate) -> WheelFacts | None:
        """Read a wheel's facts by range before anybody knows its sha256; nothing is kept.

        None where the server does no ranges: the whole file has to come first.
        """
        if wheel.local:
            return _facts_of(path_of(wheel.url), wheel)
        tail = read_range(self._client, wheel.url, f"bytes=-{_TAIL}")
        if tail is None:
            return None
        remote = _RemoteFile(self._client, wheel.url, *tail)
        return _facts(remote, remote.length, wheel)

    def look(self, wheel: Candidate) -> WheelFacts:
        """Read a wheel's facts, whether anybody knows its sha256 or not.

        Raises as `facts`.
        """
        if wheel.sha256:
            return self.facts(wheel, wheel.sha256)
        return self.peek(wheel) or self.facts(wheel, self.hash_whole(wheel, lambda _: None))

    def keeps(self, sha256: str, size: int) -> bool:
        """Whether the store has the whole file."""
        return self._store.has(sha256, size)

    def hash_whole(self, wheel: Candidate, on_bytes: Callable[[int], None]) -> str:
        """Hash a file that no index gives a sha256 for; a remote one is kept in the store."""
        if wheel.local:
            return hash_file(path_of(wheel.url), on_bytes)
        with self._store.unnamed(wheel.url) as scratch:
            # Another platform of the same run may have brought it while we waited.
            if wheel.url not in self._hashed:
                download(self._client, wheel.url, scratch, size=wheel.size, on_bytes=on_bytes)
                self._hashed[wheel.url] = self._store.keep_unnamed(scratch)
            return self._hashed[wheel.url]

    def _read(self, wheel: Candidate, sha256: str) -> WheelFacts:
        stored = self._store.path(sha256)
        if stored.is_file():
            return _facts_of(stored, wheel)
        if wheel.local:
            return _facts_of(path_of(wheel.url), wheel)
        tail = read_range(self._client, wheel.url, f"bytes=-{_TAIL}")
        if tail is not None:
            remote = _RemoteFile(self._client, wheel.url, *tail)
            return _facts(remote, remote.length, wheel)
        with self._store.partial(sha256) as scratch:
            answer = download(self._client, wheel.url, scratch, size=wheel.size)
            try:
                kept = self._store.keep(scratch, sha256, wheel.url)
            except HashMismatch as error:
                expected = Expected(
                    file=wheel.file, sha256=sha256, size=wheel.size or 0, said_by="the index"
                )
                arrived = arrived_from(error, wheel, answer)
                raise refusal(expected, arrived, "", subject=wheel.url) from error
            return _facts_of(kept, wheel)


class _RemoteFile(io.RawIOBase):
    """A file read by ranges; `zipfile` walks it like one on disk."""

    def __init__(self, client: httpx.Client, url: str, tail: bytes, length: int) -> None:
        super().__init__()
        self.length = length
        self._client = client
        self._url = url
        self._parts = [(length - len(tail), tail)]
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.length}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self.length if size < 0 else min(self._at + size, self.length)
        if end <= self._at:
            return b""
        data = self._part(self._at, end)
        self._at = end
        return data

    def _part(self, start: int, end: int) -> bytes:
        for offset, data in self._parts:
            if offset <= start and end <= offset + len(data):
                return data[start - offset : end - offset]
        last = min(max(end, start + _STEP), self.length)
        part = read_range(self._client, self._url, f"bytes={start}-{last - 1}")
        if part is None or len(part[0]) < end - start:
            raise Refused(
                "the server stopped answering ranges",
                subject=self._url,
                action="try again, or name another mirror with --index",
            )
        self._parts.append((start, part[0]))
        return part[0][: end - start]


def _facts_of(path: Path, wheel: Candidate) -> WheelFacts:
    with path.open("rb") as file:
        return _facts(file, path.stat().st_size, wheel)


def _load(row: dict[str, Any]) -> WheelFacts:
    """Read what was kept; KeyError or TypeError for what an older nightlock wrote."""
    libraries = row["libraries"]
    return WheelFacts(
        **{
            **row,
            "contents": tuple((path, mark) for path, mark in row["contents"]),
            "libraries": None if libraries is None else tuple(libraries),
        }
    )


def _facts(file: IO[bytes] | io.RawIOBase, size: int, wheel: Candidate) -> WheelFacts:
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            names = {entry.filename for entry in entries}
            inside = sorted(
                name
                for name in names
                if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
            )
            if len(inside) != 1:
                raise Refused(
                    f"this is no wheel: it has {len(inside)} METADATA files",
                    subject=wheel.url,
                    action="ask another mirror of that index with --index",
                )

            def text(name: str) -> str:
                return archive.read(name).decode(errors="replace") if name in names else ""

            metadata = text(inside[0])
            points = text(f"{inside[0].partition('/')[0]}/entry_points.txt")
            rows = [(entry.filename, entry.CRC, entry.file_size) for entry in entries]
            version = text(VERSION_FILE)
            return WheelFacts(
                metadata=metadata,
                size=size,
                newest=max(seconds(entry.date_time) for entry in entries),
                version_file=version,
                contents=contents(rows, points),
                cuda=cuda_in(wheel.name, text),
                libraries=_libraries(archive) if version else None,
            )
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise Refused(
            f"this is no wheel: {error}",
            subject=wheel.url,
            action="ask another mirror of that index with --index",
        ) from error


def _libraries(archive: zipfile.ZipFile) -> tuple[str, ...] | None:
    """Name what vLLM's small extensions need; its large ones would be a download of their own."""
    needed: set[str] = set()
    small = [
        entry
        for entry in archive.infolist()
        if entry.filename.startswith("vllm/")
        and entry.filename.endswith(".so")
        and entry.file_size <= _SMALL_LIBRARY
    ]
    for entry in small:
        try:
            dynamic = ELFFile(io.BytesIO(archive.read(entry))).get_section_by_name(".dynamic")
            if isinstance(dynamic, DynamicSection):
                tags = dynamic.iter_tags("DT_NEEDED")
                needed |= {str(getattr(tag, "needed", "")) for tag in tags}
        except ELFError:
            # Not an object of this kind; whoever loads it will say so.
            continue
    return tuple(sorted(needed)) or None
