"""The engine that answers: the user's own, else the private one; and what it can do."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import httpx
from docker.errors import DockerException
from docker.tls import TLSConfig

from builder.core.engine import EngineFolders, EngineRecord, tool
from builder.core.places import Places
from builder.core.settings import Settings
from builder.edge import process
from builder.errors import CommandFailed, ToolMissing

_ASK_SECONDS = 5
_START = "start one with `nightlock engine start`; `nightlock doctor` says what it needs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine that answered, and how to speak to it."""

    host: str
    """As DOCKER_HOST: `unix://…`, `tcp://…`, `ssh://…`."""
    private: bool
    registry: str
    """The registry on loopback, as `localhost:5000`; empty where none answers."""
    docker: Path
    """The client; with `environment` it has the buildx plugin."""
    environment: Mapping[str, str]
    """What to lay over the caller's environment: DOCKER_HOST, DOCKER_CONFIG and TLS settings."""
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    host: str
    said_by: str
    """Who named it: a setting, a variable, a context; empty for the usual sockets."""
    binding: bool
    """Whether somebody asked for this one and no other."""
    certificates: str = ""
    verify: bool = True


def find_engine(
    places: Places, settings: Settings, environment: Mapping[str, str]
) -> Engine | None:
    """Return the engine that answers, or None.

    In this order: the setting `engine.host`, DOCKER_HOST, DOCKER_CONTEXT, the current context of
    the Docker client, the usual sockets, the private engine. Nothing is started or changed.

    Raises ToolMissing when an engine that was asked for by name is silent, or when no client is
    there to speak to the engine that answers.
    """
    found = _find(places, settings, environment)
    if found is None:
        return None
    endpoint, version = found
    return _engine(endpoint, version, EngineFolders(places), environment)


def find_host(places: Places, settings: Settings, environment: Mapping[str, str]) -> str:
    """Return the address of the engine that answers, as `find_engine`; "" when none does."""
    found = _find(places, settings, environment)
    return found[0].host if found else ""


def require_engine(places: Places, settings: Settings, environment: Mapping[str, str]) -> Engine:
    """Return the engine that answers; raise ToolMissing when there is none."""
    engine = find_engine(places, settings, environment)
    if engine is None:
        raise ToolMissing("no Docker Engine answers", subject="docker", action=_START)
    return engine


def has_client(environment: Mapping[str, str]) -> bool:
    """Whether this machine has a Docker client of its own, with buildx."""
    client = process.find("docker")
    return client is not None and _has_buildx(client, environment)


def probe_buildkit(engine: Engine, builder: str = "") -> str:
    """Return what `docker buildx inspect` says of a builder, else of the engine's own.

    "" when it has none.
    """
    try:
        return process.run(
            [engine.docker, "buildx", "inspect", *([builder] if builder else [])],
            environment={**os.environ, **engine.environment},
            timeout=60,
        )
    except CommandFailed:
        return ""


def probe_info(engine: Engine) -> Mapping[str, Any]:
    """Return what `docker info` says; empty when the engine does not answer any more."""
    try:
        said = process.run(
            [engine.docker, "info", "--format", "{{json .}}"],
            environment={**os.environ, **engine.environment},
            timeout=60,
        )
        content = json.loads(said)
    except (CommandFailed, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def ask_version(host: str, certificates: str = "", *, verify: bool = True) -> str:
    """Ask for the engine's version; empty when nobody answers within five seconds."""
    try:
        knock(host)
        client = connect(host, certificates, verify=verify)
        try:
            said: Mapping[str, Any] = client.version()
        finally:
            client.close()
    except (DockerException, OSError, ValueError):
        return ""
    return str(said.get("Version", ""))


def knock(host: str) -> None:
    """Raise OSError where nobody listens on a socket of this machine.

    docker-py leaves its own socket open when it cannot connect (`UnixHTTPConnection.connect`).
    """
    path = host.removeprefix("unix://")
    if path != host:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mine:
            mine.settimeout(_ASK_SECONDS)
            mine.connect(path)


def connect(host: str, certificates: str = "", *, verify: bool = True) -> docker.DockerClient:
    """Open the engine's API (docker-py).

    Raises DockerException or OSError when it cannot.
    """
    tls: TLSConfig | bool = False
    if certificates:
        folder = Path(certificates)
        tls = TLSConfig(
            client_cert=(str(folder / "cert.pem"), str(folder / "key.pem")),
            ca_cert=str(folder / "ca.pem") if verify else None,
            verify=verify,
        )
    return docker.DockerClient(
        base_url=host, tls=tls, timeout=_ASK_SECONDS, use_ssh_client=host.startswith("ssh://")
    )


def registry_answers(port: int) -> bool:
    """Whether an OCI registry answers on that port of this machine (distribution-spec, end-1)."""
    try:
        # Its own client: a proxy must not be asked for loopback.
        with httpx.Client(trust_env=False, timeout=_ASK_SECONDS) as client:
            said = client.get(f"http://127.0.0.1:{port}/v2/")
    except httpx.HTTPError:
        return False
    return said.status_code == 200


def read_record(folders: EngineFolders) -> EngineRecord | None:
    """Read what `engine start` left; None when there is nothing usable."""
    try:
        return EngineRecord.parse(folders.record.read_text())
    except OSError:
        return None


def _find(
    places: Places, settings: Settings, environment: Mapping[str, str]
) -> tuple[_Endpoint, str] | None:
    denied = ""
    for endpoint in _endpoints(settings, environment, EngineFolders(places)):
        path = endpoint.host.removeprefix("unix://")
        if path != endpoint.host and Path(path).is_socket() and not os.access(path, os.W_OK):
            denied = denied or path
        version = ask_version(endpoint.host, endpoint.certificates, verify=endpoint.verify)
        if version:
            return endpoint, version
        if endpoint.binding:
            raise ToolMissing(
                f"the Docker Engine named by {endpoint.said_by} does not answer",
                subject=endpoint.host,
                action=f"start it, or take {endpoint.said_by} away to use another",
            )
    if denied:
        raise ToolMissing(
            "an engine is there, but this user may not speak to it",
            subject=denied,
            action="run as root, or as a member of the group that owns the socket",
        )
    return None


def _endpoints(
    settings: Settings, environment: Mapping[str, str], folders: EngineFolders
) -> Iterator[_Endpoint]:
    if settings.engine.host:
        yield _Endpoint(host=settings.engine.host, said_by="the setting engine.host", binding=True)
    if environment.get("DOCKER_HOST"):
        verify = bool(environment.get("DOCKER_TLS_VERIFY"))
        certificates = environment.get("DOCKER_CERT_PATH", "") if verify else ""
        yield _Endpoint(
            host=environment["DOCKER_HOST"],
            said_by="DOCKER_HOST",
            # The private one may be started again: whoever names it wants just that.
            binding=environment["DOCKER_HOST"] != folders.host,
            certificates=certificates,
        )
    asked = environment.get("DOCKER_CONTEXT", "")
    name = asked or _current_context(environment)
    if name and name != "default":
        yield from _context(name, environment, binding=bool(asked))
    sockets = [Path("/var/run/docker.sock")]
    if environment.get("XDG_RUNTIME_DIR"):
        sockets.append(Path(environment["XDG_RUNTIME_DIR"]) / "docker.sock")
    for path in sockets:
        yield _Endpoint(host=f"unix://{path}", said_by="", binding=False)
    yield _Endpoint(host=folders.host, said_by="", binding=False)


def _client_folder(environment: Mapping[str, str]) -> Path:
    own = environment.get("DOCKER_CONFIG")
    return Path(own) if own else Path(environment.get("HOME") or "/root") / ".docker"


def _current_context(environment: Mapping[str, str]) -> str:
    try:
        content = json.loads((_client_folder(environment) / "config.json").read_text())
    except (OSError, ValueError):
        return ""
    return str(content.get("currentContext", "")) if isinstance(content, dict) else ""


def _context(name: str, environment: Mapping[str, str], *, binding: bool) -> Iterator[_Endpoint]:
    # docker/cli cli/context/store: folders are named by the sha256 of the context's name.
    mark = hashlib.sha256(name.encode()).hexdigest()
    contexts = _client_folder(environment) / "contexts"
    said_by = f"the Docker context {name!r}"
    try:
        content = json.loads((contexts / "meta" / mark / "meta.json").read_text())
        endpoint = content["Endpoints"]["docker"]
        host, verify = str(endpoint["Host"]), not endpoint.get("SkipTLSVerify", False)
    except (OSError, ValueError, KeyError, TypeError):
        if binding:
            yield _Endpoint(host=f"context {name}", said_by=said_by, binding=True)
        return
    certificates = contexts / "tls" / mark / "docker"
    yield _Endpoint(
        host=host,
        said_by=said_by,
        binding=binding,
        certificates=str(certificates) if certificates.is_dir() else "",
        verify=verify,
    )


def _engine(
    endpoint: _Endpoint, version: str, folders: EngineFolders, environment: Mapping[str, str]
) -> Engine:
    record = read_record(folders)
    private = endpoint.host == folders.host
    tools = Path(record.tools) if record else None
    overlay = {"DOCKER_HOST": endpoint.host}
    if endpoint.certificates:
        overlay["DOCKER_CERT_PATH"] = endpoint.certificates
        if endpoint.verify:
            overlay["DOCKER_TLS_VERIFY"] = "1"
        else:
            overlay["DOCKER_TLS"] = "1"
    client = None if private else process.find("docker")
    if client is None or not _has_buildx(client, {**environment, **overlay}):
        own = tool(tools, "docker") if tools else None
        if own is not None and own.exists():
            client = own
            overlay["DOCKER_CONFIG"] = str(folders.client)
    if client is None:
        raise ToolMissing(
            "an engine answers, but there is no Docker client to speak to it",
            subject=endpoint.host,
            action="install docker-cli and docker-buildx, or let `nightlock engine start` "
            "unpack them",
        )
    port = record.registry_port if record else 0
    return Engine(
        host=endpoint.host,
        private=private,
        registry=f"localhost:{port}" if port and registry_answers(port) else "",
        docker=client,
        environment=overlay,
        version=version,
    )


def _has_buildx(client: Path, environment: Mapping[str, str]) -> bool:
    folders = [
        _client_folder(environment) / "cli-plugins",
        *(
            Path(base, "docker/cli-plugins")
            for base in ("/usr/local/lib", "/usr/local/libexec", "/usr/lib", "/usr/libexec")
        ),
        client.resolve().parent.parent / "libexec/docker/cli-plugins",
    ]
    return any(os.access(folder / "docker-buildx", os.X_OK) for folder in folders)
