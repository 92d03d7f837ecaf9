"""What `build` attaches to the image it pushed: SBOM and provenance."""

from __future__ import annotations

from builder.commands.context import Context
from builder.commands.render_base import BaseFiles
from builder.core.artifact import CYCLONEDX, IN_TOTO, PREDICATE_TYPE, Artifact
from builder.core.deb_licences import VERSION
from builder.core.lock import Lock
from builder.core.manifest import Manifest
from builder.core.provenance import PROVENANCE, Built, provenance
from builder.core.reference import ImageRef
from builder.core.sbom import cyclonedx
from builder.edge.deb_licences import read_licences
from builder.edge.referrers import attach
from builder.edge.registry import Registry


def attach_documents(
    context: Context,
    registry: Registry,
    repository: ImageRef,
    manifest: Manifest,
    lock: Lock,
    built: Built,
    base: BaseFiles,
) -> dict[str, str]:
    """Attach both as referrers; return kind → digest. Again, it changes nothing.

    Raises RegistryError, NetworkError: the image is pushed, and building again repairs the rest.
    """
    sbom = cyclonedx(lock, built.platform, _licences(context, lock, built.platform, base))
    artifacts = {
        "sbom": Artifact(type=CYCLONEDX, file="sbom.cdx.json", data=sbom),
        "provenance": Artifact(
            type=IN_TOTO,
            file="provenance.intoto.json",
            data=provenance(lock, built),
            annotations={PREDICATE_TYPE: PROVENANCE},
        ),
    }
    return {
        kind: attach(registry, repository, manifest, artifact, context.places, context.output.note)
        for kind, artifact in artifacts.items()
    }


def _licences(
    context: Context, lock: Lock, platform: str, base: BaseFiles
) -> dict[str, tuple[str, ...]]:
    """Read them out of the root file system; of a base from a registry nobody has one."""
    tar = base.links.get("base.tar")
    if tar is None:
        return {}
    name = f"{base.digest.removeprefix('sha256:')}-{VERSION}.json"
    kept = context.places.cache / "licences" / name
    return read_licences(tar, [pin.name for pin in lock.platforms[platform].debs], kept)
