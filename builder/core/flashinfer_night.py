"""The newest FlashInfer nightly that is whole.

python, cubin and jit-cache are uploaded by separate jobs, and most nights lack one of them (C17).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from builder.core.nightly_set import Skip
from builder.core.pick import best
from builder.core.simple import Candidate
from builder.core.wheel_target import WheelTarget
from builder.errors import Refused


@dataclass(frozen=True, kw_only=True)
class Part:
    """One wheel that a night must have."""

    package: str
    label: str = ""
    """CUDA label of its version, as `cu130`; empty: it has none."""
    platform: str
    target: WheelTarget

    def __str__(self) -> str:
        label = f" +{self.label}" if self.label else ""
        return f"{self.package}{label} for {self.platform}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One complete night."""

    version: Version
    """Public version, as `0.7.5.dev20261129`."""
    wheels: Mapping[Part, Candidate]
    skipped: tuple[Skip, ...]
    """Newer nights and what each lacks, newest first."""


def newest_night(rows: Iterable[Candidate], parts: Sequence[Part]) -> Night:
    """Choose the newest night with all parts.

    `rows` are what the nightly pages list (python and cubin flat, jit-cache below its label).

    Raises Refused when no night has them all.
    """
    listed = sorted(rows, key=lambda row: (row.file, row.url))
    nights = {Version(row.version.public) for row in listed if row.version.is_devrelease}
    skipped: list[Skip] = []
    for version in sorted(nights, reverse=True):
        found = {part: wheel for part in parts if (wheel := _find(listed, version, part))}
        lacking = [part for part in parts if part not in found]
        if not lacking:
            return Night(version=version, wheels=found, skipped=tuple(skipped))
        skipped.append(
            Skip(
                subject=str(version),
                key="flashinfer-nightly-gaps",
                reason=f"has no {', no '.join(map(str, lacking))}",
            )
        )
    error = Refused(
        f"no FlashInfer nightly is whole: {'; '.join(map(str, skipped)) or 'none is listed'}",
        subject="flashinfer nightly",
        action="wait for the missing upload, or use a release",
    )
    error.findings = tuple(skip.finding() for skip in skipped)
    raise error


def _find(rows: Sequence[Candidate], version: Version, part: Part) -> Candidate | None:
    fitting = [
        row
        for row in rows
        if row.name == part.package
        and Version(row.version.public) == version
        and (row.version.local or "") == part.label
    ]
    return best(fitting, part.target)
