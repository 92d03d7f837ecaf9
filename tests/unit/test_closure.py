"""What some requirements need within a set, on the target."""

from __future__ import annotations

from builder.core.closure import reachable
from builder.core.distribution import Distribution
from builder.core.target import Target

AMD64 = Target(python="3.11", platform="linux/amd64").environment
ARM64 = Target(python="3.13", platform="linux/arm64").environment


def package(name: str, *requires: str) -> Distribution:
    """Make up a package."""
    return Distribution(name=name, version="1", requires_dist=requires)


def test_only_what_the_roots_need_is_reached() -> None:
    """In a circle, by any spelling; a package that nobody asks for is not."""
    packages = [
        package("vllm", "Foo.Bar"),
        package("foo-bar", "vllm"),
        package("lonely", "vllm"),
    ]
    assert {"vllm", "foo-bar"} == reachable(["VLLM>0"], packages, AMD64)


def test_markers_are_evaluated_for_the_target() -> None:
    """The same set reaches further on one platform than on the other."""
    packages = [
        package("vllm", "arm; platform_machine == 'aarch64'", "new; python_version >= '3.12'"),
        package("arm"),
        package("new"),
    ]
    assert {"vllm"} == reachable(["vllm"], packages, AMD64)
    assert {"vllm", "arm", "new"} == reachable(["vllm"], packages, ARM64)


def test_extras_are_followed_only_where_they_are_asked_for() -> None:
    """Through two packages, and through an extra that asks for another of its own package."""
    packages = [
        package("vllm", "ray[all]", "idle; extra == 'audio'"),
        package("ray", "ray[cgraph]; extra == 'all'", "cupy; extra == 'cgraph'"),
        package("cupy"),
        package("idle"),
    ]
    assert {"vllm", "ray", "cupy"} == reachable(["vllm"], packages, AMD64)
    assert {"vllm", "ray", "cupy", "idle"} == reachable(["vllm[audio]"], packages, AMD64)


def test_an_override_can_leave_a_package_out() -> None:
    """By a marker that is never true."""
    packages = [package("vllm", "torchvision"), package("torchvision")]
    overrides = ["torchvision; sys_platform == 'never'"]
    assert {"vllm"} == reachable(["vllm"], packages, AMD64, overrides)
