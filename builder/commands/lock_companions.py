"""The step of `lock` that asks for what must stand beside one vLLM on one target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from packaging.version import Version

from builder.commands.lock_night import explain_night
from builder.commands.lock_workshop import Bound, Workshop, read_offers
from builder.core.companion import CUBIN, JIT_CACHE, providers_of
from builder.core.companions import Companions, Wanted, required
from builder.core.distribution import Distribution, of_metadata
from builder.core.indexes import Place
from builder.core.keys import finding
from builder.core.pick import best
from builder.core.spec import GENERAL, ImageSpec
from builder.core.target import Target
from builder.core.toolchain import constraints
from builder.core.wheel_target import WheelTarget
from builder.errors import HashMismatch, NetworkError, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a resolution gets on top of image.toml."""

    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    bound: Mapping[str, Bound] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """For the person: what was added by itself, and why."""


def find_companions(
    workshop: Workshop, spec: ImageSpec, tags: WheelTarget, target: Target, vllm: Distribution
) -> Beside:
    """Ask for the companions of `vllm` and hold the CUDA toolchain.

    Raises Refused when one cannot be had and no policy leaves it out, NetworkError when the index
    that has it is out of reach.
    """
    try:
        return _find(workshop, spec, tags, target, vllm)
    except HashMismatch:
        raise
    except Refused as error:
        wanted = required(vllm, target, spec.lock.policies).wanted
        if wanted and Version(wanted[0].version).is_devrelease:
            raise explain_night(workshop, wanted, tags, target.platform, error) from error
        raise


def _find(
    workshop: Workshop, spec: ImageSpec, tags: WheelTarget, target: Target, vllm: Distribution
) -> Beside:
    policies = spec.lock.policies
    found = required(vllm, target, policies)
    bound: dict[str, Bound] = {}
    if found.providers_unread:
        shim = next(one for one in found.wanted if one.package == JIT_CACHE)
        bound[JIT_CACHE] = _offers(workshop, spec, tags, shim)
        found = required(vllm, target, policies, offered=_providers(workshop, tags, bound))
    if found.findings:
        raise _refused(found, spec)
    for one in found.wanted:
        if one.package not in bound and _index(spec, one) != GENERAL:
            bound[one.package] = _offers(workshop, spec, tags, one)
    held = constraints(target.cuda)
    return Beside(
        requirements=tuple(one.requirement for one in found.wanted),
        constraints=held,
        overrides=found.overrides,
        bound=bound,
        notes=(*_said(found, spec), *_toolchain(held, target)),
    )


def _index(spec: ImageSpec, one: Wanted) -> str:
    return spec.lock.sources.get(one.package, one.index)


def _offers(workshop: Workshop, spec: ImageSpec, tags: WheelTarget, one: Wanted) -> Bound:
    """Read the offers of one companion at its exact version."""
    index = _index(spec, one)
    path = one.path if index == one.index else ""
    root = workshop.indexes.place(index)
    seen: list[Bound] = []
    # A mirror may have all of an index in one folder or on one page.
    for place in dict.fromkeys((workshop.indexes.below(root, path), root)):
        try:
            every = read_offers(workshop, one.package, place)
        except NetworkError as error:
            error.action += f"; or state {_policy(one)}"
            raise
        fitting = every.of_version(one.version)
        if fitting.own or fitting.links:
            return replace(fitting.fitting(one.package, tags), index=place)
        seen.append(every)
    there = {str(row.version) for bound in seen for row in (*bound.own, *bound.links)}
    raise _not_offered(one, seen[0].index, sorted(there))


def _policy(one: Wanted) -> str:
    return f'`{one.package} = "none"` under `lock.companions` of image.toml'


def _not_offered(one: Wanted, place: Place, there: list[str]) -> Refused:
    offered = f"it has {', '.join(there[-5:])}" if there else f"it has no {one.package} at all"
    key = "flashinfer-cubin-not-on-general-index" if one.package == CUBIN else "companion-missing"
    error = Refused(
        f"{one.requirement} ({one.why}) is not offered by {place}; {offered}",
        subject=one.package,
        action=f"name a place that has it with --index {place.name}=URL-or-folder, or state "
        + _policy(one),
    )
    error.findings = (finding(key, subject=one.package, evidence=error.what),)
    return error


def _providers(
    workshop: Workshop, tags: WheelTarget, bound: Mapping[str, Bound]
) -> tuple[str, ...]:
    """Read which providers the shim names."""
    wheel = best(bound[JIT_CACHE].one_each, tags)
    if wheel is None:
        return ()
    facts = workshop.reader.look(wheel)
    return providers_of(of_metadata(facts.metadata, file=wheel.file).requires_dist)


def _refused(found: Companions, spec: ImageSpec) -> Refused:
    error = Refused(
        "; ".join(f"{row.subject}: {row.evidence}" for row in found.findings),
        subject=f"images/{spec.name}/image.toml",
        action=found.findings[0].action,
    )
    error.findings = found.findings
    return error


def _said(found: Companions, spec: ImageSpec) -> list[str]:
    rows = [
        f"{one.package} {one.version} from {_index(spec, one)}"
        f"{'/' + one.path if one.path else ''}: {one.why}"
        for one in found.wanted
    ]
    return [*rows, *found.notes]


def _toolchain(held: tuple[str, ...], target: Target) -> list[str]:
    if not held:
        return []
    exact = [row for row in held if "==" in row]
    wide = [row for row in held if "==" not in row]
    return [
        (
            f"the CUDA toolchain is held to the image's {target.cuda}, which no package asks for: "
            f"{', '.join(wide)}, {exact[0]} and {len(exact) - 1} nvidia-* parts alike"
        )
    ]
