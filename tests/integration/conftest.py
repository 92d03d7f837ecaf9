"""The engine that integration tests share: the one that answers, else a private one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.commands import build, release, smoke
from builder.commands import engine as recipe
from builder.commands.context import Context
from builder.core.engine import EngineFolders, engine_tools
from builder.core.places import Places
from builder.core.reference import ImageRef
from builder.edge import tools as unpacking
from builder.edge.engine import Engine, require_engine
from builder.edge.machine import read_machine
from builder.edge.project import read_settings
from builder.errors import NightlockError
from builder.output import Output
from tests.support.engine_client import forget
from tests.support.image_handle import ImageHandle
from tests.support.smoke_project import smoke_context

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def state_environment() -> dict[str, str]:
    """Return the environment of nightlock's processes; NIGHTLOCK_TEST_STATE moves their state."""
    state = os.environ.get("NIGHTLOCK_TEST_STATE")
    return {**os.environ, **({"XDG_STATE_HOME": state} if state else {})}


@pytest.fixture(scope="session")
def engine_context(state_environment: dict[str, str]) -> Context:
    """Return what the engine's commands are given."""
    places = Places.from_environment(state_environment)
    return Context(
        project=ROOT,
        places=places,
        settings=read_settings(ROOT, places, state_environment),
        output=Output(),
    )


@pytest.fixture(scope="session")
def engine(engine_context: Context) -> Iterator[Engine]:
    """Yield an engine with a registry on loopback; what the session started it stops again."""
    places, settings = engine_context.places, engine_context.settings
    fresh = not EngineFolders(places).top.exists()
    try:
        started = recipe.start(engine_context).result.started
    except NightlockError as error:
        machine = read_machine(EngineFolders(places))
        if machine.root and machine.debian:
            raise
        pytest.skip(f"no engine answers, and none may start here: {error}")
    try:
        yield require_engine(places, settings, os.environ)
    finally:
        if started:
            recipe.stop(engine_context, purge=fresh)


@pytest.fixture(scope="session")
def unpacked(engine_context: Context, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the engine's programs, unpacked once for all tests here."""
    folders = EngineFolders(engine_context.places)
    machine = read_machine(folders)
    if not machine.debian:
        pytest.skip("a private engine is unpacked from Debian's packages")
    wanted = engine_tools(machine.codename, machine.glibc)
    found = unpacking.find_tools(folders.tools, wanted)
    if found is None:
        top = tmp_path_factory.mktemp("unpacked")
        found = unpacking.fetch_tools(
            top / "tools", wanted, top / "apt", engine_context.settings.debian
        )
    return found


@pytest.fixture(scope="session")
def cpu_image(engine: Engine, engine_context: Context) -> Iterator[ImageHandle]:
    """Build the `cpu` image from the committed lock once, and share it.

    .debs that Debian's mirrors dropped are locked anew into the state folder, as quickstart does.
    The repository is this session's own, so that two sessions do not tidy up after each other.
    """
    context, _, _ = release.fill_store(engine_context, "cpu", relock=True)
    name = f"{engine.registry}/nightlock-test/{uuid.uuid4().hex[:12]}/cpu"
    repository = ImageRef.parse(name)
    try:
        built = build.run(context, "cpu", push=repository.name).result
        yield ImageHandle(
            reference=str(repository.with_tag(built.tags[0])),
            digest=built.digest,
            registry=engine.registry,
        )
    finally:
        forget(engine, repository)


@pytest.fixture(scope="session")
def looked_inside(
    engine: Engine, cpu_image: ImageHandle, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Pass the structural test of the `cpu` image once; return the records of it."""
    context = smoke_context(tmp_path_factory.mktemp("structural"), engine)
    outcome = smoke.run(context, cpu_image.reference, structural_only=True)
    assert outcome.ok, outcome.text
    return context.places.state / "records"
