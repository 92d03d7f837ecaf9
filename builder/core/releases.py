"""The channel `release`: the newest stable vLLM that has a wheel for every wanted platform.

A resolver never chooses vLLM: it would take whatever one platform has, and not say what it passed
over (C07, C09).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from builder.core.distribution import Distribution
from builder.core.identity import promised_glibc
from builder.core.keys import finding
from builder.core.nightly_set import Skip, Want
from builder.core.pick import best, rank
from builder.core.simple import Candidate
from builder.errors import NightlockError, NotOffered, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The version to lock, its wheels, and what was passed over."""

    version: str
    """As in the file name."""
    wheels: Mapping[Want, Candidate]
    skipped: tuple[Skip, ...] = ()
    """Newer versions that were not taken, newest first."""


def newest_release(
    rows: Iterable[Candidate],
    wants: Sequence[Want],
    requirement: str,
    *,
    place: str,
    keep: frozenset[str] = frozenset(),
) -> Release:
    """Choose the newest version that `requirement` (PEP 508) allows and every want has a wheel of.

    `rows` are all wheels its index lists; `keep` names files that stay where they still fit,
    `place` is the index for messages. A pre-release is taken only where the requirement names one.

    Raises Refused when no version is complete, NotOffered when there is none at all.
    """
    wanted = Requirement(requirement)
    listed = sorted(rows, key=lambda row: (row.file, row.url))
    versions = sorted({row.version for row in listed}, reverse=True)
    skipped: list[Skip] = []
    for version in versions:
        if not wanted.specifier.contains(version, prereleases=True):
            continue
        mine = [row for row in listed if row.version == version]
        named = f"{wanted.name} {version}"
        why = _unfit(version, mine, wanted.specifier)
        if why:
            skipped.append(_skip(named, why, quiet=True))
            continue
        found, lacks = _wheels(mine, wants, keep)
        if not lacks:
            return Release(version=str(version), wheels=found, skipped=tuple(skipped))
        skipped += [_skip(named, reason, key=key) for key, reason in lacks]
    raise _refusal(wanted, skipped, listed, place)


def pinned(requirements: Iterable[str], package: str, version: str) -> list[str]:
    """Replace what is asked of `package` by exactly `version`; its extras and marker stay."""
    name = canonicalize_name(package)
    rest: list[Requirement] = []
    mine: list[Requirement] = []
    for text in requirements:
        asked = Requirement(text)
        (mine if canonicalize_name(asked.name) == name else rest).append(asked)
    extras = sorted({extra for asked in mine for extra in asked.extras})
    spelled = f"[{','.join(extras)}]" if extras else ""
    return sorted([*map(str, rest), f"{name}{spelled}=={version}"])


def asked_of(requirements: Iterable[str], package: str) -> str:
    """Join what the requirements ask of one package; its bare name when nothing is."""
    name = canonicalize_name(package)
    specifier = SpecifierSet()
    for text in requirements:
        asked = Requirement(text)
        if canonicalize_name(asked.name) == name:
            specifier &= asked.specifier
    return f"{name}{specifier}"


def _unfit(version: Version, rows: Sequence[Candidate], specifier: SpecifierSet) -> str:
    if version.is_prerelease and not specifier.prereleases:
        return "is a pre-release"
    if version.local and version.local not in str(specifier):
        return f"is the build {version.local}"
    withdrawn = [row.yanked for row in rows if row.yanked is not None]
    if len(withdrawn) == len(rows):
        said = next((text for text in withdrawn if text), "")
        return "was withdrawn by its publisher" + (f": {said}" if said else "")
    return ""


def _wheels(
    rows: Sequence[Candidate], wants: Sequence[Want], keep: frozenset[str]
) -> tuple[dict[Want, Candidate], list[tuple[str, str]]]:
    """Choose a wheel for each want; and say which want has none, why, under which key."""
    fit = [row for row in rows if row.yanked is None]
    found: dict[Want, Candidate] = {}
    lacks: dict[tuple[str, str], None] = {}
    for want in wants:
        mine = [row for row in fit if _takes_python(row, want)]
        kept = next((row.file for row in mine if row.file in keep), "")
        wheel = best(mine, want.target, kept)
        if wheel is not None:
            found[want] = wheel
        else:
            lacks[_lack(want, rows, mine)] = None
    return found, list(lacks)


def _takes_python(row: Candidate, want: Want) -> bool:
    try:
        return SpecifierSet(row.requires_python).contains(f"{want.target.python}.0")
    except InvalidSpecifier:
        return True


def _lack(want: Want, rows: Sequence[Candidate], mine: Sequence[Candidate]) -> tuple[str, str]:
    there = ", ".join(sorted({row.file for row in rows}))
    if not mine and rows:
        python = rows[0].requires_python
        return (
            "wheel-not-for-target",
            f"wants Python {python}; {want.platform} has {want.target.python}"
            if python
            else f"has no wheel left for {want.platform}; it has {there}",
        )
    machine = [row for row in mine if want.target.machine in row.file]
    floors = {_floor(row) for row in machine if rank(row.file, want.target) is None} - {""}
    too_new = [text for text in floors if _pair(text) > _pair(want.target.glibc)]
    if too_new:
        needed, base = min(too_new, key=_pair), want.target.glibc
        return "manylinux-floor", f"needs glibc {needed}, the base of {want.platform} has {base}"
    return "nightly-missing-for-platform", f"has no wheel for {want.platform}; it has {there}"


def _floor(row: Candidate) -> str:
    return promised_glibc(Distribution(name=row.name, version=str(row.version), file=row.file))


def _pair(glibc: str) -> tuple[int, ...]:
    return tuple(int(part) for part in glibc.split("."))


def _skip(
    subject: str, reason: str, *, key: str = "nightly-missing-for-platform", quiet: bool = False
) -> Skip:
    return Skip(subject=subject, key=key, reason=reason, quiet=quiet)


def _refusal(
    wanted: Requirement, skipped: Sequence[Skip], listed: Sequence[Candidate], place: str
) -> NightlockError:
    if not listed:
        return NotOffered(
            f"the index has no wheel of {wanted.name}",
            subject=place,
            action="check the address of the index, or `lock.package` of image.toml",
        )
    if not skipped:
        newest = max(row.version for row in listed)
        return Refused(
            f"no version of {wanted.name} is {wanted.specifier}; the newest is {newest}",
            subject=place,
            action="change `lock.requirements` of image.toml",
        )
    error = Refused(
        f"no {wanted} can be taken: {'; '.join(map(str, skipped))}",
        subject=place,
        action="wait for the missing upload, or change `lock.requirements` of image.toml",
    )
    error.findings = tuple(
        finding(skip.key, subject=skip.subject, evidence=str(skip))
        for skip in skipped
        if not skip.quiet
    )
    return error
