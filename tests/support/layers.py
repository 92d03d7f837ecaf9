"""Images made by hand: tars with any member, and the manifest and config that name them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder.core.lock import digest_of
from builder.core.manifest import OCI_MANIFEST, Manifest

OCI = "application/vnd.oci.image."


@dataclass(frozen=True, kw_only=True)
class Member:
    """One member; what is not given is what our images have."""

    path: str
    data: bytes = b""
    type: bytes = tarfile.REGTYPE
    mode: int = 0o644
    mtime: float = 315532800
    owner: tuple[int, int] = (0, 0)
    target: str = ""
    pax: Mapping[str, str] = field(default_factory=dict)


def tar_of(*members: Member) -> bytes:
    """Pack them in this order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            info = tarfile.TarInfo(member.path)
            info.type, info.mode, info.mtime = member.type, member.mode, member.mtime
            info.uid, info.gid = member.owner
            info.linkname = member.target
            info.size = len(member.data)
            info.pax_headers = dict(member.pax)
            archive.addfile(info, io.BytesIO(member.data))
    return buffer.getvalue()


@dataclass(frozen=True, kw_only=True)
class HandMade:
    """One image with its blobs."""

    manifest: Manifest
    config: bytes
    blobs: Mapping[str, bytes]

    @classmethod
    def of(
        cls,
        layers: Sequence[bytes],
        *,
        config: Mapping[str, Any] | None = None,
        level: int = 9,
        steps: Sequence[str] = (),
        architecture: str = "amd64",
    ) -> HandMade:
        """Make an image of tars, compressed by gzip at that level."""
        packed = [gzip.compress(layer, level, mtime=0) for layer in layers]
        made = {
            "os": "linux",
            "architecture": architecture,
            "config": dict(config or {}),
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
            "history": [{"created_by": step} for step in steps],
        }
        data = json.dumps(made, sort_keys=True).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": _descriptor(data, "config.v1+json"),
            "layers": [_descriptor(blob, "layer.v1.tar+gzip") for blob in packed],
        }
        return cls(
            manifest=Manifest.parse(json.dumps(manifest).encode(), OCI_MANIFEST, "x"),
            config=data,
            blobs={digest_of(blob): blob for blob in (*packed, data)},
        )

    def pages(self, repository: str, tag: str) -> dict[str, tuple[int, str, bytes]]:
        """Lay it out as a registry serves it."""
        top = (200, OCI_MANIFEST, self.manifest.data)
        return {
            f"/v2/{repository}/manifests/{tag}": top,
            f"/v2/{repository}/manifests/{self.manifest.digest}": top,
            **{
                f"/v2/{repository}/blobs/{digest}": (200, "application/octet-stream", blob)
                for digest, blob in self.blobs.items()
            },
        }


def _descriptor(data: bytes, kind: str) -> dict[str, object]:
    return {"mediaType": OCI + kind, "digest": digest_of(data), "size": len(data)}
