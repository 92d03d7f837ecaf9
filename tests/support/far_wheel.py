"""Single files of a locked wheel, wherever it lies: the store, else by range from its index."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import httpx
import pytest

from builder.commands.context import Context
from builder.core.lock import WheelPin
from builder.edge.download import read_range
from builder.edge.locate import look_up
from builder.edge.reach import open_indexes
from builder.edge.store import Store
from builder.edge.wheels import _RemoteFile

_LOCAL_HEADER = 30
"""Bytes before a member's name in a zip file (APPNOTE 4.3.7)."""
_EXTRA = 1 << 16
"""Bytes that name and extra field take at most, for each of them a bit less."""


def extract(context: Context, pin: WheelPin, names: Iterable[str], into: Path) -> list[Path]:
    """Write files of a wheel below `into`; the test is skipped where the index does no ranges."""
    store = Store(context.places.store)
    if store.has(pin.sha256, pin.size):
        with zipfile.ZipFile(store.path(pin.sha256)) as wheel:
            return [Path(wheel.extract(name, into)) for name in names]
    with open_indexes(context.settings, os.environ, connections=1) as indexes:
        (seen,) = look_up([pin], indexes, threads=1)
        assert seen.offer is not None, f"{pin.file} is on no index"
        read = _read(indexes.client, seen.offer.url, list(names))
    return [_write(into / name, data) for name, data in read.items()]


def _read(client: httpx.Client, url: str, names: list[str]) -> Mapping[str, bytes]:
    tail = read_range(client, url, f"bytes=-{_EXTRA}")
    if tail is None:
        pytest.skip("the index answers no ranges")
    with zipfile.ZipFile(_RemoteFile(client, url, *tail)) as wheel:
        entries = [wheel.getinfo(name) for name in names]
    return {entry.filename: _member(client, url, entry) for entry in entries}


def _member(client: httpx.Client, url: str, entry: zipfile.ZipInfo) -> bytes:
    """Read one member by one range, and check it by its CRC."""
    start = entry.header_offset
    last = start + _LOCAL_HEADER + 2 * _EXTRA + entry.compress_size
    part = read_range(client, url, f"bytes={start}-{last}")
    assert part is not None
    data, _ = part
    lengths = (int.from_bytes(data[at : at + 2], "little") for at in (26, 28))
    body = data[_LOCAL_HEADER + sum(lengths) :][: entry.compress_size]
    plain = body if entry.compress_type == zipfile.ZIP_STORED else zlib.decompress(body, wbits=-15)
    assert entry.CRC == zlib.crc32(plain), entry.filename
    return plain


def _write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
