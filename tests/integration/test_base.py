"""The base: a function of the locked .debs, usable as a root file system, nothing left behind."""

from __future__ import annotations

import mmap
import os
import platform
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.commands.context import Context
from builder.core.debian import addresses
from builder.core.debs import debs_digest, debs_text
from builder.core.lock import DebPin
from builder.core.rootfs import REPLACED
from builder.core.settings import DebianSettings
from builder.edge import process
from builder.edge.apt import AptRoot, host_sources
from builder.edge.debs import archives, fetch_debs, resolve_base
from builder.edge.mmdebstrap import can_make_base, unpack_mmdebstrap
from builder.edge.project import read_spec
from builder.edge.rootfs import Base, find_base, make_base
from builder.edge.store import Store, hash_file, link
from builder.errors import HashMismatch, Outside, ToolMissing
from tests.support.archive import LocalArchive

ROOT = Path(__file__).parents[2]
SETTINGS = DebianSettings()
PLANTED = "planted-host-name"
DEADLINE = 120.0
"""Seconds within which a bootstrap must have begun, or must have ended after a signal."""

ROOT_ON_DEBIAN = os.geteuid() == 0 and Path("/etc/debian_version").is_file()
"""Where it must work: there a test fails, with the reason, instead of being left out."""

needs_bootstrap = pytest.mark.skipif(
    can_make_base() is not None and not ROOT_ON_DEBIAN,
    reason=f"no root file system can be made here: {can_make_base()}",
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change root or host name")


@dataclass(frozen=True, kw_only=True)
class SmallSet:
    """The essential packages and a Python, in a store."""

    pins: tuple[DebPin, ...]
    store: Store
    programs: dict[str, Path]
    """Release of Debian → its mmdebstrap."""


@pytest.fixture(scope="session")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> SmallSet:
    """Fetch a set that is quick to install, and the mmdebstrap of two releases."""
    folder = tmp_path_factory.mktemp("small")
    architecture = process.run(["dpkg", "--print-architecture"]).strip()
    store = Store(folder / "store")
    sources = host_sources("bookworm", SETTINGS)
    root = AptRoot(folder / "apt", sources, architecture)
    root.update()
    pins = root.resolve(["?essential", "python3-minimal"], essential=False)
    fetch_debs(pins, store, addresses(sources))
    (deb,) = root.download(["mmdebstrap"], folder / "bookworm")
    process.run(["dpkg-deb", "--extract", deb, folder / "bookworm"])
    programs = {
        "bookworm": folder / "bookworm/usr/bin/mmdebstrap",
        "trixie": unpack_mmdebstrap(folder / "trixie", SETTINGS),
    }
    return SmallSet(pins=pins, store=store, programs=programs)


@pytest.fixture(scope="session")
def cpu_base(
    engine_context: Context, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Base, tuple[DebPin, ...]]:
    """Make (or find) the base of the cpu image, from today's archive, in nightlock's own store."""
    folder = tmp_path_factory.mktemp("cpu-base")
    settings = engine_context.settings.debian
    base = read_spec(ROOT, "cpu").base
    assert base.debian is not None
    store = Store(engine_context.places.store)
    pins = resolve_base(base, f"linux/{_oci_architecture()}", settings, folder)
    fetch_debs(pins, store, archives(base.debian, settings))
    program = unpack_mmdebstrap(folder, settings)
    records = engine_context.places.state / "base"
    return make_base(base.debian, pins, store, records, program), pins


def _oci_architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def maker(small: SmallSet, folder: Path, release: str, *before: str) -> subprocess.Popen[str]:
    """Start a process that makes the base of the small set in a folder of its own."""
    for pin in small.pins:
        link(small.store.path(pin.sha256), Store(folder / "store").path(pin.sha256))
    (folder / "debs.txt").write_bytes(debs_text(small.pins))
    program = small.programs[release]
    command = [sys.executable, "-m", "tests.support.base_maker", "debs.txt", ".", str(program)]
    script = 'cd "$0" && exec "$@"'
    return subprocess.Popen(
        [*before, "sh", "-c", script, str(folder), *command],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.network
@needs_bootstrap
@needs_root
def test_the_base_is_a_function_of_its_debs(small_set: SmallSet, tmp_path: Path) -> None:
    """Two folders, host names, umasks, time zones and releases of mmdebstrap: one sha256."""
    here, there = (
        ("unshare", "--uts", "sh", "-c", f'hostname {PLANTED}-{name} && {rest} && exec "$0" "$@"')
        for name, rest in (("one", "umask 022"), ("two", "umask 077 && export TZ=Pacific/Apia"))
    )
    one, two = tmp_path / "one", tmp_path / "a folder with spaces" / "two"
    runs = [
        maker(small_set, one, "bookworm", *here),
        maker(small_set, two, "trixie", *there),
    ]
    said = [run.communicate() for run in runs]
    assert [0, 0] == [run.returncode for run in runs], said
    digests = [out.strip() for out, _ in said]
    assert digests[0] == digests[1]
    path = Store(two / "store").path(digests[1])
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        traces = [PLANTED.encode(), str(tmp_path).encode()]
        assert [-1, -1] == [data.find(trace) for trace in traces]
    for folder in (one, two):
        assert ["partial", "sha256"] == sorted(path.name for path in (folder / "store").iterdir())


@pytest.mark.network
@needs_bootstrap
def test_an_interrupted_bootstrap_leaves_nothing(small_set: SmallSet, tmp_path: Path) -> None:
    """No folder, no process, no record; what was fetched stays."""
    run = maker(small_set, tmp_path, "trixie")
    unpacked = f".base-{debs_digest(small_set.pins).removeprefix('sha256:')[:16]}-*/scratch/*/var"
    place = tmp_path / "store" if os.geteuid() == 0 else Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108
    deadline = time.monotonic() + DEADLINE
    while not any(place.glob(unpacked)):
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline, "the bootstrap did not begin"
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGINT)
    run.communicate(timeout=DEADLINE)
    assert run.returncode != 0
    assert [] == list(place.glob(unpacked.split("/", maxsplit=1)[0]))
    assert [] == [path.name for path in (tmp_path / "store/partial").iterdir()]
    assert [] == list((tmp_path / "records").glob("*.json"))
    assert not [line for line in _processes() if str(tmp_path) in line]


def _processes() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


@pytest.mark.network
@needs_bootstrap
def test_the_cpu_base_holds_exactly_its_lock(
    cpu_base: tuple[Base, tuple[DebPin, ...]], engine_context: Context
) -> None:
    """Emptied host files, no caches, one time; and a second use finds it."""
    base, pins = cpu_base
    with tarfile.open(base.path) as archive:
        members = {info.name: info for info in archive.getmembers()}
        held = {path: archive.extractfile(path) for path in REPLACED}
        assert REPLACED == {path: file.read() for path, file in held.items() if file}
    assert {315532800} == {info.mtime for info in members.values()}
    assert list(members) == sorted(members, key=lambda name: (name != ".", name.encode()))
    assert 0o1777 == members["tmp"].mode == members["var/tmp"].mode
    assert {"usr/bin/python3.11", "usr/bin/gcc", "usr/bin/tini", "etc/ld.so.cache"} <= set(members)
    store, records = Store(engine_context.places.store), engine_context.places.state / "base"
    found = find_base(pins, store, records)
    assert found is not None
    assert (base.sha256, base.size, False) == (found.sha256, found.size, found.made)
    program = Path("/nowhere/mmdebstrap")
    assert found == make_base("bookworm", pins, store, records, program)


@pytest.mark.network
@needs_bootstrap
@needs_root
def test_the_cpu_base_works(cpu_base: tuple[Base, tuple[DebPin, ...]], tmp_path: Path) -> None:
    """Dpkg finds every file as packaged; Python, a compiler and any user work in it."""
    base, pins = cpu_base
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    process.run(["tar", "--extract", "--file", base.path, "--directory", root, "--numeric-owner"])
    # As an engine does: ctypes runs ldconfig with it.
    os.mknod(root / "dev/null", 0o20666, os.makedev(1, 3))
    (root / "dev/null").chmod(0o666)
    (root / "tmp/add.c").write_text("#include <Python.h>\nint add(int a) { return a + 1; }\n")
    (root / "tmp/hi.cc").write_text('#include <iostream>\nint main() { std::cout << "hi\\n"; }\n')

    def inside(script: str, user: str = "0:0") -> str:
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"}
        chroot = ["chroot", f"--userspec={user}", str(root), "sh", "-ec", script]
        return process.run(chroot, environment=environment)

    listed = inside("dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n'")
    assert sorted(f"{pin.name} {pin.version} installed" for pin in pins) == sorted(
        listed.splitlines()
    )
    assert inside("dpkg --verify; dpkg --audit") == ""
    python = (
        "import ctypes, ctypes.util, ssl, sqlite3, zoneinfo; zoneinfo.ZoneInfo('Europe/Berlin');"
        "print(ctypes.util.find_library('numa'), ctypes.CDLL('/tmp/add.so').add(41))"
    )
    built = inside(
        "cd /tmp && gcc -shared -fPIC $(python3-config --includes) add.c -o add.so"
        f' && g++ hi.cc -o hi && ./hi && python3 -c "{python}"',
        "2000:0",
    )
    assert built == "hi\nlibnuma.so.1 42\n"


def test_debs_that_are_not_fetched_are_told(tmp_path: Path) -> None:
    """With the verb that fetches them, before anything is unpacked."""
    archive = LocalArchive(folder=tmp_path / "archive")
    archive.add("one", "1.0")
    root = AptRoot(tmp_path / "root", archive.sources, "amd64")
    root.update()
    with pytest.raises(Outside, match=r"1 locked \.debs are not in the store: one") as caught:
        make_base(
            "bookworm",
            root.show(["one"]),
            Store(tmp_path / "store"),
            tmp_path / "records",
            Path("/nowhere/mmdebstrap"),
        )
    assert "nightlock fetch" in caught.value.action


@pytest.mark.network
@needs_bootstrap
def test_a_damaged_deb_in_the_store_is_found_out(small_set: SmallSet, tmp_path: Path) -> None:
    """Every file is read against its locked sha256; the damaged one can be fetched again."""
    archive = LocalArchive(folder=tmp_path / "archive")
    archive.add("one", "1.0", fields="Essential: yes\n")
    root = AptRoot(tmp_path / "root", archive.sources, "amd64")
    root.update()
    pins = root.show(["one"])
    store = Store(tmp_path / "store")
    fetch_debs(pins, store, archive.addresses)
    damaged = store.path(pins[0].sha256)
    damaged.chmod(0o644)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    with pytest.raises(HashMismatch, match=r"one_1\.0_amd64\.deb in the store was damaged"):
        make_base("bookworm", pins, store, tmp_path / "records", small_set.programs["trixie"])
    fetch_debs(pins, store, archive.addresses)
    assert hash_file(damaged) == pins[0].sha256


def test_a_machine_that_cannot_bootstrap_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The missing program and what to do; nothing half-made stays."""
    archive = LocalArchive(folder=tmp_path / "archive")
    archive.add("one", "1.0")
    root = AptRoot(tmp_path / "root", archive.sources, "amd64")
    root.update()
    pins = root.show(["one"])
    store = Store(tmp_path / "store")
    fetch_debs(pins, store, archive.addresses)
    found = process.find

    def without_perl(name: str) -> Path | None:
        return None if name == "perl" else found(name)

    monkeypatch.setattr(process, "find", without_perl)
    with pytest.raises(ToolMissing, match="perl not there"):
        make_base("bookworm", pins, store, tmp_path / "records", Path("/nowhere/mmdebstrap"))
    assert ["partial", "sha256"] == sorted(path.name for path in store.root.iterdir())
