"""Stock pip and uv take the committed locks of the CUDA images, with the store as find-links.

A few megabytes of each lock in every run. All of it, 4 GB of downloads an image that stay in the
store, 3 GB more for a while, and 4 minutes once the store has them:

    pytest -m long tests/integration/test_lock_installers.py -k cuda13-sm120
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from builder.commands.context import Context
from builder.core.lock import WheelPin
from builder.core.wheel_target import WheelTarget, wheel_target
from builder.edge.project import read_lock, read_spec
from builder.edge.reach import open_indexes
from builder.edge.store import Store
from builder.edge.wheelhouse import fetch_wheels
from tests.support.installers import run_pip, run_uv

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[2]
IMAGES = ("cuda13-sm120", "cuda13-sm121")
FEW = 12
ONE_GO = 600_000_000
"""Bytes of wheels that are unpacked at the same time."""


@pytest.fixture(params=IMAGES)
def image(request: pytest.FixtureRequest) -> str:
    """Name an image."""
    return str(request.param)


def pins_of(image: str) -> tuple[WheelPin, ...]:
    """Every locked wheel of its one platform."""
    (content,) = read_lock(ROOT, image).platforms.values()
    return content.wheels


def target_of(image: str) -> WheelTarget:
    """Return what the image is, whatever machine runs these tests."""
    spec = read_spec(ROOT, image)
    return wheel_target(spec, spec.image.platforms[0])


def small_ones(image: str) -> list[WheelPin]:
    """Choose the smallest wheels, as many of them for the one machine alone as for any."""
    rows = sorted(pins_of(image), key=lambda pin: pin.size)
    anywhere = [pin for pin in rows if pin.file.endswith("-any.whl")]
    native = [pin for pin in rows if not pin.file.endswith("-any.whl")]
    return [*anywhere[:FEW], *native[:FEW]]


def lines_of(pins: Sequence[WheelPin], folder: Path) -> Path:
    """Write lines of the lock, as they are."""
    path = folder / "lines.txt"
    path.write_text("".join(pin.line() + "\n" for pin in pins))
    return path


def view(context: Context, image: str, pins: Sequence[WheelPin], folder: Path) -> Path:
    """Fetch wheels into the store, and give them their names in a folder."""
    store = Store(context.places.store)
    settings = context.settings
    with open_indexes(settings, os.environ, connections=settings.threads) as indexes:
        fetch_wheels(
            [pin for pin in pins if not store.has(pin.sha256, pin.size)],
            store,
            indexes,
            image=image,
            threads=settings.threads,
            on_bytes=lambda _: None,
        )
    links = folder / "links"
    links.mkdir()
    for pin in pins:
        (links / pin.file).symlink_to(store.path(pin.sha256))
    return links


def installed(output: str) -> set[str]:
    """Read uv's list of what it installed, or would."""
    return {line.split()[1] for line in output.splitlines() if line.startswith(" + ")}


def test_both_take_lines_of_the_lock(image: str, engine_context: Context, tmp_path: Path) -> None:
    """For the image's machine and Python, on whatever machine this is; every hash is checked."""
    pins = small_ones(image)
    links, lines = view(engine_context, image, pins, tmp_path), lines_of(pins, tmp_path)
    ran = run_pip(target_of(image), links, lines)
    assert 0 == ran.returncode, ran.stdout
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("Would install "))
    assert len(pins) == len(line.removeprefix("Would install ").split())
    ran = run_uv(target_of(image), links, lines, into=tmp_path / "into")
    assert 0 == ran.returncode, ran.stdout
    assert {f"{pin.name}=={pin.version}" for pin in pins} == installed(ran.stdout)


def test_both_refuse_a_wrong_hash(image: str, engine_context: Context, tmp_path: Path) -> None:
    """So it is the hashes that they go by."""
    pin = min(small_ones(image))
    links, lines = view(engine_context, image, [pin], tmp_path), lines_of([pin], tmp_path)
    lines.write_text(lines.read_text().replace(pin.sha256, "0" * 64))
    ran = run_pip(target_of(image), links, lines)
    assert 0 != ran.returncode
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in ran.stdout
    ran = run_uv(target_of(image), links, lines, into=tmp_path / "into")
    assert 0 != ran.returncode
    assert "Hash mismatch" in ran.stdout


def portions(pins: Sequence[WheelPin]) -> Iterator[list[WheelPin]]:
    """Part wheels so that each part can be unpacked; nothing depends on another without deps."""
    part: list[WheelPin] = []
    for pin in pins:
        if part and sum(one.size for one in part) + pin.size > ONE_GO:
            yield part
            part = []
        part.append(pin)
    yield part


@pytest.mark.long
def test_both_take_all_of_the_lock(image: str, engine_context: Context, tmp_path: Path) -> None:
    """The file as it is committed: pip in one run, uv as far as the disk allows at a time."""
    pins, aim = pins_of(image), target_of(image)
    links = view(engine_context, image, pins, tmp_path)
    (file,) = (ROOT / "lock" / image).glob("linux-*64.txt")
    ran = run_pip(aim, links, file)
    assert 0 == ran.returncode, ran.stdout
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("Would install "))
    assert len(pins) == len(line.removeprefix("Would install ").split())
    ran = run_uv(aim, links, file)
    assert 0 == ran.returncode, ran.stdout
    assert {f"{pin.name}=={pin.version}" for pin in pins} == installed(ran.stdout)
    for part in portions(pins):
        room = tmp_path / "room"
        room.mkdir()
        ran = run_uv(aim, links, lines_of(part, room), into=room / "into")
        assert 0 == ran.returncode, ran.stdout
        assert {f"{pin.name}=={pin.version}" for pin in part} == installed(ran.stdout)
        shutil.rmtree(room)
