"""Members of a zip file as streams, unpacked by ISA-L: twice as fast as zlib, and checked.

zipfile reads the directory; only how its members are unpacked is replaced (APPNOTE 4.3.7, 4.4.5).
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from isal import isal_zlib

PIECE = 1 << 20
"""Bytes of a piece, at most."""
# Its stubs declare the class as an instance.
UNPACK_ERROR = cast("type[Exception]", isal_zlib.IsalError)
"""What ISA-L raises for bytes that it cannot unpack."""
BROKEN = (
    zipfile.BadZipFile,
    UNPACK_ERROR,
    EOFError,
    NotImplementedError,
    ValueError,
    struct.error,
)
"""What damaged archives raise; NotImplementedError is zipfile's own, for a directory of a newer
version of the format."""
_LOCAL = struct.Struct("<4s22xHH")
_SIGNATURE = b"PK\x03\x04"
_ENCRYPTED = 1
_RAW = -15


def stream(file: BinaryIO, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield a member piece by piece; raises one of BROKEN when it is damaged."""
    file.seek(entry.header_offset)
    signature, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    if signature != _SIGNATURE or entry.flag_bits & _ENCRYPTED:
        raise zipfile.BadZipFile(f"{entry.filename} is encrypted, or is not where it should be")
    file.seek(name + extra, 1)
    if entry.compress_type == zipfile.ZIP_STORED:
        pieces = _stored(file, entry.compress_size)
    elif entry.compress_type == zipfile.ZIP_DEFLATED:
        pieces = _inflated(file, entry.compress_size)
    else:
        raise zipfile.BadZipFile(
            f"{entry.filename} is compressed by method {entry.compress_type}: a wheel's files are "
            "stored or deflated"
        )
    size = checksum = 0
    for piece in pieces:
        size += len(piece)
        checksum = isal_zlib.crc32(piece, checksum)
        yield piece
    if (size, checksum) != (entry.file_size, entry.CRC):
        raise zipfile.BadZipFile(f"{entry.filename} has other bytes than its checksum says")


def _stored(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        piece = file.read(min(PIECE, size))
        if not piece:
            raise EOFError("the file ends in the middle")
        size -= len(piece)
        yield piece


def _inflated(file: BinaryIO, size: int) -> Iterator[bytes]:
    engine = isal_zlib.decompressobj(_RAW)
    for packed in _stored(file, size):
        rest = packed
        while rest and not engine.eof:
            if piece := engine.decompress(rest, PIECE):
                yield piece
            rest = engine.unconsumed_tail
    if piece := engine.flush():
        yield piece
    if not engine.eof:
        raise EOFError("a member ends in the middle")
