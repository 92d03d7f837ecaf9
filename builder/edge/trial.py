"""One program run to its end in a container of an image, under testcontainers, and removed."""

from __future__ import annotations

import math
import secrets
from contextlib import ExitStack

import docker
import requests
from docker.errors import APIError
from docker.types import LogConfig, Mount
from testcontainers.core.container import DockerContainer

from builder.core.boot import OWNER_LABEL, RUN_LABEL, Exit, Expired
from builder.core.trial import Ended, Trial
from builder.edge import owner
from builder.edge.container import (
    BROKEN,
    client_options,
    environment_kept,
    explained,
    is_local,
    open_client,
    reaper_off,
    remove_leftovers,
    remove_run,
)
from builder.edge.engine import Engine
from builder.errors import BootFailed, EngineError

_API_SECONDS = 120
_TAIL = 100
"""Lines kept of what it said on standard error."""


def run(engine: Engine, trial: Trial, seconds: float) -> Ended:
    """Run and wait, at most `seconds`; the container and its volume go on every way out.

    Raises BootFailed when it cannot start, EngineError.
    """
    name = secrets.token_hex(8)
    with ExitStack() as stack:
        client = stack.enter_context(open_client(engine, _API_SECONDS))
        remove_leftovers(client, same_machine=is_local(engine))
        stack.callback(lambda: remove_run(client, name, 0))
        number = _start(engine, trial, name)
        end = _wait(engine, client, number, seconds)
        with explained(engine):
            said = [
                client.api.logs(number, stdout=out, stderr=not out, tail="all" if out else _TAIL)
                for out in (True, False)
            ]
    out, err = (data.decode(errors="replace") for data in said)
    return Ended(end=end, out=out, err=err)


def _start(engine: Engine, trial: Trial, run: str) -> str:
    with explained(engine):
        with environment_kept():
            made = DockerContainer(
                trial.image, docker_client_kw=client_options(engine, _API_SECONDS)
            )
        # Its prefix for Docker Hub mirrors would change which image this is.
        made.image = trial.image
        made.with_command(list(trial.arguments))
        made.with_name(f"nightlock-structural-{run}")
        made.with_tmpfs_mount("/tmp")  # noqa: S108 - in the container
        made.with_kwargs(
            network="none",
            read_only=True,
            user=trial.user,
            # Without a source the engine makes a volume that goes with the container.
            mounts=[Mount(target=trial.caches, source=None, type="volume")],
            shm_size=trial.shm_bytes,
            labels={RUN_LABEL: run, OWNER_LABEL: owner.this_process().text},
            log_config=LogConfig(type=LogConfig.types.JSON, config={}),
        )
    try:
        with reaper_off():
            made.start()
    except APIError as error:
        raise BootFailed(
            f"the container did not start: {error.explanation or error}",
            subject=trial.image,
            action="check the image's entrypoint, then build it again",
        ) from error
    except BROKEN as error:
        raise EngineError(
            f"the engine did not start the container: {error}",
            subject=trial.image,
            action="look at the engine's log, then try again",
        ) from error
    finally:
        made.get_docker_client().client.close()
    return made.get_container_id()


def _wait(
    engine: Engine, client: docker.DockerClient, number: str, seconds: float
) -> Exit | Expired:
    try:
        status = client.api.wait(number, timeout=math.ceil(seconds))
    except (requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError):
        with explained(engine):
            if client.api.inspect_container(number)["State"]["Running"]:
                return Expired(seconds=seconds)
            status = client.api.wait(number, timeout=_API_SECONDS)
    with explained(engine):
        state = client.api.inspect_container(number)["State"]
    return Exit(
        code=int(status.get("StatusCode", -1)),
        out_of_memory=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
    )
