"""`nightlock engine start|stop|status`: use the engine that answers, else a private one."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from builder.commands.context import Context, Outcome
from builder.core.document import Result
from builder.core.engine import EngineFolders, EngineRecord, ToolSet, engine_tools, registry_tools
from builder.core.engine_config import bridge_name
from builder.core.engine_features import has_containerd_store, parse_buildkit
from builder.core.engine_machine import package_refusal, refusal
from builder.edge import daemon, files, network, private, tools
from builder.edge.engine import (
    Engine,
    find_engine,
    find_host,
    has_client,
    probe_buildkit,
    probe_info,
    read_record,
    require_engine,
)
from builder.edge.machine import folder_bytes, read_machine
from builder.errors import NightlockError, ToolMissing


class EngineStartResult(Result):
    """What answers now."""

    host: str
    private: bool
    version: str
    registry: str
    docker: str
    started: list[str]
    """What was not running before: `engine`, `registry`."""


class EngineStopResult(Result):
    """What was given back."""

    stopped: bool
    """False where nothing was there to stop."""
    purged_bytes: int


class EngineStatusResult(Result):
    """What answers, and what it costs."""

    running: bool
    host: str = ""
    private: bool = False
    version: str = ""
    buildkit: str = ""
    containerd_store: bool = False
    """Whether its own builder can make zstd layers and OCI media types."""
    registry: str = ""
    docker: str = ""
    data_bytes: int = 0
    processes: dict[str, int] = Field(default_factory=dict)
    """Program → process number, of the private engine."""
    packages: dict[str, str] = Field(default_factory=dict)


def start(context: Context) -> Outcome[EngineStartResult]:
    """Make an engine and a registry answer; what runs already is used as it is."""
    folders = EngineFolders(context.places)
    with files.locked(folders.lock, waiting=context.output.note):
        host = find_host(context.places, context.settings, os.environ)
        if host == folders.host:
            started = _complete(context, folders)
        elif host:
            started = _add_registry(context, folders)
        else:
            started = _start_private(context, folders)
        engine = require_engine(context.places, context.settings, os.environ)
    return Outcome(
        result=EngineStartResult(
            host=engine.host,
            private=engine.private,
            version=engine.version,
            registry=engine.registry,
            docker=str(engine.docker),
            started=started,
        ),
        text=_describe(engine, started),
    )


def stop(context: Context, *, purge: bool = False) -> Outcome[EngineStopResult]:
    """Take the private engine down and give the network back as it was found."""
    folders = EngineFolders(context.places)
    with files.locked(folders.lock, waiting=context.output.note):
        there = private.anything_left(folders)
        if folders.found.exists() and os.geteuid() != 0:
            raise ToolMissing(
                "a private engine is stopped by root alone",
                subject=str(folders.top),
                action="run `nightlock engine stop` as the user who started it",
            )
        if there:
            with context.output.step("engine-stop", "stopping the private engine"):
                private.take_down(folders)
        freed = 0
        if purge:
            freed = folder_bytes(folders.top)
            with context.output.step("engine-purge", f"deleting {folders.top}"):
                files.remove(folders.top)
    text = "the private engine is stopped" if there else "no private engine was running"
    if purge:
        text += f"; {freed / 1e9:.1f} GB given back"
    return Outcome(result=EngineStopResult(stopped=there, purged_bytes=freed), text=text)


def status(context: Context) -> Outcome[EngineStatusResult]:
    """Say which engine and registry answer; not ok when no engine does."""
    folders = EngineFolders(context.places)
    engine = find_engine(context.places, context.settings, os.environ)
    daemons = private.own_processes(folders, ("dockerd", "containerd", "docker-registry"))
    own = {one.program.name: one.running.pid for one in daemons}
    record = read_record(folders)
    result = EngineStatusResult(
        running=engine is not None,
        data_bytes=folder_bytes(folders.top),
        processes=own,
        packages=tools.versions(Path(record.tools)) if record else {},
    )
    if engine is None:
        return Outcome(
            result=result,
            text="no engine answers; start one with `nightlock engine start`",
            ok=False,
        )
    buildkit = parse_buildkit(probe_buildkit(engine, context.settings.engine.builder))
    result = result.model_copy(
        update={
            "host": engine.host,
            "private": engine.private,
            "version": engine.version,
            "buildkit": buildkit.describe(engine.version),
            "registry": engine.registry,
            "docker": str(engine.docker),
            "containerd_store": has_containerd_store(probe_info(engine)),
        }
    )
    return Outcome(result=result, text=_table(engine, result))


def _start_private(context: Context, folders: EngineFolders) -> list[str]:
    machine = read_machine(folders)
    refused = refusal(machine)
    if refused is not None:
        raise refused
    if private.anything_left(folders):
        with context.output.step("engine-clean", "clearing away what an earlier engine left"):
            private.take_down(folders)
    wanted = engine_tools(machine.codename, machine.glibc)
    unpacked = _tools(context, folders, wanted)
    with context.output.step("engine-start", "starting a private engine and its registry"):
        try:
            _bring_up(context, folders, unpacked)
        except BaseException:
            # Ctrl-C too: what was started is stopped, the network is as it was.
            private.take_down(folders)
            raise
    return ["engine", "registry"]


def _bring_up(context: Context, folders: EngineFolders, unpacked: Path) -> None:
    flavour = network.find_flavour()
    found = private.remember_network(folders, unpacked, flavour)
    if found.mounts:
        context.output.note(f"  mounting control groups: {', '.join(found.mounts)}")
    private.prepare(folders)
    subnet = private.start_bridge(folders)
    record = EngineRecord(
        boot=daemon.boot_id(),
        tools=str(unpacked),
        host=folders.host,
        bridge=bridge_name(folders),
        subnet=str(subnet),
    )
    private.write_record(folders, record)
    private.link_client(folders, unpacked, os.environ)
    dockerd = private.start_dockerd(folders, unpacked, flavour, os.environ)
    registry, port = private.start_registry(folders, unpacked, os.environ)
    private.write_record(
        folders,
        record.model_copy(update={"dockerd": dockerd, "registry": registry, "registry_port": port}),
    )


def _complete(context: Context, folders: EngineFolders) -> list[str]:
    """Our engine answers: bring its registry back where that one has ended."""
    record = read_record(folders)
    if record is not None and daemon.is_alive(record.registry):
        return []
    if record is None:
        machine = read_machine(folders)
        unpacked = _tools(context, folders, engine_tools(machine.codename, machine.glibc))
        record = EngineRecord(boot=daemon.boot_id(), tools=str(unpacked), host=folders.host)
    return _start_registry(context, folders, record)


def _add_registry(context: Context, folders: EngineFolders) -> list[str]:
    """Find the user's engine answering: only a registry, and a client it lacks, are ours."""
    record = read_record(folders)
    if record is not None and record.boot == daemon.boot_id() and daemon.is_alive(record.registry):
        return []
    client = not has_client(os.environ)
    machine = read_machine(folders)
    try:
        refused = package_refusal(machine)
        if refused is not None:
            raise refused
        wanted = registry_tools(machine.codename, machine.glibc, client=client)
        unpacked = _tools(context, folders, wanted)
    except NightlockError as error:
        if client:
            raise
        context.output.note(f"no registry on loopback: {error}")
        return []
    private.link_client(folders, unpacked, os.environ)
    return _start_registry(
        context, folders, EngineRecord(boot=daemon.boot_id(), tools=str(unpacked))
    )


def _start_registry(context: Context, folders: EngineFolders, record: EngineRecord) -> list[str]:
    with context.output.step("registry-start", "starting a registry on loopback"):
        registry, port = private.start_registry(folders, Path(record.tools), os.environ)
        update = {"registry": registry, "registry_port": port}
        private.write_record(folders, record.model_copy(update=update))
    return ["registry"]


def _tools(context: Context, folders: EngineFolders, wanted: ToolSet) -> Path:
    unpacked = tools.find_tools(folders.tools, wanted)
    if unpacked is None:
        with context.output.step("engine-fetch", "fetching Debian's packages of the engine"):
            unpacked = tools.fetch_tools(
                folders.tools, wanted, folders.apt, context.settings.debian
            )
            # The indexes are of no use any more, and as large as the engine.
            files.remove(folders.apt)
    return unpacked


def _describe(engine: Engine, started: list[str]) -> str:
    if engine.private:
        engine_line = "private engine" if "engine" in started else "the private engine runs already"
    else:
        engine_line = "using the engine that answers; it is not reconfigured"
    return "\n".join(
        [
            f"{engine_line}: Docker {engine.version}",
            f"  host      {engine.host}",
            f"  registry  {engine.registry or 'none on loopback'}",
            f"  client    {engine.docker}",
        ]
    )


def _table(engine: Engine, result: EngineStatusResult) -> str:
    kind = "private" if engine.private else "the user's"
    rows = [
        ("engine", f"Docker {engine.version} ({kind})"),
        ("host", engine.host),
        ("buildkit", result.buildkit),
        ("images", "containerd: zstd, OCI" if result.containerd_store else "classic: gzip alone"),
        ("registry", engine.registry or "none on loopback"),
        ("client", str(engine.docker)),
        ("disk", f"{result.data_bytes / 1e9:.2f} GB"),
        ("processes", ", ".join(f"{name} {pid}" for name, pid in result.processes.items())),
        ("to use it", _exports(engine) if engine.private else ""),
    ]
    return "\n".join(f"{name:<10} {value}" for name, value in rows if value)


def _exports(engine: Engine) -> str:
    """Spell what makes plain `docker` and `docker buildx` speak to this engine."""
    variables = {
        **engine.environment,
        "PATH": f"{engine.docker.parent}:$PATH",
    }
    return "export " + " ".join(f'{name}="{value}"' for name, value in sorted(variables.items()))
