"""Is there room for a build: asked before gigabytes are copied."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from builder.commands.context import Context
from builder.commands.render import Plan
from builder.commands.render_base import BaseFiles
from builder.core.dockerfile import Group, groups_of
from builder.core.room import build_bytes, cached_stages, stage_key
from builder.edge import builds, buildx, files
from builder.edge.context import installed_bytes
from builder.edge.engine import Engine


def require_room(
    context: Context, engine: Engine, plan: Plan, base: BaseFiles, links: Mapping[str, Path]
) -> None:
    """Look at the disk of an engine on this machine; of one elsewhere nothing is known.

    Stages of an earlier build take nothing again while the engine still keeps them. Raises
    DiskFull, HashMismatch when the disk damaged a wheel.
    """
    data = buildx.data_folder(engine)
    if data is None:
        return
    # Files of the store are named by their hash.
    wheels = {
        PurePosixPath(name).name: path for name, path in links.items() if name.endswith(".whl")
    }
    groups = _groups(plan)
    sizes = {
        stage: installed_bytes(wheels[pin.file] for pin in group.wheels)
        for stage, group in groups.items()
    }
    # The base is a stage like the others; base.tar is about what it holds.
    sizes[base.digest] = base.size
    there = cached_stages(
        sizes,
        [frozenset(record.stages) for record in builds.read_all(context.places.state / "builds")],
        buildx.cached_bytes(engine),
    )
    fresh = [
        wheels[pin.file]
        for stage, group in groups.items()
        if stage not in there
        for pin in group.wheels
    ]
    needed = build_bytes(
        context=sum(path.stat().st_size for path in links.values()),
        wheels=sum(path.stat().st_size for path in fresh),
        installed=sum(size for stage, size in sizes.items() if stage not in {*there, base.digest}),
        base=0 if base.digest in there else base.size,
    )
    files.require_free(data, needed, f"building {plan.spec.name}")


def stages_of(plan: Plan, base: BaseFiles) -> list[str]:
    """Name what a build leaves in the engine's cache, for its record."""
    return sorted([base.digest, *_groups(plan)])


def _groups(plan: Plan) -> dict[str, Group]:
    return {
        stage_key(pin.sha256 for pin in group.wheels): group
        for group in groups_of(plan.lock, plan.platform)
    }
