"""Companions: what must stand beside a vLLM, and whether a set of packages holds together.

`required` tells a resolver what to add, `constraints` what to hold back, `check` judges any set:
a lock, a folder of wheels, an installed tree, an image. All three are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from builder.core.allowlist import check_indexes
from builder.core.companion import (
    COMPANIONS,
    INDEX,
    JIT_CACHE,
    LABELS,
    LEADER,
    PINNED_ERAS,
    Companion,
    architectures,
    choose_providers,
    era_of,
    home_of,
    jit_cache_label,
)
from builder.core.conflict import check_requirements
from builder.core.distribution import Distribution, parse_version
from builder.core.finding import Finding
from builder.core.identity import check_files, check_identity
from builder.core.keys import finding
from builder.core.spec import GENERAL, Policy
from builder.core.target import Target
from builder.core.toolchain import check_majors, check_toolchain
from builder.core.torchfamily import check_torch
from builder.core.trio import check_flashinfer, no_provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One package a lock must hold."""

    package: str
    version: str
    """Exact, with its label."""
    index: str
    """Name of the one index it may come from."""
    path: str
    """Below that index's address; empty: its root."""
    why: str

    @property
    def requirement(self) -> str:
        """As PEP 508."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """What must stand beside one vLLM on one target."""

    wanted: tuple[Wanted, ...] = ()
    """The leader first."""
    overrides: tuple[str, ...] = ()
    """Requirements with a marker that is never true: what is named but must stay out."""
    environment: tuple[tuple[str, str], ...] = ()
    """What the image must set, because of what is left out."""
    programs: tuple[str, ...] = ()
    """What the image must hold, because of what is left out."""
    providers_unread: bool = False
    """The shim's providers are not known: read its Requires-Dist (`providers_of`), ask again."""
    notes: tuple[str, ...] = ()
    """For a person: eras and what follows from policies."""
    findings: tuple[Finding, ...] = ()
    """What cannot be had."""


def required(
    vllm: Distribution,
    target: Target,
    policies: Mapping[str, Policy],
    *,
    offered: Iterable[str] = (),
) -> Companions:
    """Say which companions at which version from which index belong to this vLLM.

    `offered`: architectures of the jit-cache providers (`sm120f`), from `providers_of`. Nothing is
    required on the CPU, or of a vLLM that does not pin flashinfer-python exactly.
    """
    version = vllm.pin_of(LEADER, target.environment)
    leader = parse_version(version or "")
    if not target.cuda or leader is None:
        return Companions()
    wanted = [
        Wanted(
            package=LEADER,
            version=str(leader),
            index=INDEX if leader.is_devrelease else GENERAL,
            path="nightly" if leader.is_devrelease else "",
            why=f"{vllm.name} {vllm.version} pins it",
        )
    ]
    vllm_version = vllm.parsed
    notes = [era_of(PINNED_ERAS, vllm_version.release)] if vllm_version else []
    overrides: list[str] = []
    environment: dict[str, str] = {}
    programs: list[str] = []
    findings: list[Finding] = []
    unread = False
    for row in COMPANIONS:
        if leader.release < row.since:
            continue
        if policies.get(row.package) == "none":
            notes.append(f"{row.package} is left out by policy: {row.without}")
            programs += [program for program in row.programs if program not in programs]
            environment |= {
                name: value.format(architectures=architectures(target))
                for name, value in row.environment
            }
            if vllm.pin_of(row.package, target.environment):
                overrides.append(_never(row.package))
            continue
        label = jit_cache_label(target.cuda) if row.labelled else ""
        if row.labelled and not label:
            findings.append(_no_label(row, target))
            continue
        version = f"{leader.public}+{label}" if label else str(leader)
        index, path = home_of(row, leader, label)
        shim = Wanted(
            package=row.package,
            version=version,
            index=index,
            path=path,
            why=f"equal to {LEADER} {leader}",
        )
        wanted.append(shim)
        if row.providers_since and leader.release >= row.providers_since:
            names = list(offered)
            unread = not names
            chosen, missing = choose_providers(target, names)
            wanted += [
                Wanted(
                    package=f"{JIT_CACHE}-{name}",
                    version=version,
                    index=index,
                    path=path,
                    why=f"runs on {', '.join(gpus)}",
                )
                for name, gpus in chosen.items()
            ]
            overrides += [_never(f"{JIT_CACHE}-{name}") for name in names if name not in chosen]
            if names:
                findings += [no_provider(shim.requirement, gpu, names) for gpu in missing]
    return Companions(
        wanted=tuple(wanted),
        overrides=tuple(overrides),
        environment=tuple(sorted(environment.items())),
        programs=tuple(programs),
        providers_unread=unread,
        notes=tuple(notes),
        findings=tuple(findings),
    )


def _never(package: str) -> str:
    return f"{package}; sys_platform == 'never'"


def _no_label(row: Companion, target: Target) -> Finding:
    return finding(
        "companion-missing",
        subject=row.package,
        evidence=f"published for CUDA {', '.join(LABELS)}; the image has {target.cuda}",
        action=f'State the policy "none" for {row.package}, or choose another CUDA version.',
    )


def check(
    distributions: Iterable[Distribution],
    target: Target,
    policies: Mapping[str, Policy],
    *,
    sources: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
) -> list[Finding]:
    """Judge a set of packages for a target; errors first, then by key and subject.

    `sources` and `overrides` are image.toml's; without `sources` no origin is judged. What a policy
    leaves out counts as overridden, and a requirement that a companion rule has named is not
    reported a second time.
    """
    every = sorted(distributions, key=lambda one: (one.name, one.version, one.origin, one.file))
    left_out = [_never(name) for name, policy in policies.items() if policy == "none"]
    findings = [
        *check_flashinfer(every, target, policies),
        *check_torch(every, target),
        *check_toolchain(every, target),
        *check_majors(every, target),
        *check_identity(every, target),
        *check_files(every, target),
        *_twice(every),
    ]
    if sources is not None:
        findings += check_indexes(every, sources)
    named = {one.subject for one in findings if one.key == "flashinfer-trio-mismatch"}
    findings += check_requirements(every, target, [*overrides, *left_out], named)
    order = ("error", "warning", "info")
    return sorted(
        dict.fromkeys(findings),
        key=lambda one: (order.index(one.severity), one.key, one.subject, one.evidence),
    )


def _twice(distributions: Iterable[Distribution]) -> list[Finding]:
    """Find packages that are there more than once, as from the base and from a layer."""
    found: dict[str, list[Distribution]] = {}
    for one in distributions:
        found.setdefault(one.name, []).append(one)
    return [
        finding(
            "distribution-twice",
            subject=name,
            evidence="; ".join(one.spelled for one in copies),
        )
        for name, copies in found.items()
        if len(copies) > 1
    ]
