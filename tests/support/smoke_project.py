"""A project with one profile and its own state folder, beside the engine that is there."""

from __future__ import annotations

import io
import shutil
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from builder.commands.context import Context
from builder.core.places import Places
from builder.core.settings import Settings
from builder.edge.engine import Engine
from builder.output import Output

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "images" / "profiles" / "smoke-cpu.toml"


def state_beside(folder: Path, engine: Engine) -> Places:
    """Make places whose records are fresh and whose engine is the one that runs."""
    run = Path("/run/none")
    if engine.private:
        socket = Path(engine.host.removeprefix("unix://"))
        tools = engine.docker.parents[3]
        run = socket.parent
        (folder / "state").mkdir(parents=True)
        (folder / "state" / tools.name).symlink_to(tools)
    return Places(config=folder / "config", cache=folder / "cache", state=folder / "state", run=run)


def smoke_context(
    folder: Path,
    engine: Engine,
    looked_inside: Path | None = None,
    /,
    **changes: Any,  # noqa: ANN401
) -> Context:
    """Copy the `cpu` image's spec, policy and profile, with some keys of the profile changed.

    `looked_inside`: records of an earlier structural test, so that it is not done again.
    `changes`: table → keys that are laid over it; `check` replaces all checks.
    """
    project = folder / "project"
    for name in ("cpu/image.toml", "policy.toml"):
        target = project / "images" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "images" / name, target)
    profile = tomllib.loads(PROFILE.read_text())
    profile["model"]["folder"] = str(ROOT / profile["model"]["folder"])
    for table, values in changes.items():
        if table == "check":
            profile["check"] = values
        else:
            profile[table] |= values
    path = project / "images" / "profiles" / "smoke-cpu.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(tomli_w.dumps(profile))
    places = state_beside(folder, engine)
    if looked_inside is not None:
        shutil.copytree(looked_inside, places.state / "records")
    return Context(
        project=project,
        places=places,
        settings=Settings(),
        output=Output(out=io.StringIO(), err=io.StringIO()),
    )
