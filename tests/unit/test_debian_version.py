"""Order of Debian versions, beside dpkg's own answer."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.core.debian_version import version_key

ASCENDING = (
    "~~",
    "~~a",
    "~",
    "",
    "0.0-0~1",
    "0.0",
    "0.0.1",
    "0.19.0-1",
    "0.19.0-1+b1",
    "0.19.0-1+b3",
    "0.19.0-1.1",
    "1.0~beta1~svc1",
    "1.0~beta1",
    "1.0~rc1-1",
    "1.0",
    "1.0-1~bpo12+1",
    "1.0-1",
    "1.0-1+deb12u1",
    "1.0-1+deb12u2",
    "1.0-1+deb12u10",
    "1.0-1+deb13u1",
    "1.0-2",
    "1.0a",
    "1.0+dfsg-1",
    "1.0.1",
    "1.0.9",
    "1.0.10",
    "2.36-9+deb12u14",
    "2.41-12+deb13u1",
    "3.5.1-1+deb13u1",
    "3.5.1-1+deb13u2",
    "2026a-0+deb13u1",
    "2026b-0+deb13u1",
    "1:0.1",
    "1:1.2.13.dfsg-1",
    "2:0~",
)
SAME = (("1.0", "0:1.0"), ("1.0", "1.00"), ("1.0-0", "1.0"), ("1.0a", "1.0a0"), ("0001", "1"))

WITH_DPKG = pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is not there")


def dpkg(first: str, relation: str, second: str) -> bool:
    """Ask dpkg."""
    command = ["dpkg", "--compare-versions", first, relation, second]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(ASCENDING)))
def test_versions_ascend(lower: str, higher: str) -> None:
    """Each row of the table is newer than the one before."""
    assert version_key(lower) < version_key(higher)


@pytest.mark.parametrize(("first", "second"), SAME)
def test_spellings_of_one_version_are_equal(first: str, second: str) -> None:
    """Leading zeros, epoch 0, revision 0 and an absent number make no other version."""
    assert version_key(first) == version_key(second)


@WITH_DPKG
@pytest.mark.parametrize(("lower", "higher"), [row for row in pairwise(ASCENDING) if all(row)])
def test_dpkg_agrees_with_the_table(lower: str, higher: str) -> None:
    """The table says what dpkg says."""
    assert dpkg(lower, "lt", higher)


@WITH_DPKG
@pytest.mark.parametrize(("first", "second"), SAME)
def test_dpkg_agrees_that_they_are_equal(first: str, second: str) -> None:
    """The same for equal ones."""
    assert dpkg(first, "eq", second)


PARTS = st.text("0129a.Z+~", min_size=1, max_size=6)


@WITH_DPKG
@given(PARTS, PARTS, st.sampled_from(("", "-1", "-1~", "-0", "-a")))
def test_any_two_versions_compare_as_dpkg_says(first: str, second: str, revision: str) -> None:
    """Whatever Policy allows, in any mixture."""
    left, right = f"1{first}{revision}", f"1{second}"
    ours = version_key(left) < version_key(right)
    assert dpkg(left, "lt", right) == ours
