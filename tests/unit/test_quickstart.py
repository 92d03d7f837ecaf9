"""The lines that quickstart prints to go on with."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from builder.commands import quickstart
from builder.commands.context import Context
from builder.core.settings import Settings
from builder.edge.engine import Engine
from builder.output import Output
from tests.support.stocked import places

ROOT = Path(__file__).parents[2]
REFERENCE = "localhost:5000/nightlock/cpu@sha256:" + "a" * 64


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Copy what the line is made of, with modes that every user can read."""
    project = tmp_path / "a project"
    for name in ("images/cpu", "images/profiles"):
        shutil.copytree(ROOT / name, project / name, copy_function=shutil.copyfile)
    close(project, folder=0o755, file=0o644)
    return Context(project=project, places=places(tmp_path), settings=Settings(), output=Output())


def close(top: Path, *, folder: int, file: int) -> None:
    """Give folders and files these modes, as a umask does."""
    for path in (top, *top.rglob("*")):
        path.chmod(folder if path.is_dir() else file)


def line(context: Context, *, private: bool) -> list[str]:
    """Return the printed line as a shell reads it."""
    engine = Engine(
        host="unix:///run/e/docker.sock",
        private=private,
        registry="localhost:5000",
        docker=Path("/tools/bin/docker"),
        environment={},
        version="26.1.5",
    )
    return shlex.split(quickstart.run_command(context, engine, REFERENCE))


def test_the_line_has_all_that_serving_needs(context: Context) -> None:
    """Shared memory, the port on loopback, the model, the profile's own arguments, pinned bytes."""
    words = line(context, private=False)
    assert ["docker", "run", "--rm", "--shm-size", "1g", "-p", "127.0.0.1:8000:8000"] == words[:7]
    assert f"{context.project}/images/cpu/model:/model:ro" == words[words.index("-v") + 1]
    assert "--user" not in words
    assert [REFERENCE, "/model", "--served-model-name=smoke"] == words[words.index(REFERENCE) :][:3]
    assert "VLLM_CPU_KVCACHE_SPACE=1" in words


def test_the_private_engine_is_named(context: Context) -> None:
    """Its client and its socket; no variable needs to be set."""
    words = line(context, private=True)
    assert ["/tools/bin/docker", "-H", "unix:///run/e/docker.sock", "run"] == words[:4]


def test_a_model_that_others_cannot_read_is_read_by_its_owner(context: Context) -> None:
    """A clone made under umask 077: the image's own user would be refused."""
    close(context.project, folder=0o700, file=0o600)
    words = line(context, private=False)
    assert f"{os.getuid()}:{os.getgid()}" == words[words.index("--user") + 1]
    assert words.index("--user") < words.index(REFERENCE)
