"""The private engine as data: who may start one, from what, with which configuration."""

from __future__ import annotations

import gc
import json
import socket
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from builder.core.engine import (
    EngineFolders,
    EngineRecord,
    Running,
    engine_tools,
    local_suite,
    registry_tools,
)
from builder.core.engine_config import bridge_name, cgroup_name, daemon_config, registry_config
from builder.core.engine_features import BuildKit, has_containerd_store, parse_buildkit
from builder.core.engine_machine import Machine, is_debian_family, parse_os_release, refusal
from builder.core.mounts import CGROUPS, Mount, below, missing_cgroups, parse_mountinfo
from builder.core.places import Places
from builder.core.settings import EngineSettings, Settings
from builder.edge.engine import ask_version, find_engine, require_engine
from builder.errors import DiskFull, NightlockError, Refused, ToolMissing

FIT = Machine(
    root=True,
    debian=True,
    codename="bookworm",
    glibc=(2, 36),
    missing_programs=(),
    free_bytes=10**10,
    dockerd="",
    cgroups=True,
    run_writable=True,
)
FOLDERS = EngineFolders(Places.from_environment({"HOME": "/home/somebody"}))


def test_a_fit_machine_is_not_refused() -> None:
    """Root on Debian with room."""
    assert refusal(FIT) is None


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"root": False}, ToolMissing, "needs root"),
        ({"debian": False}, ToolMissing, "the Debian family"),
        ({"missing_programs": ("dpkg",)}, ToolMissing, "dpkg"),
        ({"glibc": (2, 31)}, ToolMissing, "this system has 2.31"),
        ({"glibc": (0, 0)}, ToolMissing, "glibc 2.34"),
        ({"free_bytes": 10**9}, DiskFull, "1.0 GB are free"),
        ({"dockerd": "pid 7: dockerd -H fd://"}, Refused, "pid 7: dockerd -H fd://"),
        ({"cgroups": False}, ToolMissing, "control groups"),
        ({"run_writable": False}, ToolMissing, "/run"),
        ({"dockerd": "pid 7: dockerd", "root": False}, Refused, "another dockerd"),
    ],
)
def test_each_refusal_says_what_and_what_to_do(
    change: dict[str, object], kind: type[NightlockError], text: str
) -> None:
    """Another dockerd comes first: a private engine would break it."""
    refused = refusal(replace(FIT, **change))  # type: ignore[arg-type]
    assert type(refused) is kind
    assert text in str(refused)
    assert refused.action


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ID=debian\n", True),
        ('ID=ubuntu\nID_LIKE="debian"\n', True),
        ('ID="linuxmint"\nID_LIKE="ubuntu debian"\n', True),
        ("ID=fedora\n", False),
        ("ID=notdebian\n", False),
        ("", False),
    ],
)
def test_the_debian_family_is_recognised(text: str, expected: bool) -> None:
    """By os-release(5), whole words."""
    assert expected == is_debian_family(parse_os_release(text))


@pytest.mark.parametrize(
    ("codename", "glibc", "expected"),
    [
        ("bookworm", (2, 36), "bookworm"),
        ("trixie", (2, 41), "trixie"),
        ("jammy", (2, 35), "bookworm"),
        ("forky", (2, 42), "trixie"),
    ],
)
def test_packages_fit_the_systems_libraries(
    codename: str, glibc: tuple[int, int], expected: str
) -> None:
    """Its own release where Debian has it, else the newest that its glibc carries."""
    assert expected == local_suite(codename, glibc)


def test_one_suite_is_named_once() -> None:
    """On Debian 13 everything is its own."""
    assert ("trixie",) == tuple(engine_tools("trixie", (2, 41)).suites)
    assert ("trixie", "bookworm") == tuple(engine_tools("bookworm", (2, 36)).suites)
    assert ("docker-registry",) == registry_tools("bookworm", (2, 36), client=False).names
    with_client = registry_tools("bookworm", (2, 36), client=True).names
    assert {"docker-registry", "docker-cli", "docker-buildx"} == set(with_client)


def test_a_socket_path_fits() -> None:
    """107 bytes, whatever the state folder is called; so do containerd's own, and a link's 15."""
    deep = EngineFolders(Places.from_environment({"XDG_STATE_HOME": "/" + "deep/" * 50}))
    assert len(str(deep.exec / "containerd/containerd.sock.ttrpc")) <= 107
    assert len(bridge_name(deep)) <= 15
    assert deep.socket != FOLDERS.socket


def test_the_daemon_reads_nothing_of_another_engine() -> None:
    """Everything that could be shared with one is named."""
    config = json.loads(daemon_config(FOLDERS))
    assert [f"unix://{FOLDERS.socket}"] == config["hosts"]
    assert {"containerd-snapshotter": True} == config["features"]
    assert f"/{cgroup_name(FOLDERS)}" == config["cgroup-parent"]
    for key in ("data-root", "exec-root", "pidfile"):
        assert config[key].startswith((str(FOLDERS.top), str(FOLDERS.run)))


def test_the_registry_listens_on_loopback_and_deletes() -> None:
    """It has no passwords."""
    config = json.loads(registry_config(FOLDERS, 5003))
    assert "127.0.0.1:5003" == config["http"]["addr"]
    assert config["storage"]["delete"]["enabled"] is True


def test_a_record_survives_the_disk() -> None:
    """A round trip; a damaged one counts as none."""
    record = EngineRecord(boot="b", tools="/t", dockerd=Running(pid=3, started=4))
    assert record == EngineRecord.parse(record.text())
    assert EngineRecord.parse(record.text()[:20]) is None
    assert EngineRecord.parse("{}") is None


MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
25 24 0:23 / /dev/shm rw,relatime shared:3 master:2 - tmpfs tmpfs rw,size=24684092k
40 23 0:30 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
41 40 0:31 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
50 27 0:40 / /state/a\\040b/data rw - overlay overlay rw,lowerdir=/x
51 50 0:41 / /state/a\\040b/data/deep rw - tmpfs tmpfs rw
52 27 0:42 / /state/a\\040bc rw - tmpfs tmpfs rw
"""
V1 = (
    "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t0\t1\t1\nblkio\t0\t1\t0\n"
)
UNUSED = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\nmemory\t0\t1\t1\n"


def test_mounts_below_a_folder_come_last_first() -> None:
    """Escapes are undone; a folder whose name only begins alike is another one."""
    mounts = parse_mountinfo(MOUNTINFO)
    assert ("/state/a b/data/deep", "/state/a b/data") == below(mounts, ("/state/a b",))


def test_missing_controllers_of_the_old_hierarchy_are_named() -> None:
    """What is mounted, or switched off in the kernel, is not."""
    expected = (Mount(point=f"{CGROUPS}/memory", kind="cgroup", options=("memory",)),)
    assert expected == missing_cgroups(V1, parse_mountinfo(MOUNTINFO))


def test_a_folder_for_controllers_is_mounted_first() -> None:
    """Sysfs lets nobody make folders."""
    kinds = [entry.kind for entry in missing_cgroups(V1, ())]
    assert ["tmpfs", "cgroup", "cgroup"] == kinds


def test_the_unified_hierarchy_is_enough() -> None:
    """Mounted: nothing lacks. Nothing mounted and nothing in use: it is what gets mounted."""
    unified = Mount(point=CGROUPS, kind="cgroup2")
    assert () == missing_cgroups(UNUSED, (unified,))
    assert (unified,) == missing_cgroups(UNUSED, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Name: default\nDriver: docker\n\nNodes:\nBuildkit: v0.13.2\n", ("docker", (0, 13))),
        (
            "Driver:          docker-container\nBuildKit version: v0.21.1\n",
            ("docker-container", (0, 21)),
        ),
        ("Driver: docker\nBuildkit version: v0.0.0+unknown\n", ("docker", (0, 0))),
        ("", ("", (0, 0))),
    ],
)
def test_a_builder_is_read(text: str, expected: tuple[str, tuple[int, int]]) -> None:
    """Releases of buildx spell the line in three ways; Debian's BuildKit knows no version."""
    found = parse_buildkit(text)
    assert expected == (found.driver, found.number)
    assert (0, 0) == BuildKit(driver="docker", version="").number


@pytest.mark.parametrize(
    ("buildkit", "expected"),
    [
        (BuildKit(driver="remote", version="v0.21.1"), "v0.21.1 (remote)"),
        (BuildKit(driver="docker", version="v0.0.0+unknown"), "part of Docker 26.1.5"),
        (BuildKit(driver="kubernetes", version=""), "kubernetes"),
        (BuildKit(driver="", version=""), "none"),
    ],
)
def test_a_builder_is_named(buildkit: BuildKit, expected: str) -> None:
    """By its version, else by what it is a part of."""
    assert expected == buildkit.describe("26.1.5")


def test_the_image_store_is_recognised() -> None:
    """By what Docker 26 says in DriverStatus."""
    new = {"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
    old = {"DriverStatus": [["Backing Filesystem", "extfs"]]}
    assert (True, False, False) == tuple(map(has_containerd_store, (new, old, {})))


def test_a_silent_engine_that_was_asked_for_is_no_other(tmp_path: Path) -> None:
    """DOCKER_HOST, a context or a setting that does not answer is said, not passed over."""
    places = Places.from_environment({"HOME": str(tmp_path)})
    silent = f"unix://{tmp_path}/nobody.sock"
    with pytest.raises(ToolMissing, match="named by DOCKER_HOST does not answer"):
        find_engine(places, Settings(), {"DOCKER_HOST": silent})
    settings = Settings(engine=EngineSettings(host=silent))
    with pytest.raises(ToolMissing, match=r"the setting engine\.host"):
        require_engine(places, settings, {})
    with pytest.raises(ToolMissing, match="the Docker context 'gone'"):
        find_engine(places, Settings(), {"DOCKER_CONTEXT": "gone", "HOME": str(tmp_path)})


@pytest.mark.parametrize("there", [True, False], ids=["nobody listens", "no such file"])
def test_asking_a_dead_socket_leaves_none_open(tmp_path: Path, there: bool) -> None:
    """docker-py keeps its socket when it cannot connect; a later test would be told of it."""
    path = tmp_path / "s"
    if there:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        assert "" == ask_version(f"unix://{path}")
        gc.collect()
    assert [] == [str(warning.message) for warning in seen]
