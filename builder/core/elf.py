"""What a shared object needs, read in one pass over its bytes (ELF-64, little endian).

pyelftools wants a file it can seek in; members of wheels and layers are streams, and unpacking
gigabytes to disk would cost more than the audit. What is needed lies at the beginning, at the end
and in one place that the beginning names, so these alone are kept.
Source: ELF gABI (program header, dynamic section); symbol versions: LSB Core, "Symbol Versioning".
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MAGIC = b"\x7fELF"
HEAD = 32 << 20
"""Bytes kept of the beginning: symbol and string tables lie there."""
TAIL = 4 << 20
"""Bytes kept of the end: where patchelf puts tables that grew."""
MACHINES = {62: "x86_64", 183: "aarch64"}
"""e_machine → the kernel's name."""
_IDENT = struct.Struct("<4sBB10xHH")
"""Magic, class, byte order; type, machine."""
_PROGRAMS = struct.Struct("<32xQ14xHH")
"""Of the file header: where the program headers are, size of each, how many."""
_PROGRAM = struct.Struct("<I4xQQ8xQ")
"""Type, offset in the file, address, size in the file."""
_SECTIONS = struct.Struct("<40xQ10xHHH")
"""Of the file header: where the section headers are, their size and number, the one of names."""
_SECTION = struct.Struct("<I20xQQ")
"""Of a section header: its name, place and size."""
_PAIR = struct.Struct("<qQ")
_NEED = struct.Struct("<HHIII")
"""Version, count, file name, where its versions are, where the next is."""
_VERSION = struct.Struct("<IHHII")
"""Hash, flags, index, name, where the next is."""
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _SONAME = 1, 5, 14
_VERNEED, _VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF
_LONGEST_NAME = 4096
_MOST = 1 << 16
"""Entries of any table; more is damage."""
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfFacts:
    """What its loader will ask for."""

    machine: str
    """As the kernel names it; the bare number where we have no name."""
    soname: str = ""
    needed: tuple[str, ...] = ()
    """Libraries it needs, in its order."""
    glibc: str = "0"
    """Highest `GLIBC_x.y` among its version needs, as `2.34`; `0` when it needs none."""


class NotReadError(Exception):
    """A part lies where nothing was kept, or leads nowhere."""


class ElfScan:
    """Takes a file piece by piece, in order; then `facts` says what it needs."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        """The last pieces, at least `TAIL` bytes of them."""
        self._tail_size = 0
        self._size = 0
        self._dynamic: tuple[int, int] | None = None
        self._kept = bytearray()
        self._other = False
        """It is no such file: nothing is kept."""

    def feed(self, data: bytes) -> None:
        """Keep what may be needed."""
        if self._other:
            return
        start, self._size = self._size, self._size + len(data)
        if len(self._head) < HEAD:
            self._head += data[: HEAD - len(self._head)]
            if start < _IDENT.size <= self._size and not _readable(self._head):
                self._other = True
                self._head.clear()
                return
        if self._size > HEAD:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0]) >= TAIL:
                self._tail_size -= len(self._tail.popleft())
            self._keep(data, start)

    def _keep(self, data: bytes, start: int) -> None:
        """Keep the dynamic section, wherever it lies."""
        if self._dynamic is None:
            self._dynamic = self._find_dynamic()
        offset, size = self._dynamic
        begin, end = max(offset, start), min(offset + size, start + len(data))
        if begin < end:
            self._kept += data[begin - start : end - start]

    def _find_dynamic(self) -> tuple[int, int]:
        try:
            found = next((row for row in self._programs() if row[0] == _DYNAMIC), None)
        except NotReadError:
            found = None
        return (found[1], min(found[3], _MOST)) if found else (0, 0)

    def facts(self) -> ElfFacts | None:
        """Say what it needs; None for any other kind of file.

        Raises NotReadError when a table lies where nothing was kept, or is damaged.
        """
        if self._other or not _readable(self._head):
            return None
        machine = _IDENT.unpack_from(self._head)[4]
        programs = list(self._programs())
        name = MACHINES.get(machine, str(machine))
        place = next(((row[1], row[3]) for row in programs if row[0] == _DYNAMIC), None)
        if place is None:
            return ElfFacts(machine=name)
        rows = list(self._dynamic_rows(*place))
        values = dict(rows)

        def offset(address: int) -> int:
            for kind, at, begin, size in programs:
                if kind == _LOAD and begin <= address < begin + size:
                    return at + address - begin
            raise NotReadError(f"no part of the file has address {address:#x}")

        strings = offset(values[_STRTAB]) if _STRTAB in values else 0

        def text(at: int) -> str:
            return self._text(strings + at)

        versions: list[str] = []
        if _VERNEED in values:
            versions = list(
                self._versions(offset(values[_VERNEED]), values.get(_VERNEEDNUM, 0), text)
            )
        return ElfFacts(
            machine=name,
            soname=text(values[_SONAME]) if _SONAME in values else "",
            needed=tuple(text(value) for tag, value in rows if tag == _NEEDED),
            glibc=_highest(versions),
        )

    def sections(self, name: str) -> list[tuple[int, int]]:
        """Return place and size of every section called so; none where none can be read.

        A file's loader needs no section headers, so tools may have removed them.
        """
        if self._other or not _readable(self._head):
            return []
        try:
            at, size, count, names = _SECTIONS.unpack(self._read(0, _SECTIONS.size))
            rows = [
                _SECTION.unpack(self._read(at + number * size, _SECTION.size))
                for number in range(count)
            ]
            texts = rows[names][1] if names < count else 0
            return [row[1:] for row in rows if self._text(texts + row[0]) == name]
        except NotReadError:
            return []

    def _programs(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield type, offset, address and size of each program header."""
        at, size, count = _PROGRAMS.unpack(self._read(0, _PROGRAMS.size))
        for number in range(count):
            yield _PROGRAM.unpack(self._read(at + number * size, _PROGRAM.size))

    def _dynamic_rows(self, at: int, size: int) -> Iterator[tuple[int, int]]:
        for number in range(min(size // _PAIR.size, _MOST)):
            tag, value = _PAIR.unpack(self._read(at + number * _PAIR.size, _PAIR.size))
            if tag == 0:
                return
            yield tag, value

    def _versions(self, at: int, count: int, text: Callable[[int], str]) -> Iterator[str]:
        """Yield every version that is asked of a library."""
        for _ in range(min(count, _MOST)):
            _, names, _, first, following = _NEED.unpack(self._read(at, _NEED.size))
            place = at + first
            for _ in range(names):
                _, _, _, name, step = _VERSION.unpack(self._read(place, _VERSION.size))
                yield text(name)
                place += step
            at += following

    def _text(self, at: int) -> str:
        end = self._head.find(b"\0", at) if 0 <= at < len(self._head) else -1
        if end < 0:
            data = self._read(at, min(_LONGEST_NAME, self._size - at))
            end = at + data.find(b"\0")
        return self._read(at, end - at).decode(errors="replace")

    def _read(self, at: int, size: int) -> bytes:
        end = at + size
        if at >= 0 and size >= 0 and end <= self._size:
            if end <= len(self._head):
                return bytes(self._head[at:end])
            tail = self._size - self._tail_size
            if tail <= at:
                if len(self._tail) > 1:
                    self._tail = deque([b"".join(self._tail)])
                return self._tail[0][at - tail : end - tail]
            if self._dynamic is not None and self._dynamic[0] <= at:
                inside = at - self._dynamic[0]
                if inside + size <= len(self._kept):
                    return bytes(self._kept[inside : inside + size])
        raise NotReadError(f"bytes {at} to {end} of {self._size} are not at hand")


def _readable(head: bytearray) -> bool:
    """Whether it is an ELF file of 64 bits, little endian."""
    return len(head) >= _IDENT.size and _IDENT.unpack_from(head)[:3] == (MAGIC, 2, 1)


def _highest(versions: list[str]) -> str:
    found = [(int(m[1]), int(m[2])) for text in versions if (m := _GLIBC.fullmatch(text))]
    return ".".join(map(str, max(found))) if found else "0"
