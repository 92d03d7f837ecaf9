"""How much a build takes, before it is begun."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from builder.core.room import (
    build_bytes,
    cached_stages,
    disk_full_line,
    parse_total,
    stage_key,
)
from builder.edge import container
from builder.edge.context import installed_bytes
from builder.errors import DiskFull


def test_the_cpu_image_needs_what_was_measured() -> None:
    """Wheels of 0.92 GB holding 3.1 GB on a base of 0.51 GB filled 13 GB of an empty engine."""
    needed = build_bytes(
        context=1_422_000_000, wheels=916_000_000, installed=3_100_000_000, base=506_000_000
    )
    assert 13.0e9 <= needed <= 14.5e9


STAGES = {"base": 500, "torch": 4000, "vllm": 900}


def test_stages_of_an_earlier_build_take_nothing_again() -> None:
    """The build that has most in common counts; what others left may be pruned by now."""
    earlier = [frozenset({"base", "vllm"}), frozenset({"base", "torch", "older"}), frozenset()]
    assert {"base", "torch"} == cached_stages(STAGES, earlier, 9000)


def test_a_pruned_cache_holds_nothing() -> None:
    """Less than what the stages fill is left of them."""
    assert frozenset() == cached_stages(STAGES, [frozenset({"base", "torch"})], 4499)
    assert frozenset() == cached_stages(STAGES, [], 9000)


def test_a_stage_is_named_by_its_wheels() -> None:
    """Their order says nothing."""
    assert stage_key(["a", "b"]) == stage_key(["b", "a"])
    assert stage_key(["a", "b"]) != stage_key(["a"])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Reclaimable:\t1.5GB\nTotal:\t\t28.45GB\n", 28_450_000_000),
        ("Total:\t0B\n", 0),
        ("Total: 512.1kB", 512_100),
        ("", 0),
        ("Total: much", 0),
    ],
)
def test_the_size_of_a_cache_is_read(said: str, expected: int) -> None:
    """As `docker buildx du` ends."""
    assert expected == parse_total(said)


def test_installed_bytes_are_those_of_the_files(tmp_path: Path) -> None:
    """Not what they take packed."""
    for name in ("a.whl", "b.whl"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr("big", b"0" * 100_000)
    assert 200_000 == installed_bytes(tmp_path.glob("*.whl"))


@pytest.mark.parametrize(
    "line",
    [
        "E: Write error - write (28: No space left on device)",
        "error: failed to write to file `/cache/a`: No space left on device (os error 28)",
        "tar: ./usr: Cannot mkdir: Disk quota exceeded",
        "tar: ./usr/share/one: Wrote only 6144 of 10240 bytes",
        "E: You don't have enough free space in /var/cache/apt/archives/.",
    ],
)
def test_programs_say_that_a_disk_is_full(line: str) -> None:
    """The line is found among others, whoever wrote it."""
    assert line == disk_full_line(f"Get:1 bookworm\n  {line}\nE: some more")


def test_other_trouble_is_no_full_disk() -> None:
    """Nor is a number that looks like one."""
    assert not disk_full_line("E: 404  Not Found\n28: disk free space 0\n")


def test_a_pull_without_room_is_no_trouble_of_the_network() -> None:
    """The engine's words; the advice is about its disk."""
    said = "failed to register layer: write /usr/lib/a.so: no space left on device"
    error = container._not_pulled(said, "example.org/a")
    assert isinstance(error, DiskFull)
    assert said in error.what
    assert "docker system df" in error.action
