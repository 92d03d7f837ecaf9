"""Which of several wheels of one version is installed: the best tag of the target, as pip picks."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.utils import parse_wheel_filename

from builder.core.simple import Candidate
from builder.core.wheel_target import WheelTarget


def rank(file: str, target: WheelTarget) -> int | None:
    """Rank of a wheel's best tag on the target, 0 the best; None when it does not fit."""
    ranks = [target.ranks[tag] for tag in parse_wheel_filename(file)[3] if tag in target.ranks]
    return min(ranks, default=None)


def best(wheels: Iterable[Candidate], target: WheelTarget, keep: str = "") -> Candidate | None:
    """Pick the wheel to install: the one called `keep` if it is among them, else the best by tag.

    Of several with the same tag the highest build number wins (PEP 427), then the file's name.
    """
    fitting = [
        (-found, parse_wheel_filename(wheel.file)[2], wheel.file, wheel)
        for wheel in wheels
        if (found := rank(wheel.file, target)) is not None
    ]
    kept = [row for row in fitting if row[3].file == keep]
    return max(kept or fitting, key=lambda row: row[:3])[3] if fitting else None
