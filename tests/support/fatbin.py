"""GPU code as nvcc puts it into a shared object, with noise for code.

Written after NVIDIA's own files: a header, then entries whose 64-byte headers name kind, sizes, SM
number and flags; `tests/integration/test_audit_real.py` compares with theirs.
"""

from __future__ import annotations

import re
import struct

_MAGIC = 0xBA55ED50
_NAME = re.compile(r"(sm|compute)_(\d+)([af]?)")


def entry(architecture: str, size: int = 256, *, kind: int | None = None) -> bytes:
    """Make one entry: `sm_120f` machine code, `compute_80` PTX, or any `kind`."""
    match = _NAME.fullmatch(architecture)
    assert match is not None
    flags = 0x11 | {"": 0, "a": 1 << 20, "f": 1 << 21}[match[3]]
    header = struct.pack(
        "<HHIQIIHHIIIQQQ",
        kind if kind is not None else (2 if match[1] == "sm" else 1),
        0x101,
        64,
        size,
        0,
        0,
        8,
        1,
        int(match[2]),
        0,
        0,
        flags,
        0,
        0,
    )
    return header + (architecture.encode() + b"\xa5" * size)[:size]


def fatbin(*architectures: str, size: int = 256, padding: int = 0) -> bytes:
    """Make one fat binary with an entry an architecture."""
    return wrap(b"".join(entry(name, size) for name in architectures) + bytes(padding))


def wrap(entries: bytes) -> bytes:
    """Put the header before entries."""
    return struct.pack("<IHHQ", _MAGIC, 1, 16, len(entries)) + entries
