"""The normalised root file system: a table of planted faults, and the bytes that come out."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from builder.core.lock import DebPin
from builder.core.rootfs import EPOCH, REPLACED, Entry, is_gone, normalise, not_as_locked
from builder.edge.rootfs import write_normalised
from builder.errors import Refused

PIN = DebPin(
    name="one",
    version="1",
    architecture="amd64",
    sha256="1" * 64,
    size=1,
    path="pool/main/o/one/one_1_amd64.deb",
    suite="bookworm",
    source="one",
)
STATUS = "Package: one\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\n"


def member(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644) -> tarfile.TarInfo:
    """One member of a bootstrap's tar."""
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = mode
    info.mtime = 1_800_000_000.5
    info.uname = info.gname = "somebody"
    return info


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    """Name another member."""
    info = member(name, kind)
    info.linkname = target
    return info


def by_path(*members: tarfile.TarInfo) -> dict[str, Entry]:
    """Normalise, without the files that every base has."""
    entries = {entry.header.name: entry for entry in normalise(members)}
    return {path: entry for path, entry in entries.items() if path not in {".", *REPLACED}}


@pytest.mark.parametrize(
    "path",
    [
        "usr/lib/python3/__pycache__",
        "usr/lib/python3/__pycache__/os.cpython-311.pyc",
        "__pycache__",
        "usr/share/x/old.pyc",
        "dev/console",
        "proc/1",
        "sys/kernel",
        "tmp/left",
        "var/tmp/left",
        "run/utmp",
        "run/lock/held",
        "etc/passwd-",
        "etc/shadow-",
        "etc/subgid-",
        "etc/.pwd.lock",
        "etc/apt/sources.list.d/local.sources",
        "etc/apt/apt.conf.d/99mmdebstrap",
        "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
        "var/lib/apt/lists/lock",
        "var/lib/apt/lists/partial/x",
        "var/lib/apt/extended_states",
        "var/lib/dpkg/lock",
        "var/lib/dpkg/lock-frontend",
        "var/lib/dpkg/triggers/Lock",
        "var/lib/dpkg/available",
        "var/lib/dpkg/status-old",
        "var/lib/dpkg/updates/0001",
        "var/lib/dbus/machine-id",
        "var/log/dpkg.log",
        "var/log/apt/history.log",
        "var/cache/apt/pkgcache.bin",
        "var/cache/apt/archives/lock",
        "var/cache/debconf/config.dat-old",
        "var/cache/ldconfig/aux-cache",
    ],
)
def test_traces_of_a_bootstrap_are_left_out(path: str) -> None:
    """Whatever differs between two runs, and whatever says where one ran."""
    assert {} == by_path(member(f"./{path}"))


@pytest.mark.parametrize(
    "path",
    [
        "etc/passwd",
        "etc/ld.so.cache",
        "etc/apt/apt.conf.d/01autoremove",
        "usr/lib/python3/os.py",
        "usr/share/doc/dev/null",
        "var/lib/dpkg/status",
        "var/lib/dpkg/info/one.list",
        "var/lib/dpkg/diversions",
    ],
)
def test_what_packages_own_stays(path: str) -> None:
    """Only whole names are traces."""
    assert [path] == list(by_path(member(f"./{path}")))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("var/log/apt", False),
        ("var/cache/debconf", False),
        ("var/cache/apt/archives/partial", False),
        ("var/lib/apt/lists/partial", False),
        ("run/lock", False),
        ("run/systemd", True),
        ("dev/pts", True),
        ("tmp/x", True),
    ],
)
def test_folders_that_packages_own_stay(path: str, *, expected: bool) -> None:
    """Programs that write there find them."""
    assert expected == is_gone(path, folder=True)


def test_host_files_are_replaced() -> None:
    """Whatever they were, also links, and also when they were not there at all."""
    for members in ([member("./etc/hostname")], [link("etc/hostname", "x", tarfile.SYMTYPE)], []):
        entries = {entry.header.name: entry for entry in normalise(members)}
        assert REPLACED == {path: entries[path].data for path in REPLACED}
        header = entries["etc/hostname"].header
        assert (tarfile.REGTYPE, 0o644, 0, 0, EPOCH) == (
            header.type,
            header.mode,
            header.uid,
            header.size,
            header.mtime,
        )


def test_order_owner_time_and_mode() -> None:
    """Sorted with parents first, numeric owners, one time, the mode as packages set it."""
    shadow = member("./etc/shadow.x", mode=0o640)
    shadow.gid = 42
    sudo = member("./usr/bin/su", mode=0o104755)
    folder = member("./usr/bin", tarfile.DIRTYPE, 0o40755)
    twin = member("./usr/bin-x")
    entries = by_path(sudo, twin, folder, member("./", tarfile.DIRTYPE, 0o700), shadow)
    assert ["etc/shadow.x", "usr/bin", "usr/bin-x", "usr/bin/su"] == list(entries)
    assert [0o640, 0o755, 0o644, 0o4755] == [entry.header.mode for entry in entries.values()]
    assert {EPOCH} == {entry.header.mtime for entry in entries.values()}
    assert {""} == {entry.header.uname + entry.header.gname for entry in entries.values()}
    assert 42 == entries["etc/shadow.x"].header.gid


def test_the_root_folder_comes_first_and_open() -> None:
    """A bootstrap makes it with mkdtemp: 0700."""
    first = normalise([member("./", tarfile.DIRTYPE, 0o700)])[0].header
    assert (".", tarfile.DIRTYPE, 0o755) == (first.name, first.type, first.mode)


def test_apts_private_folders_lose_the_hosts_id() -> None:
    """_apt is 42 on one system and 100 on another."""
    folder = member("./var/lib/apt/lists/partial", tarfile.DIRTYPE, 0o700)
    folder.uid = 42
    (entry,) = by_path(folder).values()
    assert (0, 0o755) == (entry.header.uid, entry.header.mode)


def test_the_first_name_of_a_file_has_its_bytes() -> None:
    """Hard links point backwards in the new order, whatever pointed where before."""
    entries = by_path(
        member("./usr/bin/perl5", mode=0o755),
        link("./usr/bin/perl", "./usr/bin/perl5", tarfile.LNKTYPE),
        link("./usr/bin/perlz", "usr/bin/perl5", tarfile.LNKTYPE),
    )
    assert ["usr/bin/perl", "usr/bin/perl5", "usr/bin/perlz"] == list(entries)
    assert ["", "usr/bin/perl", "usr/bin/perl"] == [
        entry.header.linkname for entry in entries.values()
    ]
    assert {0o755} == {entry.header.mode for entry in entries.values()}
    assert "./usr/bin/perl5" == entries["usr/bin/perl"].source.name  # type: ignore[union-attr]


def test_symbolic_links_keep_their_target() -> None:
    """As it is, absolute or not; a link has one mode."""
    (entry,) = by_path(link("./bin", "usr/bin", tarfile.SYMTYPE)).values()
    assert ("usr/bin", 0o777) == (entry.header.linkname, entry.header.mode)


def test_capabilities_stay_and_labels_go() -> None:
    """A file capability belongs to the package; a SELinux label and times belong to the host."""
    ping = member("./usr/bin/ping")
    ping.pax_headers = {
        "SCHILY.xattr.user.b": "2",
        "SCHILY.xattr.security.capability": "\x01\udcff",
        "SCHILY.xattr.security.selinux": "system_u:object_r:bin_t:s0",
        "mtime": "1.5",
        "path": "./usr/bin/ping",
    }
    (entry,) = by_path(ping).values()
    assert ["SCHILY.xattr.security.capability", "SCHILY.xattr.user.b"] == list(
        entry.header.pax_headers
    )


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_are_refused(kind: bytes) -> None:
    """An image must not bring one; those under /dev are the engine's business."""
    with pytest.raises(Refused, match="/usr/disk is a device"):
        normalise([member("./usr/disk", kind)])


def test_a_hard_link_to_something_left_out_is_refused() -> None:
    """Its bytes would be lost without a word."""
    with pytest.raises(Refused, match="which is left out"):
        normalise([member("./tmp/x"), link("./usr/x", "./tmp/x", tarfile.LNKTYPE)])


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (STATUS, ()),
        ("", ("one: locked 1 amd64, is nothing",)),
        (STATUS.replace("Version: 1", "Version: 2"), ("one: locked 1 amd64, is 2 amd64",)),
        (STATUS.replace("ok installed", "ok unpacked"), ("one: install ok unpacked",)),
        (
            STATUS + "\nPackage: two\nArchitecture: all\nVersion: 3\n",
            ("two: locked nothing, is 3 all", "two: no status"),
        ),
    ],
)
def test_what_was_installed_is_compared_with_the_lock(
    status: str, expected: tuple[str, ...]
) -> None:
    """Too few, too many, others, half installed."""
    assert expected == not_as_locked(status, [PIN])


def bootstrap_tar(path: Path, host: str, *, shuffled: bool, tar_format: int) -> None:
    """Write what two machines would: the same package, other traces."""
    capability = member("./usr/bin/ping", mode=0o755)
    capability.pax_headers = {"SCHILY.xattr.security.capability": "\x01\udcff\x00"}
    rows: list[tuple[tarfile.TarInfo, bytes]] = [
        (member("./", tarfile.DIRTYPE, 0o700 if shuffled else 0o755), b""),
        (member("./etc", tarfile.DIRTYPE, 0o755), b""),
        (member("./etc/hostname", mode=0o755), host.encode()),
        (member("./etc/shadow", mode=0o640), f"root:*:{len(host)}:0:9:7:::\nx:!\n".encode()),
        (member("./usr/share/Főtanúsítvány.pem"), b"certificate"),
        (member(f"./usr/share/{'long/' * 40}name"), b"x" * 700),
        (member("./var/lib/dpkg/status"), STATUS.encode()),
        (member("./var/log/bootstrap.log"), f"on {host}".encode()),
        (capability, b"ping"),
        (member("./usr/bin/perl", mode=0o755), b"perl"),
        (link("./usr/bin/perl5", "./usr/bin/perl", tarfile.LNKTYPE), b""),
        (link("./bin", "usr/bin", tarfile.SYMTYPE), b""),
    ]
    if shuffled:
        rows = [rows[0], *rows[:0:-1]]
        # The same file under its other name: a tar's order decides which one has the bytes.
        rows = [row for row in rows if "perl" not in row[0].name]
        rows.append((member("./usr/bin/perl5", mode=0o755), b"perl"))
        rows.append((link("./usr/bin/perl", "./usr/bin/perl5", tarfile.LNKTYPE), b""))
    with tarfile.open(path, "w", format=tar_format) as archive:
        for info, data in rows:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def test_two_machines_give_the_same_bytes(tmp_path: Path) -> None:
    """And the bytes of every supported Python: the digest is the one that was once released."""
    digests = set()
    for name, shuffled in (("one", False), ("another-host", True)):
        bootstrap_tar(tmp_path / "raw.tar", name, shuffled=shuffled, tar_format=tarfile.PAX_FORMAT)
        digests.add(write_normalised(tmp_path / "raw.tar", tmp_path / f"{name}.tar", [PIN]))
        data = (tmp_path / f"{name}.tar").read_bytes()
        assert hashlib.sha256(data).hexdigest() in digests
        assert b"another-host" not in data
        assert 0 == len(data) % tarfile.RECORDSIZE
    assert {"46ebc48c1f162d108c247d469d596d554093e3ba72572e2a6a1dfc9a458c4cca"} == digests


def test_a_normalised_tar_holds_what_packages_brought(tmp_path: Path) -> None:
    """Names beyond ASCII and beyond 100 bytes, contents, links, capabilities, edited shadow."""
    bootstrap_tar(tmp_path / "raw.tar", "host", shuffled=True, tar_format=tarfile.PAX_FORMAT)
    write_normalised(tmp_path / "raw.tar", tmp_path / "base.tar", [PIN])
    with tarfile.open(tmp_path / "base.tar") as archive:
        members = {info.name: info for info in archive.getmembers()}
        files = [info for info in members.values() if info.isreg() or info.islnk()]
        opened = {info.name: archive.extractfile(info) for info in files}
        data = {name: file.read() for name, file in opened.items() if file}
    long = f"usr/share/{'long/' * 40}name"
    assert (b"certificate", b"x" * 700) == (data["usr/share/Főtanúsítvány.pem"], data[long])
    assert (b"perl", b"perl") == (data["usr/bin/perl"], data["usr/bin/perl5"])
    assert b"root:*:3652:0:9:7:::\nx:!\n" == data["etc/shadow"]
    assert (
        members["usr/bin/ping"].pax_headers["SCHILY.xattr.security.capability"] == "\x01\udcff\x00"
    )
    assert "var/log/bootstrap.log" not in members


def test_a_base_that_is_not_as_locked_is_refused(tmp_path: Path) -> None:
    """The tar must hold the locked packages and no other."""
    bootstrap_tar(tmp_path / "raw.tar", "host", shuffled=False, tar_format=tarfile.PAX_FORMAT)
    with pytest.raises(Refused, match="one: locked nothing, is 1 amd64"):
        write_normalised(tmp_path / "raw.tar", tmp_path / "base.tar", [])
