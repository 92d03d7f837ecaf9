"""Identity: a version that names a commit, a file name that agrees with METADATA, fitting tags."""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from builder.core.companion import CUBIN, JIT_CACHE, LEADER
from builder.core.distribution import Distribution, parse_version
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.target import Target
from builder.core.torchfamily import FAMILY

_COMMIT = re.compile(r"g(?P<commit>[0-9a-f]{7,40})")
_DIRTY = re.compile(r"d\d{8}")
_MANYLINUX = re.compile(r"manylinux_(?P<glibc>\d+_\d+)_\w+")
_LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}


def commit_of(version: str) -> str:
    """Return the abbreviated commit in a local version (`+ge7edf17ce.cu129`), without `g`."""
    parsed = parse_version(version)
    for part in (parsed.local or "").split(".") if parsed else ():
        if match := _COMMIT.fullmatch(part):
            return match["commit"]
    return ""


def check_identity(distributions: Sequence[Distribution], target: Target) -> list[Finding]:
    """Refuse versions that say nothing, and a vLLM of another commit than the wanted one (C19)."""
    known = {target.package, LEADER, CUBIN, JIT_CACHE, *FAMILY}
    findings = []
    for one in distributions:
        why = _nameless(one, one.name in known)
        if not why and one.name == target.package:
            why = _other_commit(one, target.commit.lower().removeprefix("g"))
        if why:
            findings.append(
                finding("commit-identity", subject=one.name, evidence=f"{one.spelled} {why}")
            )
    return findings


def _nameless(one: Distribution, known: bool) -> str:
    version = one.parsed
    if version is None:
        return "is no version"
    parts = one.local.split(".")
    if "unknown" in parts:
        return "does not know its own version"
    if not known:
        return ""
    if version.release in ((0, 0, 0), (0, 0), (0,)) or (
        version.release in ((0, 1), (0, 1, 0)) and version.is_devrelease
    ):
        return "was built without its tags"
    if any(_DIRTY.fullmatch(part) for part in parts):
        return "was built from a tree with local changes"
    return ""


def _other_commit(one: Distribution, wanted: str) -> str:
    named = commit_of(one.version)
    inside = (one.content.commit or "").lower().removeprefix("g")
    if named and inside and not same_commit(named, inside):
        return f"names commit {named}, its files say {inside}"
    for commit, place in ((inside, "is of"), (named, "names")):
        if commit and wanted and not same_commit(commit, wanted):
            return f"{place} commit {commit}; wanted is {wanted}"
    return ""


def same_commit(one: str, other: str) -> bool:
    """Whether one of two commits, in full or abbreviated, is the beginning of the other."""
    return one.startswith(other) or other.startswith(one)


def check_files(distributions: Sequence[Distribution], target: Target) -> list[Finding]:
    """Compare file names with METADATA (C14), tags with the target, and glibc (C18)."""
    findings: list[Finding] = []
    for one in distributions:
        findings += _metadata(one)
        findings += _tags(one, target)
        findings += _glibc(one, target)
    return findings


def _metadata(one: Distribution) -> list[Finding]:
    subject = one.file or one.name
    if one.metadata_name and canonicalize_name(one.metadata_name) != one.name:
        return [
            finding(
                "filename-metadata-version-differ",
                subject=subject,
                evidence=f"the file is {one.name}, METADATA says {one.metadata_name}",
            )
        ]
    if not one.metadata_version:
        return []
    named, inside = one.parsed, parse_version(one.metadata_version)
    if named is not None and named == inside:
        return []
    local_only = named is not None and inside is not None and named.public == inside.public
    return [
        finding(
            "filename-metadata-version-differ",
            severity="warning" if local_only else None,
            subject=subject,
            evidence=f"the file is {one.version}, METADATA says {one.metadata_version}"
            + ("; only the local part differs, METADATA's is what gets installed" * local_only),
        )
    ]


def _tags(one: Distribution, target: Target) -> list[Finding]:
    if not one.tags or target.takes(one.tags):
        return []
    return [
        finding(
            "wheel-not-for-target",
            subject=one.file,
            evidence=f"its tags are {', '.join(sorted(map(str, one.tags)))}; the image has Python "
            f"{target.python} on {target.platform}",
        )
    ]


def _glibc(one: Distribution, target: Target) -> list[Finding]:
    base = _pair(target.glibc)
    if base is None:
        return []
    promised, needed = promised_glibc(one), one.content.glibc
    floor = _pair(needed) if needed is not None else _pair(promised)
    if floor is None:
        return []
    says = f"tag says {promised}" if promised else "no manylinux tag"
    content = f"content needs {needed}" if needed is not None else "content was not measured"
    if one.content.glibc_user:
        content += f" ({one.content.glibc_user})"
    evidence = f"{says}, {content}, base has {target.glibc}"
    tagged = _pair(promised)
    if floor > base:
        return [finding("manylinux-floor", subject=one.file or one.name, evidence=evidence)]
    if tagged is not None and floor > tagged:
        return [
            finding(
                "manylinux-floor",
                severity="info",
                subject=one.file or one.name,
                evidence=f"{evidence}: ok",
                action="Nothing: the base is new enough.",
            )
        ]
    return []


def promised_glibc(one: Distribution) -> str:
    """Return the oldest glibc the file's tags promise (`2.28`); empty without a manylinux tag."""
    found = []
    for tag in one.tags:
        if match := _MANYLINUX.fullmatch(tag.platform):
            found.append(match["glibc"].replace("_", "."))
        else:
            name = tag.platform.split("_")[0]
            found += [_LEGACY[name]] if name in _LEGACY else []
    return min(found, key=lambda text: _pair(text) or (0, 0), default="")


def _pair(glibc: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)(?:\.(\d+))?", glibc)
    return (int(match[1]), int(match[2] or 0)) if match else None
