"""A container that exists: its log, and what the engine knows of its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError, NotFound

from builder.core.boot import Exit
from builder.edge.container import BROKEN, explained, open_client
from builder.edge.engine import Engine
from builder.errors import BadInput, EngineError

_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """What `docker inspect` says."""

    name: str
    number: str
    """Its id."""
    running: bool
    end: Exit
    restarts: int
    environment: tuple[str, ...]
    """`NAME=value`, as it was started."""
    health: tuple[str, ...]
    """What the last health checks printed."""


def inspect_container(engine: Engine, name: str) -> ContainerState:
    """Ask the engine for a container by its name or id; BadInput when it has none such."""
    with explained(engine), open_client(engine, _SECONDS) as client:
        try:
            said: dict[str, Any] = client.api.inspect_container(name)
        except NotFound:
            raise BadInput(
                "the engine has no such container",
                subject=name,
                action="`docker ps -a` lists what there is; one run with --rm is gone when it ends",
            ) from None
    state = said.get("State") or {}
    checks = (state.get("Health") or {}).get("Log") or []
    return ContainerState(
        name=str(said.get("Name", name)).lstrip("/"),
        number=str(said["Id"]),
        running=bool(state.get("Running")) and not state.get("Restarting"),
        end=Exit(
            code=int(state.get("ExitCode") or 0),
            out_of_memory=bool(state.get("OOMKilled")),
            error=str(state.get("Error") or ""),
        ),
        restarts=int(said.get("RestartCount") or 0),
        environment=tuple((said.get("Config") or {}).get("Env") or ()),
        health=tuple(str(check.get("Output") or "") for check in checks),
    )


def stream_log(engine: Engine, number: str) -> Iterator[bytes]:
    """Read a container's log from its beginning, with the engine's timestamps.

    Raises EngineError when its logging driver gives nothing back.
    """
    try:
        with open_client(engine, _SECONDS) as client:
            yield from client.api.logs(number, stream=True, follow=False, timestamps=True)
    except APIError as error:
        raise EngineError(
            f"the engine does not give the log: {error.explanation or error}",
            subject=number,
            action="pipe it from where the container's logging driver writes to: "
            "`journalctl … | nightlock diagnose -`",
        ) from error
    except BROKEN as error:
        raise EngineError(
            f"the engine stopped answering: {error}",
            subject=engine.host,
            action="`nightlock engine status` says what answers",
        ) from error
