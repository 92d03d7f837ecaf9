"""An image as a folder: OCI image-layout (image-spec 1.1), with one manifest and nothing else."""

from __future__ import annotations

from builder.core.lock import canonical_json
from builder.core.manifest import OCI_INDEX, Manifest


def blob_name(digest: str) -> str:
    """Name of a blob below the layout's folder."""
    return "blobs/" + digest.replace(":", "/", 1)


def layout_texts(manifest: Manifest, platform: str) -> dict[str, bytes]:
    """Write the small files of a layout; blobs lie beside them under `blob_name`."""
    system, _, architecture = platform.partition("/")
    entry = {
        "mediaType": manifest.media_type,
        "digest": manifest.digest,
        "size": len(manifest.data),
        "platform": {"os": system, "architecture": architecture},
    }
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}
    return {
        "index.json": canonical_json(index),
        "oci-layout": canonical_json({"imageLayoutVersion": "1.0.0"}),
    }
