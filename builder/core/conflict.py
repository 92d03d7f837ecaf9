"""Requirements of packages against the set they stand in, as `pip check` does, for a target.

Beyond `pip check`: markers are evaluated for the target rather than this machine, and extras that
one package asks of another count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from builder.core.distribution import Distribution, by_name
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """An unmet requirement that is right."""

    package: str
    dependency: str
    """Names or patterns."""
    reason: str


ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        package="flashinfer-jit-cache",
        dependency="flashinfer-jit-cache-sm*",
        reason="the shim names the provider of every architecture and uses those that are there",
    ),
)
"""The allow-list; what an image leaves out on purpose stands in its `overrides` instead."""


def check_requirements(
    distributions: Sequence[Distribution],
    target: Target,
    overrides: Iterable[str] = (),
    named: Collection[str] = (),
) -> list[Finding]:
    """Find requirements that the set does not meet, of packages and of Python.

    `overrides` (PEP 508, as in image.toml) replace what packages ask of that name; dependencies in
    `named` are left to whoever named them.
    """
    names = by_name(distributions)
    environment = target.environment
    replaced = [Requirement(text) for text in overrides]
    silent = {canonicalize_name(one.name) for one in replaced} | set(named)
    asked = _extras(names, environment)
    findings = []
    for one in names.values():
        if bad := _python(one, environment["python_full_version"]):
            findings.append(bad)
        for requirement in _active(one, asked[one.name], environment):
            name = canonicalize_name(requirement.name)
            bad = None if name in silent else _unmet(one, requirement, names.get(name))
            if bad is not None:
                findings.append(bad)
    return findings + _replaced(replaced, names, environment)


def _replaced(
    overrides: Sequence[Requirement],
    names: Mapping[str, Distribution],
    environment: Mapping[str, str],
) -> list[Finding]:
    """Compare what is there with the overrides; what an override leaves out may be absent."""
    active = [
        one for one in overrides if one.marker is None or one.marker.evaluate(dict(environment))
    ]
    return [
        finding(
            "dependency-conflict",
            subject=there.name,
            evidence=f"{there.spelled}; the override says {requirement}",
        )
        for requirement in active
        if (there := names.get(canonicalize_name(requirement.name))) is not None
        and not _fits(requirement, there)
    ]


def _active(
    one: Distribution, extras: Iterable[str], environment: Mapping[str, str]
) -> list[Requirement]:
    """Return requirements whose marker holds, without extras or with one that was asked for."""
    return [
        requirement
        for requirement in one.requirements
        if requirement.marker is None
        or any(
            requirement.marker.evaluate({**environment, "extra": extra})
            for extra in ("", *sorted(extras))
        )
    ]


def _extras(
    names: Mapping[str, Distribution], environment: Mapping[str, str]
) -> dict[str, set[str]]:
    """Return the extras that packages ask of each other, until nothing is added."""
    asked: dict[str, set[str]] = {name: set() for name in names}
    waiting = list(names)
    while waiting:
        one = names[waiting.pop()]
        for requirement in _active(one, asked[one.name], environment):
            name = canonicalize_name(requirement.name)
            new = {canonicalize_name(extra) for extra in requirement.extras}
            if name in asked and not new <= asked[name]:
                asked[name] |= new
                waiting.append(name)
    return asked


def _unmet(
    one: Distribution, requirement: Requirement, there: Distribution | None
) -> Finding | None:
    name = canonicalize_name(requirement.name)
    if there is not None and _fits(requirement, there):
        return None
    if there is None and any(
        fnmatchcase(one.name, row.package) and fnmatchcase(name, row.dependency) for row in ALLOWED
    ):
        return None
    found = "it is not there" if there is None else f"there is {there.spelled}"
    return finding(
        "dependency-conflict",
        subject=one.name,
        evidence=f"{one.spelled} wants {name}{requirement.specifier}; {found}",
    )


def _fits(requirement: Requirement, there: Distribution) -> bool:
    return there.parsed is not None and requirement.specifier.contains(
        there.parsed, prereleases=True
    )


def _python(one: Distribution, version: str) -> Finding | None:
    try:
        fits = SpecifierSet(one.requires_python).contains(version, prereleases=True)
    except InvalidSpecifier:
        return None
    if fits:
        return None
    return finding(
        "dependency-conflict",
        subject=one.name,
        evidence=f"{one.spelled} wants Python {one.requires_python}; the image has {version}",
    )
