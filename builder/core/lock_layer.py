"""The lock inside an image: the layer with `/opt/nightlock/lock/`, from its blob."""

from __future__ import annotations

import io
import tarfile
import zlib

import zstandard

from builder.errors import LockFileError

FOLDER = "opt/nightlock/lock/"
LARGEST = 8 << 20
"""Bytes of a layer that can be the one: it holds the lock and a few small programs."""
_LARGEST_UNPACKED = 128 << 20
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b"


def lock_files(blob: bytes, subject: str) -> dict[str, bytes]:
    """Read the files of the lock out of a layer; none when the layer has no lock.

    `blob` is a tar, plain, gzip or zstd (OCI image-spec, layer.md).

    Raises LockFileError when the blob is no layer, or unpacks to more than any such layer.
    """
    try:
        with tarfile.TarFile(fileobj=io.BytesIO(_unpack(blob))) as archive:
            found = {}
            for member in archive:
                name = member.name.removeprefix("./").removeprefix("/")
                if not member.isfile() or not name.startswith(FOLDER):
                    continue
                content = archive.extractfile(member)
                if content is not None:
                    found[name.removeprefix(FOLDER)] = content.read()
            return found
    except (tarfile.TarError, zlib.error, zstandard.ZstdError, EOFError) as error:
        raise LockFileError(
            f"a layer cannot be read: {error}", subject=subject, action="push the image again"
        ) from None


def _unpack(blob: bytes) -> bytes:
    # Both stop at the limit: a small blob can be made to unpack to terabytes.
    if blob.startswith(_ZSTD):
        with zstandard.ZstdDecompressor().stream_reader(blob) as reader:
            data = reader.read(_LARGEST_UNPACKED + 1)
    elif blob.startswith(_GZIP):
        data = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(blob, _LARGEST_UNPACKED + 1)
    else:
        data = blob
    if len(data) > _LARGEST_UNPACKED:
        raise tarfile.ReadError("it unpacks to more than a lock can have")
    return data
