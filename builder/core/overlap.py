"""One owner per path: wheels that ship the same path, and who of them wins (resolvers.md, 1 and 5).

The last one installed wins, and installers work in parallel, so a path with several owners has to
be the same bytes in each, or has a winner that image.toml states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from builder.core.contents import Contents
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.spec import Winner

_SHOWN = 5
"""Paths that a finding names; the rest is counted."""

Wins = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Winner → loser → paths that the loser does not get; all sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """One path that several packages ship."""

    path: str
    owners: Mapping[str, str]
    """Package → mark of its file."""

    @property
    def same(self) -> bool:
        """Whether all bring the same bytes, so that order does not matter."""
        return len(set(self.owners.values())) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What overlaps come to."""

    wins: Wins = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def overlaps(packages: Mapping[str, Contents]) -> list[Overlap]:
    """Find the paths that more than one package ships, sorted by path."""
    owners: dict[str, dict[str, str]] = {}
    first: dict[str, tuple[str, str]] = {}
    for package in sorted(packages):
        for path, mark in packages[package]:
            before = first.setdefault(path, (package, mark))
            if before[0] != package:
                owners.setdefault(path, dict([before]))[package] = mark
    return [Overlap(path=path, owners=owners[path]) for path in sorted(owners)]


def judge(found: Sequence[Overlap], winners: Sequence[Winner]) -> Judgement:
    """Apply the stated winners; what has none is an error, one finding for each set of packages."""
    wins: dict[str, dict[str, list[str]]] = {}
    undecided: dict[tuple[str, ...], list[str]] = {}
    used: set[int] = set()
    for one in found:
        if one.same:
            continue
        stated = [at for at, row in enumerate(winners) if _decides(row, one)]
        names = {winners[at].package for at in stated}
        used |= set(stated)
        if len(names) != 1:
            undecided.setdefault(tuple(sorted(one.owners)), []).append(one.path)
            continue
        winner = names.pop()
        for loser in sorted(set(one.owners) - {winner}):
            wins.setdefault(winner, {}).setdefault(loser, []).append(one.path)
    findings = [_undecided(owners, paths) for owners, paths in sorted(undecided.items())]
    findings += [_unused(row) for at, row in enumerate(winners) if at not in used]
    return Judgement(
        wins={
            winner: {loser: tuple(paths) for loser, paths in sorted(rows.items())}
            for winner, rows in sorted(wins.items())
        },
        findings=tuple(findings),
    )


def _decides(row: Winner, one: Overlap) -> bool:
    return row.package in one.owners and any(fnmatchcase(one.path, text) for text in row.paths)


def _undecided(owners: Sequence[str], paths: Sequence[str]) -> Finding:
    shown = ", ".join(paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return finding(
        "path-owned-twice",
        subject=", ".join(owners),
        evidence=f"{len(paths)} path(s) with different bytes in each, and no one winner stated: "
        f"{shown}{more}",
        action="Constrain one of them away in `lock.constraints` or `lock.overrides`, or state "
        "the winner and why in `[[lock.winners]]` of image.toml.",
    )


def _unused(row: Winner) -> Finding:
    return finding(
        "path-owned-twice",
        severity="warning",
        subject=row.package,
        evidence=f"it is stated as the winner of {', '.join(row.paths)}, which no other package "
        "ships with other bytes any more",
        cause="The packages have changed since the winner was stated.",
        action="Remove that row of `[[lock.winners]]`.",
    )
