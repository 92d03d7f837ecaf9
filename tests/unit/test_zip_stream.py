"""Members of a zip file as streams: the bytes that zipfile gives, and the damage that it finds."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.edge.zip_stream import BROKEN, PIECE, stream


def packed(data: bytes, method: int = zipfile.ZIP_DEFLATED) -> tuple[bytes, zipfile.ZipInfo]:
    """Make an archive with one member behind another."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("first", b"1" * 50)
        archive.writestr("ä/second", data)
    with zipfile.ZipFile(buffer) as archive:
        return buffer.getvalue(), archive.getinfo("ä/second")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_every_size_arrives_whole(size: int, method: int) -> None:
    """Around the size of a piece, and none is larger."""
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    file, entry = packed(data, method)
    pieces = list(stream(io.BytesIO(file), entry))
    assert data == b"".join(pieces)
    assert all(0 < len(piece) <= PIECE for piece in pieces)


@given(data=st.binary(max_size=3000), method=st.sampled_from([0, 8]))
def test_zipfile_agrees(data: bytes, method: int) -> None:
    """Whatever the bytes."""
    file, entry = packed(data, method)
    assert data == b"".join(stream(io.BytesIO(file), entry))


@given(data=st.data())
def test_no_damage_goes_unnoticed(data: st.DataObject) -> None:
    """A changed byte of a member is told, or changes nothing."""
    content = data.draw(st.binary(min_size=1, max_size=500))
    method = data.draw(st.sampled_from([0, 8]))
    file, entry = packed(content, method)
    start = entry.header_offset + 30 + len("ä/second".encode())
    at = data.draw(st.integers(start, start + entry.compress_size - 1))
    damaged = bytearray(file)
    damaged[at] ^= data.draw(st.integers(1, 255))
    try:
        found = b"".join(stream(io.BytesIO(bytes(damaged)), entry))
    except BROKEN:
        return
    assert content == found


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method: int) -> None:
    """No wheel has them (PEP 427)."""
    file, entry = packed(b"x" * 99, method)
    with pytest.raises(zipfile.BadZipFile, match="stored or deflated"):
        list(stream(io.BytesIO(file), entry))
