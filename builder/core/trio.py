"""FlashInfer's packages in one set: equal to their leader, the image's CUDA and its GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from builder.core.companion import (
    COMPANIONS,
    CUBIN,
    JIT_CACHE,
    LEADER,
    MISMATCH_ERAS,
    PROVIDER,
    Companion,
    choose_providers,
    era_of,
    home_of,
    jit_cache_label,
)
from builder.core.distribution import Distribution, by_name, parse_version
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.spec import GENERAL, Policy
from builder.core.target import Target


def check_flashinfer(
    distributions: Sequence[Distribution], target: Target, policies: Mapping[str, Policy]
) -> list[Finding]:
    """Compare every FlashInfer package in a set, wherever it came from."""
    names = by_name(distributions)
    leader = names.get(LEADER)
    providers = [one for one in distributions if PROVIDER.fullmatch(one.name)]
    shims = [one for one in distributions if one.name == JIT_CACHE]
    cubins = [one for one in distributions if one.name == CUBIN]
    if leader is None:
        return [_leaderless(one) for one in (*cubins, *shims, *providers)]
    findings = []
    vllm = names.get(target.package)
    if vllm is not None:
        findings += _against_pin(leader, vllm, target)
    findings += [bad for one in cubins if (bad := _against_leader(one, leader))]
    right = []
    for one in (*shims, *providers):
        bad = _against_leader(one, leader) or _against_label(one, target)
        if bad is None:
            right.append(one)
        else:
            findings.append(bad)
    findings += _against_shim(right, shims, providers)
    findings += _unserved(shims, providers, leader, target)
    if target.cuda:
        findings += _absent(names, leader, target, policies)
    return findings


def _leaderless(one: Distribution) -> Finding:
    return finding(
        "flashinfer-trio-mismatch",
        subject=one.name,
        evidence=f"{one.spelled} is there, {LEADER} is not",
        action="Remove it: it is left over, from the base or from another package's pin.",
    )


def _against_pin(leader: Distribution, vllm: Distribution, target: Target) -> list[Finding]:
    pin = vllm.pin_of(LEADER, target.environment)
    asked, there = parse_version(pin or ""), leader.parsed
    if asked is None or there is None or asked.public == there.public:
        return []
    return [
        finding(
            "flashinfer-trio-mismatch",
            subject=LEADER,
            evidence=f"{leader.spelled}; {vllm.spelled} pins {pin}",
        )
    ]


def _against_leader(one: Distribution, leader: Distribution) -> Finding | None:
    """Compare public versions; of cubin the whole, as FlashInfer does by its text."""
    mine, theirs = one.parsed, leader.parsed
    labelled = one.name != CUBIN
    if mine and theirs:
        equal = mine.public == theirs.public if labelled else mine == theirs
        if equal:
            return None
    passes = labelled and one.version.startswith(leader.version)
    return finding(
        "jit-cache-local-version" if passes else "flashinfer-trio-mismatch",
        subject=one.name,
        evidence=f"{one.spelled}; {leader.spelled}"
        + (
            "; FlashInfer 0.6 compares beginnings and takes one for the other"
            if passes
            else f"; {era_of(MISMATCH_ERAS, theirs.release)}"
            if theirs
            else ""
        ),
    )


def _against_label(one: Distribution, target: Target) -> Finding | None:
    if not target.cuda:
        return None
    fitting = {label for label in (target.label, jit_cache_label(target.cuda)) if label}
    label = one.label
    if label in fitting:
        return None
    return finding(
        "jit-cache-local-version",
        subject=one.name,
        evidence=f"{one.spelled} is {label or 'without a CUDA label'}; the image is {target.label}",
    )


def _against_shim(
    right: Sequence[Distribution],
    shims: Sequence[Distribution],
    providers: Sequence[Distribution],
) -> list[Finding]:
    """Compare providers with the shim, among those that are right by themselves."""
    if providers and not shims:
        return [
            finding(
                "jit-cache-local-version",
                subject=one.name,
                evidence=f"{one.spelled} is there, {JIT_CACHE} is not: FlashInfer does not find it",
            )
            for one in providers
        ]
    return [
        finding(
            "jit-cache-local-version",
            subject=one.name,
            evidence=f"{one.spelled}; {shim.spelled}: a provider must equal the shim",
        )
        for shim in shims
        for one in providers
        if shim in right and one in right and one.parsed != shim.parsed
    ]


def _unserved(
    shims: Sequence[Distribution],
    providers: Sequence[Distribution],
    leader: Distribution,
    target: Target,
) -> list[Finding]:
    """Name the GPUs that no provider serves, in the era of shims."""
    since = next(row.providers_since for row in COMPANIONS if row.package == JIT_CACHE)
    version = leader.parsed
    if not shims or version is None or since is None or version.release < since:
        return []
    offered = [match[1] for one in providers if (match := PROVIDER.fullmatch(one.name))]
    _, missing = choose_providers(target, offered)
    return [no_provider(shims[0].spelled, gpu, offered) for gpu in missing]


def _absent(
    names: Mapping[str, Distribution],
    leader: Distribution,
    target: Target,
    policies: Mapping[str, Policy],
) -> list[Finding]:
    """Refuse what is absent without a policy; with one, ask for what must be there instead."""
    findings = []
    version = leader.parsed
    for row in COMPANIONS:
        if row.package in names or version is None or version.release < row.since:
            continue
        if policies.get(row.package) == "none":
            findings += _unmet(row, names, target)
            continue
        label = jit_cache_label(target.cuda) if row.labelled else ""
        index, path = home_of(row, version, label)
        gone = row.package == CUBIN and index != GENERAL
        findings.append(
            finding(
                "flashinfer-cubin-not-on-general-index" if gone else "companion-missing",
                subject=row.package,
                evidence=f"{leader.spelled} without {row.package}, and no policy for it; it may "
                f"come from the index {index}{'/' + path if path else ''}",
            )
        )
    return findings


def no_provider(shim: str, gpu: str, offered: Sequence[str]) -> Finding:
    """Say that no provider of a shim runs on a GPU."""
    return finding(
        "jit-cache-local-version",
        subject=shim,
        evidence=f"no provider runs on {gpu}; there are {', '.join(sorted(offered)) or 'none'}",
    )


_PROGRAMS = {"nvcc": "nvidia-cuda-nvcc", "ninja": "ninja"}
"""Program → the wheel that brings it."""


def _unmet(row: Companion, names: Mapping[str, Distribution], target: Target) -> list[Finding]:
    """Say what a companion left out by policy needs and the set does not have."""
    if target.programs is None:
        return []
    bundled = {
        program
        for program, wheel in _PROGRAMS.items()
        if any(re.fullmatch(rf"{wheel}(-cu\d+)?", name) for name in names)
    }
    lacking = [one for one in row.programs if one not in target.programs and one not in bundled]
    if not lacking:
        return []
    return [
        finding(
            "jit-needs-nvcc",
            subject=row.package,
            evidence=f"left out by policy, and the image lacks {', '.join(lacking)}",
        )
    ]
