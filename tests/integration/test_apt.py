"""The private apt root and the fetching of .debs, against archives in folders and the real one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from builder.core.debs import debs_text, diff_text, with_debs
from builder.core.lock import DebPin, Lock
from builder.core.settings import DebianSettings
from builder.core.spec import BaseTable
from builder.edge import apt, debs
from builder.edge.apt import AptRoot, host_sources
from builder.edge.debs import fetch_debs, relock, resolve_base
from builder.edge.store import Store, hash_file
from builder.errors import (
    AptDrift,
    BadInput,
    DiskFull,
    HashMismatch,
    NetworkError,
    Refused,
    ToolMissing,
)
from tests.support.archive import LocalArchive
from tests.support.index import serve
from tests.support.small_lock import small_lock

SETTINGS = DebianSettings()


@pytest.fixture
def archive(tmp_path: Path) -> LocalArchive:
    """Make an archive of four packages: `one` needs `two`, which has had a security fix."""
    archive = LocalArchive(folder=tmp_path / "archive")
    archive.add("base", "1.0", fields="Essential: yes\n")
    archive.add("one", "1.0", fields="Depends: two (>= 1)\nRecommends: extra\n")
    archive.add("two", "1:1.0-1", fields="Source: twosource (1.0)\n")
    archive.add(
        "two", "1:1.0-1+deb12u1", suite="bookworm-security", fields="Source: twosource (1.0)\n"
    )
    archive.add("extra", "1.0")
    return archive


@pytest.fixture
def root(archive: LocalArchive, tmp_path: Path) -> AptRoot:
    """Make a private root that has read the archive."""
    root = AptRoot(tmp_path / "root", archive.sources, "amd64")
    root.update()
    return root


def names(pins: tuple[DebPin, ...]) -> list[str]:
    """Name and version of each."""
    return [f"{pin.name} {pin.version}" for pin in pins]


def test_the_closure_is_pinned_with_its_origin(root: AptRoot) -> None:
    """Newest version, the suite it is in, its source package; recommendations are left out."""
    one, two = root.resolve(["one"], essential=False)
    assert ("one", "bookworm", "one") == (one.name, one.suite, one.source)
    assert ("two", "1:1.0-1+deb12u1", "bookworm-security", "twosource") == (
        two.name,
        two.version,
        two.suite,
        two.source,
    )
    deb = root.folder.parent / "archive" / two.path
    assert (deb.stat().st_size, two.sha256) == (two.size, hash_file(deb))


def test_essential_packages_come_on_demand(root: AptRoot) -> None:
    """What makes a system, besides what is named."""
    assert ["base 1.0", "extra 1.0"] == names(root.resolve(["extra"], essential=True))


def test_the_order_of_names_does_not_matter(root: AptRoot) -> None:
    """The same lock whatever the order in image.toml."""
    forward = root.resolve(["one", "extra"], essential=True)
    assert forward == root.resolve(["extra", "one"], essential=True)


def test_named_packages_alone(root: AptRoot, tmp_path: Path) -> None:
    """Without what they need; their files arrive under the names that apt gives them."""
    assert ["one 1.0"] == names(root.show(["one"]))
    files = root.download(["two", "one"], tmp_path / "into")
    assert ["one_1.0_amd64.deb", "two_1%3a1.0-1+deb12u1_amd64.deb"] == [path.name for path in files]
    assert [pin.sha256 for pin in root.show(["one", "two"])] == [hash_file(path) for path in files]


def test_every_unknown_package_is_named(root: AptRoot) -> None:
    """All at once, without those that are known."""
    with pytest.raises(BadInput) as caught:
        root.resolve(["nosuch", "one", "neither"], essential=False)
    assert caught.value.subject == "neither, nosuch"
    with pytest.raises(BadInput, match="no package nosuch"):
        root.show(["nosuch"])


def test_packages_that_exclude_each_other_are_refused(archive: LocalArchive, root: AptRoot) -> None:
    """With apt's reason."""
    archive.add("bad", "1.0", fields="Depends: absent\n")
    root.update()
    with pytest.raises(Refused, match="bad : Depends: absent but it is not installable"):
        root.resolve(["bad"], essential=False)


def test_the_machines_own_apt_does_not_leak_in(
    archive: LocalArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its options for the network are taken over, all others are not."""
    own = tmp_path / "own.conf"
    own.write_text(
        'APT::Install-Recommends "true";\nAPT::Architecture "arm64";\nAcquire::Retries "7";\n'
        'Dir::Etc::sourcelist "/nowhere";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(own))
    root = AptRoot(tmp_path / "root", archive.sources, "amd64")
    root.update()
    assert ["one 1.0", "two 1:1.0-1+deb12u1"] == names(root.resolve(["one"], essential=False))
    assert 'Acquire::Retries "7";' in (root.folder / "apt.conf").read_text()


def test_a_root_that_was_never_updated_knows_nothing(archive: LocalArchive, tmp_path: Path) -> None:
    """Nor does it ask the machine's own apt, which knows gcc."""
    root = AptRoot(tmp_path / "root", archive.sources, "amd64")
    with pytest.raises(BadInput, match="no package gcc"):
        root.show(["gcc"])


def test_an_index_without_sha256_is_refused(archive: LocalArchive, tmp_path: Path) -> None:
    """A package that cannot be pinned is not left out without a word."""
    archive.hash_field = "MD5sum"
    archive.add("weak", "1.0")
    root = AptRoot(tmp_path / "root", archive.sources, "amd64")
    root.update()
    with pytest.raises(Refused):
        root.show(["weak"])


def test_an_unsigned_archive_is_refused(archive: LocalArchive, tmp_path: Path) -> None:
    """Unless it is a folder of our own."""
    keyring = tmp_path / "keyring.gpg"
    keyring.write_bytes(b"")
    (source,) = archive.sources
    signed = replace(source, trusted=False, keyring=str(keyring))
    with pytest.raises(Refused, match="is not signed"):
        AptRoot(tmp_path / "root", [signed], "amd64").update()


def test_a_missing_keyring_is_told_before_anything_is_fetched(
    archive: LocalArchive, tmp_path: Path
) -> None:
    """With the package that brings it."""
    (source,) = archive.sources
    signed = replace(source, trusted=False, keyring=str(tmp_path / "nosuch.gpg"))
    with pytest.raises(ToolMissing) as caught:
        AptRoot(tmp_path / "root", [signed], "amd64").update()
    assert "debian-archive-keyring" in caught.value.action


def test_an_archive_that_is_not_there(archive: LocalArchive, tmp_path: Path) -> None:
    """Is the network's fault, and the next update succeeds."""
    (source,) = archive.sources
    gone = replace(source, uri=f"file:{tmp_path}/nosuch")
    with pytest.raises(NetworkError) as caught:
        AptRoot(tmp_path / "root", [gone], "amd64").update()
    assert caught.value.subject == gone.uri
    root = AptRoot(tmp_path / "root", [source], "amd64")
    root.update()
    assert ["extra 1.0"] == names(root.show(["extra"]))


def test_a_machine_that_knows_no_archive_is_told_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on another distribution."""
    monkeypatch.setattr(apt, "_machine_sources", lambda: iter(()))
    monkeypatch.setattr(apt, "_carried", lambda: None)
    with pytest.raises(ToolMissing) as caught:
        host_sources("trixie", SETTINGS)
    assert "NIGHTLOCK_DEBIAN_MIRROR" in caught.value.action


def test_settings_name_the_archive(tmp_path: Path) -> None:
    """A folder becomes a file: address; security is named on its own."""
    settings = DebianSettings(
        mirror=str(tmp_path), security="http://s.example/debian-security", keyring="/k.gpg"
    )
    archive, security = host_sources("trixie", settings)
    assert (f"file:{tmp_path}", ("trixie", "trixie-updates"), "/k.gpg") == (
        archive.uri,
        archive.suites,
        archive.keyring,
    )
    assert ("http://s.example/debian-security", ("trixie-security",)) == (
        security.uri,
        security.suites,
    )


def test_debs_come_from_the_first_source_that_has_them(
    archive: LocalArchive, root: AptRoot, tmp_path: Path
) -> None:
    """A folder of files, then the archive; what the store has is not asked for again."""
    pins = root.resolve(["one"], essential=True)
    store = Store(tmp_path / "store")
    folder = tmp_path / "folder"
    folder.mkdir()
    base = pins[0]
    (tmp_path / "archive" / base.path).rename(folder / base.file)
    heard: list[int] = []
    fetch_debs(pins, store, archive.addresses, folders=[folder], on_bytes=heard.append)
    assert sum(pin.size for pin in pins) == sum(heard)
    assert () == debs.missing(pins, store)
    heard.clear()
    fetch_debs(pins, store, {}, on_bytes=heard.append)
    assert [] == heard


def test_files_that_are_gone_everywhere_are_named_together(
    archive: LocalArchive, root: AptRoot, tmp_path: Path
) -> None:
    """The others arrive all the same, so that the next run goes on from them."""
    pins = root.resolve(["one"], essential=True)
    base, one, two = pins
    for pin in (one, two):
        (tmp_path / "archive" / pin.path).unlink()
    store = Store(tmp_path / "store")
    with pytest.raises(AptDrift) as caught:
        fetch_debs(pins, store, archive.addresses)
    assert f"{one.path}, {two.path}" == caught.value.subject
    assert [
        ("apt-drift", "one 1.0 (amd64)", f"no source has {one.path}"),
        ("apt-drift", "two 1:1.0-1+deb12u1 (amd64)", f"no source has {two.path}"),
    ] == [(row.key, row.subject, row.evidence) for row in caught.value.findings]
    assert (one, two) == debs.missing(pins, store)
    assert store.has(base.sha256, base.size)


def test_a_snapshot_is_asked_last(archive: LocalArchive, root: AptRoot, tmp_path: Path) -> None:
    """It may still have what the mirrors dropped."""
    (one,) = root.show(["one"])
    snapshot = tmp_path / "snapshot/debian" / one.path
    snapshot.parent.mkdir(parents=True)
    (tmp_path / "archive" / one.path).rename(snapshot)
    store = Store(tmp_path / "store")
    where = f"file:{tmp_path}/snapshot/{{archive}}"
    fetch_debs([one], store, archive.addresses, snapshot=where)
    assert store.has(one.sha256, one.size)


def test_wrong_bytes_are_refused_and_their_source_named(
    archive: LocalArchive, root: AptRoot, tmp_path: Path
) -> None:
    """Nothing of them stays."""
    (one,) = root.show(["one"])
    deb = tmp_path / "archive" / one.path
    deb.write_bytes(deb.read_bytes()[:-1] + b"x")
    store = Store(tmp_path / "store")
    with pytest.raises(HashMismatch) as caught:
        fetch_debs([one], store, archive.addresses)
    assert f"file:{deb}" == caught.value.subject
    assert "NIGHTLOCK_DEBIAN_MIRROR" in caught.value.action
    (row,) = caught.value.findings
    assert ("hash-mismatch", caught.value.action) == (row.key, row.action)
    assert one.file in row.evidence
    assert [] == [path for path in store.root.rglob("*") if path.is_file()]


def test_a_server_out_of_reach_is_no_drift(root: AptRoot, tmp_path: Path) -> None:
    """Whether the file is gone is not known then: trying again may help."""
    (one,) = root.show(["one"])
    with serve(lambda handler: handler.send_error(403)) as host, pytest.raises(NetworkError) as bad:
        fetch_debs([one], Store(tmp_path / "store"), {"bookworm": (f"http://{host}",)})
    assert not isinstance(bad.value, AptDrift)


@pytest.mark.parametrize("right", [True, False], ids=["right half", "wrong half"])
def test_a_half_made_file_is_taken_up_again(root: AptRoot, tmp_path: Path, *, right: bool) -> None:
    """By range; and started over when that half was another file's."""
    (one,) = root.show(["one"])
    data = (tmp_path / "archive" / one.path).read_bytes()
    store = Store(tmp_path / "store")
    with store.partial(one.sha256) as scratch:
        scratch.write_bytes(data[:100] if right else bytes(100))
    asked: list[str] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.headers.get("Range", ""))
        match = re.fullmatch(r"bytes=(\d+)-", asked[-1])
        start = int(match[1]) if match else 0
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(data) - start))
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.end_headers()
        handler.wfile.write(data[start:])

    heard: list[int] = []
    with serve(respond) as host:
        fetch_debs([one], store, {"bookworm": (f"http://{host}",)}, on_bytes=heard.append)
    assert (["bytes=100-"] if right else ["bytes=100-", ""]) == asked
    assert (one.size, True) == (sum(heard), store.has(one.sha256, one.size))


def test_a_disk_without_room_is_told_before_fetching(
    archive: LocalArchive, root: AptRoot, tmp_path: Path
) -> None:
    """The sizes are in the lock."""
    (one,) = root.show(["one"])
    with pytest.raises(DiskFull, match=r"1 \.debs needs"):
        fetch_debs([replace(one, size=10**18)], Store(tmp_path / "store"), archive.addresses)


def test_debs_are_locked_anew_when_some_are_gone(
    archive: LocalArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A security update replaces a file; the old lock drifts, the new one is fetched whole."""
    monkeypatch.setattr(debs, "host_sources", lambda _codename, _settings: archive.sources)
    base, apt_folder = BaseTable(debian="bookworm", packages=["one"]), tmp_path / "apt"
    old = resolve_base(base, "linux/amd64", SETTINGS, apt_folder)
    lock = with_debs(small_lock(), "linux/amd64", old)
    (two,) = (pin for pin in old if pin.name == "two")
    archive.add(
        "two", "1:1.0-1+deb12u2", suite="bookworm-security", fields="Source: twosource (1.0)\n"
    )
    (tmp_path / "archive" / two.path).unlink()
    store = Store(tmp_path / "store")
    with pytest.raises(AptDrift, match=r"two 1:1\.0-1\+deb12u1"):
        fetch_debs(old, store, archive.addresses)
    moved = relock(lock, base, "linux/amd64", SETTINGS, apt_folder)
    assert ".debs: 1 changed\n  two:amd64 1:1.0-1+deb12u1 → 1:1.0-1+deb12u2" == diff_text(
        moved.changes
    )
    new = moved.lock.platforms["linux/amd64"]
    fetch_debs(new.debs, store, archive.addresses)
    assert () == debs.missing(new.debs, store)
    assert lock.platforms["linux/amd64"].wheels == new.wheels
    assert moved.lock.digest == Lock.parse(moved.lock.files(), "x").digest != lock.digest


def test_an_image_base_has_no_debs_to_resolve(tmp_path: Path) -> None:
    """Its packages are resolved inside it."""
    with pytest.raises(BadInput):
        resolve_base(BaseTable(image="example/debian:12"), "linux/amd64", SETTINGS, tmp_path)


@pytest.mark.network
def test_debians_archive_resolves_for_another_release_and_architecture(tmp_path: Path) -> None:
    """Signed with Debian's keyring; trixie for arm64, whatever this machine is; twice the same."""
    root = AptRoot(tmp_path / "root", host_sources("trixie", SETTINGS), "arm64")
    root.update()
    pins = root.resolve(["ca-certificates", "python3"], essential=True)
    assert debs_text(pins) == debs_text(
        root.resolve(["python3", "ca-certificates"], essential=True)
    )
    assert {"arm64", "all"} == {pin.architecture for pin in pins}
    assert {"trixie", "trixie-updates", "trixie-security"} >= set(Counter(p.suite for p in pins))
    by_name = {pin.name: pin for pin in pins}
    assert {"libc6", "dpkg", "bash", "apt", "python3"} <= by_name.keys()
    assert "glibc" == by_name["libc6"].source


@pytest.mark.network
def test_debians_archive_is_refused_under_another_keyring(tmp_path: Path) -> None:
    """A keyring without Debian's keys trusts nobody."""
    empty = tmp_path / "keyring.gpg"
    empty.write_bytes(b"")
    sources = host_sources("bookworm", DebianSettings(keyring=str(empty)))
    with pytest.raises(Refused, match="bookworm InRelease' is not signed"):
        AptRoot(tmp_path / "root", sources, "amd64").update()
