"""Packages that left while somebody who used them stayed: nothing complains until they are missed.

Seen in SGLang #30961: FlashInfer 0.6.14 dropped an extra, pip installs an unknown extra without a
word, four NVIDIA compiler wheels were gone from the nightly, and serving on Blackwell hung.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from builder.core.diff_metadata import parse_requirement, requires_of
from builder.core.diff_result import Dropped, DroppedBy, Why
from builder.core.lock import Lock

_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")


def dropped_packages(old: Lock, new: Lock, platforms: Iterable[str]) -> list[Dropped]:
    """Find what left and is missed; a package whose users all left too is not."""
    merged: dict[str, Dropped] = {}
    for platform in sorted(platforms):
        before, after = _Graph(old, platform), _Graph(new, platform)
        for name in sorted(before.versions.keys() - after.versions.keys()):
            users = _users(name, before, after)
            if not users:
                continue
            found = Dropped(
                name=name, version=before.versions[name], platforms=[platform], users=users
            )
            key = found.model_copy(update={"platforms": []}).model_dump_json()
            if key in merged:
                merged[key].platforms.append(platform)
            else:
                merged[key] = found
    return [merged[key] for key in sorted(merged)]


class _Graph:
    """Who requires whom on one platform; only the lines that are asked for get parsed."""

    def __init__(self, lock: Lock, platform: str) -> None:
        content, target = lock.platforms[platform], lock.header.target
        self.versions = {pin.name: pin.version for pin in content.wheels}
        self._lines = {name: requires_of(content, name) for name in self.versions}
        self._environment = _environment(platform, target.python)
        self._asked: dict[str, dict[str, set[str]]] | None = None

    def naming(self, user: str, name: str) -> list[Requirement]:
        """Lines of `user` that name the package, whether they apply or not."""
        found = (
            parse_requirement(line) for line in self._lines.get(user, ()) if _name_of(line) == name
        )
        return [requirement for requirement in found if requirement is not None]

    def applies(self, requirement: Requirement, extras: Iterable[str]) -> bool:
        """Whether the line counts here when its package is asked for with these extras."""
        if requirement.marker is None:
            return True
        try:
            return any(
                requirement.marker.evaluate({**self._environment, "extra": extra})
                for extra in ("", *extras)
            )
        except ValueError:
            # A marker that cannot be evaluated must not hide the package it guards.
            return True

    def asked(self, name: str) -> Mapping[str, set[str]]:
        """Extras of the package that somebody asks for: extra → who."""
        if self._asked is None:
            self._asked = self._all_asked()
        return self._asked.get(name, {})

    def extras(self, name: str) -> set[str]:
        """Extras that the package's own metadata has."""
        lines = self._lines.get(name, ())
        return {canonicalize_name(extra) for line in lines for extra in _EXTRA.findall(line)}

    def _all_asked(self) -> dict[str, dict[str, set[str]]]:
        waiting = [
            (user, requirement)
            for user, lines in self._lines.items()
            for line in lines
            if "[" in line.partition(";")[0]
            and (requirement := parse_requirement(line)) is not None
        ]
        asked: dict[str, dict[str, set[str]]] = {}
        # An extra may ask for another one, so what did not apply is looked at again.
        while True:
            still = []
            for user, requirement in waiting:
                if not self.applies(requirement, asked.get(user, ())):
                    still.append((user, requirement))
                    continue
                owner = asked.setdefault(canonicalize_name(requirement.name), {})
                for extra in requirement.extras:
                    owner.setdefault(canonicalize_name(extra), set()).add(user)
            if len(still) == len(waiting):
                return asked
            waiting = still


def _users(name: str, old: _Graph, new: _Graph) -> list[DroppedBy]:
    stayed = sorted(old.versions.keys() & new.versions.keys())
    naming = [(user, line) for user in stayed for line in old.naming(user, name)]
    used = [(user, line) for user, line in naming if old.applies(line, old.asked(user))]
    gone = not any(
        old.applies(line, old.asked(user))
        for user in old.versions.keys() - set(stayed)
        for line in old.naming(user, name)
    )
    if not used and gone:
        # Nobody in the lock brought it, so the image did: by its name, or by an extra. Only when
        # the one that had it under an extra does not name it any more, that is what went wrong.
        used = [
            (user, line)
            for user, line in naming
            if old.applies(line, old.extras(user)) and not new.naming(user, name)
        ]
    # One user often names a package in several lines, each for some Pythons or machines.
    found: dict[tuple[str, str, str], DroppedBy] = {}
    for owner, line in used:
        for user in _missing(name, owner, line, old, new):
            found.setdefault((user.name, user.why, user.through), user)
    return [found[key] for key in sorted(found)]


def _missing(
    name: str, owner: str, line: Requirement, old: _Graph, new: _Graph
) -> Iterator[DroppedBy]:
    """Say who misses the package that `owner` brought by `line`, and why it did not come again."""
    now = new.naming(owner, name)
    extras = {extra for extra in old.extras(owner) if old.applies(line, (extra,))}
    if old.applies(line, ()):
        extras = set()
    through = f"{owner}[{','.join(sorted(extras))}]" if extras else ""

    def missed(user: str, why: Why) -> DroppedBy:
        return DroppedBy(
            name=user,
            old=old.versions[user],
            new=new.versions[user],
            why=why,
            through=through,
            requirement=str(line),
        )

    if any(new.applies(other, new.asked(owner)) for other in now):
        yield missed(owner, "still-required")
        return
    if not extras:
        yield missed(owner, "no-longer-required")
        return
    asked = {user for extra in extras for user in old.asked(owner).get(extra, ())}
    if asked and not asked & new.versions.keys():
        return
    lost = extras - new.extras(owner)
    if lost:
        asking = {user for extra in lost for user in new.asked(owner).get(extra, ())}
        for user in sorted(asking & old.versions.keys()) or [owner]:
            yield missed(user, "extra-gone")
    elif not now:
        yield missed(owner, "no-longer-required")
    else:
        for user in sorted(asked & new.versions.keys()):
            yield missed(user, "extra-not-asked")


def _name_of(line: str) -> str:
    match = _NAME.match(line)
    return canonicalize_name(match[1]) if match else ""


def _environment(platform: str, python: str) -> dict[str, str]:
    """Marker values (PEP 508) inside the image; this machine's own must not leak in."""
    minor = ".".join(python.split(".")[:2])
    full = python if python.count(".") > 1 else f"{python}.0"
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": _MACHINES[platform],
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": full,
        "python_version": minor,
        "sys_platform": "linux",
    }
