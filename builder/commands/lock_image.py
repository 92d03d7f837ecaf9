"""The longest step of `lock`: everything that one platform of one image installs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name

from builder.commands.context import Context
from builder.commands.lock_companions import find_companions
from builder.commands.lock_pins import explained
from builder.commands.lock_vllm import Chosen
from builder.commands.lock_wheels import Before, Order, lock_wheels, read_sources
from builder.commands.lock_workshop import Workshop
from builder.core.assembly import LockedPlatform, LockedWheel
from builder.core.distribution import of_metadata
from builder.core.image_base import ImageBase
from builder.core.imported import Imported
from builder.core.lock import DebPin, Lock, WheelPin
from builder.core.releases import pinned
from builder.core.spec import ImageSpec
from builder.core.target import target_of
from builder.core.wheel_target import WheelTarget, wheel_target
from builder.edge import debs
from builder.edge.pool import Stop, each
from builder.errors import HashMismatch, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One image of a group."""

    spec: ImageSpec
    """On the channel that the flags say."""
    digest: str
    """Of image.toml as it stands."""
    previous: Lock | None
    platforms: tuple[str, ...]
    moving: frozenset[str]
    """Packages that may move, by name."""
    upgrade: bool
    """Whether all may."""
    imported: Imported | None = None
    """Another tool's lock, whose versions are preferred."""
    bases: Mapping[str, ImageBase] = field(default_factory=dict)
    """Platform → the base, where that is an image."""

    def target(self, platform: str) -> WheelTarget:
        """Work out what one platform takes; raises SpecError for a base whose glibc is unknown."""
        base = self.bases.get(platform)
        return wheel_target(self.spec, platform, base.glibc if base is not None else "")

    def before(self, platform: str, *, tools: bool = False) -> Before:
        """Say what of the earlier lock may be kept."""
        content = self.previous.platforms.get(platform) if self.previous else None
        imported = self._imported(platform) if not tools else ()
        if self.previous is None or content is None:
            return Before(decided=self.moving, imported=imported)
        pins = self.previous.tools(platform) if tools else content.wheels
        rows = {name: row for name, row in content.meta.items() if isinstance(row, dict)}
        return Before(
            pins=tuple(pin for pin in pins if not self.upgrade and pin.name not in self.moving),
            hash_from={
                pin.sha256: str(rows[pin.name]["hash_from"])
                for pin in pins
                if "hash_from" in rows.get(pin.name, {})
            },
            decided=self.moving,
            imported=imported,
        )

    def _imported(self, platform: str) -> tuple[WheelPin, ...]:
        if self.imported is None:
            return ()
        pins = self.imported.preferences(target_of(self.spec, platform).environment)
        return tuple(pin for pin in pins if pin.name not in self.moving)


@dataclass(slots=True)
class _Parts:
    """What the threads of one platform bring."""

    wheels: tuple[LockedWheel, ...] = ()
    tools: tuple[LockedWheel, ...] = ()
    debs: tuple[DebPin, ...] = ()
    overrides: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    asked: Order | None = None
    base: ImageBase | None = None


def lock_jobs(
    context: Context, workshop: Workshop, jobs: Sequence[Job], chosen: Chosen
) -> dict[str, dict[str, LockedPlatform]]:
    """Resolve all images and platforms side by side: image → platform → what it installs.

    Raises what the first part that failed raised.
    """
    parts: dict[tuple[str, str], _Parts] = {}
    work: list[Callable[[], None]] = []
    for job in jobs:
        for platform in job.platforms:
            part = parts[job.spec.name, platform] = _Parts()
            work += _work(context, workshop, job, platform, chosen, part)

    def do(one: Callable[[], None], _stop: Stop) -> None:
        one()

    each(do, work, threads=len(work))
    return {
        job.spec.name: {
            platform: _locked(parts[job.spec.name, platform]) for platform in job.platforms
        }
        for job in jobs
    }


def _work(
    context: Context,
    workshop: Workshop,
    job: Job,
    platform: str,
    chosen: Chosen,
    part: _Parts,
) -> list[Callable[[], None]]:
    spec = job.spec

    def wheels() -> None:
        _lock_image(workshop, job, platform, chosen, part)

    def tools() -> None:
        order = Order(
            image=spec.name,
            target=job.target(platform),
            environment=target_of(spec, platform).environment,
            requirements=tuple(spec.lock.tools),
            before=job.before(platform, tools=True),
        )
        part.tools = lock_wheels(workshop, order)

    image = job.bases.get(platform)

    def base() -> None:
        if image is not None:
            part.base, part.debs = image, image.debs
            return
        part.debs = debs.resolve_base(
            spec.base, platform, context.settings.debian, context.places.cache / "apt"
        )

    return [wheels, *([tools] if spec.lock.tools else []), base]


def _lock_image(workshop: Workshop, job: Job, platform: str, chosen: Chosen, part: _Parts) -> None:
    spec, tags = job.spec, job.target(platform)
    target = target_of(spec, platform, glibc=tags.glibc, commit=chosen.commit)
    vllm = chosen.wheels[spec.name, platform]
    wheel = vllm.one_each[0]
    about = of_metadata(workshop.reader.look(wheel).metadata, file=wheel.file)
    beside = find_companions(workshop, spec, tags, target, about)
    name = canonicalize_name(spec.lock.package)
    bound = {name: vllm, **beside.bound}
    part.notes, part.overrides = beside.notes, beside.overrides
    part.asked = Order(
        image=spec.name,
        target=tags,
        environment=target.environment,
        requirements=(
            *pinned(spec.lock.requirements, name, str(wheel.version)),
            *beside.requirements,
        ),
        constraints=(*spec.lock.constraints, *beside.constraints),
        overrides=(*spec.lock.overrides, *beside.overrides),
        bound={**bound, **read_sources(workshop, spec, tags, bound.keys())},
        before=job.before(platform),
    )
    try:
        part.wheels = lock_wheels(workshop, part.asked)
    except HashMismatch:
        raise
    except Refused as error:
        raise explained(workshop, part.asked, about, error) from error


def _locked(part: _Parts) -> LockedPlatform:
    return LockedPlatform(
        wheels=part.wheels,
        tools=part.tools,
        debs=part.debs,
        base=part.base,
        overrides=part.overrides,
        notes=part.notes,
        requirements=part.asked.requirements if part.asked else (),
        constraints=part.asked.constraints if part.asked else (),
    )


def known_packages(spec: ImageSpec, previous: Lock | None) -> set[str]:
    """Name what `--upgrade-package` may name."""
    names: set[str] = {canonicalize_name(name) for name in (*spec.lock.sources, spec.lock.package)}
    if previous is not None:
        for platform, content in previous.platforms.items():
            pins: Sequence[WheelPin] = (*content.wheels, *previous.tools(platform))
            names |= {pin.name for pin in pins}
    return names


Resolved = Mapping[str, Mapping[str, LockedPlatform]]
"""Image → platform → what it installs."""
