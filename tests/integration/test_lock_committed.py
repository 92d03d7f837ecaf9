"""The lock in git: made again today it has the same bytes, and installers take it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from builder.commands import release
from builder.commands.context import Context
from builder.core.debian_version import version_key
from builder.core.debs import diff_debs
from builder.core.lock import Lock, WheelPin
from builder.core.wheel_target import WheelTarget, wheel_target
from builder.edge.project import read_lock, read_lock_folder, read_spec
from builder.edge.store import Store
from tests.support.installers import run_pip, run_uv
from tests.support.schemas import breaches

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[2]
AMD64 = "linux/amd64"
COMMITTED = ROOT / "lock/cpu"
WHEELS, DEBS, META = (f"linux-amd64.{ending}" for ending in ("txt", "debs.txt", "meta.json"))


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes of a lock's files."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def header_without_debs(folder: Path) -> dict[str, Any]:
    """Read lock.toml without what follows from the .debs, and from which uv is installed here.

    The resolver's version is recorded and makes no lock stale.
    """
    header = tomllib.loads((folder / "lock.toml").read_text())
    header["base"].pop("debs")
    header["files"].pop(DEBS)
    header["resolver"].pop("version")
    return header


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory, state_environment: dict[str, str]) -> Path:
    """Lock `cpu` once more, as a process, into another folder; git's stays as it is."""
    before = contents(COMMITTED)
    out = tmp_path_factory.mktemp("again") / "cpu"
    ran = subprocess.run(
        [sys.executable, "-m", "builder", "lock", "cpu", "--out", str(out), "--json"],
        cwd=ROOT,
        env=state_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr
    assert [] == breaches("lock", json.loads(ran.stdout))
    assert before == contents(COMMITTED)
    return out


def test_the_wheels_are_the_same_to_the_byte(again: Path) -> None:
    """Whatever the indexes offer by now: an earlier choice that still fits is kept."""
    committed, made = contents(COMMITTED), contents(again)
    assert [WHEELS, META] == [name for name in (WHEELS, META) if made[name] == committed[name]]
    assert committed.keys() == made.keys()


def test_the_header_is_the_same_but_for_the_debs(again: Path) -> None:
    """Spec, vLLM, companions, tools, layer plan, epoch, digests of the other files."""
    assert header_without_debs(COMMITTED) == header_without_debs(again)


def test_the_debs_are_the_same_unless_debian_moved_on(again: Path) -> None:
    """Debian's archive keeps no old versions, so what moved must have been superseded there.

    Nothing moved: the bytes of debs.txt are equal, and so is the digest in lock.toml.
    """
    own, made = read_lock_folder(COMMITTED), read_lock_folder(again)
    old, new = own.platforms[AMD64].debs, made.platforms[AMD64].debs
    changes = diff_debs(old, new)
    moved = [change for change in changes if change.kind == "changed"]
    backwards = [row for row in moved if version_key(row.new) <= version_key(row.old)]
    assert [] == backwards
    # The same version never has other bytes, and the set itself only changes when a package did.
    assert [] == [change for change in changes if change.kind == "rebuilt"]
    assert moved or not changes, changes
    if not changes:
        assert contents(COMMITTED)[DEBS] == contents(again)[DEBS]
        assert own.header.base == made.header.base


@pytest.fixture(scope="module")
def links(engine_context: Context, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a view of the store: the locked wheels under their file names."""
    release.fill_store(engine_context, "cpu", relock=True)
    store = Store(engine_context.places.store)
    folder = tmp_path_factory.mktemp("wheels")
    for pin in pins():
        (folder / pin.file).symlink_to(store.path(pin.sha256))
    return folder


def pins() -> tuple[WheelPin, ...]:
    """Every locked wheel."""
    lock: Lock = read_lock(ROOT, "cpu")
    return lock.platforms[AMD64].wheels


def target() -> WheelTarget:
    """Return what the image is, whatever Python runs these tests."""
    return wheel_target(read_spec(ROOT, "cpu"), AMD64)


def pip(links: Path, requirements: Path) -> subprocess.CompletedProcess[str]:
    """Run stock pip for the image."""
    return run_pip(target(), links, requirements)


def uv_pip(links: Path, requirements: Path) -> subprocess.CompletedProcess[str]:
    """Run stock uv for the image."""
    return run_uv(target(), links, requirements)


def test_pip_takes_the_platform_file_as_it_is(links: Path) -> None:
    """All of it, from the store alone, with every hash checked."""
    ran = pip(links, COMMITTED / WHEELS)
    assert 0 == ran.returncode, ran.stdout
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("Would install "))
    assert len(pins()) == len(line.removeprefix("Would install ").split())


def test_pip_refuses_it_with_one_wrong_hash(links: Path, tmp_path: Path) -> None:
    """So the hashes are read."""
    text = (COMMITTED / WHEELS).read_text()
    smallest = min(pins(), key=lambda pin: pin.size)
    (tmp_path / WHEELS).write_text(text.replace(smallest.sha256, "0" * 64))
    ran = pip(links, tmp_path / WHEELS)
    assert 0 != ran.returncode
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in ran.stdout
    assert smallest.name in ran.stdout


def test_uv_takes_the_platform_file_as_it_is(links: Path) -> None:
    """All of it, from the store alone."""
    ran = uv_pip(links, COMMITTED / WHEELS)
    assert 0 == ran.returncode, ran.stdout
    taken = {line.split()[1] for line in ran.stdout.splitlines() if line.startswith(" + ")}
    assert {f"{pin.name}=={pin.version}" for pin in pins()} == taken


def test_uv_refuses_it_with_a_wheel_that_is_not_there(links: Path, tmp_path: Path) -> None:
    """So it looked: a version that the store lacks is no solution."""
    text = (COMMITTED / WHEELS).read_text()
    first = min(pins())
    (tmp_path / WHEELS).write_text(text.replace(f"=={first.version} ", "==0.0.0.1 ", 1))
    ran = uv_pip(links, tmp_path / WHEELS)
    assert 0 != ran.returncode
    assert first.name in ran.stdout
