"""An existing lock of pip-compile or uv (requirements.txt with hashes), read as preferences.

Format: pip's documentation, "Requirements File Format"; only pins count, options do not: where
packages come from is the image's own affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from builder.core.assembly import LockedPlatform
from builder.core.finding import Finding
from builder.core.hash_change import other_bytes
from builder.core.keys import finding
from builder.core.lock import WheelPin
from builder.core.simple import file_of, wheel_version
from builder.errors import BadInput

_HASH = re.compile(r"\s--hash[= ]([a-z0-9]+):([0-9a-fA-F]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPin:
    """One pinned requirement."""

    name: str
    version: str
    hashes: frozenset[str] = frozenset()
    """sha256 of the files it allows; empty: the file does not say."""
    marker: str = ""
    line: int = 0

    def holds(self, version: str) -> bool:
        """Whether a locked version is the one that was imported (a label may be left out)."""
        return SpecifierSet(f"=={self.version}").contains(Version(version), prereleases=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a file pins."""

    where: str
    pins: tuple[ImportedPin, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Requirement → why it is no pin."""

    def on(self, environment: Mapping[str, str]) -> dict[str, ImportedPin]:
        """Keep the pins whose marker holds on a target, by name."""
        return {
            pin.name: pin
            for pin in self.pins
            if not pin.marker or Marker(pin.marker).evaluate(dict(environment))
        }

    def preferences(self, environment: Mapping[str, str]) -> tuple[WheelPin, ...]:
        """Versions for the resolver to keep where it can; nothing but name and version is said."""
        return tuple(
            WheelPin(name=name, version=pin.version, sha256="", file="", size=0, index="")
            for name, pin in sorted(self.on(environment).items())
        )


def parse_requirements(text: str, where: str) -> Imported:
    """Read a requirements file; raises BadInput when it pins nothing."""
    pins: list[ImportedPin] = []
    left_out: dict[str, str] = {}
    for number, line in _logical_lines(text):
        if line.startswith(("-r", "--requirement", "-c", "--constraint", "-e", "--editable")):
            left_out[line] = "other files and projects are not followed"
        elif not line.startswith("-"):
            try:
                pin = _pin(line, number)
            except (InvalidRequirement, InvalidVersion) as error:
                left_out[line.split(" --hash", 1)[0]] = f"no requirement (PEP 508): {error}"
                continue
            if pin is None:
                left_out[line.split(" --hash", 1)[0]] = "it names no exact version"
            else:
                pins.append(pin)
    if not pins:
        raise BadInput(
            "no line pins a version (NAME==VERSION)",
            subject=where,
            action="name the output of pip-compile or `uv pip compile`, not what went into it",
        )
    return Imported(where=where, pins=tuple(pins), left_out=left_out)


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Join continued lines, drop comments and blank lines; each with the number of its first."""
    start = 0
    parts: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).strip()
        start = start if parts else number
        parts.append(line.removesuffix("\\").strip())
        if line.endswith("\\"):
            continue
        joined = " ".join(part for part in parts if part)
        parts = []
        if joined:
            yield start, joined


def _pin(line: str, number: int) -> ImportedPin | None:
    hashes = {value.lower() for kind, value in _HASH.findall(line) if kind == "sha256"}
    requirement = Requirement(_HASH.sub("", line).strip())
    version = ""
    if requirement.url:
        version = wheel_version(file_of(requirement.url))
    elif len(requirement.specifier) == 1:
        specifier = next(iter(requirement.specifier))
        if specifier.operator in ("==", "===") and not specifier.version.endswith(".*"):
            version = str(Version(specifier.version))
    if not version:
        return None
    return ImportedPin(
        name=canonicalize_name(requirement.name),
        version=version,
        hashes=frozenset(hashes),
        marker=str(requirement.marker or ""),
        line=number,
    )


def refuse_other_hashes(
    imported: Mapping[str, ImportedPin], locked: Sequence[WheelPin], where: str
) -> None:
    """Raise HashMismatch when a kept version's file is none that the import allows."""
    wrong = [
        (pin, imported[pin.name])
        for pin in locked
        if pin.name in imported
        and imported[pin.name].hashes
        and imported[pin.name].holds(pin.version)
        and pin.sha256 not in imported[pin.name].hashes
    ]
    if not wrong:
        return
    rows = [
        f"{pin.file} has sha256 {pin.sha256}, the import allows {_some(other.hashes)}"
        for pin, other in wrong
    ]
    raise other_bytes(
        "the imported hashes are of other files than what is locked: " + "; ".join(rows),
        subject=", ".join(f"{where}:{other.line}" for _, other in wrong),
        action=(
            "find out which is right; to take what the index has, name the package with "
            "--upgrade-package, or remove its hashes from that file"
        ),
    )


def _some(hashes: Iterable[str]) -> str:
    rows = sorted(hashes)
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return ", ".join(rows[:3]) + more


def lost(imported: Mapping[str, ImportedPin], locked: LockedPlatform) -> list[ImportedPin]:
    """List the pins whose version was not taken, by name."""
    mine = {wheel.pin.name: wheel.pin for wheel in locked.wheels}
    return [
        pin
        for name, pin in sorted(imported.items())
        if name not in mine or not pin.holds(mine[name].version)
    ]


def why_lost(
    pin: ImportedPin, locked: LockedPlatform, environment: Mapping[str, str]
) -> str | None:
    """Say why a pin was not kept; None when it is neither the image's nor a package's doing."""
    mine = {wheel.pin.name: wheel.pin for wheel in locked.wheels}
    if pin.name not in mine:
        return "nothing in the image needs it"
    wanted = [("the image", text) for text in (*locked.requirements, *locked.constraints)]
    wanted += [("the image's override", text) for text in locked.overrides]
    wanted += [
        (wheel.distribution.spelled, text)
        for wheel in locked.wheels
        for text in wheel.facts.requires_dist
    ]
    for who, text in wanted:
        requirement = Requirement(text)
        if (
            canonicalize_name(requirement.name) == pin.name
            and _applies(requirement, environment)
            and not requirement.specifier.contains(pin.version, prereleases=True)
        ):
            return f"{who} wants {requirement.name}{requirement.specifier}"
    return None


def _applies(requirement: Requirement, environment: Mapping[str, str]) -> bool:
    marker = requirement.marker
    return marker is None or marker.evaluate({"extra": "", **environment})


def not_kept(
    pin: ImportedPin, reason: str, locked: LockedPlatform, *, where: str, platform: str
) -> Finding:
    """Name a pin that could not be kept, and why."""
    taken = next((w.pin.version for w in locked.wheels if w.pin.name == pin.name), "")
    instead = f"; locked is {taken}" if taken else ""
    return finding(
        "import-not-kept",
        subject=f"{pin.name} ({platform})",
        severity="warning" if taken else "info",
        evidence=f"{where}:{pin.line} pins {pin.version}: {reason}{instead}",
    )


def left_out(imported: Imported) -> list[Finding]:
    """Name the lines of the file that pin nothing."""
    return [
        finding("import-not-kept", subject=line[:120], evidence=f"{imported.where}: {reason}")
        for line, reason in imported.left_out.items()
    ]
