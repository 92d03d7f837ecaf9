"""An image as a registry and its labels describe it: what is booted, proven and promoted."""

from __future__ import annotations

from dataclasses import dataclass

from builder.core.labels import BUILD_ID, LOCK_DIGEST, PREFIX
from builder.core.manifest import ImageConfig, Manifest
from builder.core.reference import ImageRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One digest, and what its labels say; empty where a label is missing."""

    ref: ImageRef
    """Pinned; keeps the tag it was asked for by."""
    platform: str
    image: str
    lock: str
    build: str
    vllm: str
    targets: tuple[str, ...]
    """`sm_120` or `cpu`; none without a label."""

    @property
    def digest(self) -> str:
        """Digest of manifest or index."""
        return self.ref.digest

    @classmethod
    def of(cls, ref: ImageRef, manifest: Manifest, config: ImageConfig) -> Candidate:
        """Join what was asked for, what the registry holds, and what the image says."""
        labels = config.labels
        return cls(
            ref=ref.with_digest(manifest.digest),
            platform=config.platform,
            image=labels.get(PREFIX + "image", ""),
            lock=labels.get(LOCK_DIGEST, ""),
            build=labels.get(BUILD_ID, ""),
            vllm=labels.get(PREFIX + "vllm.version", ""),
            targets=tuple(name for name in labels.get(PREFIX + "targets", "").split(",") if name),
        )
