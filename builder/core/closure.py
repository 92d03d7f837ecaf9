"""The closure of some requirements within a set of packages, on a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from builder.core.distribution import Distribution, by_name


def reachable(
    roots: Iterable[str],
    distributions: Iterable[Distribution],
    environment: Mapping[str, str],
    overrides: Iterable[str] = (),
) -> set[str]:
    """Name the packages that `roots` (PEP 508) need on the target, directly or not.

    Extras are followed where they are asked for. `overrides` replace what packages require, marker
    and all, as uv's `--override` does.
    """
    there = by_name(distributions)
    replaced: dict[str, list[Requirement]] = {}
    for text in overrides:
        rule = Requirement(text)
        replaced.setdefault(canonicalize_name(rule.name), []).append(rule)
    seen: set[tuple[str, str]] = set()
    queue = [(Requirement(text), "") for text in roots]
    while queue:
        wanted, extra = queue.pop()
        name: str = canonicalize_name(wanted.name)
        rules = replaced.get(name, [wanted])
        if name not in there or not any(_holds(rule, environment, extra) for rule in rules):
            continue
        for inner in {"", *wanted.extras} - {known for one, known in seen if one == name}:
            seen.add((name, inner))
            queue += [(requirement, inner) for requirement in there[name].requirements]
    return {name for name, _ in seen}


def needs(
    distributions: Iterable[Distribution], environment: Mapping[str, str]
) -> dict[str, list[str]]:
    """Map each package to those of the set that it requires on the target, sorted.

    An extra counts where another package of the set asks for it.
    """
    there = by_name(distributions)
    found: dict[str, set[str]] = {name: set() for name in there}
    seen = {(name, "") for name in there}
    queue = sorted(seen)
    while queue:
        name, extra = queue.pop()
        for wanted in there[name].requirements:
            other: str = canonicalize_name(wanted.name)
            if other not in there or not _holds(wanted, environment, extra):
                continue
            found[name].add(other)
            more = {(other, asked) for asked in wanted.extras} - seen
            seen |= more
            queue += sorted(more)
    return {name: sorted(others - {name}) for name, others in found.items()}


def _holds(rule: Requirement, environment: Mapping[str, str], extra: str) -> bool:
    return rule.marker is None or rule.marker.evaluate({**environment, "extra": extra})
