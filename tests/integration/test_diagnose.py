"""`nightlock diagnose container:NAME`: real containers, running and ended, and those that are not."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container
from docker.types import LogConfig

from builder.commands import diagnose
from builder.commands.context import Context
from builder.core.reference import ImageRef
from builder.core.settings import EngineSettings, Settings
from builder.edge.engine import Engine
from builder.edge.registry import Registry
from builder.errors import BadInput, EngineError, ToolMissing
from builder.output import Output
from tests.support.tiny_image import push_tiny_image

pytestmark = pytest.mark.docker

SHM = "(EngineCore pid=51) RuntimeError: Insufficient space in /dev/shm: 160 MiB required"
WRAPPER = "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above."
NCCL = "(Worker_TP0 pid=97) INFO 11-30 19:59:33 [pynccl.py:113] vLLM is using nccl==2.28.9"


@pytest.fixture(scope="module")
def client(engine: Engine) -> Iterator[docker.DockerClient]:
    """Speak to the engine past our own code."""
    opened = docker.from_env(environment=dict(engine.environment))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def tiny(engine: Engine, client: docker.DockerClient) -> Iterator[str]:
    """Push the small image; take it from engine and registry afterwards."""
    reference = push_tiny_image(
        client, engine.registry, f"nightlock-test/{uuid.uuid4().hex[:12]}", {}
    )
    yield reference
    ref = ImageRef.parse(reference)
    for image in client.images.list(name=ref.name):
        client.images.remove(str(image.id), force=True)
    with Registry.open(ref.registry, os.environ) as registry:
        registry.delete(ref, registry.find_digest(ref))


@pytest.fixture
def name(client: docker.DockerClient) -> Iterator[str]:
    """Choose a container's name; the container is removed afterwards."""
    chosen = f"nightlock-test-diagnose-{uuid.uuid4().hex[:12]}"
    yield chosen
    for container in client.containers.list(all=True, filters={"name": chosen}):
        container.remove(force=True, v=True)


@pytest.fixture
def context(engine_context: Context, engine: Engine, tmp_path: Path) -> Context:
    """Give the recipe the engine of this session."""
    return Context(
        project=tmp_path,
        places=engine_context.places,
        settings=Settings(engine=EngineSettings(host=engine.host)),
        output=Output(),
    )


def start(
    client: docker.DockerClient,
    image: str,
    name: str,
    code: str,
    environment: dict[str, str] | None = None,
    driver: str = "json-file",
) -> Container:
    """Start a container that runs some Python."""
    return client.containers.run(
        image,
        ["-c", code],
        entrypoint=["/python/bin/python", "-u"],
        name=name,
        environment=environment or {},
        log_config=LogConfig(type=driver),
        detach=True,
    )


def test_a_container_that_ended(
    client: docker.DockerClient, tiny: str, name: str, context: Context
) -> None:
    """Both streams are read, with the engine's timestamps; its end is told."""
    code = f"import sys; print({SHM!r}); print({WRAPPER!r}, file=sys.stderr); sys.exit(3)"
    start(client, tiny, name, code).wait()
    for outcome in (
        diagnose.run(context, f"container:{name}"),
        diagnose.run(context, "", container=name),
    ):
        assert (False, "shm-too-small", f"container:{name}") == (
            outcome.ok,
            outcome.result.root_cause,
            outcome.result.log,
        )
        assert (2, "ended with status 3") == (outcome.result.lines, outcome.result.container)
        assert "the container ended with status 3" in outcome.text


def test_a_container_that_ended_without_a_word(
    client: docker.DockerClient, tiny: str, name: str, context: Context
) -> None:
    """A status that is no stop is a failure, and its cause is not known."""
    start(client, tiny, name, "raise SystemExit(9)").wait()
    outcome = diagnose.run(context, f"container:{name}")
    assert (False, None, "empty") == (outcome.ok, outcome.result.root_cause, outcome.result.status)


def test_a_container_that_runs(
    client: docker.DockerClient, tiny: str, name: str, context: Context
) -> None:
    """Its log so far; a line that has just come is no hang."""
    container = start(client, tiny, name, f"print({NCCL!r}); import signal; signal.pause()")
    while not container.logs():
        container.reload()
        assert "running" == container.status
    outcome = diagnose.run(context, f"container:{name}")
    assert (True, None, "", "nccl") == (
        outcome.ok,
        outcome.result.root_cause,
        outcome.result.container,
        outcome.result.phase,
    )


def test_what_only_the_engine_knows(
    client: docker.DockerClient, tiny: str, name: str, context: Context
) -> None:
    """The bypass in its environment explains an illegal access; a program that is not there."""
    line = "(Worker_TP1 pid=98) RuntimeError: CUDA error: an illegal memory access was encountered"
    code = f"print({line!r})"
    start(client, tiny, name, code, environment={"FLASHINFER_DISABLE_VERSION_CHECK": "1"}).wait()
    assert "version-check-bypassed" == diagnose.run(context, f"container:{name}").result.root_cause

    other = f"{name}-2"
    client.containers.create(tiny, entrypoint=["vllm-openai"], name=other)
    with pytest.raises(docker.errors.APIError):
        client.containers.get(other).start()
    outcome = diagnose.run(context, f"container:{other}")
    assert ("entrypoint-form", False) == (outcome.result.root_cause, outcome.ok)


def test_a_log_that_cannot_be_read_back(
    client: docker.DockerClient, tiny: str, name: str, context: Context
) -> None:
    """A logging driver that keeps nothing: exit code 4, and where to look."""
    start(client, tiny, name, "print(1)", driver="none").wait()
    with pytest.raises(EngineError, match="logging driver") as caught:
        diagnose.run(context, f"container:{name}")
    assert 4 == caught.value.exit_code


def test_no_such_container_or_engine(context: Context, tmp_path: Path) -> None:
    """2 for a name that is none, 4 for an engine that does not answer."""
    with pytest.raises(BadInput, match="no such container"):
        diagnose.run(context, "container:nightlock-test-none")
    silent = Context(
        project=tmp_path,
        places=context.places,
        settings=Settings(engine=EngineSettings(host=f"unix://{tmp_path}/none.sock")),
        output=Output(),
    )
    with pytest.raises(ToolMissing) as caught:
        diagnose.run(silent, "container:x")
    assert 4 == caught.value.exit_code
