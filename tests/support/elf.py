"""A shared object that needs libraries and does nothing else; what ELF readers take for real."""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NAMES = b"\0.dynstr\0.dynamic\0.shstrtab\0.gnu.version_r\0__nv_relfatbin\0"
_ADDRESS = 0x1000
"""Where the file is mapped: addresses differ from places in the file, as in real ones."""


def needing(
    *libraries: str,
    glibc: str = "",
    soname: str = "",
    machine: int = 62,
    before: bytes = b"",
    after: bytes = b"",
    relocatable: bytes = b"",
) -> bytes:
    """Make a 64-bit shared object with one DT_NEEDED a library (ELF gABI).

    `glibc` is a version of libc.so.6 it needs (LSB, "Symbol Versioning"), `machine` its e_machine
    (62: x86_64). `before` and `after` lie before and behind its dynamic section, `relocatable` in
    the section of GPU code that was linked into other code.
    """
    words = [*libraries, soname, "libc.so.6", f"GLIBC_{glibc}"]
    strings = b"\0" + b"".join(word.encode() + b"\0" for word in words)

    def place(word: str) -> int:
        return strings.index(b"\0" + word.encode() + b"\0") + 1

    at_strings = _HEADER.size + 2 * _PROGRAM.size
    at_versions = at_strings + len(strings)
    versions = b""
    if glibc:
        versions = struct.pack("<HHIII", 1, 1, place("libc.so.6"), 16, 0)
        versions += struct.pack("<IHHII", 0, 0, 2, place(f"GLIBC_{glibc}"), 0)
    at_dynamic = at_versions + len(versions) + len(before)
    entries = [(1, place(name)) for name in libraries]
    entries += [(14, place(soname))] if soname else []
    entries += [(5, _ADDRESS + at_strings), (10, len(strings))]
    if glibc:
        entries += [(0x6FFFFFFE, _ADDRESS + at_versions), (0x6FFFFFFF, 1)]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in [*entries, (0, 0)])
    at_relocatable = at_dynamic + len(dynamic) + len(after)
    at_names = at_relocatable + len(relocatable)
    at_sections = at_names + len(_NAMES)
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01" + bytes(9), 3, machine, 1, 0, _HEADER.size, at_sections, 0,
        _HEADER.size, _PROGRAM.size, 2, _SECTION.size, 6, 3,
    )  # fmt: skip
    programs = _PROGRAM.pack(1, 5, 0, _ADDRESS, _ADDRESS, at_names, at_names, 0x1000)
    programs += _PROGRAM.pack(
        2, 6, at_dynamic, _ADDRESS + at_dynamic, 0, len(dynamic), len(dynamic), 8
    )
    sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (_name(".dynstr"), 3, 2, _ADDRESS + at_strings, at_strings, len(strings), 0, 0, 1, 0),
        (_name(".dynamic"), 6, 2, _ADDRESS + at_dynamic, at_dynamic, len(dynamic), 1, 0, 8, 16),
        (_name(".shstrtab"), 3, 0, 0, at_names, len(_NAMES), 0, 0, 1, 0),
        (_name(".gnu.version_r"), 0x6FFFFFFE, 2, _ADDRESS + at_versions, at_versions,
         len(versions), 1, 1 if versions else 0, 4, 0),
        (_name("__nv_relfatbin"), 1, 2, 0, at_relocatable, len(relocatable), 0, 0, 8, 0),
    ]  # fmt: skip
    table = b"".join(_SECTION.pack(*section) for section in sections)
    body = (programs, strings, versions, before, dynamic, after, relocatable, _NAMES)
    return header + b"".join(body) + table


def _name(section: str) -> int:
    return _NAMES.index(b"\0" + section.encode() + b"\0") + 1
