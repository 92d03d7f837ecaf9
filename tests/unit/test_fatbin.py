"""GPU code in a file: kinds, architectures, and pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.core.fatbin import FatbinScan
from tests.support.fatbin import entry, fatbin, wrap


def scan(data: bytes, piece: int = 1 << 20) -> dict[str, tuple[int, int]]:
    """Feed a file in pieces; architecture → entries and bytes."""
    found = FatbinScan()
    for start in range(0, len(data), piece):
        found.feed(data[start : start + piece])
    return {one.code.architecture: (one.count, one.size) for one in found.amounts()}


def test_kinds_and_suffixes_are_told_apart() -> None:
    """`cuobjdump --list-elf` prints sm_120 for the first two and the last but one."""
    data = fatbin("sm_120", "sm_120a", "sm_120f", "compute_80", "sm_120f", size=64)
    expected = {"sm_120": (1, 64), "sm_120a": (1, 64), "sm_120f": (2, 128), "compute_80": (1, 64)}
    assert expected == scan(data)


def test_several_fat_binaries_and_what_lies_between() -> None:
    """An object has one a translation unit, with host code around them."""
    data = b"host" * 9 + fatbin("sm_90a") + b"\0" * 7 + fatbin("sm_90a", padding=8) + b"tail"
    assert {"sm_90a": (2, 512)} == scan(data)


def test_the_magic_inside_of_code_is_no_fat_binary() -> None:
    """Code is passed over, never looked into."""
    inner = fatbin("sm_75")
    outer = entry("sm_120", len(inner)).removesuffix(entry("sm_120", len(inner))[64:]) + inner
    assert {"sm_120": (1, len(inner))} == scan(wrap(outer))


@pytest.mark.parametrize("version", [0, 2, 0xFFFF])
def test_four_bytes_that_look_like_one_are_none(version: int) -> None:
    """Random bytes hold the magic now and then; what follows decides, and the search goes on."""
    false = bytearray(fatbin("sm_80"))
    false[4:6] = version.to_bytes(2, "little")
    assert {"sm_120f": (1, 256)} == scan(bytes(false) + fatbin("sm_120f"))


def test_intermediate_code_is_passed_over() -> None:
    """Kinds that no driver loads are neither machine code nor PTX."""
    data = wrap(entry("sm_90", kind=8) + entry("sm_120f"))
    assert {"sm_120f": (1, 256)} == scan(data)


def test_a_damaged_entry_ends_its_fat_binary_alone() -> None:
    """A size that leads out of it is not followed."""
    bad = bytearray(entry("sm_80"))
    bad[8:16] = (1 << 40).to_bytes(8, "little")
    assert {"sm_120": (1, 256)} == scan(wrap(bytes(bad)) + fatbin("sm_120"))


def test_a_file_that_ends_in_the_middle() -> None:
    """As of a partial download: what came counts."""
    data = fatbin("sm_80", "sm_120f")
    assert {"sm_80": (1, 256)} == scan(data[: 16 + 64 + 256 + 40])


ARCHITECTURES = st.lists(
    st.sampled_from(["sm_75", "sm_90a", "sm_120", "sm_120f", "compute_80"]), min_size=1, max_size=6
)


@given(
    parts=st.lists(
        st.tuples(ARCHITECTURES, st.integers(16, 300), st.binary(max_size=40), st.booleans()),
        max_size=6,
    ),
    piece=st.integers(1, 400),
)
def test_pieces_of_any_size_give_the_same(
    parts: list[tuple[list[str], int, bytes, bool]], piece: int
) -> None:
    """However the bytes arrive: the same counts as those that were written."""
    data, expected = b"", dict[str, tuple[int, int]]()
    for names, size, between, padded in parts:
        data += fatbin(*names, size=size, padding=8 * padded) + between
        for name in names:
            count, total = expected.get(name, (0, 0))
            expected[name] = (count + 1, total + size)
    assert expected == scan(data, piece) == scan(data)
