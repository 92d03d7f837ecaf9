"""The store: whole and verified, or not there."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from pathlib import Path

import pytest

from builder.edge.context import installed_bytes, write_context
from builder.edge.store import Store, hash_file, link, verified
from builder.errors import HashMismatch

DATA = b"wheel" * 1000
SHA = hashlib.sha256(DATA).hexdigest()


def test_a_file_is_found_by_its_bytes(tmp_path: Path) -> None:
    """Below its sha256, read-only; a second copy changes nothing."""
    store = Store(tmp_path / "store")
    source = tmp_path / "a.whl"
    source.write_bytes(DATA)
    assert not store.has(SHA, len(DATA))
    assert SHA == store.add(source)
    assert SHA == store.add(source, SHA)
    path = store.path(SHA)
    assert (DATA, 0o444) == (path.read_bytes(), path.stat().st_mode & 0o777)
    assert tmp_path / "store" / "sha256" / SHA[:2] / SHA == path
    assert store.has(SHA, len(DATA))
    assert source.exists()


def test_a_file_of_another_size_does_not_count(tmp_path: Path) -> None:
    """A disk that lost its tail is noticed without reading it all."""
    store = Store(tmp_path)
    path = store.path(SHA)
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA[:-1])
    assert not store.has(SHA, len(DATA))


def test_other_bytes_are_refused_and_dropped(tmp_path: Path) -> None:
    """By `add`, which leaves the source alone, and by `keep`, which drops its scratch file."""
    store = Store(tmp_path / "store")
    source = tmp_path / "a.whl"
    source.write_bytes(b"other")
    with pytest.raises(HashMismatch, match=SHA):
        store.add(source, SHA)
    assert source.exists()
    with store.partial(SHA) as scratch:
        scratch.write_bytes(b"other")
        with pytest.raises(HashMismatch, match=SHA):
            store.keep(scratch, SHA, "https://example.org/a.whl")
        assert not scratch.exists()
    assert not store.path(SHA).exists()


def test_a_half_made_file_survives_a_failure(tmp_path: Path) -> None:
    """The next writer finds what the last one left; the lock beside it goes away."""
    store = Store(tmp_path)

    def fail() -> None:
        with store.partial(SHA) as scratch:
            scratch.write_bytes(DATA[:10])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [SHA] == [path.name for path in (tmp_path / "partial").iterdir()]
    with store.partial(SHA) as scratch:
        assert DATA[:10] == scratch.read_bytes()
        scratch.write_bytes(DATA)
        assert store.path(SHA) == store.keep(scratch, SHA, "")
    assert [] == list((tmp_path / "partial").iterdir())


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """A second one waits until the first has let go, and sees what it did."""
    store = Store(tmp_path)
    seen: list[bytes] = []

    def second() -> None:
        with store.partial(SHA) as scratch:
            seen.append(scratch.read_bytes())

    thread = threading.Thread(target=second)
    with store.partial(SHA) as scratch:
        thread.start()
        scratch.write_bytes(DATA[:10])
        assert [] == seen
    thread.join(30)
    assert [DATA[:10]] == seen


def test_many_writers_of_one_file_never_share_it(tmp_path: Path) -> None:
    """The lock file goes away with its owner; nobody holds one that is gone."""
    store = Store(tmp_path)
    inside: list[int] = []
    overlaps: list[int] = []

    def write(number: int) -> None:
        for _ in range(5):
            with store.partial(SHA):
                inside.append(number)
                overlaps.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [1] * 20 == overlaps
    assert [] == list((tmp_path / "partial").iterdir())


def test_a_file_without_a_known_hash_is_kept_under_what_it_is(tmp_path: Path) -> None:
    """The half-made one is found by its URL."""
    store = Store(tmp_path)
    url = "https://user@example.org/a%2Bb.whl"
    with store.unnamed(url) as scratch:
        scratch.write_bytes(DATA[:10])
    with store.unnamed(url) as scratch:
        assert DATA[:10] == scratch.read_bytes()
        scratch.write_bytes(DATA)
        assert SHA == store.keep_unnamed(scratch)
    assert store.has(SHA, len(DATA))


def test_a_link_has_the_same_bytes(tmp_path: Path) -> None:
    """Another name for a stored file."""
    source = tmp_path / "a"
    source.write_bytes(DATA)
    link(source, tmp_path / "folder" / "b.whl")
    assert DATA == (tmp_path / "folder" / "b.whl").read_bytes()
    heard: list[int] = []
    assert SHA == hash_file(source, heard.append)
    assert len(DATA) == sum(heard)


def test_a_file_that_the_disk_damaged_is_found_out(tmp_path: Path) -> None:
    """Of the right size, with other bytes: it is named, and gone, so that it is fetched again."""
    store = Store(tmp_path / "store")
    source = tmp_path / "a.whl"
    source.write_bytes(DATA)
    path = store.path(store.add(source))
    assert path == verified(path, "wheels/a.whl")
    path.chmod(0o644)
    path.write_bytes(DATA[:-1] + b"?")
    with pytest.raises(HashMismatch, match=r"wheels/a\.whl in the store was damaged") as caught:
        verified(path, "wheels/a.whl")
    assert str(path) == caught.value.subject
    assert "nightlock fetch" in caught.value.action
    assert ["hash-mismatch"] == [finding.key for finding in caught.value.findings]
    assert not store.has(SHA, len(DATA))


def test_a_build_folder_never_holds_a_damaged_file(tmp_path: Path) -> None:
    """Every file of the store is read before it is linked."""
    store = Store(tmp_path / "store")
    source = tmp_path / "a.whl"
    source.write_bytes(DATA)
    path = store.path(store.add(source))
    out = tmp_path / "out"
    write_context(out, {"Dockerfile": b"FROM scratch"}, {"wheels/a.whl": path})
    assert DATA == (out / "wheels/a.whl").read_bytes()
    path.chmod(0o644)
    path.write_bytes(b"x" * len(DATA))
    with pytest.raises(HashMismatch, match=r"wheels/a\.whl"):
        write_context(tmp_path / "second", {}, {"wheels/a.whl": path})
    assert not (tmp_path / "second/wheels/a.whl").exists()


def test_a_damaged_wheel_is_no_bug_of_ours(tmp_path: Path) -> None:
    """Its directory cannot be read: said as what it is."""
    store = Store(tmp_path / "store")
    source = tmp_path / "a.whl"
    with zipfile.ZipFile(source, "w") as wheel:
        wheel.writestr("a.py", b"1234")
    path = store.path(store.add(source))
    assert 4 == installed_bytes([path])
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(HashMismatch, match="damaged"):
        installed_bytes([path])
