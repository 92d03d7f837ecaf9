"""Whether a set of packages satisfies what each of them requires: `pip check`, for the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from builder.core.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One package of the set, by its METADATA."""

    version: str
    requires_dist: tuple[str, ...]
    requires_python: str = ""


def conflicts(
    roots: Iterable[str],
    members: Mapping[str, Member],
    environment: Mapping[str, str],
    overrides: Iterable[str] = (),
) -> list[Finding]:
    """Find each requirement that the set does not meet on the target, sorted.

    `roots` are the spec's requirements; extras are followed from there. `overrides` replace what
    packages require, marker and all (as uv's `--override` does).
    """
    walk = _Walk(members, environment, overrides)
    walk.follow([*roots, *members])
    for package, member in members.items():
        walk.check_python(package, member)
    return [walk.found[key] for key in sorted(walk.found)]


def reachable(
    roots: Iterable[str],
    members: Mapping[str, Member],
    environment: Mapping[str, str],
    overrides: Iterable[str] = (),
) -> set[str]:
    """Name the members that `roots` need on the target, directly or not."""
    walk = _Walk(members, environment, overrides)
    walk.follow(roots)
    return {name for name, _ in walk.seen}


class _Walk:
    """One walk through requirements; `found` is what is not met, `seen` package and extra."""

    def __init__(
        self,
        members: Mapping[str, Member],
        environment: Mapping[str, str],
        overrides: Iterable[str],
    ) -> None:
        self.found: dict[tuple[str, str], Finding] = {}
        self.seen: set[tuple[str, str]] = set()
        self._members = members
        self._environment = environment
        self._replaced: dict[str, list[Requirement]] = {}
        for text in overrides:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            self._replaced.setdefault(name, []).append(requirement)

    def follow(self, roots: Iterable[str]) -> None:
        """Walk from some requirements to all they need."""
        queue = [("image.toml", Requirement(text), "") for text in roots]
        while queue:
            parent, wanted, extra = queue.pop()
            name: str = canonicalize_name(wanted.name)
            rules = self._replaced.get(name, [wanted]) if parent != name else [wanted]
            for rule in rules:
                if not _applies(rule, wanted, self._environment, extra):
                    continue
                member = self._members.get(name)
                if member is None or not rule.specifier.contains(member.version, prereleases=True):
                    self.found[parent, str(rule)] = _conflict(parent, rule, member)
                    continue
                for inner in ("", *sorted(wanted.extras)):
                    if (name, inner) not in self.seen:
                        self.seen.add((name, inner))
                        queue += self._requirements(name, member, inner)

    def check_python(self, name: str, member: Member) -> None:
        """Compare Requires-Python with the target's."""
        python = self._environment["python_full_version"]
        try:
            fits = SpecifierSet(member.requires_python).contains(python, prereleases=True)
        except InvalidSpecifier:
            return  # pip takes such a package as well
        if not fits:
            self.found[name, "python"] = _finding(
                name,
                f"Requires-Python: {member.requires_python}",
                f"the image has Python {self._environment['python_version']}",
            )

    def _requirements(
        self, name: str, member: Member, extra: str
    ) -> list[tuple[str, Requirement, str]]:
        parsed = []
        for text in member.requires_dist:
            try:
                requirement = Requirement(text)
            except InvalidRequirement as error:
                said = str(error).partition("\n")[0]
                self.found[name, text] = _finding(
                    name, f"Requires-Dist: {text}", f"not a PEP 508 requirement: {said}"
                )
                continue
            # Without an extra everything counts; with one only what asks for it is new.
            if not extra or (requirement.marker is not None and "extra" in str(requirement.marker)):
                parsed.append((name, requirement, extra))
        return parsed


def _applies(
    rule: Requirement, wanted: Requirement, environment: Mapping[str, str], extra: str
) -> bool:
    values = {**environment, "extra": extra}
    return all(
        requirement.marker is None or requirement.marker.evaluate(values)
        for requirement in {rule, wanted}
    )


def _conflict(parent: str, rule: Requirement, member: Member | None) -> Finding:
    state = "it is not in the lock" if member is None else f"the lock has {member.version}"
    return _finding(parent, f"requires {rule}", f"{canonicalize_name(rule.name)}: {state}")


def _finding(subject: str, evidence: str, cause: str) -> Finding:
    return Finding(
        key="dependency-conflict",
        severity="error",
        subject=subject,
        evidence=evidence,
        cause=cause,
        action=(
            "change `lock.requirements`, or replace the requirement by a line in `lock.overrides`"
        ),
    )
