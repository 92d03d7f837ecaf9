"""The private engine for real, each in a network namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from builder.commands import doctor
from builder.commands.context import Context
from builder.edge.engine import Engine
from tests.support.namespace import (
    Namespace,
    filtered,
    namespace,
    scratch_context,
    share,
    started,
)

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and a private engine need root"),
]

OCI = "application/vnd.oci.image.manifest.v1+json"
DOCKERFILE = """\
FROM scratch AS tree
COPY tree /
RUN --network=none ["/usr/bin/sleep", "0"]
FROM scratch
COPY --link --from=tree / /
STOPSIGNAL SIGKILL
CMD ["/usr/bin/sleep", "600"]
"""


@pytest.fixture
def inside(tmp_path: Path, unpacked: Path) -> Iterator[Namespace]:
    """Yield a namespace whose state folder holds the unpacked programs already."""
    state = tmp_path / "state"
    share(unpacked, state)
    with namespace(state) as found:
        yield found
    shutil.rmtree(state)


@pytest.fixture
def context_folder(tmp_path: Path) -> Path:
    """Return a build context with `sleep` and its libraries."""
    sleep = Path("/usr/bin/sleep")
    return scratch_context(tmp_path / "context", sleep, DOCKERFILE)


def occupy(said: dict[str, Any], client: Namespace, folder: Path) -> None:
    """Leave marks of every kind: an image, a network, containers, a published port."""
    docker = said["result"]["docker"]
    client.run(docker, "buildx", "build", "--quiet", "--tag=occupy", folder)
    client.run(docker, "network", "create", "occupied")
    client.run(docker, "run", "--detach", "--init", "--publish=8123:80", "occupy")
    client.run(docker, "run", "--detach", "--network=occupied", "--publish=8124:80", "occupy")


def pid_of(inside: Namespace, name: str) -> int:
    """Return the number of one of the engine's processes."""
    number: int = inside.nightlock("engine", "status")["result"]["processes"][name]
    return number


@pytest.mark.parametrize("ending", ["in order", "dockerd killed"])
def test_stop_gives_everything_back_as_found(
    inside: Namespace, unpacked: Path, context_folder: Path, ending: str
) -> None:
    """Rules, tables, links, settings, mounts, control groups, /run and processes: as before."""
    # accept_redirects is what the kernel would reset together with forwarding.
    inside.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/all/accept_redirects")
    before = inside.look(unpacked)
    assert "" == before["nft"]
    said, client = started(inside)
    occupy(said, client, context_folder)
    during = inside.look(unpacked)
    assert before["iptables-nft-save"] != during["iptables-nft-save"]
    assert "1\n" == during["sysctls"]["/proc/sys/net/ipv4/ip_forward"]
    if ending == "dockerd killed":
        os.kill(pid_of(inside, "dockerd"), signal.SIGKILL)
    inside.nightlock("engine", "stop")
    after = inside.look(unpacked)
    assert before == after


@pytest.mark.parametrize("flavour", ["nft", "legacy"])
def test_rules_of_others_stay(inside: Namespace, unpacked: Path, flavour: str) -> None:
    """What stood there before, and what somebody added meanwhile, is there afterwards.

    A machine that filters with the old tables gets no new ones beside them.
    """
    rules = """\
*filter
:MINE - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j MINE
COMMIT
*nat
-A POSTROUTING -s 10.9.0.0/24 -j MASQUERADE
COMMIT
"""
    inside.tool(unpacked, f"iptables-{flavour}-restore", "--noflush", stdin=rules)
    before = filtered(inside.tool(unpacked, f"iptables-{flavour}-save"))
    tables = inside.look(unpacked)["nft"]
    inside.nightlock("engine", "start")
    during = filtered(inside.tool(unpacked, f"iptables-{flavour}-save"))
    assert ":DOCKER -" in during
    inside.tool(unpacked, f"iptables-{flavour}", "-A", "FORWARD", "-i", "eth7", "-j", "ACCEPT")
    inside.nightlock("engine", "stop")
    added = "-A FORWARD -i eth7 -j ACCEPT"
    after = filtered(inside.tool(unpacked, f"iptables-{flavour}-save"))
    assert added in after
    assert before == [line for line in after if line != added]
    inside.tool(unpacked, f"iptables-{flavour}", "-D", *added.split()[1:])
    if flavour == "nft":
        # Of the kernel's hooks only the one the added rule lies in may have stayed.
        inside.tool(unpacked, "nft", "delete", "chain", "ip", "filter", "FORWARD")
    assert tables == inside.look(unpacked)["nft"]


def test_without_a_network_nothing_is_left(inside: Namespace, tmp_path: Path) -> None:
    """Packages cannot be fetched: exit 4 with the fix, and no half of an engine."""
    fresh = replace(inside, state=tmp_path / "fresh")
    error = fresh.nightlock("engine", "start", status=4)["error"]
    assert "network" == error["kind"]
    assert "NIGHTLOCK_DEBIAN_MIRROR" in error["action"]
    assert not fresh.nightlock("engine", "stop")["result"]["stopped"]
    assert [] == list((fresh.state / "nightlock/engine").glob("tools/*"))


def test_starting_twice_changes_nothing(inside: Namespace) -> None:
    """The second start finds the first, and says so."""
    first = inside.nightlock("engine", "start")["result"]
    processes = inside.nightlock("engine", "status")["result"]["processes"]
    second = inside.nightlock("engine", "start")["result"]
    assert ["engine", "registry"] == first["started"]
    assert {**first, "started": []} == second
    assert processes == inside.nightlock("engine", "status")["result"]["processes"]


def test_two_starts_at_once_make_one_engine(inside: Namespace) -> None:
    """One waits for the other and finds its engine running."""
    command = (sys.executable, "-m", "builder", "engine", "start", "--json")
    racing = [inside.start(*command) for _ in range(2)]
    results = [json.loads(process.communicate(timeout=300)[0])["result"] for process in racing]
    assert [[], ["engine", "registry"]] == sorted(result["started"] for result in results)
    assert results[0]["registry"] == results[1]["registry"]


def test_a_start_after_a_crash_begins_anew(
    inside: Namespace, unpacked: Path, context_folder: Path
) -> None:
    """A stale socket and pid file, orphaned containers and old rules are cleared away first."""
    before = inside.look(unpacked)
    said, client = started(inside)
    occupy(said, client, context_folder)
    old = inside.nightlock("engine", "status")["result"]
    os.kill(old["processes"]["dockerd"], signal.SIGKILL)
    again = inside.nightlock("engine", "start")["result"]
    assert ["engine", "registry"] == again["started"]
    assert said["result"]["registry"] == again["registry"]
    assert "" == client.run(again["docker"], "ps", "--quiet")
    inside.nightlock("engine", "stop")
    assert before == inside.look(unpacked)


def test_an_interrupted_start_leaves_nothing(inside: Namespace, unpacked: Path) -> None:
    """Ctrl-C while dockerd comes up: exit 130, and the machine is as before."""
    before = inside.look(unpacked)
    process = inside.start(sys.executable, "-m", "builder", "engine", "start")
    assert process.stderr is not None
    for line in process.stderr:
        if "starting a private engine" in line:
            process.send_signal(signal.SIGINT)
            break
    process.communicate(timeout=120)
    assert 130 == process.returncode
    assert before == inside.look(unpacked)
    assert not inside.nightlock("engine", "stop")["result"]["stopped"]


def test_another_dockerd_is_never_joined(inside: Namespace, tmp_path: Path) -> None:
    """Even one that answers nobody: refused, with its number."""
    silent = tmp_path / "dockerd"
    shutil.copy("/usr/bin/sleep", silent)
    process = inside.start(silent, "600")
    try:
        error = inside.nightlock("engine", "start", status=1)["error"]
    finally:
        process.kill()
        process.communicate()
    assert "refused" == error["kind"]
    assert f"pid {process.pid}: {silent} 600" == error["input"]


def test_an_engine_that_answers_is_used_as_it_is(
    inside: Namespace, unpacked: Path, tmp_path: Path
) -> None:
    """Only a registry and a client beside it are ours; stopping takes nothing else down."""
    theirs, _ = started(inside)
    rules = inside.look(unpacked)["iptables-nft-save"]
    state = tmp_path / "other"
    share(unpacked, state)
    ours = replace(inside, state=state, extra={"DOCKER_HOST": theirs["result"]["host"]})
    said = ours.nightlock("engine", "start")["result"]
    assert (theirs["result"]["host"], False, ["registry"]) == (
        said["host"],
        said["private"],
        said["started"],
    )
    assert theirs["result"]["registry"] != said["registry"]
    assert [] == ours.nightlock("engine", "start")["result"]["started"]
    assert rules == inside.look(unpacked)["iptables-nft-save"]
    assert ours.nightlock("engine", "stop")["result"]["stopped"]
    assert "" == ours.nightlock("engine", "status")["result"]["registry"]
    assert theirs["result"] == {
        **inside.nightlock("engine", "start")["result"],
        "started": theirs["result"]["started"],
    }


def test_doctor_finds_the_shared_engine_fit(engine: Engine, engine_context: Context) -> None:
    """Whatever the main job needs of an engine, the private one has."""
    checks = {check.name: check.state for check in doctor.run(engine_context).result.checks}
    named = ("engine", "BuildKit", "image store", "registry")
    assert dict.fromkeys(named, "ok") == {name: checks[name] for name in named}


def test_the_registry_comes_back_on_its_port(inside: Namespace) -> None:
    """References stay valid over a restart, unless somebody took the port."""
    first = inside.nightlock("engine", "start")["result"]["registry"]
    inside.nightlock("engine", "stop")
    assert first == inside.nightlock("engine", "start")["result"]["registry"]
    os.kill(pid_of(inside, "docker-registry"), signal.SIGKILL)
    again = inside.nightlock("engine", "start")["result"]
    assert (first, ["registry"]) == (again["registry"], again["started"])
    inside.nightlock("engine", "stop")
    port = first.rpartition(":")[2]
    listen = (
        f"import socket, signal; s = socket.create_server(('127.0.0.1', {port})); "
        "print(); signal.pause()"
    )
    taken = inside.start(sys.executable, "-uc", listen)
    try:
        assert taken.stdout is not None
        assert "\n" == taken.stdout.readline()
        assert first != inside.nightlock("engine", "start")["result"]["registry"]
    finally:
        taken.kill()
        taken.communicate()


def test_missing_control_groups_are_mounted_and_taken_away(
    inside: Namespace, unpacked: Path, context_folder: Path
) -> None:
    """A bare /sys/fs/cgroup is enough to run containers, and is bare again afterwards."""
    groups = "awk '$5 ~ \"^/sys/fs/cgroup\" {print $5}' /proc/self/mountinfo | sort -r"
    inside.run("sh", "-c", f"{groups} | xargs -n1 umount && mount -t tmpfs bare /sys/fs/cgroup")
    before = inside.look(unpacked)
    said, client = started(inside)
    occupy(said, client, context_folder)
    assert before["mounts"] != inside.look(unpacked)["mounts"]
    inside.nightlock("engine", "stop")
    assert before["mounts"] == inside.look(unpacked)["mounts"]


def test_purge_gives_the_disk_back(inside: Namespace) -> None:
    """Nothing of the engine stays below the state folder."""
    inside.nightlock("engine", "start")
    stopped = inside.nightlock("engine", "stop", "--purge")["result"]
    assert stopped["purged_bytes"] > 100_000_000
    assert ["engine.lock"] == [path.name for path in (inside.state / "nightlock").iterdir()]


def test_status_says_no_when_nothing_answers(inside: Namespace) -> None:
    """Exit code 1, and no process."""
    said = inside.nightlock("engine", "status", status=1)
    assert (False, {}) == (said["result"]["running"], said["result"]["processes"])


def test_the_shared_engine_builds_and_pushes_zstd(engine: Engine, context_folder: Path) -> None:
    """COPY --link, network=none, OCI media types and zstd layers, into the registry on loopback."""
    reference = f"{engine.registry}/nightlock-test/zstd:1"
    output = f"type=image,name={reference},push=true,oci-mediatypes=true,compression=zstd"
    environment = {**os.environ, **engine.environment}
    build = [
        *(str(engine.docker), "buildx", "build", "--provenance=false"),
        *(f"--output={output},force-compression=true", str(context_folder)),
    ]
    subprocess.run(build, env=environment, check=True, capture_output=True)
    subprocess.run(
        [engine.docker, "run", "--rm", reference, "/usr/bin/sleep", "0"],
        env=environment,
        check=True,
    )
    with httpx.Client(trust_env=False, base_url=f"http://{engine.registry}") as client:
        answer = client.get("/v2/nightlock-test/zstd/manifests/1", headers={"Accept": OCI})
        deleted = client.delete(
            f"/v2/nightlock-test/zstd/manifests/{answer.headers['Docker-Content-Digest']}"
        )
    with suppress(subprocess.CalledProcessError):
        subprocess.run(
            [engine.docker, "rmi", reference], env=environment, check=True, capture_output=True
        )
    assert OCI == answer.headers["Content-Type"]
    kinds = {layer["mediaType"] for layer in answer.json()["layers"]}
    assert {"application/vnd.oci.image.layer.v1.tar+zstd"} == kinds
    assert 202 == deleted.status_code
