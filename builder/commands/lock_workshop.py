"""What the steps of `lock` share, and what each place offers of one package."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from builder.core.indexes import Place, by_file
from builder.core.pick import rank
from builder.core.simple import Candidate
from builder.core.wheel_target import WheelTarget
from builder.edge.index import Indexes
from builder.edge.userconfig import UserConfig
from builder.edge.wheels import WheelReader
from builder.errors import NetworkError, Refused
from builder.output import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Outside things, and where to keep what they read."""

    indexes: Indexes
    reader: WheelReader
    config: UserConfig
    cache: Path
    threads: int
    output: Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """All offers of one package that is bound to an index."""

    index: Place
    own: tuple[Candidate, ...]
    links: tuple[Candidate, ...] = ()

    @property
    def one_each(self) -> list[Candidate]:
        """One offer a file: a local copy where there is one, else as the index has it."""
        groups = by_file((*self.own, *self.links)).values()
        return [min(group, key=lambda entry: not entry.local) for group in groups]

    def fitting(self, package: str, target: WheelTarget) -> Bound:
        """Keep what fits the target; raises Refused when nothing does."""
        found = replace(self, own=_fit(self.own, target), links=_fit(self.links, target))
        if not found.own and not found.links:
            there = sorted({entry.file for entry in (*self.own, *self.links)})
            raise Refused(
                f"no wheel of {package} fits {target}; "
                f"offered: {', '.join(there[:8]) or 'nothing'}",
                subject=str(self.index),
                action=f"name another place with --index {self.index.name}=URL-or-folder",
            )
        return found

    def of_version(self, version: str) -> Bound:
        """Keep the files of one version, label included."""
        return replace(
            self,
            own=tuple(entry for entry in self.own if str(entry.version) == version),
            links=tuple(entry for entry in self.links if str(entry.version) == version),
        )


def _fit(rows: Iterable[Candidate], target: WheelTarget) -> tuple[Candidate, ...]:
    return tuple(row for row in rows if rank(row.file, target) is not None)


def read_offers(workshop: Workshop, package: str, index: Place) -> Bound:
    """Read what an index and find-links offer of a package, for any target.

    An index that is out of reach is a note while find-links has the package. One that answers says
    which files there are: then find-links bring copies of those, and nothing else (C16).

    Raises NetworkError.
    """
    own: list[Candidate] = []
    down: NetworkError | None = None
    try:
        own = workshop.indexes.offers(index, package)
    except NetworkError as error:
        down = error
    links = read_links(workshop, package)
    if down is not None and not links:
        raise NetworkError(
            f"the index {index} cannot be reached, and no find-links place has a {package} that "
            f"fits: {down.what}",
            subject=down.subject,
            action=(
                f"{down.action}; say where its wheels are with "
                f"--index {index.name}=URL-or-folder, NIGHTLOCK_INDEX_"
                f"{index.name.upper().replace('-', '_')}, or PIP_FIND_LINKS"
            ),
        ) from down
    if down is not None:
        workshop.output.note(
            f"  the index {index} is out of reach; {package} is taken from {links[0].place}"
        )
    known = {row.file for row in own}
    copies = (row for row in links if not known or row.file in known)
    return Bound(index=index, own=tuple(own), links=tuple(copies))


def read_links(workshop: Workshop, package: str) -> list[Candidate]:
    """Read what find-links places have of a package; one that is out of reach is a note."""
    found: list[Candidate] = []
    for place in workshop.indexes.find_links:
        try:
            found += workshop.indexes.offers(place, package)
        except NetworkError as error:
            workshop.output.note(f"  {place} is out of reach, left aside: {error.what}")
    return found
