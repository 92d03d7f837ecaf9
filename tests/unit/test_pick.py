"""Which wheel of a version fits a target best, as pip decides it."""

from __future__ import annotations

import pytest
from packaging.tags import Tag

from builder.core.pick import best, rank
from builder.core.simple import Candidate
from builder.core.spec import parse_spec
from builder.core.wheel_target import WheelTarget, wheel_target
from builder.errors import SpecError
from tests.support.small_lock import small_spec_text

BOOKWORM = WheelTarget(python="3.11", glibc="2.36", machine="x86_64")
ARM = WheelTarget(python="3.13", glibc="2.41", machine="aarch64")


def offered(*files: str) -> list[Candidate]:
    """Make up candidates."""
    return [Candidate(file=file, url=f"https://example.org/{file}", place="x") for file in files]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        # The interpreter's own tag before the stable ABI, before pure Python.
        (["a-1-py3-none-any.whl", "a-1-cp311-cp311-manylinux_2_17_x86_64.whl"], 1),
        (
            [
                "a-1-cp38-abi3-manylinux_2_28_x86_64.whl",
                "a-1-cp311-cp311-manylinux_2_5_x86_64.whl",
            ],
            1,
        ),
        (["a-1-cp38-abi3-manylinux_2_28_x86_64.whl", "a-1-py3-none-any.whl"], 0),
        # The newest glibc that the target has.
        (
            [
                "a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
                "a-1-cp311-cp311-manylinux_2_28_x86_64.whl",
                "a-1-cp311-cp311-manylinux_2_37_x86_64.whl",
            ],
            1,
        ),
        # A newer stable ABI before an older one.
        (
            [
                "a-1-cp38-abi3-manylinux_2_28_x86_64.whl",
                "a-1-cp310-abi3-manylinux_2_28_x86_64.whl",
            ],
            1,
        ),
        # The highest build number, as a number.
        (["a-1-2-py3-none-any.whl", "a-1-10-py3-none-any.whl", "a-1-py3-none-any.whl"], 1),
        # Other machines, systems and interpreters never.
        (["a-1-cp311-cp311-musllinux_1_2_x86_64.whl", "a-1-py2.py3-none-any.whl"], 1),
    ],
)
def test_the_best_wheel_is_picked_in_any_order(files: list[str], wanted: int) -> None:
    """By tag, then by build number."""
    for order in (files, files[::-1]):
        found = best(offered(*order), BOOKWORM)
        assert found is not None
        assert files[wanted] == found.file


@pytest.mark.parametrize(
    "file",
    [
        "a-1-cp312-cp312-manylinux_2_17_x86_64.whl",
        "a-1-cp312-abi3-manylinux_2_17_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_17_aarch64.whl",
        "a-1-cp311-cp311-manylinux_2_37_x86_64.whl",
        "a-1-cp311-cp311-win_amd64.whl",
        "a-1-cp311-cp311-macosx_11_0_x86_64.whl",
        "a-1-py2-none-any.whl",
    ],
)
def test_what_does_not_fit_is_never_picked(file: str) -> None:
    """Newer Python, other machine, newer glibc, other system."""
    assert (None, None) == (best(offered(file), BOOKWORM), rank(file, BOOKWORM))


def test_the_file_that_is_locked_is_kept() -> None:
    """A better wheel that came later does not replace it by itself."""
    files = ["a-1-py3-none-any.whl", "a-1-cp311-cp311-manylinux_2_28_x86_64.whl"]
    kept = best(offered(*files), BOOKWORM, keep=files[0])
    assert kept is not None
    assert files[0] == kept.file
    gone = best(offered(files[1]), BOOKWORM, keep=files[0])
    assert gone is not None
    assert files[1] == gone.file


def test_ranks_are_those_of_the_target() -> None:
    """Tags of PEP 600 and the old names beside them, for each machine from its first glibc on."""
    assert 0 == BOOKWORM.ranks[Tag("cp311", "cp311", "manylinux_2_36_x86_64")]
    assert (
        BOOKWORM.ranks[Tag("cp311", "cp311", "manylinux_2_17_x86_64")] + 1
        == BOOKWORM.ranks[Tag("cp311", "cp311", "manylinux2014_x86_64")]
    )
    assert Tag("cp313", "cp313", "manylinux_2_41_aarch64") in ARM.ranks
    assert Tag("cp313", "cp313", "manylinux_2_16_aarch64") not in ARM.ranks
    assert Tag("cp313", "cp313", "manylinux_2_17_x86_64") not in ARM.ranks
    assert ("x86_64-manylinux_2_36", "aarch64-manylinux_2_40") == (
        BOOKWORM.uv_platform,
        ARM.uv_platform,
    )


def test_a_base_of_unknown_glibc_cannot_be_a_target() -> None:
    """The error names the key; once the base was read, its glibc counts."""
    text = small_spec_text().replace('debian = "bookworm"', 'image = "debian:13"')
    spec = parse_spec(text, "images/cpu/image.toml")
    with pytest.raises(SpecError, match=r"base\.image"):
        wheel_target(spec, "linux/amd64")
    assert "2.41" == wheel_target(spec, "linux/amd64", "2.41").glibc
