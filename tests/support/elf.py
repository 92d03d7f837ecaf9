"""A shared object that needs libraries and does nothing else; what ELF readers take for real."""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


def needing(*libraries: str) -> bytes:
    """Make a 64-bit x86 shared object with one DT_NEEDED a library (ELF specification, ch. 5)."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in libraries)
    entries = [(1, strings.index(b"\0" + name.encode() + b"\0") + 1) for name in libraries]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in [*entries, (0, 0)])
    names = b"\0.dynstr\0.dynamic\0.shstrtab\0"
    at_strings = _HEADER.size
    at_dynamic = at_strings + len(strings)
    at_names = at_dynamic + len(dynamic)
    at_sections = at_names + len(names)
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01" + bytes(9), 3, 62, 1, 0, 0, at_sections, 0,
        _HEADER.size, 0, 0, _SECTION.size, 4, 3,
    )  # fmt: skip
    sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (names.index(b".dynstr"), 3, 2, 0, at_strings, len(strings), 0, 0, 1, 0),
        (names.index(b".dynamic"), 6, 2, 0, at_dynamic, len(dynamic), 1, 0, 8, 16),
        (names.index(b".shstrtab"), 3, 0, 0, at_names, len(names), 0, 0, 1, 0),
    ]
    table = b"".join(_SECTION.pack(*section) for section in sections)
    return header + strings + dynamic + names + table
