"""Where a locked wheel is offered today: which sighting counts, and what a missing one means."""

from __future__ import annotations

from dataclasses import dataclass

from builder.core.finding import Finding
from builder.core.indexes import listed
from builder.core.keys import finding
from builder.core.lock import WheelPin
from builder.core.simple import Candidate
from builder.errors import NetworkError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One locked wheel, and what the places that may have it said."""

    pin: WheelPin
    offer: Candidate | None = None
    """The first that is not another file."""
    others: tuple[Candidate, ...] = ()
    """Files of that name with another sha256."""
    down: tuple[NetworkError, ...] = ()
    """Places that could not be asked."""


def judge(sighting: Sighting, *, image: str, package: str) -> Finding | None:
    """Say what is wrong with a wheel's sources; None when one has it, or none could be asked.

    `package` is the distribution that is vLLM.
    """
    pin = sighting.pin
    if sighting.others:
        other = sighting.others[0]
        relock = f"nightlock lock {image} --upgrade-package {pin.name}"
        row = listed(other, other.sha256, pin.sha256, relock, foreign=False)
        if row is None or sighting.offer is None:
            return row
        evidence = f"{row.evidence}; {sighting.offer.place} has the locked one"
        return row.model_copy(update={"severity": "warning", "evidence": evidence})
    if sighting.offer is not None or sighting.down:
        return None
    if pin.name == package and pin.index == "vllm":
        return finding(
            "rolling-index-version-gone",
            subject=pin.file,
            evidence=f"the index {pin.index} lists no {pin.file}",
        )
    return finding(
        "source-gone",
        subject=pin.file,
        evidence=f"neither its index ({pin.index}) nor find-links or another index lists it",
    )
