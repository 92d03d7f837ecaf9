"""The longest step of `lock`: resolve one platform and pin every wheel of it by its bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from builder.commands.lock_workshop import Bound, Workshop, read_offers
from builder.core.assembly import LockedWheel
from builder.core.closure import reachable
from builder.core.indexes import Offer, Settled, settle
from builder.core.lock import WheelPin
from builder.core.pick import best
from builder.core.resolve import Question, Resolved, parse_pylock, placeholder, unnamed
from builder.core.simple import Candidate
from builder.core.spec import GENERAL, ImageSpec
from builder.core.wheel_target import WheelTarget
from builder.edge import uv
from builder.edge.index import write_pages
from builder.edge.pool import Stop, each
from builder.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What an earlier lock holds, as far as it may be kept."""

    pins: tuple[WheelPin, ...] = ()
    hash_from: Mapping[str, str] = field(default_factory=dict)
    """sha256 → who gave it."""
    decided: frozenset[str] = frozenset()
    """Packages whose move the person asked for by name."""
    imported: tuple[WheelPin, ...] = ()
    """Versions of another tool's lock, which win over the earlier ones; without files."""

    @property
    def preferences(self) -> tuple[WheelPin, ...]:
        """Versions to keep where nothing speaks against it."""
        names = {pin.name for pin in self.imported}
        return (*(pin for pin in self.pins if pin.name not in names), *self.imported)

    def pin(self, name: str) -> WheelPin | None:
        """Find what was locked for a package."""
        return next((pin for pin in self.pins if pin.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is resolved for one target."""

    image: str
    target: WheelTarget
    environment: Mapping[str, str]
    """The target's marker values."""
    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    bound: Mapping[str, Bound] = field(default_factory=dict)
    """Packages that come from these offers alone."""
    before: Before = field(default_factory=Before)


def read_sources(
    workshop: Workshop, spec: ImageSpec, target: WheelTarget, known: Collection[str]
) -> dict[str, Bound]:
    """Read the offers of what `[lock.sources]` binds; those of `known` were read already."""
    names = sorted(name for name in spec.lock.sources if name not in known)

    def read(name: str, _stop: Stop) -> Bound:
        index = workshop.indexes.place(spec.index_of(name))
        return read_offers(workshop, name, index).fitting(name, target)

    return dict(zip(names, each(read, names, threads=workshop.threads), strict=True))


def lock_wheels(workshop: Workshop, order: Order) -> tuple[LockedWheel, ...]:
    """Resolve an order and pin each wheel; sorted by name.

    Raises Refused, HashMismatch, NetworkError with what to do about each.
    """
    named = unnamed(order.requirements, order.bound)
    while True:
        asked = [*order.requirements, *sorted(named)]
        locked = _lock_asked(workshop, order, asked)
        # Named only for their index's sake: those that nothing needs go again.
        needed = reachable(
            order.requirements,
            [wheel.distribution for wheel in locked],
            order.environment,
            order.overrides,
        )
        if named <= needed:
            return locked
        named &= needed


def _lock_asked(workshop: Workshop, order: Order, asked: Sequence[str]) -> tuple[LockedWheel, ...]:
    resolved = _resolve(workshop, order, asked)
    chosen = [_choose(package, order) for package in resolved]
    offers = _hash(workshop, order.before, [_offers_of(wheel, order.bound) for wheel in chosen])
    settled = [_settle(workshop, order, own, links) for own, links in offers]
    with workshop.output.bar("reading wheels", len(chosen), "wheels") as bar:

        def finish(row: tuple[Candidate, Settled], _stop: Stop) -> LockedWheel:
            locked = _pin(workshop, order, *row)
            bar.advance(1)
            return locked

        pairs = zip(chosen, settled, strict=True)
        locked = each(finish, pairs, threads=2 * workshop.threads)
    return tuple(sorted(locked, key=lambda wheel: wheel.pin))


def _resolve(workshop: Workshop, order: Order, asked: Sequence[str]) -> list[Resolved]:
    general = workshop.indexes.place(GENERAL)
    snapshots = workshop.cache / "snapshots"
    index_url = workshop.indexes.resolver_url(general, snapshots)
    pages = {
        name: write_pages({name: offers.one_each}, snapshots)
        for name, offers in order.bound.items()
    }
    question = Question(
        target=order.target,
        requirements=tuple(asked),
        constraints=order.constraints,
        overrides=order.overrides,
        pages=pages,
        preferences=order.before.preferences,
    )
    text = uv.resolve(question, general, index_url, workshop.config, workshop.cache / "uv")
    return parse_pylock(text, str(general))


def _choose(package: Resolved, order: Order) -> Candidate:
    old = order.before.pin(package.name)
    wheels: Iterable[Candidate] = package.wheels
    if package.name in order.bound:
        # The resolver saw our page, whose sha256 may be a stand-in: back to what was offered.
        offered = {entry.file: entry for entry in order.bound[package.name].one_each}
        wheels = [offered[wheel.file] for wheel in package.wheels]
    keep = old.file if old is not None else ""
    wheel = best(wheels, order.target, keep)
    if wheel is None:
        raise Refused(
            f"no wheel of {package.name} {package.version} fits {order.target}",
            subject=package.name,
            action="constrain it to another version in `lock.constraints`",
        )
    return wheel


_Offered = tuple[list[Candidate], list[Candidate]]
"""Who offers one file: its index, and find-links places."""


def _offers_of(wheel: Candidate, bound: Mapping[str, Bound]) -> _Offered:
    offers = bound.get(wheel.name)
    if offers is None:
        return [wheel], []
    own = [entry for entry in offers.own if entry.file == wheel.file]
    links = [entry for entry in offers.links if entry.file == wheel.file]
    # An index that gives no sha256 is not asked for the whole file when a copy lies here.
    return [entry for entry in own if entry.sha256 or not links], links


def _hash(
    workshop: Workshop, before: Before, rows: list[_Offered]
) -> list[tuple[list[Offer], list[Offer]]]:
    """Compute what no place says, each file once; what the store keeps of the lock is not fetched.

    Whether such a file is still the same where it came from is what `fetch` and `--check` find.
    """
    known: dict[Candidate, str] = {}
    todo: list[Candidate] = []
    for entry in (entry for row in rows for part in row for entry in part if not _given(entry)):
        old = before.pin(entry.name)
        kept = old is not None and old.file == entry.file and not entry.local
        if old is not None and kept and workshop.reader.keeps(old.sha256, old.size):
            known[entry] = old.sha256
        else:
            todo.append(entry)
    size = sum(entry.size or 0 for entry in todo)
    with workshop.output.bar("hashing what no index has hashed", size) as bar:

        def compute(entry: Candidate, stop: Stop) -> tuple[Candidate, str]:
            def tick(amount: int) -> None:
                stop.check()
                bar.advance(amount)

            return entry, workshop.reader.hash_whole(entry, tick)

        computed = known | dict(each(compute, todo, threads=workshop.threads))

    def offer(entry: Candidate) -> Offer:
        if entry in computed:
            return Offer(candidate=entry, sha256=computed[entry], given=False)
        return Offer(candidate=entry, sha256=entry.sha256, given=True)

    return [
        ([offer(entry) for entry in own], [offer(entry) for entry in links]) for own, links in rows
    ]


def _given(entry: Candidate) -> bool:
    return entry.sha256 not in ("", placeholder(entry))


def _settle(workshop: Workshop, order: Order, own: list[Offer], links: list[Offer]) -> Settled:
    wheel = (own or links)[0].candidate
    old = order.before.pin(wheel.name)
    settled = settle(
        own,
        links,
        pinned=old.sha256 if old is not None and old.file == wheel.file else "",
        relock=f"nightlock lock {order.image} --upgrade-package {wheel.name}",
        decided=wheel.name in order.before.decided,
    )
    for note in settled.notes:
        workshop.output.note(f"  {note}")
    return settled


def _pin(workshop: Workshop, order: Order, wheel: Candidate, settled: Settled) -> LockedWheel:
    sha256 = settled.offer.sha256
    facts = workshop.reader.facts(settled.offer.candidate, sha256)
    hash_from = "index" if settled.given else "computed here"
    bound = order.bound.get(wheel.name)
    return LockedWheel(
        pin=WheelPin(
            name=wheel.name,
            version=str(wheel.version),
            sha256=sha256,
            file=wheel.file,
            size=facts.size,
            index=bound.index.name if bound is not None else GENERAL,
        ),
        facts=facts,
        # Who said it first stands, or the bytes would depend on what is in reach today.
        hash_from=order.before.hash_from.get(sha256, hash_from),
    )
