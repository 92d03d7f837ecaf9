"""`nightlock inspect REF`: what an image is, read from its registry; nothing is pulled."""

from __future__ import annotations

import os
from collections.abc import Collection
from itertools import islice

from builder.commands.context import Context, Outcome
from builder.core.artifact import is_fallback_tag, signature_tag
from builder.core.inspected import (
    AttachedFile,
    InspectResult,
    PlatformImage,
    ReceiptRow,
    identity,
    kind_of,
    layer_sizes,
)
from builder.core.inspected_text import text
from builder.core.manifest import ImageConfig, Manifest
from builder.core.receipt import newest_first
from builder.core.reference import ImageRef
from builder.core.target import MACHINES
from builder.edge.receipts import attached_receipts
from builder.edge.referrers import referrers
from builder.edge.registry import Registry
from builder.errors import BadInput

_TOLD = 10
"""Tags that an error names."""
_SILENT = ImageConfig(platform="", labels={})
"""What an artifact, or an index without images, says of itself."""


def run(context: Context, ref: str, *, platform: str = "") -> Outcome[InspectResult]:
    """Say what a reference names; of an index, `platform`, this machine's, or the first.

    Raises BadInput when there is no such image or platform, NetworkError, RegistryError.
    """
    reference = ImageRef.parse(ref)
    with Registry.open(reference.registry, os.environ) as registry:
        top = registry.find_manifest(reference)
        if top is None:
            raise _absent(registry, reference)
        pinned = reference.with_digest(top.digest)
        images = _images(registry, pinned, top)
        chosen = _choose(pinned, images, platform)
        image, config = images.get(chosen, (top, _SILENT))
        subjects = dict.fromkeys([top.digest, image.digest])
        signatures = {digest: _signatures(registry, pinned, digest) for digest in subjects}
        result = InspectResult(
            reference=pinned.pinned,
            digest=top.digest,
            media_type=top.media_type,
            artifact_type="" if image.is_image else image.body.artifact_type or _kind(image),
            platform=config.platform,
            platforms=[
                PlatformImage(platform=name, digest=one.digest, size=one.compressed_bytes)
                for name, (one, _) in images.items()
            ],
            identity=identity(config.labels),
            created=config.created,
            layers=layer_sizes(image),
            size=image.compressed_bytes,
            labels=dict(config.labels),
            annotations=image.body.annotations or {},
            attached=_attached(registry, pinned, list(subjects)),
            receipts=_receipts(registry, pinned, list(subjects)),
            signatures=sum(signatures.values()),
        )
    return Outcome(result=result, text="" if context.output.json else text(result))


def _absent(registry: Registry, reference: ImageRef) -> BadInput:
    """Say what is there instead; without a repository there is nothing."""
    tags = (tag for tag in registry.tags(reference) if not is_fallback_tag(tag))
    there = list(islice(tags, _TOLD + 1))
    more = " and more" if len(there) > _TOLD else ""
    return BadInput(
        f"the repository has no {reference.digest or f'tag {reference.target!r}'}"
        if there
        else "the registry has no such repository, or it is empty",
        subject=str(reference),
        action=f"it has: {', '.join(there[:_TOLD])}{more}"
        if there
        else "check the name; `nightlock build IMAGE --push REPO` pushes an image",
    )


def _images(
    registry: Registry, pinned: ImageRef, top: Manifest
) -> dict[str, tuple[Manifest, ImageConfig]]:
    """Map each platform to its image; none where the reference names an artifact."""
    if not top.is_image:
        return {}
    if not top.is_index:
        config = registry.config(pinned, top)
        return {config.platform: (top, config)}
    found = {}
    for name in dict.fromkeys(top.platforms):
        child = top.child(name)
        if child is not None:
            image = registry.manifest(pinned.with_digest(child.digest))
            found[name] = image, registry.config(pinned, image)
    return found


def _choose(pinned: ImageRef, images: Collection[str], wanted: str) -> str:
    if wanted and wanted not in images:
        raise BadInput(
            f"the image has no platform {wanted}",
            subject=str(pinned),
            action=f"it has: {', '.join(images) or 'none'}",
        )
    machine = os.uname().machine
    own = next((name for name, known in MACHINES.items() if known == machine), "")
    return wanted or (own if own in images else next(iter(images), ""))


def _kind(manifest: Manifest) -> str:
    return manifest.body.config.media_type if manifest.body.config else manifest.media_type


def _attached(registry: Registry, pinned: ImageRef, subjects: list[str]) -> list[AttachedFile]:
    return [
        AttachedFile(
            kind=kind_of(one),
            digest=one.digest,
            subject=subject,
            signatures=_signatures(registry, pinned, one.digest),
        )
        for subject in subjects
        for one in referrers(registry, pinned, subject)
    ]


def _signatures(registry: Registry, pinned: ImageRef, digest: str) -> int:
    found = registry.find_manifest(pinned.with_tag(signature_tag(digest)))
    return len(found.body.layers) if found is not None else 0


def _receipts(registry: Registry, pinned: ImageRef, subjects: list[str]) -> list[ReceiptRow]:
    found = {
        receipt.data(): (digest, receipt)
        for subject in subjects
        for digest, receipt in attached_receipts(registry, pinned, subject)
    }
    rows = []
    for receipt in newest_first(receipt for _, receipt in found.values()):
        digest, proof = found[receipt.data()][0], receipt.predicate
        rows.append(
            ReceiptRow(
                digest=digest,
                kind=proof.kind,
                verdict=proof.verdict,
                profile=proof.profile,
                finished=proof.finished,
                nightlock=proof.nightlock,
            )
        )
    return rows
