"""What can be said of an image without pulling it: rows for `inspect`, and their text."""

from __future__ import annotations

import json
from collections.abc import Mapping

from builder.core.artifact import CYCLONEDX, IN_TOTO, PREDICATE_TYPE
from builder.core.document import Result
from builder.core.labels import BASE_DIGEST, BUILD_ID, LOCK_DIGEST, PREFIX
from builder.core.manifest import Descriptor, Manifest
from builder.core.provenance import PROVENANCE
from builder.core.receipt import PREDICATE

UPSTREAM_COMMIT = "ai.vllm.build.commit"
"""Label of vLLM's own images."""
_KINDS = {PROVENANCE: "provenance", PREDICATE: "receipt"}
_OCI = "org.opencontainers.image."


class LayerSize(Result):
    """One layer."""

    digest: str
    size: int
    """Bytes, compressed."""
    media_type: str


class PlatformImage(Result):
    """One image of an index; a single image is the only row."""

    platform: str
    digest: str
    size: int
    """Bytes a pull of all moves."""


class AttachedFile(Result):
    """One referrer."""

    kind: str
    """`sbom`, `provenance`, `receipt`, else the artifact type."""
    digest: str
    subject: str
    """Digest it is about: the index, or the image of one platform."""
    signatures: int


class ReceiptRow(Result):
    """What somebody proved."""

    digest: str
    kind: str
    verdict: str
    profile: str
    finished: str
    nightlock: str


class Identity(Result):
    """What an image that nightlock built says of itself; of others, what there is."""

    ours: bool
    image: str
    vllm_version: str
    vllm_commit: str
    channel: str
    companions: dict[str, str]
    cuda: str
    python: str
    targets: list[str]
    lock: str
    spec: str
    base: str
    base_digest: str
    build: str


class InspectResult(Result):
    """One image, or what else a reference names."""

    reference: str
    """Pinned."""
    digest: str
    """Of what the reference names: an index or an image."""
    media_type: str
    artifact_type: str
    """Empty for an image."""
    platform: str
    """Which image of an index the rest is about; empty for an artifact."""
    platforms: list[PlatformImage]
    identity: Identity
    created: str
    """As the builder says; of our images the newest date inside vLLM's wheel."""
    layers: list[LayerSize]
    size: int
    """Bytes a pull of all moves."""
    labels: dict[str, str]
    annotations: dict[str, str]
    attached: list[AttachedFile]
    receipts: list[ReceiptRow]
    """Newest first."""
    signatures: int
    """By cosign, on the digest above or on the platform's; counted, not verified."""


def identity(labels: Mapping[str, str]) -> Identity:
    """Read the labels; a damaged one counts as absent."""

    def own(name: str) -> str:
        return labels.get(PREFIX + name, "")

    return Identity(
        ours=bool(labels.get(LOCK_DIGEST) and labels.get(BUILD_ID)),
        image=own("image"),
        vllm_version=own("vllm.version"),
        vllm_commit=own("vllm.commit") or labels.get(UPSTREAM_COMMIT, ""),
        channel=own("channel"),
        companions=_companions(own("companions")),
        cuda=own("cuda"),
        python=own("python"),
        targets=[target for target in own("targets").split(",") if target],
        lock=labels.get(LOCK_DIGEST, ""),
        spec=own("spec.digest"),
        base=own("base") or labels.get(_OCI + "base.name", ""),
        base_digest=labels.get(BASE_DIGEST, "") or labels.get(_OCI + "base.digest", ""),
        build=labels.get(BUILD_ID, ""),
    )


def kind_of(referrer: Descriptor) -> str:
    """Say what a referrer is."""
    if referrer.artifact_type == CYCLONEDX:
        return "sbom"
    said = referrer.annotations.get(PREDICATE_TYPE, "")
    if referrer.artifact_type == IN_TOTO:
        return _KINDS.get(said, said or IN_TOTO)
    return referrer.artifact_type or "unknown"


def layer_sizes(manifest: Manifest) -> list[LayerSize]:
    """List the layers in the order they are stacked."""
    return [
        LayerSize(digest=row.digest, size=row.size, media_type=row.media_type)
        for row in manifest.body.layers
    ]


def plain_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Choose what an image of others says of itself by OCI's keys, which a base may have set."""
    names = ("title", "version", "revision", "source", "created")
    return {name: labels[_OCI + name] for name in names if labels.get(_OCI + name)}


def _companions(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
