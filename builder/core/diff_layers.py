"""What a host that has the old image pulls for the new one, under both layer plans.

A layer is copied with `COPY --link`, so its digest depends on its own wheels alone: one with the
same wheels is there already, wherever it stands. Sizes are those of the wheels and .debs, which
are compressed as layers are; the layer that holds the lock itself (below 1 MB) is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from builder.core.diff_result import Fact, LayerPull, Pull
from builder.core.lock import Lock, WheelPin


def pulls(old: Lock, new: Lock, platforms: list[str]) -> list[Pull]:
    """Plan the pull of each platform that both locks have."""
    return [_pull(old, new, platform) for platform in platforms]


def to_pull(
    old: Sequence[Collection[str]], new: Sequence[Collection[str]], *, chained: bool = False
) -> list[int]:
    """Positions of the `new` layers that a host with the `old` ones lacks; contents are sha256s.

    A layer is a function of its wheels alone, so one with the same wheels is there already,
    wherever it stands. `chained`: only when all below it is the same as well (Docker's older
    stores, moby's distribution/xfer).
    """
    here = [frozenset(content) for content in old]
    wanted = [frozenset(content) for content in new]
    if chained:
        pairs = zip(here, wanted, strict=False)
        first = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(here), len(wanted)))
        return list(range(first, len(wanted)))
    known = set(here)
    return [at for at, content in enumerate(wanted) if content not in known]


def plan_facts(old: Lock, new: Lock, platforms: list[str]) -> list[Fact]:
    """Say where packages that stayed lie in other layers than before; added ones move nothing."""
    facts = []
    for platform in platforms:
        stayed = _names(old, platform) & _names(new, platform)
        plans = [
            [kept for group in _plan(lock, platform) if (kept := sorted(stayed & set(group)))]
            for lock in (old, new)
        ]
        if plans[0] == plans[1]:
            continue
        was, now = ({name: tuple(group) for group in plan for name in group} for plan in plans)
        moved = sum(was.get(name) != now.get(name) for name in stayed)
        facts.append(
            Fact(
                name="layer plan",
                platform=platform,
                old=f"{len(_plan(old, platform))} layers",
                new=f"{len(_plan(new, platform))} layers, "
                + (f"{moved} packages in other company" if moved else "another order"),
            )
        )
    return facts


def _pull(old: Lock, new: Lock, platform: str) -> Pull:
    base_changed = _base(old, platform) != _base(new, platform)
    base = sum(pin.size for pin in new.platforms[platform].debs)
    before, after = old.header.target.python, new.header.target.python
    reason = f"Python {before} → {after}: the wheels lie in another folder"
    if _minor(before) == _minor(after):
        reason = ""
    there = [] if reason else [_content(group) for group in _groups(old, platform)]
    here = {pin.sha256 for pin in old.platforms[platform].wheels}
    groups = _groups(new, platform)
    layers = [
        LayerPull(
            number=at + 1,
            bytes=sum(pin.size for pin in groups[at]),
            packages=[pin.name for pin in groups[at]],
            changed=[pin.name for pin in groups[at] if pin.sha256 not in here],
        )
        for at in to_pull(there, [_content(group) for group in groups])
    ]
    pulled_base = base if base_changed else 0
    return Pull(
        platform=platform,
        total=base + sum(pin.size for group in groups for pin in group),
        pull=pulled_base + sum(layer.bytes for layer in layers),
        base=pulled_base,
        base_changed=base_changed,
        layers=layers,
        layer_count=len(groups),
        reason=reason,
    )


def _base(lock: Lock, platform: str) -> tuple[object, ...]:
    base = lock.header.base
    debs = sorted(pin.sha256 for pin in lock.platforms[platform].debs)
    return base.debian, base.image, base.images.get(platform, ""), debs


def _groups(lock: Lock, platform: str) -> list[list[WheelPin]]:
    pins = {pin.name: pin for pin in lock.platforms[platform].wheels}
    planned = [[pins[name] for name in group] for group in _plan(lock, platform)]
    return [group for group in planned if group]


def _plan(lock: Lock, platform: str) -> list[list[str]]:
    """Give the groups of packages that are there; what no group names counts as one more."""
    there = _names(lock, platform)
    planned = lock.header.layers.get(platform, [])
    groups = [kept for group in planned if (kept := [name for name in group if name in there])]
    rest = sorted(there - {name for group in groups for name in group})
    return [*groups, rest] if rest else groups


def _names(lock: Lock, platform: str) -> set[str]:
    return {pin.name for pin in lock.platforms[platform].wheels}


def _content(group: list[WheelPin]) -> frozenset[str]:
    return frozenset(pin.sha256 for pin in group)


def _minor(python: str) -> list[str]:
    return python.split(".")[:2]
