"""Which wheels and .debs differ between two locks, equal changes of several platforms merged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from builder.core.debian_version import version_key
from builder.core.diff_result import FileChange, FileRef, Kind, PackageChange
from builder.core.lock import DebPin, WheelPin

_COMMIT_LABEL = re.compile(r"(.*\.)?g[0-9a-f]{7,40}(\..*)?")

Order = Callable[[str, str], int]
"""How a version moved: above 0 forward, below 0 back, 0 the same version."""


@dataclass(frozen=True, slots=True)
class _Pin:
    version: str
    file: str
    sha256: str
    size: int
    index: str
    place: tuple[str, ...] = ()
    """What else its line says."""

    def reference(self) -> FileRef:
        return FileRef(file=self.file, sha256=self.sha256, size=self.size, index=self.index)


Pins = Mapping[str, _Pin]
"""Package → its pin, on one platform."""


def wheel_changes(
    old: Mapping[str, Sequence[WheelPin]],
    new: Mapping[str, Sequence[WheelPin]],
    platforms: Iterable[str],
) -> list[PackageChange]:
    """Compare wheels; both arguments are platform → pins."""
    return _changes(
        {platform: _wheels(pins) for platform, pins in old.items()},
        {platform: _wheels(pins) for platform, pins in new.items()},
        platforms,
        wheel_order,
    )


def deb_changes(
    old: Mapping[str, Sequence[DebPin]],
    new: Mapping[str, Sequence[DebPin]],
    platforms: Iterable[str],
) -> list[PackageChange]:
    """Compare .debs; both arguments are platform → pins."""
    return _changes(
        {platform: _debs(pins) for platform, pins in old.items()},
        {platform: _debs(pins) for platform, pins in new.items()},
        platforms,
        deb_order,
    )


def wheel_order(old: str, new: str) -> int:
    """Order of two versions by PEP 440.

    Local labels that cannot be ordered (commits, `cpu` beside `cu130`) make no version newer:
    PEP 440 would compare them as text.
    """
    try:
        before, after = Version(old), Version(new)
    except InvalidVersion:
        return 0
    bare = Version(before.public), Version(after.public)
    if bare[0] != bare[1]:
        return 1 if bare[1] > bare[0] else -1
    first, second = before.local or "", after.local or ""
    comparable = (
        first
        and second
        and re.sub(r"\d+", "0", first) == re.sub(r"\d+", "0", second)
        and not _COMMIT_LABEL.fullmatch(first)
    )
    if not comparable or before == after:
        return 0
    return 1 if after > before else -1


def deb_order(old: str, new: str) -> int:
    """Order of two versions as dpkg has it."""
    before, after = version_key(old), version_key(new)
    return (after > before) - (after < before)


def _wheels(pins: Iterable[WheelPin]) -> Pins:
    return {pin.name: _Pin(pin.version, pin.file, pin.sha256, pin.size, pin.index) for pin in pins}


def _debs(pins: Sequence[DebPin]) -> Pins:
    # Two architectures of one package may be there at once (multiarch).
    counts = Counter(pin.name for pin in pins)
    return {
        pin.name if counts[pin.name] == 1 else f"{pin.name}:{pin.architecture}": _Pin(
            pin.version,
            pin.file,
            pin.sha256,
            pin.size,
            pin.suite,
            (pin.path, pin.source, pin.architecture),
        )
        for pin in pins
    }


def _changes(
    old: Mapping[str, Pins], new: Mapping[str, Pins], platforms: Iterable[str], order: Order
) -> list[PackageChange]:
    merged: dict[tuple[str, ...], PackageChange] = {}
    for platform in sorted(platforms):
        before, after = old.get(platform, {}), new.get(platform, {})
        for name in sorted(before.keys() | after.keys()):
            change = _change(name, before.get(name), after.get(name), platform, order)
            if change is None:
                continue
            first = change.files[0]
            indexes = [file.index if file else "" for file in (first.old, first.new)]
            key = (name, change.kind, change.old, change.new, *indexes)
            if key in merged:
                merged[key].files.append(first)
            else:
                merged[key] = change
    return [merged[key] for key in sorted(merged)]


def _change(
    name: str, old: _Pin | None, new: _Pin | None, platform: str, order: Order
) -> PackageChange | None:
    kind = _kind(old, new, order)
    if kind is None:
        return None
    files = FileChange(
        platform=platform,
        old=old.reference() if old else None,
        new=new.reference() if new else None,
    )
    return PackageChange(
        name=name,
        kind=kind,
        old=old.version if old else "",
        new=new.version if new else "",
        files=[files],
    )


def _kind(old: _Pin | None, new: _Pin | None, order: Order) -> Kind | None:
    if old == new:
        return None
    if old is None:
        return "added"
    if new is None:
        return "removed"
    moved = order(old.version, new.version)
    if moved:
        return "upgraded" if moved > 0 else "downgraded"
    if old.version == new.version and old.file == new.file and old.sha256 != new.sha256:
        return "re-hashed"
    return "moved"
