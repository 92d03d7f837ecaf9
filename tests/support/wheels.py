"""Dummy wheels that installers and resolvers take for real; a function of the arguments."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

VLLM_VERSION = "__commit_id__ = commit_id = 'g{commit}'\n"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel's file name and bytes."""

    file: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Its hash, bare hex."""
        return hashlib.sha256(self.data).hexdigest()


def make_wheel(
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    tag: str = "py3-none-any",
    requires_python: str = "",
    licence: str = "MIT",
    metadata_name: str = "",
    metadata_version: str = "",
    contents: Mapping[str, str | bytes] | None = None,
    padding: int = 0,
    moment: tuple[int, int, int, int, int, int] = (2026, 10, 20, 8, 40, 32),
) -> Wheel:
    """Make a wheel; `padding` bytes that do not compress make it larger."""
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {metadata_name or name}",
        f"Version: {metadata_version or version}",
        f"License-Expression: {licence}",
        *([f"Requires-Python: {requires_python}"] if requires_python else []),
        *(f"Requires-Dist: {text}" for text in requires),
    ]
    tags = [f"Tag: {part}" for part in tag.split(".")[:1]]
    files = {
        f"{name.replace('-', '_')}/__init__.py": f"__version__ = {version!r}\n".encode(),
        **{path: _bytes(data) for path, data in (contents or {}).items()},
        **({f"{name.replace('-', '_')}/padding.bin": _noise(padding)} if padding else {}),
        f"{folder}/METADATA": ("\n".join(lines) + "\n").encode(),
        f"{folder}/WHEEL": "\n".join(
            ["Wheel-Version: 1.0", "Generator: tests", "Root-Is-Purelib: true", *tags, ""]
        ).encode(),
    }
    record = [f"{path},sha256={_record_hash(data)},{len(data)}" for path, data in files.items()]
    record.append(f"{folder}/RECORD,,")
    files[f"{folder}/RECORD"] = ("\n".join(record) + "\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path, moment), data, zipfile.ZIP_DEFLATED)
    return Wheel(f"{name.replace('-', '_')}-{version}-{tag}.whl", buffer.getvalue())


def make_vllm(version: str, *, commit: str = "ea5f903f8", requires: Sequence[str] = ()) -> Wheel:
    """Make a wheel that looks like vLLM to a lock."""
    contents = {"vllm/_version.py": VLLM_VERSION.format(commit=commit)}
    tag = "cp38-abi3-manylinux_2_28_x86_64"
    return make_wheel("vllm", version, requires=requires, tag=tag, contents=contents)


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _noise(length: int) -> bytes:
    blocks = (hashlib.sha256(number.to_bytes(8, "big")).digest() for number in range(length // 32))
    return b"".join(blocks)
