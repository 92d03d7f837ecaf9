"""From what was resolved to a whole Lock, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from builder.core.churn import churn_of
from builder.core.companion import programs_of
from builder.core.companions import check
from builder.core.debs import debs_digest
from builder.core.distribution import Content, Distribution, of_metadata
from builder.core.finding import Finding
from builder.core.identity import check_files
from builder.core.image_base import ImageBase
from builder.core.layers import plan
from builder.core.lock import (
    BaseLock,
    DebPin,
    Header,
    Lock,
    PlatformLock,
    ResolverTable,
    TargetTable,
    VllmTable,
    WheelPin,
)
from builder.core.overlap import Judgement, judge, overlaps
from builder.core.spec import ImageSpec, Winner
from builder.core.target import target_of
from builder.core.wheel import WheelFacts, meta_row
from builder.core.wheel_target import wheel_target
from builder.errors import Refused

_COMPANIONS = re.compile(r"torch|torchvision|torchaudio|triton|flashinfer-.+")
"""Packages that must match vLLM and each other (facts.md: FlashInfer, PyTorch)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedWheel:
    """One wheel with all that a lock says of it."""

    pin: WheelPin
    facts: WheelFacts
    hash_from: str
    """`index`, or `computed here`."""

    @property
    def distribution(self) -> Distribution:
        """As the rules see it. Raises BadInput when METADATA lacks name or version."""
        return of_metadata(
            self.facts.metadata,
            file=self.pin.file,
            index=self.pin.index,
            content=Content(
                commit=self.facts.commit or None,
                cuda=self.facts.cuda,
                libraries=self.facts.libraries,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPlatform:
    """What was resolved for one platform."""

    wheels: tuple[LockedWheel, ...]
    tools: tuple[LockedWheel, ...] = ()
    debs: tuple[DebPin, ...] = ()
    base: ImageBase | None = None
    """What they stand on, where that is an image."""
    overrides: tuple[str, ...] = ()
    """What companion rules replaced beyond image.toml (PEP 508)."""
    notes: tuple[str, ...] = ()
    """What the person should know of how it came about."""
    requirements: tuple[str, ...] = ()
    """What was resolved (PEP 508): the image's, with vLLM and companions pinned."""
    constraints: tuple[str, ...] = ()
    """What narrowed it: the image's, and those of rules."""

    @property
    def glibc(self) -> str:
        """Of a base that is an image; else empty."""
        return self.base.glibc if self.base is not None else ""

    def judge_overlaps(self, winners: Sequence[Winner]) -> Judgement:
        """Find paths that several wheels ship, and say who wins each."""
        packages = {wheel.pin.name: wheel.facts.contents for wheel in self.wheels}
        return judge(overlaps(packages), winners)


def assemble(
    spec: ImageSpec,
    resolved: Mapping[str, LockedPlatform],
    previous: Lock | None,
    resolver: ResolverTable,
    *,
    digest: str = "",
    commit: str = "",
    past: Sequence[Lock] | None = None,
) -> Lock:
    """Put a lock together; platforms that were not resolved anew are taken from `previous`.

    `digest` is image.toml's where `spec` was changed by flags; `commit` is vLLM's in full where the
    channel knows it. The layer plan of `previous` is kept; `past`, all earlier locks, oldest first,
    makes new ones for the platforms in `resolved`.

    Raises Refused when vLLM is not in it, or is not the same version on every platform.
    """
    kept = {
        platform: content
        for platform, content in (previous.platforms.items() if previous else ())
        if platform in spec.image.platforms and platform not in resolved
    }
    platforms = {
        **kept,
        **{name: _content(locked, spec.lock.winners) for name, locked in resolved.items()},
    }
    platforms = dict(sorted(platforms.items()))
    old = previous.header if previous and kept else None
    package = canonicalize_name(spec.lock.package)
    vllms = [_find(locked, package, spec) for _, locked in sorted(resolved.items())]
    tools = {
        name: [tool.pin.line() for tool in sorted(locked.tools, key=lambda tool: tool.pin)]
        for name, locked in resolved.items()
    }
    bases = {name: locked.base for name, locked in resolved.items() if locked.base is not None}
    header = Header(
        image=spec.name,
        spec=digest or spec.digest,
        channel=spec.lock.channel,
        # A function of bytes: reproducible, and never later than what is in the image.
        epoch=max([vllm.facts.newest for vllm in vllms] + ([old.epoch] if old else [])),
        vllm=VllmTable(
            package=package,
            version=_one_version(platforms, package),
            commit=commit or max(vllm.facts.commit for vllm in vllms),
            variant=spec.lock.variant,
        ),
        target=TargetTable(
            python=spec.image.python,
            glibc=_glibc(spec, bases.values(), old),
            cuda=spec.image.cuda or "",
        ),
        companions=_companions(platforms.values()),
        base=_base(spec, platforms, bases, old),
        tools=dict(
            sorted(
                ({name: (old.tools if old else {}).get(name, []) for name in kept} | tools).items()
            )
        ),
        layers={
            name: _layers(
                spec, package, name, content, previous, past if name in resolved else None
            )
            for name, content in platforms.items()
        },
        resolver=resolver,
    )
    return _with_files(Lock(header=header, platforms=platforms))


def problems(
    spec: ImageSpec, platform: str, locked: LockedPlatform, commit: str = ""
) -> list[Finding]:
    """Judge what was resolved, by the rules that hold for every set of packages.

    `commit` is the wanted vLLM's; empty: any.
    """
    # The image itself: what it requires, and which extras it asks for.
    image = Distribution(
        name=f"image-{spec.name}", version="0", requires_dist=tuple(spec.lock.requirements)
    )
    target = target_of(
        spec,
        platform,
        glibc=wheel_target(spec, platform, locked.glibc).glibc,
        commit=commit,
        programs=_programs(locked),
    )
    wheels = [wheel.distribution for wheel in locked.wheels]
    beside = locked.base.family(spec.lock.package) if locked.base is not None else []
    every = [image, *wheels, *beside]
    found = check(
        every,
        target,
        spec.lock.policies,
        sources=spec.lock.sources,
        overrides=[*spec.lock.overrides, *locked.overrides],
    )
    tools = [wheel.distribution for wheel in locked.tools]
    owned = locked.judge_overlaps(spec.lock.winners).findings
    if locked.base is not None:
        found += locked.base.findings(spec, (wheel.name for wheel in wheels))
    return [*found, *check_files(tools, target), *owned]


def _programs(locked: LockedPlatform) -> frozenset[str] | None:
    if locked.base is not None:
        return locked.base.programs
    return programs_of(pin.name for pin in locked.debs) if locked.debs else None


def _base(
    spec: ImageSpec,
    platforms: Mapping[str, PlatformLock],
    bases: Mapping[str, ImageBase],
    old: Header | None,
) -> BaseLock:
    """Name what determines the base of each platform; `bases` are those that are images."""
    images = {name: base.digest for name, base in bases.items()}
    if spec.base.image is not None:
        kept = platforms.keys() - images.keys()
        if old is not None and kept:
            if old.base.image != spec.base.image:
                raise Refused(
                    f"{', '.join(sorted(kept))} would stay on {old.base.image or old.base.debian}",
                    subject=f"images/{spec.name}/image.toml: base.image",
                    action="lock all platforms together, without --platform",
                )
            images |= {name: old.base.images[name] for name in kept}
    return BaseLock(
        debian=spec.base.debian or "",
        image=spec.base.image or "",
        images=dict(sorted(images.items())),
        debs={
            name: debs_digest(content.debs) for name, content in platforms.items() if content.debs
        },
    )


def _glibc(spec: ImageSpec, bases: Iterable[ImageBase], old: Header | None) -> str:
    """Return glibc of the base; where images differ by platform, the oldest."""
    if spec.base.debian is not None:
        return wheel_target(spec, spec.image.platforms[0]).glibc
    found = {base.glibc for base in bases} | ({old.target.glibc} if old is not None else set())
    return min(found, key=lambda text: tuple(map(int, text.split("."))))


def _content(locked: LockedPlatform, winners: Sequence[Winner]) -> PlatformLock:
    wins = locked.judge_overlaps(winners).wins
    return PlatformLock(
        wheels=tuple(sorted(wheel.pin for wheel in locked.wheels)),
        debs=tuple(sorted(locked.debs)),
        meta={
            wheel.pin.name: meta_row(
                wheel.facts, wheel.hash_from, wins.get(wheel.pin.name), version=wheel.pin.version
            )
            for wheel in locked.wheels
        },
    )


def _layers(
    spec: ImageSpec,
    package: str,
    platform: str,
    content: PlatformLock,
    previous: Lock | None,
    past: Sequence[Lock] | None,
) -> list[list[str]]:
    """Keep the previous plan, without a look at any history; or plan anew from the `past`."""
    kept = (previous.header.layers if previous else {}).get(platform, ())
    earlier = [lock.platforms[platform] for lock in past or () if platform in lock.platforms]
    return plan(
        churn_of(content, package, earlier),
        last=package,
        alone_above=spec.layers.alone_above,
        budget=spec.layers.budget,
        previous=kept if past is None else (),
    )


def _find(locked: LockedPlatform, package: str, spec: ImageSpec) -> LockedWheel:
    for wheel in locked.wheels:
        if wheel.pin.name == package:
            return wheel
    raise Refused(
        f"{package} is not among the resolved packages",
        subject=f"images/{spec.name}/image.toml",
        action="name it in `lock.requirements`, or correct `lock.package`",
    )


def _one_version(platforms: Mapping[str, PlatformLock], package: str) -> str:
    versions = {
        pin.version
        for content in platforms.values()
        for pin in content.wheels
        if pin.name == package
    }
    if len(versions) != 1:
        raise Refused(
            f"{package} would differ between platforms: {', '.join(sorted(versions))}",
            subject=", ".join(platforms),
            action="lock all platforms together, without --platform",
        )
    return versions.pop()


def _companions(contents: Iterable[PlatformLock]) -> dict[str, str]:
    """Name the versions of what must match vLLM; several where platforms differ."""
    found: dict[str, set[str]] = {}
    for content in contents:
        for pin in content.wheels:
            if _COMPANIONS.fullmatch(pin.name):
                found.setdefault(pin.name, set()).add(pin.version)
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}


def _with_files(lock: Lock) -> Lock:
    """Write and read it once: what is returned has the header that lies on disk."""
    return Lock.parse(lock.files(), f"lock/{lock.header.image}")
