"""Sets of locked .debs: digest, sources to ask, what moved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.core.debs import (
    DebChange,
    architecture_of,
    by_release,
    candidates,
    debs_digest,
    debs_text,
    diff_debs,
    diff_text,
    release_of,
    with_debs,
)
from builder.core.lock import BaseLock, DebPin, Lock, digest_of
from tests.support.small_lock import AMD64, small_lock

ARCHIVES = {
    "bookworm": ("http://one/debian", "http://two/debian"),
    "bookworm-security": ("http://one/debian-security",),
}


def pin(name: str, version: str = "1", sha256: str = "a", suite: str = "bookworm") -> DebPin:
    """One locked .deb."""
    pool = "pool/updates/main" if suite.endswith("-security") else "pool/main"
    return DebPin(
        name=name,
        version=version,
        architecture="amd64",
        sha256=sha256 * 64,
        size=10,
        path=f"{pool}/{name}_{version}_amd64.deb",
        suite=suite,
        source=name,
    )


def test_the_digest_does_not_depend_on_order() -> None:
    """It is that of the sorted file."""
    one, two = pin("a"), pin("b")
    assert debs_digest([one, two]) == debs_digest([two, one])
    assert digest_of(debs_text([two, one])) == debs_digest([one, two])
    assert f"{one.line()}\n{two.line()}\n".encode() == debs_text([two, one])


@pytest.mark.parametrize(
    ("platform", "expected"), [("linux/amd64", "amd64"), ("linux/arm64", "arm64")]
)
def test_architectures(platform: str, expected: str) -> None:
    """Debian's names of ours."""
    assert expected == architecture_of(platform)


def test_sources_of_a_release_package() -> None:
    """Its own mirrors first, then the other archive under both layouts, then the snapshot."""
    assert candidates(pin("x"), ARCHIVES, "http://snap/{archive}/2026/") == (
        "http://one/debian/pool/main/x_1_amd64.deb",
        "http://two/debian/pool/main/x_1_amd64.deb",
        "http://one/debian-security/pool/main/x_1_amd64.deb",
        "http://one/debian-security/pool/updates/main/x_1_amd64.deb",
        "http://snap/debian/2026/pool/main/x_1_amd64.deb",
    )


def test_sources_of_a_security_package() -> None:
    """A point release moves it from the security archive's pool to the mirrors' own."""
    assert candidates(pin("x", suite="bookworm-security"), ARCHIVES, "http://snap/{archive}") == (
        "http://one/debian-security/pool/updates/main/x_1_amd64.deb",
        "http://one/debian/pool/updates/main/x_1_amd64.deb",
        "http://one/debian/pool/main/x_1_amd64.deb",
        "http://two/debian/pool/updates/main/x_1_amd64.deb",
        "http://two/debian/pool/main/x_1_amd64.deb",
        "http://snap/debian-security/pool/updates/main/x_1_amd64.deb",
    )


def test_without_an_archive_there_is_no_source() -> None:
    """An unknown suite asks nobody."""
    assert candidates(pin("x"), {}) == ()


def test_what_moved_between_two_sets() -> None:
    """Added, removed, changed, rebuilt; what stayed is not told."""
    old = [pin("a"), pin("b"), pin("c", "1"), pin("d", sha256="1")]
    new = [pin("a"), pin("c", "2", "b"), pin("d", sha256="2"), pin("e")]
    changes = diff_debs(old, new)
    assert [
        ("b", "removed", "1", ""),
        ("c", "changed", "1", "2"),
        ("d", "rebuilt", "1", "1"),
        ("e", "added", "", "1"),
    ] == [(row.name, row.kind, row.old, row.new) for row in changes]
    assert diff_text(changes) == (
        ".debs: 1 added, 1 changed, 1 rebuilt, 1 removed\n"
        "  b:amd64 1 → (none)\n"
        "  c:amd64 1 → 2\n"
        "  d:amd64 1 → 1\n"
        "  e:amd64 (none) → 1"
    )


def test_nothing_moved() -> None:
    """One sentence, not an empty text."""
    assert diff_debs([pin("a")], [pin("a")]) == ()
    assert diff_text(()) == "no .deb changed"
    assert str(DebChange(name="a", architecture="all", old="1", new="2")) == "a:all 1 → 2"


def test_other_debs_leave_the_rest_of_a_lock_alone() -> None:
    """The digest of debs.txt follows; wheels, layers and spec stay; the lock reads back."""
    lock = small_lock()
    (platform,) = lock.platforms
    debs = (pin("bb"), pin("aa"))
    moved = with_debs(lock, platform, debs)
    assert moved.platforms[platform] == replace(lock.platforms[platform], debs=debs[::-1])
    assert moved.header.base.debs == {**lock.header.base.debs, platform: debs_digest(debs)}
    assert moved.header.model_copy(update={"base": lock.header.base}) == lock.header
    assert Lock.parse(moved.files(), "x").digest == moved.digest


def test_the_release_below_an_image() -> None:
    """What the lock says; on a base image what its .debs come from, if there are any."""
    made = small_lock()
    assert "bookworm" == release_of(made, AMD64)
    on_image = small_lock(base=BaseLock(image="debian:12", images={AMD64: "sha256:" + "c" * 64}))
    assert "bookworm" == release_of(on_image, AMD64)
    fixes = replace(on_image.platforms[AMD64].debs[0], suite="bookworm-security")
    assert {"bookworm": (fixes,)} == by_release([fixes, fixes])
    bare = replace(on_image, platforms={AMD64: replace(on_image.platforms[AMD64], debs=())})
    assert "" == release_of(bare, AMD64)
