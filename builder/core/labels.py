"""Labels of an image: what it is, said in its config (OCI's keys: image-spec, annotations.md)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from builder.core.lock import Lock
from builder.core.spec import ImageSpec

PREFIX = "org.nightlock."
BUILD_ID = PREFIX + "build.id"
"""Given at build time: it covers the Dockerfile that would have to contain it."""
BASE_DIGEST = PREFIX + "base.digest"
"""Given at build time: digest of base.tar, which a render without base does not know."""
KERNELS = PREFIX + "kernels"
"""Given at build time: target → how many objects with GPU code run on it, as JSON."""
LOCK_DIGEST = PREFIX + "lock.digest"
BASE = PREFIX + "base"
"""Suite of a base that nightlock made: one layer."""
IMAGE = PREFIX + "image"
TARGETS = PREFIX + "targets"
CUDA = PREFIX + "cuda"
COMPANIONS = PREFIX + "companions"
VLLM_PACKAGE = PREFIX + "vllm.package"
VLLM_VERSION = PREFIX + "vllm.version"
VLLM_COMMIT = PREFIX + "vllm.commit"

_OCI = "org.opencontainers.image."


def image_labels(spec: ImageSpec, lock: Lock, platform: str) -> dict[str, str]:
    """Say what the lock knows, sorted; labels without a value are left out."""
    header = lock.header
    labels = {
        _OCI + "title": f"vLLM {header.vllm.version} ({spec.name})",
        _OCI + "description": spec.image.description,
        _OCI + "version": header.vllm.version,
        _OCI + "revision": header.vllm.commit,
        _OCI + "source": "https://github.com/vllm-project/vllm",
        _OCI + "url": "https://github.com/vllm-project/vllm",
        _OCI + "documentation": "https://docs.vllm.ai",
        _OCI + "licenses": "Apache-2.0",
        _OCI + "created": datetime.fromtimestamp(header.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        _OCI + "base.name": header.base.image,
        _OCI + "base.digest": header.base.images.get(platform, ""),
        IMAGE: spec.name,
        VLLM_PACKAGE: header.vllm.package,
        VLLM_VERSION: header.vllm.version,
        VLLM_COMMIT: header.vllm.commit,
        PREFIX + "channel": header.channel,
        PREFIX + "variant": header.vllm.variant,
        COMPANIONS: json.dumps(
            header.companions, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ),
        LOCK_DIGEST: lock.digest,
        PREFIX + "spec.digest": header.spec,
        BASE: header.base.debian,
        PREFIX + "base.debs": header.base.debs.get(platform, ""),
        TARGETS: ",".join(spec.image.targets),
        PREFIX + "python": header.target.python,
        CUDA: header.target.cuda,
    }
    return {name: labels[name] for name in sorted(labels) if labels[name]}
