"""FlashInfer's companions: what is required, and what a set says about them (C01 to C04)."""

from __future__ import annotations

import pytest

from builder.core.bypass import check_settings
from builder.core.companion import (
    architectures,
    jit_cache_label,
    programs_of,
    providers_of,
)
from builder.core.companions import Companions, check, required
from builder.core.distribution import Distribution
from builder.core.spec import Policy
from builder.core.target import Target, best_architecture
from tests.support.stack import CPU, NONE, SM120, SM121, dist, dists, keys, real_stack

PROVIDERS = ("sm80", "sm90a", "sm100a", "sm103a", "sm120f")


def vllm(version: str, *pins: str) -> Distribution:
    """Make a vLLM wheel with these requirements."""
    return dist(f"vllm=={version}", *pins)


def found(text: str, target: Target = SM120, **policies: Policy) -> list[tuple[str, str]]:
    """Key and subject of what a set of `name==version` shows."""
    named = {f"flashinfer-{name.replace('_', '-')}": policy for name, policy in policies.items()}
    return keys(check(dists(text), target, named))


TRIO = "flashinfer-trio-mismatch"
JIT = "jit-cache-local-version"

SETS: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("equal", "python==0.6.18 cubin==0.6.18 jit-cache==0.6.18+cu130", []),
    (
        "the famous one",
        "python==0.6.4 cubin==0.6.3 jit-cache==0.6.4+cu130",
        [(TRIO, "flashinfer-cubin")],
    ),
    (
        "a missing .post1",
        "python==0.6.18.post1 cubin==0.6.18 jit-cache==0.6.18.post1+cu130",
        [(TRIO, "flashinfer-cubin")],
    ),
    (
        "a .post1 too much",
        "python==0.7.0 cubin==0.7.0.post1 jit-cache==0.7.0+cu130 jit-cache-sm120f==0.7.0+cu130",
        [(TRIO, "flashinfer-cubin")],
    ),
    (
        "another night",
        "python==0.6.18.dev20260819 cubin==0.6.18.dev20260818 jit-cache==0.6.18.dev20260819+cu130",
        [(TRIO, "flashinfer-cubin")],
    ),
    (
        "the night of both",
        "python==0.6.18.dev20260819 cubin==0.6.18.dev20260819 jit-cache==0.6.18.dev20260819+cu130",
        [],
    ),
    ("a spelling", "python==0.6.18.post1 cubin==0.6.18-1 jit-cache==0.6.18.post1+CU130", []),
    (
        "a look-alike that FlashInfer 0.6 lets pass",
        "python==0.6.1 cubin==0.6.1 jit-cache==0.6.13+cu130",
        [(JIT, "flashinfer-jit-cache")],
    ),
    (
        "a look-alike the other way",
        "python==0.6.18 cubin==0.6.1 jit-cache==0.6.1+cu130",
        [(TRIO, "flashinfer-cubin"), (TRIO, "flashinfer-jit-cache")],
    ),
    (
        "an old jit-cache",
        "python==0.6.11 cubin==0.6.11 jit-cache==0.6.9+cu130",
        [(TRIO, "flashinfer-jit-cache")],
    ),
    (
        "another CUDA",
        "python==0.6.16 cubin==0.6.16 jit-cache==0.6.16+cu129",
        [(JIT, "flashinfer-jit-cache")],
    ),
    (
        "a newer CUDA",
        "python==0.6.16 cubin==0.6.16 jit-cache==0.6.16+cu134",
        [(JIT, "flashinfer-jit-cache")],
    ),
    (
        "no label",
        "python==0.6.16 cubin==0.6.16 jit-cache==0.6.16",
        [(JIT, "flashinfer-jit-cache")],
    ),
    (
        "shim and its provider",
        "python==0.7.4 cubin==0.7.4 jit-cache==0.7.4+cu130 jit-cache-sm120f==0.7.4+cu130",
        [],
    ),
    (
        "a dead provider does no harm",
        (
            "python==0.7.4 cubin==0.7.4 jit-cache==0.7.4+cu130 jit-cache-sm90a==0.7.4+cu130 "
            "jit-cache-sm120f==0.7.4+cu130"
        ),
        [],
    ),
    (
        "a provider of another GPU",
        "python==0.7.4 cubin==0.7.4 jit-cache==0.7.4+cu130 jit-cache-sm121a==0.7.4+cu130",
        [(JIT, "flashinfer-jit-cache 0.7.4+cu130")],
    ),
    (
        "a shim alone",
        "python==0.7.4 cubin==0.7.4 jit-cache==0.7.4+cu130",
        [(JIT, "flashinfer-jit-cache 0.7.4+cu130")],
    ),
    (
        "a provider alone",
        "python==0.7.4 cubin==0.7.4 jit-cache-sm120f==0.7.4+cu130",
        [("companion-missing", "flashinfer-jit-cache"), (JIT, "flashinfer-jit-cache-sm120f")],
    ),
    (
        "a stale provider",
        "python==0.7.4 cubin==0.7.4 jit-cache==0.7.4+cu130 jit-cache-sm120f==0.7.2+cu130",
        [(TRIO, "flashinfer-jit-cache-sm120f")],
    ),
    (
        "a provider of another CUDA",
        "python==0.7.4 cubin==0.7.4 jit-cache==0.7.4+cu130 jit-cache-sm120f==0.7.4+cu129",
        [(JIT, "flashinfer-jit-cache-sm120f")],
    ),
    (
        "left over from the base",
        "cubin==0.6.13 jit-cache==0.6.13+cu130",
        [(TRIO, "flashinfer-cubin"), (TRIO, "flashinfer-jit-cache")],
    ),
    (
        "a cubin with a local part, which FlashInfer compares too",
        "python==0.6.14 cubin==0.6.14+ours jit-cache==0.6.14+cu130",
        [(TRIO, "flashinfer-cubin")],
    ),
    ("before there were companions", "python==0.3.1", []),
    (
        "none stated, on PyPI",
        "python==0.6.13 jit-cache==0.6.13+cu130",
        [("companion-missing", "flashinfer-cubin")],
    ),
    (
        "none stated, not on PyPI",
        "python==0.6.14 jit-cache==0.6.14+cu130",
        [("flashinfer-cubin-not-on-general-index", "flashinfer-cubin")],
    ),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in SETS], ids=[r[0] for r in SETS])
def test_a_set_of_flashinfer_packages(text: str, expected: list[tuple[str, str]]) -> None:
    """Right ones are silent, wrong ones are named, each once."""
    assert expected == found(" ".join(f"flashinfer-{one}" for one in text.split()))


def test_flashinfer_trio_mismatch() -> None:
    """C01: both versions are quoted, the era says what would happen, and no bypass is advised."""
    old, new = (
        check(dists(f"flashinfer-python=={leader} flashinfer-cubin==0.6.13"), SM120, NONE)[0]
        for leader in ("0.6.14", "0.7.2.post1")
    )
    assert "raises RuntimeError" in old.evidence
    assert "only warns" in new.evidence
    assert all(version in old.evidence for version in ("0.6.14", "0.6.13"))
    assert "VERSION_CHECK" not in old.action


def test_flashinfer_trio_mismatch_against_vllms_pin() -> None:
    """An upgrade that moved flashinfer-python past the pin is named once, not twice."""
    every = [vllm("0.33.0", "flashinfer-python==0.7.2.post1"), dist("flashinfer-python==0.7.4")]
    findings = check(every, SM120, NONE)
    assert [("flashinfer-trio-mismatch", "flashinfer-python")] == keys(findings)
    assert "vllm 0.33.0 pins 0.7.2.post1" in findings[0].evidence


def test_a_second_copy_from_the_base_is_found() -> None:
    """C01: the stale cubin came from the base image, beside the right one."""
    every = [
        *dists("flashinfer-python==0.6.14 flashinfer-cubin==0.6.14"),
        Distribution(name="flashinfer-cubin", version="0.6.13", origin="/usr/lib/python3"),
    ]
    assert [
        ("distribution-twice", "flashinfer-cubin"),
        ("flashinfer-trio-mismatch", "flashinfer-cubin"),
    ] == keys(check(every, SM120, {"flashinfer-jit-cache": "none"}))


def test_flashinfer_cubin_not_on_general_index() -> None:
    """C02: today's real case, version from vLLM's metadata, from FlashInfer's own index."""
    leader, cubin, shim = required(
        vllm("0.33.0", "flashinfer-python==0.7.2.post1"), SM120, {}
    ).wanted
    assert ("flashinfer-python==0.7.2.post1", "general", "") == (
        leader.requirement,
        leader.index,
        leader.path,
    )
    assert ("flashinfer-cubin==0.7.2.post1", "flashinfer", "") == (
        cubin.requirement,
        cubin.index,
        cubin.path,
    )
    assert ("flashinfer-jit-cache==0.7.2.post1+cu130", "flashinfer", "cu130") == (
        shim.requirement,
        shim.index,
        shim.path,
    )


def test_the_policy_none_says_what_follows() -> None:
    """Nothing is wanted but the leader; the image must compile, and vLLM must not ask around."""
    companions = required(vllm("0.33.0", "flashinfer-python==0.7.2.post1"), SM120, NONE)
    assert ["flashinfer-python"] == [one.package for one in companions.wanted]
    assert {"VLLM_HAS_FLASHINFER_CUBIN": "1", "FLASHINFER_CUDA_ARCH_LIST": "12.0f"} == dict(
        companions.environment
    )
    assert ("nvcc", "ninja", "c++") == companions.programs
    assert () == companions.overrides
    assert 3 == len(companions.notes)


def test_the_policy_none_leaves_out_what_vllm_names() -> None:
    """0.19 to 0.25 pin cubin in the wheel: left out only by an override, and then no conflict."""
    old = vllm("0.24.0", "flashinfer-python==0.6.12", "flashinfer-cubin==0.6.12")
    assert ("flashinfer-cubin; sys_platform == 'never'",) == required(old, SM120, NONE).overrides
    assert [] == check([old, dist("flashinfer-python==0.6.12")], SM120, NONE)


def test_the_policy_none_without_a_compiler_is_refused() -> None:
    """What is left out is compiled at first use; without nvcc, ninja and c++ it cannot be."""
    every = dists("flashinfer-python==0.7.4 nvidia-cuda-nvcc==13.0.88")
    without, with_them = (
        check(every, Target(cuda="13.0", gpus=("sm_120",), programs=programs_of(debs)), NONE)
        for debs in (["libc6"], ["g++", "ninja-build"])
    )
    assert [("jit-needs-nvcc", "flashinfer-cubin"), ("jit-needs-nvcc", "flashinfer-jit-cache")] == (
        keys(without)
    )
    assert "lacks ninja, c++" in without[0].evidence
    assert [] == with_them


@pytest.mark.parametrize(
    ("leader", "cubin", "jit_cache"),
    [
        ("0.4.0", ("general", ""), ("flashinfer", "cu130")),
        ("0.6.13", ("general", ""), ("flashinfer", "cu130")),
        ("0.6.14", ("flashinfer", ""), ("flashinfer", "cu130")),
        ("0.6.18.post1", ("flashinfer", ""), ("flashinfer", "cu130")),
        ("0.7.4", ("flashinfer", ""), ("flashinfer", "cu130")),
        ("0.7.5.dev20261129", ("flashinfer", "nightly"), ("flashinfer", "nightly/cu130")),
    ],
)
def test_homes_by_era(leader: str, cubin: tuple[str, str], jit_cache: tuple[str, str]) -> None:
    """PyPI until 0.6.13, flashinfer.ai/whl after it, …/nightly for nights."""
    wanted = required(vllm("0.30.0", f"flashinfer-python=={leader}"), SM120, {}).wanted
    places = {one.package: (one.index, one.path) for one in wanted}
    assert (cubin, jit_cache) == (places["flashinfer-cubin"], places["flashinfer-jit-cache"])


@pytest.mark.parametrize(
    ("every", "target"),
    [
        (vllm("0.33.0", "flashinfer-python==0.7.2.post1"), CPU),
        (vllm("0.33.0"), SM120),
        (vllm("0.33.0", "flashinfer-python>=0.7"), SM120),
        (vllm("0.11.0", 'flashinfer-python==0.3.1; extra == "flashinfer"'), SM120),
    ],
    ids=["cpu", "no pin", "no exact pin", "an extra only"],
)
def test_nothing_is_required_where_nothing_is_pinned(every: Distribution, target: Target) -> None:
    """The CPU build, and a vLLM without FlashInfer."""
    assert Companions() == required(every, target, {})


def test_providers_are_chosen_from_what_the_shim_names() -> None:
    """First the shim alone, then with its list: one provider, the others overridden away."""
    nightly = vllm("0.33.0", "flashinfer-python==0.7.2.post1")
    assert required(nightly, SM120, {}).providers_unread
    offered = providers_of(
        f"flashinfer_jit_cache_{name}==0.7.2.post1+cu130" for name in (*PROVIDERS, "other")
    )
    assert tuple(sorted(PROVIDERS)) == offered
    companions = required(nightly, SM120, {}, offered=offered)
    assert not companions.providers_unread
    assert "flashinfer-jit-cache-sm120f==0.7.2.post1+cu130" == companions.wanted[-1].requirement
    assert {f"flashinfer-jit-cache-{one}; sys_platform == 'never'" for one in PROVIDERS[:-1]} == (
        set(companions.overrides)
    )


def test_a_provider_must_equal_the_shim() -> None:
    """Both labels suit an image of CUDA 13.2, but not each other."""
    every = "python==0.7.4 cubin==0.7.4 jit-cache==0.7.4+cu132 jit-cache-sm120f==0.7.4+cu130"
    findings = check(
        dists(" ".join(f"flashinfer-{one}" for one in every.split())),
        Target(cuda="13.2", gpus=("sm_120",)),
        {},
    )
    assert [(JIT, "flashinfer-jit-cache-sm120f")] == keys(findings)
    assert "a provider must equal the shim" in findings[0].evidence


def test_no_provider_for_the_gpu_is_refused() -> None:
    """Before anything is downloaded."""
    companions = required(
        vllm("0.33.0", "flashinfer-python==0.7.4"), SM120, {}, offered=("sm90a", "sm121a")
    )
    assert ["jit-cache-local-version"] == [one.key for one in companions.findings]
    assert "no provider runs on sm_120; there are sm121a, sm90a" == companions.findings[0].evidence


@pytest.mark.parametrize(
    ("gpu", "offered", "expected"),
    [
        ("sm_121", "sm121a sm120f", "sm121a"),
        ("sm_121", "sm120f sm120a", "sm120f"),
        ("sm_120", "sm121a", None),
        ("sm_120", "sm121f", None),
        ("sm_120", "sm120f sm120a sm120", "sm120f"),
        ("sm_120", "sm120a sm120", "sm120a"),
        ("sm_120", "sm120", "sm120"),
        ("sm_121", "sm120 sm121", "sm121"),
        ("sm_121", "sm121 sm120f", "sm120f"),
        ("sm_120", "sm100f sm110a sm90a", None),
        ("sm_103", "sm100f sm100a", "sm100f"),
        ("sm_86", "sm80", "sm80"),
        ("sm_120a", "sm120f sm120a", "sm120a"),
        ("nonsense", "sm120f", None),
    ],
)
def test_the_best_architecture(gpu: str, offered: str, expected: str | None) -> None:
    """Exact, then `a` of the same capability, then the family, then plain."""
    assert expected == best_architecture(gpu, offered.split())


@pytest.mark.parametrize(
    ("cuda", "label"),
    [("12.9", "cu129"), ("13.0", "cu130"), ("13.2", "cu130"), ("13.5", "cu134"), ("12.8", "")],
)
def test_the_label_an_image_takes(cuda: str, label: str) -> None:
    """The highest published of its major that is not newer."""
    assert label == jit_cache_label(cuda)


def test_a_cuda_without_any_jit_cache_is_refused() -> None:
    """12.8 has none; the policy `none` is the way out."""
    old = Target(cuda="12.8", gpus=("sm_90",))
    companions = required(vllm("0.14.0", "flashinfer-python==0.5.3"), old, {})
    assert [("companion-missing", "flashinfer-jit-cache")] == keys(list(companions.findings))


def test_architectures_are_spelled_as_flashinfer_wants_them() -> None:
    """Family for SM120, its own for SM121, parted by spaces."""
    both = Target(cuda="13.0", gpus=("sm_90", "sm_120"))
    assert ("12.0f", "12.1a", "9.0a 12.0f") == tuple(map(architectures, (SM120, SM121, both)))


def test_jit_cache_local_version() -> None:
    """C03: `+cu130` is no mismatch, a prefix is no match, a label is looked at."""
    policy: dict[str, Policy] = {"flashinfer-cubin": "none"}
    pairs = {
        ("0.6.16", "0.6.16+cu130"): [],
        ("0.6.1", "0.6.13+cu130"): ["jit-cache-local-version"],
        ("0.6.1", "0.6.18+cu130"): ["jit-cache-local-version"],
        ("0.6.16", "0.6.16+cu129"): ["jit-cache-local-version"],
    }
    for (leader, cache), expected in pairs.items():
        every = dists(f"flashinfer-python=={leader} flashinfer-jit-cache=={cache}")
        assert expected == [one.key for one in check(every, SM120, policy)]


@pytest.mark.parametrize("value", ["1", "0", "false", " x"])
def test_version_check_bypassed(value: str) -> None:
    """C04: whatever its value, unless it is empty."""
    name = "FLASHINFER_DISABLE_VERSION_CHECK"
    bad = check_settings({name: value}, subject="Dockerfile:3")
    assert [("version-check-bypassed", "Dockerfile:3")] == keys(bad)
    assert "error" == bad[0].severity
    assert [] == check_settings({name: "", "FLASHINFER_WORKSPACE_BASE": "1"}, subject="Dockerfile")


def test_a_real_stack_passes() -> None:
    """What PyPI gives for vllm 0.33.0, toolchain held: silence, or the two that lack a policy."""
    assert [] == check(real_stack(), SM120, NONE, sources={})
    assert [
        ("companion-missing", "flashinfer-jit-cache"),
        ("flashinfer-cubin-not-on-general-index", "flashinfer-cubin"),
    ] == keys(check(real_stack(), SM120, {}, sources={}))
