"""Images as OCI layouts, layer by layer, without an engine."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import zstandard

from builder.core.lock import digest_of
from builder.core.manifest import OCI_INDEX, OCI_MANIFEST

Packing = Literal["tar", "gzip", "zstd"]
_TYPE = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, or a hard one to a path of the same layer."""

    target: str
    hard: bool = False


Entry = bytes | Link | None
"""A file, a link, or a folder."""


def tar(entries: Mapping[str, Entry]) -> bytes:
    """Pack a layer; whiteouts are files called so."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, entry in entries.items():
            member = tarfile.TarInfo(name)
            if isinstance(entry, Link):
                member.type = tarfile.LNKTYPE if entry.hard else tarfile.SYMTYPE
                member.linkname = entry.target
                archive.addfile(member)
            elif entry is None:
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            else:
                member.size = len(entry)
                archive.addfile(member, io.BytesIO(entry))
    return buffer.getvalue()


def packed(data: bytes, packing: Packing) -> bytes:
    """Compress a layer."""
    if packing == "gzip":
        return gzip.compress(data, mtime=0)
    return zstandard.compress(data) if packing == "zstd" else data


def write_layout(
    folder: Path,
    layers: Sequence[Mapping[str, Entry]],
    *,
    labels: Mapping[str, str] = {},
    environment: Sequence[str] = (),
    history: Sequence[str] = (),
    packing: Packing = "zstd",
    architecture: str = "amd64",
    name: str = "",
) -> str:
    """Write an image as a layout of its own; return what `--image` takes."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def put(data: bytes, media: str) -> dict[str, Any]:
        digest = digest_of(data)
        (blobs / digest.removeprefix("sha256:")).write_bytes(data)
        return {"mediaType": media, "digest": digest, "size": len(data)}

    suffix = {"tar": "", "gzip": "+gzip", "zstd": "+zstd"}[packing]
    rows = [put(packed(tar(layer), packing), _TYPE + suffix) for layer in layers]
    config = {
        "os": "linux",
        "architecture": architecture,
        "config": {"Labels": dict(labels), "Env": list(environment)},
        "history": [{"created_by": text} for text in history],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": put(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": rows,
    }
    row = put(json.dumps(manifest).encode(), OCI_MANIFEST)
    if name:
        row["annotations"] = {"org.opencontainers.image.ref.name": name}
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [row]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return f"oci:{folder}" + (f":{name}" if name else "")
