"""The private engine's parts: brought up one by one, taken down whole.

Whatever state they are in, taking them down finds them without the record: programs by the folder
they were unpacked to, containers by their control group, mounts by our folders.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path

from builder.core import mounts as tables
from builder.core import network as networks
from builder.core.engine import EngineFolders, EngineRecord, Running, tool
from builder.core.engine_config import (
    OUTSIDE_FOLDERS,
    PORTS,
    bridge_name,
    cgroup_name,
    daemon_config,
    registry_config,
)
from builder.core.network import FoundNetwork
from builder.core.network_rules import Ours
from builder.edge import daemon, files, mounts, network, tools
from builder.edge.engine import ask_version, read_record, registry_answers
from builder.edge.network import PacketFilter
from builder.errors import EngineError, PortTaken, Refused, ToolMissing

_DAEMONS = ("dockerd", "containerd", "containerd-shim-runc-v2", "docker-proxy", "runc")
_REGISTRY = "docker-registry"
_START_SECONDS = 60
_STOP_SECONDS = 60
"""dockerd itself gives containers 15 seconds."""
_POLL_SECONDS = 0.1

# Of the caller's environment only how to reach the network, and where temporary files go.
_PASSED = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


def own_processes(
    folders: EngineFolders, names: Iterable[str] = (*_DAEMONS, _REGISTRY)
) -> list[daemon.Process]:
    """Find what runs from our unpacked programs; clients of the user are left out."""
    wanted = set(names)
    return [one for one in daemon.running_from(folders.tools) if one.program.name in wanted]


def remember_network(folders: EngineFolders, tools_folder: Path, flavour: str) -> FoundNetwork:
    """Write down what the network is now, to give it back by.

    Raises ToolMissing when this kernel cannot filter packets as Docker needs it.
    """
    packets = PacketFilter(tools_folder, flavour, tools.tool_environment(tools_folder, flavour, ""))
    links = network.links()
    found = FoundNetwork(
        boot=daemon.boot_id(),
        namespace=network.namespace(),
        flavour=flavour,
        tables=packets.tables(),
        rules=packets.save(),
        links=links,
        sysctls=network.read_sysctls(networks.watched_sysctls(links)),
        folders=[name for name in OUTSIDE_FOLDERS if not Path(name).exists()],
        mounts=[
            entry.point
            for entry in tables.missing_cgroups(mounts.listed_cgroups(), mounts.mounted())
        ],
    )
    files.write(folders.found, found.model_dump_json(indent=1).encode())
    lacks = packets.works()
    if lacks:
        raise ToolMissing(
            f"this kernel does not let iptables work: {lacks}",
            subject=f"iptables ({flavour})",
            action="boot a kernel with NF_TABLES or IP_NF_IPTABLES, or use an engine elsewhere "
            "by DOCKER_HOST",
        )
    return found


def prepare(folders: EngineFolders) -> None:
    """Mount the control groups that lack, and try whether images can be unpacked.

    Raises ToolMissing when the kernel cannot stack folders where the data root is.
    """
    for entry in tables.missing_cgroups(mounts.listed_cgroups(), mounts.mounted()):
        mounts.mount(entry)
    lacks = mounts.try_overlay(folders.top)
    if lacks:
        raise ToolMissing(
            f"no overlay file system can be mounted there: {lacks}",
            subject=str(folders.top),
            action="point XDG_STATE_HOME to a folder on ext4 or xfs; in a container, run it "
            "privileged and mount a volume there",
        )


def start_bridge(folders: EngineFolders) -> IPv4Network:
    """Make our bridge on a free subnet; raise Refused when every private one is in use."""
    subnet = networks.choose_subnet(network.used_networks())
    if subnet is None:
        raise Refused(
            "every private IPv4 network is routed somewhere; containers need one of their own",
            subject="/proc/net/fib_trie",
            action="take a route away, or use an engine elsewhere by DOCKER_HOST",
        )
    network.add_bridge(bridge_name(folders), subnet)
    return subnet


def start_dockerd(
    folders: EngineFolders, tools_folder: Path, flavour: str, environment: Mapping[str, str]
) -> Running:
    """Start dockerd, which starts containerd, and wait until it answers; raise EngineError."""
    for folder in (folders.run, folders.data, folders.logs, folders.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    folders.run.chmod(0o711)
    config = folders.top / "daemon.json"
    files.write(config, daemon_config(folders).encode())
    log = folders.logs / "dockerd.log"
    files.remove(log)
    passed = _passed(environment)
    running = daemon.spawn(
        [tool(tools_folder, "dockerd"), "--config-file", config],
        environment={
            **passed,
            "TMPDIR": str(folders.scratch),
            **tools.tool_environment(tools_folder, flavour, passed["PATH"]),
        },
        log=log,
    )
    _await(lambda: bool(ask_version(folders.host)), running, "dockerd", log)
    return running


def start_registry(
    folders: EngineFolders, tools_folder: Path, environment: Mapping[str, str]
) -> tuple[Running, int]:
    """Start the registry on its old port, or on a free one, and wait until it answers.

    Raises EngineError when it does not, PortTaken when no port is free.
    """
    log = folders.logs / "registry.log"
    files.remove(log)
    folders.registry.mkdir(parents=True, exist_ok=True)
    config = folders.top / "registry.yml"
    for port in _free_ports(folders):
        files.write(config, registry_config(folders, port).encode())
        running = daemon.spawn(
            [tool(tools_folder, _REGISTRY), "serve", config],
            environment=_passed(environment),
            log=log,
        )
        try:
            _await(lambda port=port: registry_answers(port), running, "the registry", log)  # type: ignore[misc]
        except EngineError:
            # Somebody was quicker: only our process being there makes the answer ours.
            if "address already in use" in daemon.tail(log):
                continue
            raise
        files.write(folders.port, f"{port}\n".encode())
        return running, port
    raise PortTaken(
        f"no port from {PORTS[0]} to {PORTS[-1]} is free for the registry",
        subject="127.0.0.1",
        action="end what listens there",
    )


def link_client(folders: EngineFolders, tools_folder: Path, environment: Mapping[str, str]) -> None:
    """Make a client folder that has our buildx and the user's own config.json (credentials)."""
    own = environment.get("DOCKER_CONFIG") or f"{environment.get('HOME') or '/root'}/.docker"
    plugin = tools_folder / "root/usr/libexec/docker/cli-plugins/docker-buildx"
    for link, target in (
        (folders.client / "cli-plugins/docker-buildx", plugin),
        (folders.client / "config.json", Path(own) / "config.json"),
    ):
        if not link.is_symlink() or link.readlink() != target:
            files.remove(link)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)


def write_record(folders: EngineFolders, record: EngineRecord) -> None:
    """Keep what was started."""
    files.write(folders.record, record.text().encode())


def read_found(folders: EngineFolders) -> FoundNetwork | None:
    """Read how the network was before the first start; None when all was given back."""
    try:
        return FoundNetwork.model_validate_json(folders.found.read_text())
    except FileNotFoundError:
        return None


def anything_left(folders: EngineFolders) -> bool:
    """Whether there is something to take down, running or not."""
    return (
        folders.record.exists()
        or folders.found.exists()
        or folders.run.exists()
        or bool(own_processes(folders))
    )


def take_down(folders: EngineFolders) -> None:
    """End everything of ours and give mounts and network back; may be repeated.

    Containers are stopped by dockerd where it still runs. Raises EngineError for what stays.
    """
    _end(own_processes(folders, ("dockerd",)), signal.SIGTERM, _STOP_SECONDS)
    _end(own_processes(folders, (_REGISTRY,)), signal.SIGTERM, 10)
    stubborn = _end(own_processes(folders), signal.SIGKILL, 10)
    containers = daemon.running_in_cgroup(cgroup_name(folders))
    stubborn += daemon.end(containers, signal.SIGKILL, 20)
    if stubborn:
        raise EngineError(
            "processes of the engine cannot be ended",
            subject=", ".join(f"pid {one.pid}" for one in stubborn),
            action="run `nightlock engine stop` again; if they stay, reboot",
        )
    mounts.remove_cgroups(cgroup_name(folders))
    left = mounts.unmount(tables.below(mounts.mounted(), (str(folders.top), str(folders.run))))
    if left:
        raise EngineError(
            "file systems of the engine cannot be unmounted",
            subject=", ".join(left),
            action="leave those folders, then run `nightlock engine stop` again",
        )
    found = read_found(folders)
    if found is not None and found.boot == daemon.boot_id():
        _give_back(folders, found)
    files.remove(folders.scratch)
    files.remove(folders.run)
    files.remove(folders.record)
    files.remove(folders.found)


def _give_back(folders: EngineFolders, found: FoundNetwork) -> None:
    mounts.unmount(
        entry.point for entry in reversed(mounts.mounted()) if entry.point in found.mounts
    )
    for name in found.folders:
        _remove_unused(Path(name))
    # Rules and bridges of another namespace went with it, or are there and not here.
    if found.namespace != network.namespace():
        return
    foreign = [
        one
        for one in daemon.running_named("dockerd")
        if not one.program.is_relative_to(folders.tools)
    ]
    if foreign:
        # It took over the rules and forwarding; its networks need them.
        network.remove_bridge(bridge_name(folders))
        return
    bridges = networks.our_bridges(bridge_name(folders), found.links, network.links())
    subnets = frozenset(filter(None, map(network.subnet_of, bridges)))
    for bridge in bridges:
        network.remove_bridge(bridge)
    record = read_record(folders)
    newest = max(folders.tools.glob("*/manifest.json"), key=os.path.getmtime, default=None)
    tools_folder = Path(record.tools) if record else newest and newest.parent
    if tools_folder is None or not tools_folder.is_dir():
        raise ToolMissing(
            "the packet filter cannot be given back: the unpacked iptables is gone",
            subject=str(folders.tools),
            action="run `nightlock engine start`, which unpacks it again, then stop",
        )
    environment = tools.tool_environment(tools_folder, found.flavour, "")
    packets = PacketFilter(tools_folder, found.flavour, environment)
    packets.undo(found.rules, Ours(bridges=bridges, subnets=subnets))
    packets.drop_tables(found.tables)
    now = network.read_sysctls(found.sysctls)
    network.write_sysctls(networks.plan_sysctls(found.sysctls, now))


def _remove_unused(folder: Path) -> None:
    """Remove empty folders and sockets nobody listens on; another engine may have moved in."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(parent, name)
            if path.is_socket() and not _is_listened_on(path):
                path.unlink()
        with suppress(OSError):
            Path(parent).rmdir()


def _is_listened_on(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True


def _end(
    processes: Iterable[daemon.Process], number: signal.Signals, seconds: float
) -> list[Running]:
    return daemon.end([one.running for one in processes], number, seconds)


def _await(ready: Callable[[], bool], running: Running, name: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not (daemon.is_alive(running) and ready()):
        dead = not daemon.is_alive(running)
        if dead or time.monotonic() > deadline:
            happened = "ended" if dead else f"did not answer within {_START_SECONDS} s"
            raise EngineError(
                f"{name} {happened}; the end of its log:\n{daemon.tail(log)}",
                subject=str(log),
                action="read the log; `nightlock doctor` says what this machine lacks",
            )
        time.sleep(_POLL_SECONDS)


def _free_ports(folders: EngineFolders) -> Iterator[int]:
    try:
        last = [int(folders.port.read_text())]
    except (OSError, ValueError):
        last = []
    for port in dict.fromkeys([*last, *PORTS]):
        with socket.socket() as probe:
            # As the registry itself will bind: connections that linger do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


def _passed(environment: Mapping[str, str]) -> dict[str, str]:
    found = {key: value for key, value in environment.items() if key.upper() in _PASSED and value}
    path = environment.get("PATH", "")
    return {
        **found,
        "HOME": environment.get("HOME") or "/root",
        "PATH": f"{path}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }
