"""What packages that stayed say of themselves, before and after: Requires-Dist and the rest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from builder.core.diff_result import MetadataChange, RequirementChange
from builder.core.lock import Lock, PlatformLock, canonical_json

REQUIRES = "requires_dist"
_RECORDED = ("hash_from",)
"""Fields that are no part of what is installed."""


def requires_of(content: PlatformLock, name: str) -> tuple[str, ...]:
    """Requires-Dist lines of a package, as its metadata spells them."""
    entry = content.meta.get(name)
    lines = entry.get(REQUIRES) if isinstance(entry, Mapping) else None
    return tuple(map(str, lines)) if isinstance(lines, list | tuple) else ()


@cache
def parse_requirement(line: str) -> Requirement | None:
    """Read a Requires-Dist line; None when it is not PEP 508 (old wheels hold such lines)."""
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


def requirement_changes(old: Lock, new: Lock, platforms: Iterable[str]) -> list[RequirementChange]:
    """Compare Requires-Dist of the packages that stayed; spelling and order are noise."""
    merged: dict[tuple[object, ...], RequirementChange] = {}
    for platform in sorted(platforms):
        before, after = old.platforms[platform], new.platforms[platform]
        versions = {pin.name: pin.version for pin in before.wheels}
        for pin in sorted(after.wheels):
            if pin.name not in versions:
                continue
            lines = requires_of(before, pin.name), requires_of(after, pin.name)
            if lines[0] == lines[1]:
                continue
            was, now = ({_spelled(line) for line in side} for side in lines)
            if was == now:
                continue
            change = RequirementChange(
                name=pin.name,
                platforms=[platform],
                old=versions[pin.name],
                new=pin.version,
                added=sorted(now - was),
                removed=sorted(was - now),
            )
            key = (change.name, change.old, change.new, *change.added, None, *change.removed)
            if key in merged:
                merged[key].platforms.append(platform)
            else:
                merged[key] = change
    return sorted(merged.values(), key=lambda change: (change.name, change.platforms))


def metadata_changes(old: Lock, new: Lock, platforms: Iterable[str]) -> list[MetadataChange]:
    """Compare all other fields, of packages that stayed and of the lock's own notes."""
    merged: dict[tuple[str, ...], MetadataChange] = {}
    for platform in sorted(platforms):
        before, after = old.platforms[platform], new.platforms[platform]
        came_or_went = {pin.name for pin in before.wheels} ^ {pin.name for pin in after.wheels}
        names = (before.meta.keys() | after.meta.keys()) - came_or_went
        for name in sorted(names):
            if before.meta.get(name) == after.meta.get(name):
                continue
            was, now = _fields(before.meta.get(name)), _fields(after.meta.get(name))
            for field in sorted(was.keys() | now.keys()):
                values = was.get(field, ""), now.get(field, "")
                if values[0] == values[1]:
                    continue
                key = (name, field, *values)
                if key in merged:
                    merged[key].platforms.append(platform)
                    continue
                merged[key] = MetadataChange(
                    name=name,
                    platforms=[platform],
                    field=field,
                    old=values[0],
                    new=values[1],
                    counts=field not in _RECORDED,
                )
    return [merged[key] for key in sorted(merged)]


def _fields(entry: object) -> dict[str, str]:
    if entry is None:
        return {}
    if not isinstance(entry, Mapping):
        return {"": _text("", entry)}
    return {field: _text(field, value) for field, value in entry.items() if field != REQUIRES}


def _text(field: str, value: object) -> str:
    if field == "requires_python":
        try:
            return str(SpecifierSet(str(value)))
        except InvalidSpecifier:
            return str(value)
    if isinstance(value, str):
        return value
    # One line, keys sorted: the value is compared and shown as text.
    return json.dumps(json.loads(canonical_json(value)), ensure_ascii=False)


@cache
def _spelled(line: str) -> str:
    requirement = parse_requirement(line)
    if requirement is None:
        return line.strip()
    text = str(requirement)
    return canonicalize_name(requirement.name) + text.removeprefix(requirement.name)
