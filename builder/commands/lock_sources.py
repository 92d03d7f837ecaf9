"""The second half of `nightlock lock --check`: whether what a lock names is where it came from.

Pages are read and files asked for by HEAD; nothing is downloaded. Where vLLM itself stands by now
is asked beside it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from builder.commands.context import Context
from builder.core.debs import by_release
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.lock import Lock
from builder.core.manifest import Manifest
from builder.core.reference import ImageRef
from builder.core.settings import Settings
from builder.core.sources import judge
from builder.core.spec import ImageSpec
from builder.core.upstream_tag import is_nightly, judge_tag
from builder.errors import NetworkError

if TYPE_CHECKING:
    from builder.edge.registry import Registry


@dataclass(slots=True)
class Sources:
    """What was found out about the sources of locks."""

    findings: list[Finding] = field(default_factory=list)
    down: list[NetworkError] = field(default_factory=list)
    """What could not be asked, and has no other place that was."""


def find_sources(
    context: Context, settings: Settings, locks: Sequence[tuple[ImageSpec, Lock]]
) -> Sources:
    """Look every wheel, .deb and base of some locks up."""
    found = Sources()
    _wheels(context, settings, locks, found)
    _debs(context, settings, locks, found)
    for spec, lock in locks:
        if spec.base.image:
            _base(spec, lock, found)
    _channel(settings, locks, found)
    return found


def _channel(settings: Settings, locks: Sequence[tuple[ImageSpec, Lock]], found: Sources) -> None:
    from builder.commands.lock_channel import find_channel  # noqa: PLC0415

    rows, down = find_channel(settings, locks, datetime.now(UTC))
    found.findings += rows
    found.down += down


def _wheels(
    context: Context, settings: Settings, locks: Sequence[tuple[ImageSpec, Lock]], found: Sources
) -> None:
    # Imported late: HTTP and HTML cost 0.4 s, and a stale lock needs neither to be called so.
    from builder.edge.locate import look_up  # noqa: PLC0415
    from builder.edge.reach import open_indexes  # noqa: PLC0415

    pins = {
        pin.sha256: (pin, spec)
        for spec, lock in locks
        for platform, content in lock.platforms.items()
        for pin in (*content.wheels, *lock.tools(platform))
    }
    with (
        open_indexes(
            settings,
            os.environ,
            connections=2 * settings.threads,
            nightlies=[lock.header.vllm for _, lock in locks],
        ) as indexes,
        context.output.bar("looking wheels up", len(pins), "wheels") as bar,
    ):
        sightings = look_up(
            [pin for pin, _ in pins.values()],
            indexes,
            threads=settings.threads,
            on_wheel=lambda: bar.advance(1),
        )
    for sighting in sightings:
        spec = pins[sighting.pin.sha256][1]
        row = judge(sighting, image=spec.name, package=spec.lock.package)
        if row is not None:
            found.findings.append(row)
        elif sighting.offer is None:
            found.down += sighting.down[:1]


def _debs(
    context: Context, settings: Settings, locks: Sequence[tuple[ImageSpec, Lock]], found: Sources
) -> None:
    from builder.edge import debs  # noqa: PLC0415

    pins = (pin for _, lock in locks for content in lock.platforms.values() for pin in content.debs)
    for codename, rows in by_release(pins).items():
        with context.output.bar("looking .debs up", len(rows), ".debs") as bar:
            gone, down = debs.find_gone(
                rows,
                debs.archives(codename, settings.debian),
                snapshot=settings.debian.snapshot,
                threads=settings.threads,
                on_deb=lambda bar=bar: bar.advance(1),  # type: ignore[misc]
            )
        found.down += down
        found.findings += [
            finding(
                "apt-drift",
                subject=pin.path,
                evidence=f"{pin.name} {pin.version} ({pin.suite}) is on no mirror any more",
            )
            for pin in gone
        ]


def _base(spec: ImageSpec, lock: Lock, found: Sources) -> None:
    """Compare the digests of a base image's tag with those that were locked."""
    from builder.edge.registry import Registry  # noqa: PLC0415

    reference = ImageRef.parse(spec.base.image or "")
    try:
        with Registry.open(reference.registry, os.environ) as registry:
            manifest = registry.find_manifest(reference)
            for platform, locked in sorted(lock.header.base.images.items()):
                seen = _seen(manifest, platform)
                if seen != locked:
                    there = registry.find_digest(reference.with_digest(locked))
                    found.findings.append(_moved(reference, platform, locked, seen, there))
            if is_nightly(reference.tag or ""):
                found.findings += _purged(registry, reference)
            if reference.tag and reference.digest:
                tagged = registry.find_digest(reference.with_tag(reference.tag))
                if tagged != reference.digest:
                    found.findings.append(_left(reference, tagged))
    except NetworkError as error:
        found.down.append(error)


def _purged(registry: Registry, reference: ImageRef) -> list[Finding]:
    """Ask whether an upstream nightly's tag is gone, or about to go (C63)."""
    named = reference.with_tag(reference.tag or "")
    manifest = registry.find_manifest(named)
    created = ""
    if manifest is not None:
        platform = next(iter(manifest.platforms), "")
        created = registry.config(named, manifest, platform).created
    there = manifest is not None
    row = judge_tag(reference, there=there, created=created, now=datetime.now(UTC))
    return [] if row is None else [row]


def _seen(manifest: Manifest | None, platform: str) -> str:
    """Digest that a tag names for a platform now, or why it names none."""
    if manifest is None:
        return "nothing any more"
    if not manifest.is_index:
        return manifest.digest
    child = manifest.child(platform)
    return child.digest if child is not None else f"no {platform}"


def _moved(reference: ImageRef, platform: str, locked: str, seen: str, there: str) -> Finding:
    return finding(
        "base-tag-removed",
        severity="warning" if there else "error",
        subject=f"{reference} ({platform})",
        evidence=f"the lock names {locked}, which is {'still there' if there else 'gone'}; "
        f"the tag now names {seen}",
    )


def _left(reference: ImageRef, tagged: str) -> Finding:
    """Say that the tag beside a digest names something else; the digest is what counts."""
    return finding(
        "base-tag-removed",
        severity="warning",
        subject=str(reference),
        evidence=f"the tag {reference.tag} now names {tagged or 'nothing any more'}",
        cause="The tag has moved on; `base.image` has a digest, so nothing changes by itself.",
        action="Nothing, or write the new digest into `base.image` and lock again.",
    )
