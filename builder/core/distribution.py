"""Distribution: one Python package as the rules see it, whatever it was read from.

A lock's pin with its metadata, a wheel in a folder, an entry of an installed tree and one inside
an image all become the same record, so every rule is written once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.parser import HeaderParser
from functools import cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from builder.core.lock import PlatformLock, WheelPin
from builder.errors import BadInput

_LABEL = re.compile(r"cu\d{3}|cpu|rocm[\d.]*|xpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What was read inside the files; None: nobody looked."""

    cuda: str | None = None
    """CUDA it was built with as `major.minor`, or `cpu` (torch: `torch/version.py`)."""
    libraries: tuple[str, ...] | None = None
    """Sonames its shared objects need (ELF NEEDED), as `libcudart.so.13`."""
    users: tuple[tuple[str, str], ...] = ()
    """Such a soname and one file that needs it, where that was kept."""
    glibc: str | None = None
    """Highest `GLIBC_x.y` its shared objects need, as `2.34`; `0` when they need none."""
    glibc_user: str = ""
    """A file that needs that glibc, where it was kept."""
    commit: str | None = None
    """Commit it says it was built from, without a leading `g` (`vllm/_version.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One package; make it with `of_pin`, `of_metadata` or by hand."""

    name: str
    """Any spelling; the record holds the normalised one (PEP 503)."""
    version: str
    """As in the file name, or as installed."""
    index: str = ""
    """Name of the index it came from; empty: unknown."""
    file: str = ""
    """Wheel file name; empty for an installed tree."""
    requires_dist: tuple[str, ...] = ()
    requires_python: str = ""
    metadata_name: str = ""
    metadata_version: str = ""
    """`Name` and `Version` inside METADATA; empty: not read."""
    origin: str = ""
    """Where it lies, for messages: a lock's platform file, a folder, a site directory."""
    content: Content = field(default_factory=Content)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", canonicalize_name(self.name))

    @property
    def spelled(self) -> str:
        """Name and version, for messages."""
        place = f" (in {self.origin})" if self.origin else ""
        return f"{self.name} {self.version}{place}"

    @property
    def parsed(self) -> Version | None:
        """The version, or None where it is none (PEP 440)."""
        return parse_version(self.version)

    @property
    def local(self) -> str:
        """Local part of the version (`cu130`), normalised; empty without one."""
        parsed = self.parsed
        return (parsed.local or "") if parsed else ""

    @property
    def label(self) -> str:
        """CUDA label by content if it was read, else by the local version; empty: unknown."""
        cuda = self.content.cuda
        if cuda is not None:
            return cuda_label(cuda)
        return next((part for part in self.local.split(".") if _LABEL.fullmatch(part)), "")

    @property
    def label_from(self) -> str:
        """Who says so: `content` or `version`."""
        return "version" if self.content.cuda is None else "content"

    @property
    def tags(self) -> frozenset[Tag]:
        """Compatibility tags in the file name; empty when there is none or it is no wheel's."""
        try:
            return parse_wheel_filename(self.file)[3] if self.file else frozenset()
        except (InvalidWheelFilename, InvalidVersion):
            return frozenset()

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """`requires_dist`, parsed; what no tool can read is left out, as installers do."""
        return tuple(
            parsed for text in self.requires_dist if (parsed := _requirement(text)) is not None
        )

    def pin_of(self, name: str, environment: Mapping[str, str]) -> str | None:
        """Return the exact version (`==`) this package asks of another in that environment."""
        wanted = canonicalize_name(name)
        for requirement in self.requirements:
            if canonicalize_name(requirement.name) != wanted:
                continue
            if requirement.marker and not requirement.marker.evaluate(dict(environment)):
                continue
            for specifier in requirement.specifier:
                if specifier.operator == "==" and not specifier.version.endswith(".*"):
                    return specifier.version
        return None


@cache
def _requirement(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def parse_version(text: str) -> Version | None:
    """Parse a version; None where it is none (PEP 440)."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def cuda_label(cuda: str) -> str:
    """Spell a CUDA version as vLLM's and PyTorch's labels do: `13.0` → `cu130`, `cpu` → `cpu`."""
    parts = cuda.split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):
        return cuda or "cpu"
    return f"cu{parts[0]}{parts[1]}"


def of_pin(pin: WheelPin, meta: Mapping[str, object], origin: str = "") -> Distribution:
    """Read a lock's line with its row of `<os>-<arch>.meta.json`.

    `requires_dist`, `requires_python`, and `metadata_version` where METADATA says another one.
    """
    requires = meta.get("requires_dist")
    python = meta.get("requires_python")
    inside = meta.get("metadata_version")
    return Distribution(
        name=pin.name,
        version=pin.version,
        index=pin.index,
        file=pin.file,
        requires_dist=tuple(str(text) for text in requires) if isinstance(requires, list) else (),
        requires_python=python if isinstance(python, str) else "",
        metadata_version=inside if isinstance(inside, str) else "",
        origin=origin,
    )


def of_lock(platform: PlatformLock, origin: str = "") -> tuple[Distribution, ...]:
    """Read every wheel of one platform of a lock."""
    rows = {name: row if isinstance(row, Mapping) else {} for name, row in platform.meta.items()}
    return tuple(of_pin(pin, rows.get(pin.name, {}), origin) for pin in platform.wheels)


def of_metadata(
    text: str, *, file: str = "", index: str = "", origin: str = "", content: Content | None = None
) -> Distribution:
    """Read a METADATA file: of a wheel (give its `file`), or of an installed dist-info.

    Name and version of a wheel come from its file name, which installers go by; what METADATA
    says stays beside them. Raises BadInput when a part is missing or the file is no wheel.
    """
    headers = HeaderParser().parsestr(text)
    name, version = headers["Name"] or "", headers["Version"] or ""
    if not name or not version:
        raise BadInput(
            "METADATA without Name or Version",
            subject=file or origin or "METADATA",
            action="remove that package or install it again",
        )
    named, numbered = name, version
    if file:
        try:
            parsed_name, parsed_version, _, _ = parse_wheel_filename(file)
        except (InvalidWheelFilename, InvalidVersion) as error:
            raise BadInput(
                f"not a wheel's file name: {error}",
                subject=file,
                action="give it the name it was published under",
            ) from None
        named, numbered = parsed_name, str(parsed_version)
    return Distribution(
        name=named,
        version=numbered,
        index=index,
        file=file,
        requires_dist=tuple(headers.get_all("Requires-Dist") or ()),
        requires_python=headers["Requires-Python"] or "",
        metadata_name=name,
        metadata_version=version,
        origin=origin,
        content=content or Content(),
    )


def by_name(distributions: Iterable[Distribution]) -> dict[str, Distribution]:
    """Index a set by name; the first of a name wins."""
    found: dict[str, Distribution] = {}
    for distribution in distributions:
        found.setdefault(distribution.name, distribution)
    return found
