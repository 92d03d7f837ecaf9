"""docker buildx: the program that builds; its version, its lines, its digest."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from builder.core.buildid import Invocation
from builder.core.engine_features import BuilderPlatforms, parse_platforms
from builder.core.reference import Digest, parse_digest
from builder.core.room import parse_total
from builder.core.steps import Step, Steps, buildkit_version
from builder.edge import process
from builder.edge.engine import Engine
from builder.errors import BadInput, CommandFailed, EngineError, ToolMissing

_LOOK = "`docker buildx ls` lists the builders; `nightlock doctor` says what is missing"


def read_version(engine: Engine, builder: str = "") -> str:
    """Return which BuildKit will build; a builder that sleeps is started.

    Raises EngineError when the builder is not there or does not say.
    """
    version = buildkit_version(_inspect(engine, builder).splitlines(), engine.version)
    if not version:
        raise EngineError(
            "the builder names no BuildKit version", subject=builder or engine.host, action=_LOOK
        )
    return version


def read_platforms(engine: Engine, builder: str = "") -> BuilderPlatforms:
    """Return which platforms the builder runs, by itself and by emulation; EngineError as above."""
    return parse_platforms(_inspect(engine, builder))


def _inspect(engine: Engine, builder: str) -> str:
    argv = ["buildx", "inspect", "--bootstrap", *([builder] if builder else [])]
    try:
        return _run(engine, argv)
    except CommandFailed as error:
        raise EngineError(
            f"the builder does not answer: {error.tail.splitlines()[-1] if error.tail else error}",
            subject=builder or engine.host,
            action=_LOOK,
        ) from error


def data_folder(engine: Engine) -> Path | None:
    """Return where the engine keeps its data, when that is on this machine."""
    if not engine.host.startswith("unix://"):
        return None
    try:
        folder = Path(_run(engine, ["info", "--format", "{{.DockerRootDir}}"]).strip())
    except CommandFailed:
        return None
    return folder if folder.is_dir() else None


def cached_bytes(engine: Engine) -> int:
    """Return the size of the engine's build cache; 0 when it does not say."""
    try:
        return parse_total(_run(engine, ["buildx", "du"]))
    except CommandFailed:
        return 0


def build(
    engine: Engine, invocation: Invocation, folder: Path, on_step: Callable[[Step], None]
) -> Digest:
    """Build the folder and return the digest of the image's manifest.

    Raises BuildFailed for a step that failed, DiskFull, RegistryError or EngineError for what is
    outside the folder. An interruption ends buildx, which cancels the build in BuildKit.
    """
    steps = Steps()

    def on_line(line: str) -> None:
        step = steps.read(line)
        if step is not None:
            on_step(step)

    with tempfile.TemporaryDirectory(prefix="nightlock-build-") as scratch:
        metadata = Path(scratch, "metadata.json")
        asked = replace(invocation, metadata=str(metadata))
        # From inside: named contexts are folders below it, and buildx parts their places at `:`.
        arguments = asked.arguments(".")
        # Lines of plain text are the one progress format that every buildx knows.
        arguments[2:2] = ["--progress", "plain"]
        try:
            process.stream(
                [engine.docker, *arguments],
                on_line,
                cwd=folder,
                environment=_environment(engine),
            )
        except CommandFailed as error:
            raise steps.failure(str(folder / "Dockerfile")) from error
        return _digest(metadata, invocation.name)


def _digest(metadata: Path, name: str) -> Digest:
    try:
        content = json.loads(metadata.read_text())
        return parse_digest(str(content["containerimage.digest"]))
    except (OSError, ValueError, KeyError, BadInput) as error:
        raise EngineError(
            "buildx did not say which digest it built",
            subject=name,
            action="use an engine with the containerd image store, or a docker-container builder",
        ) from error


def _run(engine: Engine, arguments: list[str]) -> str:
    try:
        return process.run(
            [engine.docker, *arguments], environment=_environment(engine), timeout=120
        )
    except ToolMissing as error:
        raise ToolMissing(
            "the Docker client is gone", subject=str(engine.docker), action=error.action
        ) from error


def _environment(engine: Engine) -> dict[str, str]:
    # BUILDX_BUILDER would take another builder than the one that was asked for its version;
    # SOURCE_DATE_EPOCH is the lock's, given as an argument.
    left_out = ("BUILDX_BUILDER", "SOURCE_DATE_EPOCH", "BUILDX_METADATA_PROVENANCE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | dict(engine.environment)
