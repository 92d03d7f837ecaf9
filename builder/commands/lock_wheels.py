"""The longest step of `lock`: resolve one platform and pin every wheel of it by its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from builder.core.assembly import LockedWheel
from builder.core.closure import reachable
from builder.core.indexes import Offer, Place, Settled, by_file, settle
from builder.core.lock import WheelPin
from builder.core.pick import best, rank
from builder.core.resolve import Question, Resolved, parse_pylock, placeholder, unnamed
from builder.core.simple import Candidate
from builder.core.spec import GENERAL, ImageSpec
from builder.core.wheel_target import WheelTarget
from builder.edge import uv
from builder.edge.index import Indexes, write_pages
from builder.edge.pool import Stop, each
from builder.edge.userconfig import UserConfig
from builder.edge.wheels import WheelReader
from builder.errors import NetworkError, Refused
from builder.output import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What the steps share: outside things, and where to keep what they read."""

    indexes: Indexes
    reader: WheelReader
    config: UserConfig
    cache: Path
    threads: int
    output: Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What an earlier lock holds, as far as it may be kept."""

    pins: tuple[WheelPin, ...] = ()
    hash_from: Mapping[str, str] = field(default_factory=dict)
    """sha256 → who gave it."""
    decided: frozenset[str] = frozenset()
    """Packages whose move the person asked for by name."""

    def pin(self, name: str) -> WheelPin | None:
        """Find what was locked for a package."""
        return next((pin for pin in self.pins if pin.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """All offers of one package that is bound to an index."""

    index: Place
    own: tuple[Candidate, ...]
    links: tuple[Candidate, ...]

    @property
    def one_each(self) -> list[Candidate]:
        """One offer a file: a local copy where there is one, else as the index has it."""
        groups = by_file((*self.own, *self.links)).values()
        return [min(group, key=lambda entry: not entry.local) for group in groups]


def lock_wheels(
    workshop: Workshop,
    spec: ImageSpec,
    target: WheelTarget,
    requirements: Sequence[str],
    before: Before,
    *,
    environment: Mapping[str, str],
    tools: bool = False,
) -> tuple[LockedWheel, ...]:
    """Resolve `requirements` for a target and pin each wheel; sorted by name.

    `environment` has the target's marker values. `tools` are resolved on their own: the image's
    constraints, overrides and sources are not for them.

    Raises Refused, HashMismatch, NetworkError with what to do about each.
    """
    if tools:
        return _lock_asked(workshop, spec, target, requirements, before, {}, tools=True)
    bound = _read_bound(workshop, spec, target)
    named = unnamed(requirements, bound)
    while True:
        asked = [*requirements, *sorted(named)]
        locked = _lock_asked(workshop, spec, target, asked, before, bound, tools=False)
        # Named only for their index's sake: those that nothing needs go again.
        needed = reachable(
            requirements,
            [wheel.distribution for wheel in locked],
            environment,
            spec.lock.overrides,
        )
        if named <= needed:
            return locked
        named &= needed


def _lock_asked(
    workshop: Workshop,
    spec: ImageSpec,
    target: WheelTarget,
    asked: Sequence[str],
    before: Before,
    bound: Mapping[str, _Bound],
    *,
    tools: bool,
) -> tuple[LockedWheel, ...]:
    resolved = _resolve(workshop, spec, target, asked, before, bound, tools=tools)
    chosen = [_choose(package, target, before, bound) for package in resolved]
    offers = _hash(workshop, [_offers_of(wheel, bound) for wheel in chosen])
    settled = [_settle(workshop, spec, before, own, links) for own, links in offers]
    with workshop.output.bar("reading metadata", len(chosen), "wheels") as bar:

        def finish(row: tuple[Candidate, Settled], _stop: Stop) -> LockedWheel:
            locked = _pin(workshop, spec, *row, before)
            bar.advance(1)
            return locked

        pairs = zip(chosen, settled, strict=True)
        locked = each(finish, pairs, threads=2 * workshop.threads)
    return tuple(sorted(locked, key=lambda wheel: wheel.pin))


def _read_bound(workshop: Workshop, spec: ImageSpec, target: WheelTarget) -> dict[str, _Bound]:
    names = sorted(canonicalize_name(name) for name in spec.lock.sources)

    def read(name: str, _stop: Stop) -> _Bound:
        return _offers(workshop, name, workshop.indexes.place(spec.index_of(name)), target)

    return dict(zip(names, each(read, names, threads=workshop.threads), strict=True))


def _offers(workshop: Workshop, package: str, index: Place, target: WheelTarget) -> _Bound:
    own: Iterable[Candidate] = ()
    down: NetworkError | None = None
    try:
        own = workshop.indexes.offers(index, package)
    except NetworkError as error:
        down = error
    links: list[Candidate] = []
    for place in workshop.indexes.find_links:
        try:
            links += workshop.indexes.offers(place, package)
        except NetworkError as error:
            workshop.output.note(f"  {place} is out of reach, left aside: {error.what}")
    fitting = [entry for entry in links if rank(entry.file, target) is not None]
    if down is not None and not fitting:
        raise NetworkError(
            f"the index {index} cannot be reached, and no find-links place has a {package} that "
            f"fits: {down.what}",
            subject=down.subject,
            action=(
                "check the network and the proxy variables, or say where its wheels are: "
                f"--index {index.name}=URL-or-folder, NIGHTLOCK_INDEX_"
                f"{index.name.upper().replace('-', '_')}, or PIP_FIND_LINKS"
            ),
        ) from down
    if down is not None:
        workshop.output.note(
            f"  the index {index} is out of reach; {package} is taken from {fitting[0].place}"
        )
    found = _Bound(
        index=index,
        own=tuple(entry for entry in own if rank(entry.file, target) is not None),
        links=tuple(fitting),
    )
    if not found.own and not found.links:
        there = sorted({entry.file for entry in (*own, *links)})
        raise Refused(
            f"no wheel of {package} fits {target}; offered: {', '.join(there[:8]) or 'nothing'}",
            subject=str(index),
            action=f"name another place with --index {index.name}=URL-or-folder",
        )
    return found


def _resolve(
    workshop: Workshop,
    spec: ImageSpec,
    target: WheelTarget,
    asked: Sequence[str],
    before: Before,
    bound: Mapping[str, _Bound],
    *,
    tools: bool,
) -> list[Resolved]:
    general = workshop.indexes.place(GENERAL)
    snapshots = workshop.cache / "snapshots"
    index_url = workshop.indexes.resolver_url(general, snapshots)
    pages = {
        name: write_pages({name: offers.one_each}, snapshots) for name, offers in bound.items()
    }
    question = Question(
        target=target,
        requirements=tuple(asked),
        constraints=() if tools else tuple(spec.lock.constraints),
        overrides=() if tools else tuple(spec.lock.overrides),
        pages=pages,
        preferences=before.pins,
    )
    text = uv.resolve(question, general, index_url, workshop.config, workshop.cache / "uv")
    return parse_pylock(text, str(general))


def _choose(
    package: Resolved, target: WheelTarget, before: Before, bound: Mapping[str, _Bound]
) -> Candidate:
    old = before.pin(package.name)
    wheels: Iterable[Candidate] = package.wheels
    if package.name in bound:
        # The resolver saw our page, whose sha256 may be a stand-in: back to what was offered.
        offered = {entry.file: entry for entry in bound[package.name].one_each}
        wheels = [offered[wheel.file] for wheel in package.wheels]
    keep = old.file if old is not None else ""
    wheel = best(wheels, target, keep)
    if wheel is None:
        raise Refused(
            f"no wheel of {package.name} {package.version} fits {target}",
            subject=package.name,
            action="constrain it to another version in `lock.constraints`",
        )
    return wheel


_Offered = tuple[list[Candidate], list[Candidate]]
"""Who offers one file: its index, and find-links places."""


def _offers_of(wheel: Candidate, bound: Mapping[str, _Bound]) -> _Offered:
    offers = bound.get(wheel.name)
    if offers is None:
        return [wheel], []
    own = [entry for entry in offers.own if entry.file == wheel.file]
    links = [entry for entry in offers.links if entry.file == wheel.file]
    # An index that gives no sha256 is not asked for the whole file when a copy lies here.
    return [entry for entry in own if entry.sha256 or not links], links


def _hash(workshop: Workshop, rows: list[_Offered]) -> list[tuple[list[Offer], list[Offer]]]:
    """Compute what no place says, each file once."""
    todo = [entry for row in rows for part in row for entry in part if not _given(entry)]
    size = sum(entry.size or 0 for entry in todo)
    with workshop.output.bar("hashing what no index has hashed", size) as bar:

        def compute(entry: Candidate, stop: Stop) -> tuple[Candidate, str]:
            def tick(amount: int) -> None:
                stop.check()
                bar.advance(amount)

            return entry, workshop.reader.hash_whole(entry, tick)

        computed = dict(each(compute, todo, threads=workshop.threads))

    def offer(entry: Candidate) -> Offer:
        if entry in computed:
            return Offer(candidate=entry, sha256=computed[entry], given=False)
        return Offer(candidate=entry, sha256=entry.sha256, given=True)

    return [
        ([offer(entry) for entry in own], [offer(entry) for entry in links]) for own, links in rows
    ]


def _given(entry: Candidate) -> bool:
    return entry.sha256 not in ("", placeholder(entry))


def _settle(
    workshop: Workshop,
    spec: ImageSpec,
    before: Before,
    own: list[Offer],
    links: list[Offer],
) -> Settled:
    wheel = (own or links)[0].candidate
    old = before.pin(wheel.name)
    settled = settle(
        own,
        links,
        pinned=old.sha256 if old is not None and old.file == wheel.file else "",
        relock=f"nightlock lock {spec.name} --upgrade-package {wheel.name}",
        decided=wheel.name in before.decided,
    )
    for note in settled.notes:
        workshop.output.note(f"  {note}")
    return settled


def _pin(
    workshop: Workshop, spec: ImageSpec, wheel: Candidate, settled: Settled, before: Before
) -> LockedWheel:
    sha256 = settled.offer.sha256
    vllm = wheel.name == canonicalize_name(spec.lock.package)
    facts = workshop.reader.facts(settled.offer.candidate, sha256, contents=vllm)
    hash_from = "index" if settled.given else "computed here"
    return LockedWheel(
        pin=WheelPin(
            name=wheel.name,
            version=str(wheel.version),
            sha256=sha256,
            file=wheel.file,
            size=facts.size,
            index=spec.index_of(wheel.name),
        ),
        facts=facts,
        # Who said it first stands, or the bytes would depend on what is in reach today.
        hash_from=before.hash_from.get(sha256, hash_from),
    )
