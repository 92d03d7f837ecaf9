"""SLSA provenance v1 of a build, as an in-toto Statement v1.

It says what went in: the lock by digest and, out of it, every wheel, .deb and base. Nothing of the
run is in it, no time and no machine, so the same build gives the same bytes wherever it runs; who
ran it is what a signature says.

Sources: https://slsa.dev/spec/v1.0/provenance; in-toto attestation, spec/v1/statement.md and
resource_descriptor.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packageurl import PackageURL

from builder.core.buildid import EXPORTER
from builder.core.debs import release_of
from builder.core.lock import Lock, canonical_json
from builder.core.purl import deb_purl, wheel_purl
from builder.core.receipt import STATEMENT

PROVENANCE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://nightlock.org/build/v1"
"""The rules: `render` makes the folder from spec and lock, BuildKit builds it without a network."""
BUILDER = "https://nightlock.org/build/v1/own-machine"
"""Who builds: whoever runs `nightlock build` on a machine of theirs. No service vouches for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """One build that was pushed."""

    name: str
    """Registry and repository."""
    digest: str
    """Of the image's manifest."""
    platform: str
    build_id: str
    base: str
    """Digest of the root file system; empty for a base from a registry."""
    files: Mapping[str, str]
    """Rendered file → digest."""
    buildkit: str
    nightlock: str
    """Version."""


def provenance(lock: Lock, built: Built) -> bytes:
    """Write the statement; canonical JSON."""
    header = lock.header
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": built.name, "digest": _digest(built.digest)}],
        "predicateType": PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "image": header.image,
                    "platform": built.platform,
                    "lock": lock.digest,
                    "spec": header.spec,
                },
                "internalParameters": {
                    "buildId": built.build_id,
                    "exporter": EXPORTER,
                    "files": dict(built.files),
                    "sourceDateEpoch": header.epoch,
                },
                "resolvedDependencies": _dependencies(lock, built),
            },
            "runDetails": {
                "builder": {
                    "id": BUILDER,
                    "version": {"buildkit": built.buildkit, "nightlock": built.nightlock},
                },
                "metadata": {"invocationId": built.build_id},
            },
        },
    }
    return canonical_json(statement)


def _dependencies(lock: Lock, built: Built) -> list[dict[str, object]]:
    """Name everything that was read: wheels, what installs them, .debs, the base."""
    content, base = lock.platforms[built.platform], lock.header.base
    rows = [
        _row(wheel_purl(pin), pin.file, f"sha256:{pin.sha256}", index=pin.index)
        for pin in (*content.wheels, *lock.tools(built.platform))
    ]
    codename = release_of(lock, built.platform)
    rows += [
        _row(
            deb_purl(pin, codename),
            pin.path,
            f"sha256:{pin.sha256}",
            suite=pin.suite,
        )
        for pin in content.debs
    ]
    rows.sort(key=lambda row: str(row["uri"]))
    if built.base:
        rows.append({"name": "base.tar", "digest": _digest(built.base)})
    if digest := base.images.get(built.platform, ""):
        rows.append({"name": base.image, "uri": base.image, "digest": _digest(digest)})
    return rows


def _row(purl: PackageURL, name: str, digest: str, **annotations: str) -> dict[str, object]:
    return {
        "uri": purl.to_string(),
        "name": name,
        "digest": _digest(digest),
        "annotations": annotations,
    }


def _digest(digest: str) -> dict[str, str]:
    algorithm, _, value = digest.partition(":")
    return {algorithm: value}
