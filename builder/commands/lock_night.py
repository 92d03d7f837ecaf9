"""What to say when the FlashInfer nightly that a vLLM pins is not whole (C17)."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from builder.commands.lock_workshop import Workshop, read_offers
from builder.core.companions import Wanted
from builder.core.flashinfer_night import Part, newest_night
from builder.core.simple import Candidate
from builder.core.wheel_target import WheelTarget
from builder.errors import NetworkError, Refused


def explain_night(
    workshop: Workshop,
    wanted: Sequence[Wanted],
    tags: WheelTarget,
    platform: str,
    error: Refused,
) -> Refused:
    """Add to the refusal of a companion what each night lacks, and which is the newest whole one.

    `wanted` are the FlashInfer packages of one night. As it was when the index cannot be asked.
    """
    rows: list[Candidate] = []
    parts = []
    try:
        for one in wanted:
            root = workshop.indexes.place(one.index)
            for place in dict.fromkeys((workshop.indexes.below(root, one.path), root)):
                offers = read_offers(workshop, one.package, place)
                rows += [*offers.own, *offers.links]
            label = Version(one.version).local or ""
            parts.append(Part(package=one.package, label=label, platform=platform, target=tags))
    except NetworkError:
        return error
    try:
        night = newest_night(rows, parts)
    except Refused as none:
        skips, newest = none.findings, none.what
    else:
        skips = tuple(skip.finding() for skip in night.skipped)
        newest = f"the newest whole FlashInfer night is {night.version}"
    refused = Refused(
        f"{error.what}; {newest}",
        subject=error.subject,
        action=f"take a vLLM that pins a whole night (--commit), or: {error.action}",
    )
    refused.findings = (*error.findings, *skips)
    return refused
