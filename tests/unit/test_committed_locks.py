"""The locks in lock/ are what their image.toml asks for, whole, and without an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.core.companion import programs_of
from builder.core.companions import check
from builder.core.distribution import Distribution, of_lock
from builder.core.lock import Lock
from builder.core.overlap import Wins
from builder.core.pick import rank
from builder.core.spec import ImageSpec
from builder.core.target import target_of
from builder.core.toolchain import toolkit_of
from builder.core.wheel_target import wheel_target
from builder.edge.project import image_names, read_lock, read_sets, read_spec

ROOT = Path(__file__).parents[2]
GPU = ("cuda13-sm120", "cuda13-sm121")


@pytest.fixture(params=image_names(ROOT))
def pair(request: pytest.FixtureRequest) -> tuple[ImageSpec, Lock]:
    """Read one image and its lock."""
    return read_spec(ROOT, request.param), read_lock(ROOT, request.param)


def test_a_lock_is_made_from_its_spec_for_all_platforms(pair: tuple[ImageSpec, Lock]) -> None:
    """What `lock --check` asks."""
    spec, lock = pair
    assert spec.digest == lock.header.spec
    assert set(spec.image.platforms) == set(lock.platforms)


def test_no_finding_of_a_lock_is_an_error(pair: tuple[ImageSpec, Lock]) -> None:
    """Companions, torch family, toolchain, identity, origins, requirements: from files alone."""
    spec, lock = pair
    for platform, content in lock.platforms.items():
        image = Distribution(name="image", version="0", requires_dist=tuple(spec.lock.requirements))
        target = target_of(
            spec,
            platform,
            glibc=wheel_target(spec, platform).glibc,
            programs=programs_of(pin.name for pin in content.debs),
        )
        found = check(
            [image, *of_lock(content)],
            target,
            spec.lock.policies,
            sources=spec.lock.sources,
            overrides=spec.lock.overrides,
        )
        assert [] == [row for row in found if row.severity == "error"]


def test_every_wheel_fits_its_target_whatever_machine_this_is(
    pair: tuple[ImageSpec, Lock],
) -> None:
    """Tags of the platform, arm64 on an amd64 host included."""
    spec, lock = pair
    for platform, content in lock.platforms.items():
        target = wheel_target(spec, platform)
        assert [] == [pin.file for pin in content.wheels if rank(pin.file, target) is None]


def test_winners_are_those_that_image_toml_states(pair: tuple[ImageSpec, Lock]) -> None:
    """No path has a winner nobody stated."""
    spec, lock = pair
    stated = {row.package for row in spec.lock.winners}
    won: list[Wins] = [content.wins for content in lock.platforms.values()]
    assert stated == {winner for wins in won for winner in wins}


@pytest.mark.parametrize("image", GPU)
def test_the_toolchain_is_of_one_minor(image: str) -> None:
    """cuda-toolchain-mixed: nvcc, nvvm, crt, cccl, nvrtc, nvjitlink, runtime of 13.0."""
    (content,) = read_lock(ROOT, image).platforms.values()
    parts = {
        pin.name: minor
        for pin in content.wheels
        if (minor := toolkit_of(pin.name, pin.version)) is not None
    }
    assert {
        "nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl",
        "nvidia-cuda-nvrtc", "nvidia-nvjitlink", "nvidia-cuda-runtime",
    } <= parts.keys()  # fmt: skip
    assert {"13.0"} == set(parts.values())


def test_images_of_a_set_have_one_vllm() -> None:
    """One version and one commit."""
    for members in read_sets(ROOT).values():
        found = {
            (header.vllm.version, header.vllm.commit)
            for header in (read_lock(ROOT, image).header for image in members.values())
        }
        assert 1 == len(found)


@pytest.mark.parametrize("image", GPU)
def test_vllm_is_alone_and_last(image: str) -> None:
    """And the wheels are spread over no more layers than the budget."""
    spec = read_spec(ROOT, image)
    (groups,) = read_lock(ROOT, image).header.layers.values()
    assert ["vllm"] == groups[-1]
    assert len(groups) <= spec.layers.budget
