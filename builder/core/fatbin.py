"""GPU code inside a file, found without a GPU and without NVIDIA's tools, in one pass.

A fat binary is a header (`0xBA55ED50`, version, header size, size of what follows) and entries:
kind, size, SM number and flags, then the code. `cuobjdump --list-elf` prints neither of the two
flags that decide where code runs: `a` (this capability alone) and `f` (its family).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Form = Literal["elf", "ptx"]

RELOCATABLE = "__nv_relfatbin"
"""Section of code that was linked into other code of the same file: no driver loads it as it is."""
MAGIC = struct.pack("<I", 0xBA55ED50)
_HEADER = struct.Struct("<IHHQ")
"""Magic, version, size of this header, bytes that follow it."""
_ENTRY = struct.Struct("<HHIQ12xI8xQ")
"""Kind, options, size of this header, bytes of code; at +28 the SM number, at +40 flags."""
_VERSION = 1
_KINDS: dict[int, Form | None] = {1: "ptx", 2: "elf", 4: None, 8: None, 16: None, 32: None}
"""None: intermediate code and the like, which no driver loads by itself."""
_SPECIFIC = 1 << 20
_FAMILY = 1 << 21
_LARGEST_SM = 999


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Code:
    """Code of one kind for one architecture."""

    form: Form
    """`elf`: machine code; `ptx`: compiled by the driver for the GPU it meets."""
    sm: int
    """120 for compute capability 12.0."""
    suffix: str = ""
    """Empty, `a` or `f`."""

    @property
    def architecture(self) -> str:
        """`sm_120f`; `compute_80` for PTX."""
        return f"{'sm' if self.form == 'elf' else 'compute'}_{self.sm}{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much code of one kind a file holds."""

    code: Code
    count: int
    """Entries; one a translation unit and architecture."""
    size: int
    """Bytes as stored, mostly compressed."""


class FatbinScan:
    """Takes a file piece by piece, in order; then `amounts` says what GPU code it holds."""

    def __init__(self) -> None:
        self._found: list[tuple[int, Code, int]] = []
        """Where its fat binary begins, and what an entry is and its bytes."""
        self._passed = 0
        """Bytes of the file before `_rest`."""
        self._begin = 0
        """Where the fat binary that is being read begins."""
        self._rest = b""
        """Bytes that came and were not looked at yet: less than one header."""
        self._ahead = 0
        """Bytes to pass over before the next header; more than `_rest` when they have to come."""
        self._left = 0
        """Bytes of the fat binary that is being read, from the next header on; 0: none is."""

    def amounts(self, without: Sequence[tuple[int, int]] = ()) -> tuple[Amount, ...]:
        """Say what was found, sorted; `without`: places and sizes of parts that do not count."""
        counts: Counter[Code] = Counter()
        sizes: Counter[Code] = Counter()
        for begin, code, size in self._found:
            if not any(at <= begin < at + length for at, length in without):
                counts[code] += 1
                sizes[code] += size
        return tuple(
            Amount(code=code, count=counts[code], size=sizes[code]) for code in sorted(counts)
        )

    def feed(self, data: bytes) -> None:
        """Look at the next piece."""
        piece = self._rest + data if self._rest else data
        at, enough = self._ahead, True
        while enough and at < len(piece):
            at, enough = self._entry(piece, at) if self._left else self._search(piece, at)
        kept = min(at, len(piece))
        self._passed += kept
        self._rest, self._ahead = piece[kept:], at - kept

    def _search(self, piece: bytes, at: int) -> tuple[int, bool]:
        """Find the next fat binary; where to go on, and whether enough has come for that."""
        found = piece.find(MAGIC, at)
        if found < 0:
            return max(at, len(piece) - len(MAGIC) + 1), False
        if found + _HEADER.size > len(piece):
            return found, False
        _, version, size, follows = _HEADER.unpack_from(piece, found)
        if version != _VERSION or size < _HEADER.size or follows < _ENTRY.size:
            # Four bytes that only look like one.
            return found + len(MAGIC), True
        self._left, self._begin = follows, self._passed + found
        return found + size, True

    def _entry(self, piece: bytes, at: int) -> tuple[int, bool]:
        """Read one entry's header and pass over its code."""
        if self._left < _ENTRY.size:
            # Padding.
            ahead, self._left = self._left, 0
            return at + ahead, True
        if at + _ENTRY.size > len(piece):
            return at, False
        kind, _, header, size, sm, flags = _ENTRY.unpack_from(piece, at)
        whole = header + size
        if kind not in _KINDS or header < _ENTRY.size or whole > self._left or sm > _LARGEST_SM:
            self._left = 0
            return at, True
        form = _KINDS[kind]
        if form is not None:
            suffix = "f" if flags & _FAMILY else "a" if flags & _SPECIFIC else ""
            self._found.append((self._begin, Code(form=form, sm=sm, suffix=suffix), size))
        self._left -= whole
        return at + whole, True
