"""Exact pins (`==`) that a resolution cannot do without, and whether any index has them (C15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.simple import Candidate

_TOLD = 5
"""Versions that are named of those an index has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactPin:
    """One requirement with an exact version."""

    name: str
    """Normalised."""
    specifier: SpecifierSet
    parent: str
    """Who asks for it, for messages."""

    def __str__(self) -> str:
        return f"{self.name}{self.specifier}"


def exact_pins(
    parent: str,
    requirements: Iterable[Requirement],
    environment: Mapping[str, str],
    overridden: Iterable[str] = (),
) -> list[ExactPin]:
    """List the exact pins that hold on the target; `overridden` are PEP 508 and replace theirs."""
    replaced = {canonicalize_name(Requirement(text).name) for text in overridden}
    return [
        ExactPin(name=name, specifier=asked.specifier, parent=parent)
        for asked in requirements
        if (name := canonicalize_name(asked.name)) not in replaced
        and not asked.url
        and any(one.operator in ("==", "===") for one in asked.specifier)
        and (asked.marker is None or asked.marker.evaluate({"extra": "", **environment}))
    ]


def not_offered(pin: ExactPin, rows: Sequence[Candidate], searched: str) -> Finding | None:
    """Report a pin that no offered wheel meets; `searched` names the indexes that may have it."""
    if any(pin.specifier.contains(row.version, prereleases=True) for row in rows):
        return None
    newest = sorted({row.version for row in rows}, reverse=True)[:_TOLD]
    there = ", ".join(map(str, newest))
    return finding(
        "dependency-on-no-index",
        subject=str(pin),
        evidence=f"{pin.parent} asks for it; {searched} has "
        + (f"{there}{', …' if len(rows) > _TOLD else ''}" if there else f"no wheel of {pin.name}"),
    )
