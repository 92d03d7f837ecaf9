"""docker buildx, driven: with a program in its place that says what the real one says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.commands import build
from builder.commands.context import Context
from builder.core.buildid import Invocation
from builder.core.places import Places
from builder.core.settings import Settings
from builder.core.steps import Step
from builder.edge import buildx
from builder.edge.engine import Engine
from builder.errors import BadInput, BuildFailed, EngineError, NightlockError, ToolMissing
from builder.output import Output

DIGEST = "sha256:" + "d" * 64
PLAIN = Invocation(platform="linux/amd64", epoch=7, name="localhost:5000/x:t", labels={})


def engine(folder: Path, script: str) -> Engine:
    """Return an engine whose client is a shell script."""
    docker = folder / "docker"
    docker.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/arguments\n{script}\n')
    docker.chmod(0o755)
    return Engine(
        host="unix:///nonexistent",
        private=True,
        registry="localhost:5000",
        docker=docker,
        environment={"DOCKER_HOST": "unix:///nonexistent"},
        version="26.1.5",
    )


def says(folder: Path, metadata: str) -> str:
    """Write the metadata file to the path that the arguments name."""
    return (
        f'while [ "$1" != --metadata-file ]; do shift; done; printf %s \'{metadata}\' > "$2"; '
        f"env > {folder}/environment; pwd > {folder}/cwd"
    )


def test_build_reports_steps_and_returns_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest is the metadata file's; builders named in the environment are not taken."""
    monkeypatch.setenv("BUILDX_BUILDER", "another")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    script = 'echo "#1 [a 1/1] RUN x"; echo "#1 DONE 3.5s"\n' + says(
        tmp_path, json.dumps({"containerimage.digest": DIGEST})
    )
    steps: list[Step] = []
    assert DIGEST == buildx.build(engine(tmp_path, script), PLAIN, tmp_path, steps.append)
    assert [("a 1/1", 3.5)] == [(step.title, step.seconds) for step in steps]
    environment = (tmp_path / "environment").read_text()
    assert "DOCKER_HOST=unix:///nonexistent" in environment
    assert "BUILDX_BUILDER" not in environment
    assert "SOURCE_DATE_EPOCH" not in environment
    words = (tmp_path / "arguments").read_text().splitlines()
    assert ["buildx", "build", "--progress", "plain"] == words[:4]
    assert "." == words[-1]
    assert str(tmp_path) == (tmp_path / "cwd").read_text().strip()


def test_a_failed_step_is_explained(tmp_path: Path) -> None:
    """Not `docker ended with status 1`."""
    script = (
        'echo "#1 [a 1/1] RUN x"; echo "#1 0.1 oh no" >&2; echo "#1 ERROR: exit code: 1"; exit 1'
    )
    with pytest.raises(BuildFailed, match="oh no"):
        buildx.build(engine(tmp_path, script), PLAIN, tmp_path, lambda _step: None)


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"containerimage.digest": "x"}'])
def test_a_build_without_digest_is_an_error(tmp_path: Path, content: str) -> None:
    """An engine that exports in another way must not pass."""
    script = says(tmp_path, content)
    with pytest.raises(EngineError, match="which digest"):
        buildx.build(engine(tmp_path, script), PLAIN, tmp_path, lambda _step: None)


def test_version(tmp_path: Path) -> None:
    """The builder that was asked for is the one that is asked."""
    client = engine(tmp_path, "echo 'Name: b'; echo 'BuildKit version: v0.13.2'")
    assert "v0.13.2" == buildx.read_version(client, "b")
    assert ["buildx", "inspect", "--bootstrap", "b"] == (
        (tmp_path / "arguments").read_text().splitlines()
    )


@pytest.mark.parametrize("script", ["echo 'ERROR: no builder \"b\" found' >&2; exit 1", "exit 0"])
def test_a_builder_that_is_not_there_is_an_error(tmp_path: Path, script: str) -> None:
    """Named, with where to look."""
    with pytest.raises(EngineError) as raised:
        buildx.read_version(engine(tmp_path, script), "b")
    assert "b" == raised.value.subject
    assert "docker buildx ls" in raised.value.action


INSPECTED = """Name:   two
Driver: docker-container

Nodes:
Name:      a
Platforms: linux/amd64*, linux/amd64/v2, linux/386, linux/arm64

Name:      b
Platforms: {b}
"""


@pytest.mark.parametrize(
    ("b", "native", "emulated"),
    [
        ("linux/arm64, linux/arm/v7", {"linux/amd64", "linux/arm64"}, {"linux/386", "linux/arm"}),
        ("linux/amd64", {"linux/amd64"}, {"linux/386", "linux/arm64"}),
        ("", {"linux/amd64"}, {"linux/386", "linux/arm64"}),
    ],
)
def test_arm64_missing_native_platforms_are_the_first_of_each_node(
    tmp_path: Path, b: str, native: set[str], emulated: set[str]
) -> None:
    """What follows them is emulated; variants are no platforms of their own."""
    said = tmp_path / "said"
    said.write_text(INSPECTED.format(b=b))
    found = buildx.read_platforms(engine(tmp_path, f"cat {said}"), "two")
    assert (native, emulated) == (set(found.native), set(found.emulated))


@pytest.mark.parametrize(
    ("emulate", "also", "kind"),
    [(False, "", BadInput), (False, ", linux/arm64", BadInput), (True, "", ToolMissing)],
)
def test_arm64_missing_an_image_for_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emulate: bool, also: str, kind: type[Exception]
) -> None:
    """The committed cuda13-sm121 on an amd64 engine, with an emulator or without; nothing is built.

    `--emulate` is for whoever has an emulator, and never on by itself.
    """
    said = tmp_path / "said"
    said.write_text(f"Nodes:\nName: a\nPlatforms: linux/amd64, linux/386{also}\n")
    amd64 = engine(tmp_path, f"cat {said}")
    monkeypatch.setattr(build, "require_engine", lambda *_: amd64)
    places = Places.from_environment({"HOME": str(tmp_path)})
    context = Context(
        project=Path(__file__).parents[2], places=places, settings=Settings(), output=Output()
    )
    with pytest.raises(kind) as caught:
        build.run(context, "cuda13-sm121", emulate=emulate)
    error = caught.value
    assert isinstance(error, NightlockError)
    assert error.what.startswith("the engine is linux/amd64")
    assert error.what.endswith("linux/arm64")
    assert "native arm64 runner" in error.action
    assert ("add --emulate" in error.action) is not emulate
    assert "inspect" == (tmp_path / "arguments").read_text().split()[1]
