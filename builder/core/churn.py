"""Churn: how often wheels change, which change together, and so what a layer of them costs.

An upgrade pulls every layer of which a wheel changed, came or went. A layer g of s(g) bytes costs
an upgrade, on average,

    E(g) = s(g) · P(g)        P(g) = (T · h(g) + K · q(g)) / (T + K)

The next upgrade is one of the T known ones over again, or one of K of which nothing is known yet.
h(g) is the share of the known ones that changed a wheel of g: counted over whole sets, so that
wheels which change together cost no more together than alone. q(g) = 1 - Π(1 - r) runs over the
*causes* of g's wheels: each moves by itself, with the rate r of its kind, and moves all its wheels
at once. Kinds and causes come from metadata:

    kind    vLLM pins it exactly, vLLM requires it, or neither
    cause   FlashInfer's packages are one, torch's family is one, the CUDA toolkit is one; a wheel
            that another one (not vLLM) pins to the version that is there moves with that one; any
            other is its own

All numbers are integers, so the same wheels and history give the same plan on every machine. The
size of a wheel stands for that of its files in a layer: both are compressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

from packaging.utils import canonicalize_name

from builder.core.companion import LEADER
from builder.core.diff_metadata import parse_requirement, requires_of
from builder.core.lock import PlatformLock
from builder.core.toolchain import TOOLKIT
from builder.core.torchfamily import FAMILY

Kind = Literal["pinned", "required", "other"]

RATES: Mapping[Kind, int] = {"pinned": 120, "required": 20, "other": 8}
"""Kind → upgrades of a thousand that move a cause of it: vLLM 0.20 to 0.26, locked on the day of
each release (`tests/bench/plan.py`)."""
_KINDS: tuple[Kind, ...] = ("pinned", "required", "other")
_PRIOR = 4
"""K: upgrades that the rates of kinds are worth; what the spread of rates within a kind gives."""
_UNIT = 1_000_000
"""Weight of one upgrade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One wheel, as the planner sees it."""

    name: str
    size: int
    """Bytes."""
    cause: str = ""
    """What moves it; empty: itself."""
    kind: Kind = "other"
    """Of the cause: the highest among its wheels counts."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a layer holds, as its cost needs it."""

    size: int = 0
    """Bytes."""
    seen: int = 0
    """Bit n is set when known upgrade n changed one of its wheels."""
    causes: int = 0
    """Bit n is set when cause n moves one of its wheels."""

    def __or__(self, other: Load) -> Load:
        return Load(self.size + other.size, self.seen | other.seen, self.causes | other.causes)


class Churn:
    """The wheels of one platform, and how they change."""

    def __init__(self, wheels: Iterable[Wheel], history: Sequence[Mapping[str, str]] = ()) -> None:
        """Take wheels, and what earlier locks held: package → sha256, oldest first.

        The newest of the `history` is what the wheels themselves are. Neighbours that hold the
        same are one.
        """
        ordered = sorted(wheels, key=lambda wheel: wheel.name)
        self.sizes = {wheel.name: wheel.size for wheel in ordered}
        """Package → bytes, by name."""
        upgrades = _upgrades(history)
        self.known = len(upgrades)
        """T: upgrades that are known."""
        bits: dict[str, int] = {}
        kinds: dict[str, Kind] = {}
        for wheel in ordered:
            cause = wheel.cause or wheel.name
            bits.setdefault(cause, 1 << len(bits))
            kinds[cause] = min(kinds.get(cause, wheel.kind), wheel.kind, key=_KINDS.index)
        self._of_kind = [
            sum(bit for cause, bit in bits.items() if kinds[cause] == kind) for kind in _KINDS
        ]
        self._loads = {
            wheel.name: Load(
                wheel.size,
                sum(1 << at for at, moved in enumerate(upgrades) if wheel.name in moved),
                bits[wheel.cause or wheel.name],
            )
            for wheel in ordered
        }

    @property
    def total(self) -> int:
        """Weight of all upgrades, T + K: what `weight` gives for wheels that always change."""
        return (self.known + _PRIOR) * _UNIT

    def load(self, group: Iterable[str]) -> Load:
        """Add wheels up."""
        found = Load()
        for name in group:
            found |= self._loads[name]
        return found

    def weight(self, load: Load) -> int:
        """P as a weight: how many of `total` change something of it."""
        return self._weight(load.seen, load.causes)

    def cost(self, load: Load) -> int:
        """E times `total`."""
        return load.size * self._weight(load.seen, load.causes)

    def together(self, one: Load, two: Load) -> int:
        """Cost of both in one layer."""
        weight = self._weight(one.seen | two.seen, one.causes | two.causes)
        return (one.size + two.size) * weight

    def _weight(self, seen: int, causes: int) -> int:
        pinned, required, other = self._of_kind
        unknown = _moved(
            (causes & pinned).bit_count(),
            (causes & required).bit_count(),
            (causes & other).bit_count(),
        )
        return seen.bit_count() * _UNIT + unknown

    def expected(self, groups: Iterable[Sequence[str]], last: str = "") -> int:
        """Bytes that an upgrade pulls on average; the layer that holds `last` every time."""
        costs = [
            self.size(group) * self.total if last in group else self.cost(self.load(group))
            for group in groups
        ]
        return round(sum(costs) / self.total) if costs else 0

    def size(self, group: Iterable[str]) -> int:
        """Bytes of a group."""
        return sum(self.sizes[name] for name in group)


@cache
def _moved(*counts: int) -> int:
    """K · q as a weight, for so many causes of each kind."""
    stays, of = 1, 1
    for kind, count in zip(_KINDS, counts, strict=True):
        stays *= (1000 - RATES[kind]) ** count
        of *= 1000**count
    return _PRIOR * _UNIT * (of - stays) // of


def _upgrades(history: Sequence[Mapping[str, str]]) -> list[set[str]]:
    """Name the packages that changed or came from each lock to the next; what left is not here."""
    steps = [
        {name for name, sha256 in new.items() if old.get(name) != sha256}
        for old, new in pairwise(history)
    ]
    return [moved for moved in steps if moved]


def churn_of(content: PlatformLock, vllm: str, past: Sequence[PlatformLock] = ()) -> Churn:
    """Read churn from one platform of a lock and of its `past` locks, oldest first."""
    wheels = wheels_of(
        {pin.name: pin.size for pin in content.wheels},
        {pin.name: pin.version for pin in content.wheels},
        {pin.name: requires_of(content, pin.name) for pin in content.wheels},
        vllm,
    )
    locks = (*past, content) if past else ()
    return Churn(wheels, [{pin.name: pin.sha256 for pin in lock.wheels} for lock in locks])


def wheels_of(
    sizes: Mapping[str, int],
    versions: Mapping[str, str],
    requires: Mapping[str, Sequence[str]],
    vllm: str,
) -> list[Wheel]:
    """Find kind and cause of each wheel; `requires` are Requires-Dist lines by package."""
    kinds: dict[str, Kind] = {}
    for name, pinned in _needs(requires.get(vllm, ()), versions):
        kinds[name] = "pinned" if pinned or kinds.get(name) == "pinned" else "required"
    pinners: dict[str, str] = {}
    # Of several that pin it, the one of the highest kind counts, then the first by name.
    ranked = sorted(
        sizes.keys() - {vllm}, key=lambda name: (_KINDS.index(kinds.get(name, "other")), name)
    )
    for name in ranked:
        for needed, pinned in _needs(requires.get(name, ()), versions):
            if pinned and needed != name:
                pinners.setdefault(needed, name)
    return [
        Wheel(
            name=name,
            size=size,
            cause=_cause(name, pinners, kinds),
            kind=kinds.get(name, "other"),
        )
        for name, size in sorted(sizes.items())
    ]


def _needs(lines: Iterable[str], versions: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Find packages that are there and named, and whether they are pinned to what is there."""
    found = []
    for line in lines:
        requirement = parse_requirement(line)
        if requirement is None:
            continue
        name = canonicalize_name(requirement.name)
        if name in versions:
            exact = any(clause.operator == "==" for clause in requirement.specifier)
            fits = exact and requirement.specifier.contains(versions[name], prereleases=True)
            found.append((str(name), fits))
    return found


def _cause(name: str, pinners: Mapping[str, str], kinds: Mapping[str, Kind]) -> str:
    """Follow exact pins up to who decides; in a circle, the first by name."""
    passed: list[str] = []
    while name not in passed:
        passed.append(name)
        if name in FAMILY:
            return "torch"
        if name.startswith("flashinfer-"):
            return LEADER
        if name == TOOLKIT:
            return TOOLKIT
        if kinds.get(name) == "pinned" or name not in pinners:
            return name
        name = pinners[name]
    return min(passed[passed.index(name) :])
