"""The channel `release`: the newest version with a wheel for every wanted platform."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from builder.core.nightly_set import Want
from builder.core.releases import Release, asked_of, newest_release, pinned
from builder.core.simple import Candidate
from builder.core.wheel_target import WheelTarget
from builder.errors import NotOffered, Refused

AMD = Want(
    variant="",
    platform="linux/amd64",
    target=WheelTarget(python="3.13", glibc="2.41", machine="x86_64"),
)
ARM = Want(
    variant="",
    platform="linux/arm64",
    target=WheelTarget(python="3.13", glibc="2.41", machine="aarch64"),
)


def wheel(spelled: str, machine: str = "x86_64", glibc: str = "2_28", **more: str) -> Candidate:
    """Offer a vLLM; `spelled` may have a build tag."""
    file = f"vllm-{spelled}-cp38-abi3-manylinux_{glibc}_{machine}.whl"
    return Candidate(file=file, url=f"https://x.example/{file}", place="general", **more)  # type: ignore[arg-type]


def both(version: str, **more: str) -> list[Candidate]:
    """Offer a vLLM for both machines."""
    return [wheel(version, machine, **more) for machine in ("x86_64", "aarch64")]


def choose(rows: list[Candidate], asked: str = "vllm", keep: str = "") -> Release:
    """Choose for both machines."""
    return newest_release(rows, [AMD, ARM], asked, place="general", keep=frozenset({keep}))


def test_the_newest_complete_version_is_taken_and_the_newer_one_explained() -> None:
    """nightly-missing-for-platform: 0.34.0 has no aarch64 wheel yet."""
    found = choose([*both("0.32.0"), *both("0.33.0"), wheel("0.34.0")])
    assert "0.33.0" == found.version
    assert {"linux/amd64": "x86_64", "linux/arm64": "aarch64"} == {
        want.platform: row.file.removesuffix(".whl").rpartition("2_28_")[2]
        for want, row in found.wheels.items()
    }
    (skip,) = found.skipped
    assert "nightly-missing-for-platform" == skip.key
    assert (
        "vllm 0.34.0 has no wheel for linux/arm64; it has "
        "vllm-0.34.0-cp38-abi3-manylinux_2_28_x86_64.whl" == str(skip)
    )


def test_a_newer_glibc_than_the_base_has_is_named() -> None:
    """manylinux-floor: the wheel is there, and would not load."""
    rows = [*both("0.33.0"), wheel("0.34.0", glibc="2_42"), wheel("0.34.0", "aarch64")]
    (skip,) = choose(rows).skipped
    assert "manylinux-floor" == skip.key
    assert "vllm 0.34.0 needs glibc 2.42, the base of linux/amd64 has 2.41" == str(skip)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (both("0.34.0rc1"), "vllm 0.34.0rc1 is a pre-release"),
        (both("0.34.0+cpu"), "vllm 0.34.0+cpu is the build cpu"),
        (both("0.34.0", yanked="broken"), "vllm 0.34.0 was withdrawn by its publisher: broken"),
        (
            both("0.34.0", requires_python=">=3.14"),
            "vllm 0.34.0 wants Python >=3.14; linux/amd64 has 3.13",
        ),
    ],
)
def test_what_is_not_taken_has_its_reason(rows: list[Candidate], why: str) -> None:
    """The version below is taken instead."""
    found = choose([*rows, *both("0.33.0")])
    assert "0.33.0" == found.version
    assert why == str(found.skipped[0])


def test_a_pre_release_is_taken_when_it_is_asked_for() -> None:
    """stable-outranks-nightly: who names rc1 does not get 0.33.0, nor the other way round."""
    rows = [*both("0.34.0rc1"), *both("0.33.0")]
    assert "0.34.0rc1" == choose(rows, "vllm==0.34.0rc1").version
    assert "0.33.0" == choose(rows, "vllm<0.34").version
    assert "0.33.0" == choose(rows, "vllm>=0.30").version


def test_the_highest_build_is_taken_unless_another_file_is_locked() -> None:
    """0.33.0 and 0.33.0-1 are different bytes of one version."""
    rows = [*both("0.33.0"), wheel("0.33.0-1")]
    assert "vllm-0.33.0-1-cp38" in choose(rows).wheels[AMD].file
    locked = "vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    assert locked == choose(rows, keep=locked).wheels[AMD].file


def test_refusals_say_what_there_is() -> None:
    """Nothing at all, nothing that was asked for, nothing complete."""
    with pytest.raises(NotOffered, match="the index has no wheel of vllm"):
        choose([])
    with pytest.raises(Refused, match=r"no version of vllm is ==9; the newest is 0\.33\.0"):
        choose(both("0.33.0"), "vllm==9")
    with pytest.raises(Refused, match=r"vllm 0\.33\.0 has no wheel for linux/arm64") as caught:
        choose([wheel("0.33.0")])
    assert ["nightly-missing-for-platform"] == [row.key for row in caught.value.findings]


def test_requirements_are_pinned_and_the_rest_stays() -> None:
    """Extras stay; several lines about vLLM are joined."""
    rows = ["torch>=2", "vllm[b12x]>=0.30", "VLLM<1"]
    assert ["torch>=2", "vllm[b12x]==0.33.0"] == pinned(rows, "vllm", "0.33.0")
    assert "vllm<1,>=0.30" == asked_of(rows, "vllm")
    assert ["ninja", "vllm==0.33.0"] == pinned(["ninja"], "vllm", "0.33.0")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["0.9.0", "0.10.0", "0.32.0", "0.33.0", "0.33.1rc1"]),
            st.sampled_from(["x86_64", "aarch64"]),
        ),
        unique=True,
    ),
    st.randoms(use_true_random=False),
)
def test_the_choice_is_the_greatest_complete_stable_version(
    offered: list[tuple[str, str]], random: object
) -> None:
    """By a naive second implementation, in any order of the page."""
    rows = [wheel(version, machine) for version, machine in offered]
    random.shuffle(rows)  # type: ignore[attr-defined]
    complete = [
        Version(version)
        for version, machine in offered
        if machine == "x86_64" and (version, "aarch64") in offered and "rc" not in version
    ]
    if complete:
        assert str(max(complete)) == choose(rows).version
    else:
        with pytest.raises((Refused, NotOffered)):
            choose(rows)
