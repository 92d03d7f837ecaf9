"""The lock inside an image's layer."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable

import pytest
import zstandard

from builder.core.lock import Lock
from builder.core.lock_layer import lock_files
from builder.errors import LockFileError
from tests.support.two_nightlies import old_night


def layer(files: dict[str, bytes], prefix: str = "") -> bytes:
    """Write a tar with a folder, a link and the files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        folder = tarfile.TarInfo(f"{prefix}opt/nightlock/lock")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        link = tarfile.TarInfo(f"{prefix}opt/nightlock/lock/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for name, data in files.items():
            info = tarfile.TarInfo(f"{prefix}{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_a_lock_is_read_back(pack: Callable[[bytes], bytes], prefix: str) -> None:
    """Plain, gzip and zstd, as OCI allows; other files of the layer are left alone."""
    files = {f"opt/nightlock/lock/{name}": data for name, data in old_night().files().items()}
    blob = pack(layer({**files, "opt/nightlock/entrypoint.py": b"x"}, prefix))
    assert old_night().digest == Lock.parse(lock_files(blob, "image"), "image").digest


def test_a_layer_without_a_lock_has_none() -> None:
    """It is another layer; the caller goes on."""
    assert {} == lock_files(layer({"usr/bin/tini": b"x"}), "image")


@pytest.mark.parametrize(
    "blob",
    [b"not a tar at all" * 64, b"\x1f\x8b broken", b"\x28\xb5\x2f\xfd broken"],
    ids=["tar", "gzip", "zstd"],
)
def test_a_damaged_layer_is_refused(blob: bytes) -> None:
    """With the image's name."""
    with pytest.raises(LockFileError, match="cannot be read") as caught:
        lock_files(blob, "registry.example/cpu")
    assert "registry.example/cpu" == caught.value.subject


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_layer_that_unpacks_to_too_much_is_refused(pack: Callable[[bytes], bytes]) -> None:
    """A few kB can unpack to gigabytes; reading stops long before."""
    with pytest.raises(LockFileError, match="unpacks to more"):
        lock_files(pack(bytes(129 << 20)), "image")
