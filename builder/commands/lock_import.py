"""`nightlock lock IMAGE --from requirements.txt`: what became of another tool's pins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from builder.commands.lock_image import Job
from builder.commands.lock_workshop import Workshop
from builder.core.assembly import LockedPlatform
from builder.core.finding import Finding
from builder.core.imported import (
    Imported,
    ImportedPin,
    left_out,
    lost,
    not_kept,
    parse_requirements,
    refuse_other_hashes,
    why_lost,
)
from builder.core.pick import rank
from builder.core.target import target_of
from builder.edge import files
from builder.errors import BadInput, NetworkError


def read(path: Path) -> Imported:
    """Read the file; raises BadInput when it is not there or pins nothing."""
    return parse_requirements(
        files.read_text(path, BadInput, "name a requirements file"), str(path)
    )


def findings(workshop: Workshop, job: Job, resolved: Mapping[str, LockedPlatform]) -> list[Finding]:
    """Name each pin that could not be kept, and why; nothing without an import.

    Raises HashMismatch when the import has other hashes for what is locked.
    """
    if job.imported is None:
        return []
    rows = left_out(job.imported)
    for platform, locked in resolved.items():
        environment = target_of(job.spec, platform).environment
        pins = job.imported.on(environment)
        mine = [wheel.pin for wheel in locked.wheels if wheel.pin.name not in job.moving]
        refuse_other_hashes(pins, mine, job.imported.where)
        for pin in lost(pins, locked):
            reason = (
                "it was named with --upgrade-package"
                if pin.name in job.moving
                else why_lost(pin, locked, environment) or _by_index(workshop, job, platform, pin)
            )
            rows.append(not_kept(pin, reason, locked, where=job.imported.where, platform=platform))
    return rows


def _by_index(workshop: Workshop, job: Job, platform: str, pin: ImportedPin) -> str:
    """Look whether the package's index has that version at all."""
    index = workshop.indexes.place(job.spec.index_of(pin.name))
    target = job.target(platform)
    try:
        offers = workshop.indexes.offers(index, pin.name)
    except NetworkError:
        offers = []
    same = [offer for offer in offers if pin.holds(str(offer.version))]
    if offers and not any(rank(offer.file, target) is not None for offer in same):
        return f"{index} has no wheel of it that fits {target}"
    if any(offer.yanked is not None for offer in same):
        return "it was withdrawn from the index (yanked)"
    return "the resolver found no set with it"
