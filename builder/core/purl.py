"""Package URLs: names that scanners and advisories share (purl-spec, types `pypi` and `deb`)."""

from __future__ import annotations

from packageurl import PackageURL

from builder.core.pins import DebPin, WheelPin

_VERSIONS = {"bookworm": "12", "trixie": "13", "forky": "14"}
"""Codename → release of Debian."""


def debian_version(codename: str) -> str:
    """Return the number of a release, by which advisories are sorted; the codename if unknown."""
    return _VERSIONS.get(codename, codename)


def wheel_purl(pin: WheelPin) -> PackageURL:
    """Name a wheel."""
    return PackageURL(type="pypi", name=pin.name, version=pin.version)


def deb_purl(pin: DebPin, codename: str) -> PackageURL:
    """Name a .deb; `distro` as syft writes and grype reads it, `upstream` where it differs."""
    qualifiers = {"arch": pin.architecture}
    if codename:
        qualifiers["distro"] = f"debian-{debian_version(codename)}"
    if pin.source != pin.name:
        qualifiers["upstream"] = pin.source
    return PackageURL(
        type="deb",
        namespace="debian",
        name=pin.name,
        version=pin.version,
        qualifiers=qualifiers,
    )
