"""Which packages differ: kinds, order of versions, merging over platforms."""

from __future__ import annotations

import pytest

from builder.core.diff_packages import deb_changes, wheel_changes, wheel_order
from builder.core.lock import DebPin, WheelPin
from tests.support.two_nightlies import AMD64, ARM64, deb, wheel

NUMPY = wheel("numpy", "2.5.2")


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (None, NUMPY, "added"),
        (NUMPY, None, "removed"),
        (NUMPY, wheel("numpy", "2.10.0"), "upgraded"),
        (NUMPY, wheel("numpy", "2.5.2rc1"), "downgraded"),
        (wheel("vllm", "1.dev9+gabcdef0"), wheel("vllm", "1.dev10+g0123456"), "upgraded"),
        (NUMPY, wheel("numpy", "2.5.2", content="other bytes"), "re-hashed"),
        (NUMPY, wheel("numpy", "2.5.2", content="other bytes", index="mirror"), "re-hashed"),
        (NUMPY, wheel("numpy", "2.5.2", index="mirror"), "moved"),
        (NUMPY, wheel("numpy", "2.5.2", tag="1-py3-none-any"), "moved"),
        (wheel("torch", "2.14.0+cpu"), wheel("torch", "2.14.0+cu130"), "moved"),
        (wheel("torch", "2.14.0+cu130"), wheel("torch", "2.14.0+cu129"), "downgraded"),
        (wheel("vllm", "1.0+gabcdef012"), wheel("vllm", "1.0+g012345678"), "moved"),
        (NUMPY, NUMPY, None),
    ],
)  # fmt: skip
def test_kind_of_a_wheel_change(
    old: WheelPin | None, new: WheelPin | None, kind: str | None
) -> None:
    """One row for each way in which a line can differ."""
    before, after = [old] if old else [], [new] if new else []
    changes = wheel_changes({AMD64: before}, {AMD64: after}, [AMD64])
    assert ([kind] if kind else []) == [change.kind for change in changes]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (deb("tini", "0.19.0-1"), deb("tini", "0.19.0-1+b3"), "upgraded"),
        (deb("tini", "0.19.0-1"), deb("tini", "0.19.0-1~bpo12"), "downgraded"),
        (deb("tini", "9-1"), deb("tini", "10-1"), "upgraded"),
        (deb("tini", "9-1"), deb("tini", "9-1", content="other bytes"), "re-hashed"),
        (deb("tini", "9-1", suite="trixie-security"), deb("tini", "9-1"), "moved"),
    ],
)
def test_kind_of_a_deb_change(old: DebPin, new: DebPin, kind: str) -> None:
    """Versions of .debs are ordered as dpkg does, not as PEP 440."""
    assert [kind] == [c.kind for c in deb_changes({AMD64: [old]}, {AMD64: [new]}, [AMD64])]


def test_one_package_of_two_architectures_is_two_packages() -> None:
    """Multiarch: neither line hides the other."""
    both = [deb("libc6", "2.41-12"), deb("libc6", "2.41-12", architecture="i386")]
    changes = deb_changes({AMD64: both}, {AMD64: [*both[:1]]}, [AMD64])
    assert {("libc6", "added"), ("libc6:amd64", "removed"), ("libc6:i386", "removed")} == {
        (change.name, change.kind) for change in changes
    }


def test_equal_changes_of_platforms_are_one() -> None:
    """The files differ by platform, the change does not."""

    def pins(version: str) -> dict[str, list[WheelPin]]:
        return {
            AMD64: [wheel("numpy", version, tag="cp313-cp313-manylinux_2_28_x86_64")],
            ARM64: [wheel("numpy", version, tag="cp313-cp313-manylinux_2_28_aarch64")],
        }

    (change,) = wheel_changes(pins("2.5.2"), pins("2.6.0"), [ARM64, AMD64])
    assert ("upgraded", "2.5.2", "2.6.0") == (change.kind, change.old, change.new)
    assert [AMD64, ARM64] == change.platforms
    assert [pins("2.6.0")[name][0].file for name in (AMD64, ARM64)] == [
        file.new.file for file in change.files if file.new
    ]


def test_different_changes_of_platforms_stay_apart() -> None:
    """What moves on one platform only, or elsewhere to another version, is said twice."""
    old = {AMD64: [NUMPY], ARM64: [NUMPY]}
    new = {AMD64: [wheel("numpy", "2.6.0")], ARM64: [wheel("numpy", "2.7.0")]}
    assert [([AMD64], "2.6.0"), ([ARM64], "2.7.0")] == [
        (change.platforms, change.new) for change in wheel_changes(old, new, [AMD64, ARM64])
    ]


@pytest.mark.parametrize(
    ("old", "new", "order"),
    [
        ("1.0", "1.0.post1", 1),
        ("1.0.dev1", "1.0", 1),
        ("1.0", "1.0.0", 0),
        ("1.0+cu130", "1.0", 0),
        ("not a version", "1.0", 0),
        ("1!1.0", "2.0", -1),
    ],
)
def test_order_of_versions(old: str, new: str, order: int) -> None:
    """PEP 440, without an order between labels that have none."""
    assert order == wheel_order(old, new)
