"""Containers: one image booted under testcontainers, watched, and surely removed.

testcontainers' reaper is a second image that cannot be pulled everywhere (C62), so it stays off and
our own labels do its work: what we started is removed on every way out, and what a killed nightlock
left is removed by the next one.
"""

from __future__ import annotations

import os
import secrets
import signal
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, cast
from urllib.parse import urlsplit

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import LogConfig
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.transferable import Transferable
from testcontainers.core.utils import inside_container

from builder.core.boot import OWNER_LABEL, RUN_LABEL, BootPlan, Exit, Owner
from builder.core.logline import seconds_of
from builder.core.room import disk_full_line
from builder.core.smoke import Machine
from builder.edge import owner
from builder.edge.devices import device_requests
from builder.edge.engine import Engine, knock
from builder.edge.logfile import LogFile
from builder.edge.profiles import readable_by_all
from builder.edge.server import Server
from builder.errors import BootFailed, DiskFull, EngineError, NetworkError, PortTaken

_API_SECONDS = 60
BROKEN = (DockerException, requests.exceptions.RequestException, OSError)
"""What the engine's client raises."""


class _Booted(DockerContainer):
    """testcontainers' container; a folder is sent in with modes that every user can read."""

    def _transfer_into_container(
        self,
        transferable: Transferable,
        destination_in_container: str,
        mode: int,  # noqa: ARG002 - each entry gets its own
    ) -> None:
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                tar.add(str(transferable), arcname=destination_in_container, filter=_open_to_all)
            file.seek(0)
            self.get_wrapped_container().put_archive("/", file)


@contextmanager
def boot(engine: Engine, plan: BootPlan, log: Path, seconds: float) -> Iterator[Server]:
    """Start a container, watch it, and remove it on every way out.

    `log` takes its output as it comes, with the engine's timestamps; `seconds` is the deadline for
    create and start. Left without an exception, it is stopped by SIGTERM first and gets its grace.

    Raises BootFailed when it cannot start, PortTaken, EngineError.
    """
    run = secrets.token_hex(8)
    with ExitStack() as stack:
        client = stack.enter_context(open_client(engine, _API_SECONDS))
        remove_leftovers(client, same_machine=is_local(engine))
        grace = [0.0]
        stack.callback(lambda: remove_run(client, run, grace[0]))
        number = _start(engine, plan, run, seconds)
        output = stack.enter_context(LogFile(log))
        output.begin(_began(engine, client, number))
        server = Server(_address(engine, client, number, plan.port), output)
        with suppress(*BROKEN):
            server.inspected = client.api.inspect_container(number)
        for work, sink in ((_follow, output), (_watch, server)):
            follower = threading.Thread(target=work, args=(engine, number, sink), daemon=True)
            follower.start()
            # After the container is gone, before the log file is closed: callbacks run in reverse.
            stack.callback(follower.join, 10)
        stack.callback(lambda: remove_run(client, run, grace[0]))
        yield server
        grace[0] = plan.grace


def pull(engine: Engine, image: str, on_layer: Callable[[str], None]) -> None:
    """Make the engine hold `name@digest`; `on_layer` hears each layer that is complete.

    Raises NetworkError, DiskFull, EngineError.
    """
    name, _, digest = image.partition("@")
    try:
        with open_client(engine, 600) as client:
            try:
                client.images.get(image)
            except ImageNotFound:
                for event in client.api.pull(name, tag=digest, stream=True, decode=True):
                    if event.get("status") == "Pull complete":
                        on_layer(str(event.get("id", "")))
                    if "error" in event:
                        raise _not_pulled(str(event["error"]), image) from None
    except BROKEN as error:
        raise _not_pulled(str(error), image) from error


def describe(engine: Engine) -> Machine:
    """Say what machine the engine runs on; raises EngineError."""
    with explained(engine), open_client(engine, _API_SECONDS) as client:
        info = client.info()
    return Machine(
        system=str(info.get("OperatingSystem", "")),
        kernel=str(info.get("KernelVersion", "")),
        architecture=str(info.get("Architecture", "")),
        cores=int(info.get("NCPU", 0)),
        memory_bytes=int(info.get("MemTotal", 0)),
        engine=engine.version,
        private=engine.private,
    )


def remove_leftovers(client: docker.DockerClient, *, same_machine: bool) -> list[str]:
    """Remove containers of nightlock processes that are dead; return their names."""
    removed = []
    with suppress(*BROKEN):
        for container in client.containers.list(all=True, filters={"label": RUN_LABEL}):
            whose = Owner.parse(container.labels.get(OWNER_LABEL, ""))
            if whose is not None and owner.is_dead(whose, same_machine=same_machine):
                with suppress(APIError):
                    container.remove(force=True, v=True)
                    removed.append(str(container.name))
    return removed


def _start(engine: Engine, plan: BootPlan, run: str, seconds: float) -> str:
    """Create and start it; return the container's id."""
    local = is_local(engine)
    with explained(engine):
        with environment_kept():
            booted = _Booted(plan.image, docker_client_kw=client_options(engine, seconds))
        # Its prefix for Docker Hub mirrors would change which image this is.
        booted.image = plan.image
        # Loopback alone, where that is enough: an unproven server is nobody else's business.
        address = "127.0.0.1" if local else ""
        booted.ports[f"{plan.port}/tcp"] = cast("None", (address, plan.host_port or None))
        booted.with_envs(**plan.environment).with_command(list(plan.arguments))
        booted.with_name(f"nightlock-smoke-{run}")
        if plan.folder and local and readable_by_all(Path(plan.folder)):
            booted.with_volume_mapping(plan.folder, plan.mount, "ro")
        elif plan.folder:
            booted.with_copy_into_container(Path(plan.folder), plan.mount)
        for volume in plan.volumes:
            source, target, *mode = volume.split(":")
            booted.with_volume_mapping(source, target, mode[0] if mode else "rw")
        gpus = device_requests(plan.gpus, plan.gpu_ids)
        booted.with_kwargs(
            **({"device_requests": gpus} if gpus else {}),
            **({"ipc_mode": plan.ipc} if plan.ipc else {}),
            shm_size=plan.shm_bytes,
            labels={RUN_LABEL: run, OWNER_LABEL: owner.this_process().text},
            # Named, so that testcontainers does not look for one by the environment.
            network="bridge",
            # Readable back, whatever the engine's own default is.
            log_config=LogConfig(type=LogConfig.types.JSON, config={}),
        )
    try:
        with reaper_off():
            booted.start()
    except APIError as error:
        raise _not_started(error, plan) from error
    except BROKEN as error:
        raise EngineError(
            f"the engine did not start the container within {seconds:g} s: {error}",
            subject=plan.image,
            action="look at the engine's log, then try again",
        ) from error
    finally:
        booted.get_docker_client().client.close()
    return booted.get_container_id()


def _not_started(error: APIError, plan: BootPlan) -> Exception:
    said = str(error.explanation or error)
    if "port is already allocated" in said or "address already in use" in said:
        return PortTaken(
            f"port {plan.host_port} is taken",
            subject=plan.image,
            action="stop who listens there, or set `server.host_port` of the profile to 0",
        )
    return BootFailed(
        f"the container did not start: {said}",
        subject=plan.image,
        action="check the image's entrypoint and the profile's arguments",
    )


def _not_pulled(said: str, image: str) -> Exception:
    if disk_full_line(said):
        return DiskFull(
            f"the engine has no room for the image: {said}",
            subject=image,
            action="free some space where the engine keeps its data; `docker system df` says what "
            "takes it",
        )
    kind = EngineError if "denied" in said.lower() else NetworkError
    return kind(
        f"the engine cannot pull the image: {said}",
        subject=image,
        action="check that the engine's machine reaches the registry, and `docker login` there",
    )


def remove_run(client: docker.DockerClient, run: str, grace: float) -> None:
    """Stop and remove what carries our label, also when its creation was cut short."""
    with _undisturbed(), suppress(*BROKEN):
        for container in client.containers.list(all=True, filters={"label": f"{RUN_LABEL}={run}"}):
            with suppress(*BROKEN):
                if grace:
                    container.stop(timeout=round(grace))
            with suppress(NotFound):
                container.remove(force=True, v=True)


def _watch(engine: Engine, number: str, server: Server) -> None:
    try:
        # No time limit: the engine answers when the container ends.
        with open_client(engine, None) as client:
            status = client.api.wait(number, timeout=None)
            server.inspected = client.api.inspect_container(number)
            state = server.inspected.get("State", {})
    except NotFound:
        server.ended(Exit(code=137, error="somebody removed the container"))
    except BROKEN as error:
        server.ended(Exit(code=-1, error=f"the engine stopped answering: {error}"))
    else:
        server.ended(
            Exit(
                code=int(status.get("StatusCode", -1)),
                out_of_memory=bool(state.get("OOMKilled")),
                error=str(state.get("Error") or ""),
            )
        )


def _follow(engine: Engine, number: str, output: LogFile) -> None:
    try:
        with suppress(*BROKEN), open_client(engine, None) as client:
            for piece in client.api.logs(number, stream=True, follow=True, timestamps=True):
                output.add(piece)
    finally:
        output.complete()


def _began(engine: Engine, client: docker.DockerClient, number: str) -> float | None:
    """Say when it began to run, by the engine's clock, which also stamps its log."""
    with explained(engine):
        state = client.api.inspect_container(number).get("State", {})
    return seconds_of(str(state.get("StartedAt", "")))


def _address(engine: Engine, client: docker.DockerClient, number: str, port: int) -> str:
    with explained(engine):
        network: Mapping[str, Any] = client.api.inspect_container(number)["NetworkSettings"]
    bound = (network.get("Ports") or {}).get(f"{port}/tcp") or [{}]
    host = "127.0.0.1"
    if not is_local(engine):
        far = urlsplit(engine.host).hostname
        bridge = (network.get("Networks") or {}).get("bridge") or {}
        host = far or str(bridge.get("Gateway") or host)
    # A container that has ended already has no port; its end is noticed before anybody asks.
    return f"http://{host}:{bound[0].get('HostPort') or port}"


def is_local(engine: Engine) -> bool:
    """Whether the engine sees our files and our loopback.

    A socket handed into a container speaks for an engine outside of it.
    """
    return engine.host.startswith("unix://") and (engine.private or not inside_container())


def client_options(engine: Engine, seconds: float | None) -> dict[str, Any]:
    """Spell how to speak to the engine, for docker's own client."""
    return {
        "environment": dict(engine.environment),
        "timeout": seconds,
        "use_ssh_client": engine.host.startswith("ssh://"),
    }


@contextmanager
def open_client(engine: Engine, seconds: float | None) -> Iterator[docker.DockerClient]:
    """Speak to the engine; `seconds` is the limit of one answer, None for no limit.

    Raises one of BROKEN when nobody answers.
    """
    knock(engine.host)
    client = docker.from_env(**client_options(engine, seconds))
    try:
        yield client
    finally:
        client.close()


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Turn what the engine's client raises into EngineError."""
    try:
        yield
    except BROKEN as error:
        raise EngineError(
            f"the engine does not answer as it should: {error}",
            subject=engine.host,
            action="`nightlock engine status` says what answers",
        ) from error


@contextmanager
def reaper_off() -> Iterator[None]:
    """Keep testcontainers from starting its second container."""
    before = testcontainers_config.ryuk_disabled
    testcontainers_config.ryuk_disabled = True
    try:
        yield
    finally:
        testcontainers_config.ryuk_disabled = before


@contextmanager
def environment_kept() -> Iterator[None]:
    """Keep what testcontainers overwrites: it puts the current docker context's host there."""
    before = os.environ.get("DOCKER_HOST")
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("DOCKER_HOST", None)
        else:
            os.environ["DOCKER_HOST"] = before


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back until what must happen has happened."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = {n: signal.signal(n, remember) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(came[0])


def _open_to_all(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode = 0o755 if entry.isdir() else 0o644
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
