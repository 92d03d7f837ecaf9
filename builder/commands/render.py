"""`nightlock render IMAGE --out DIR`: one folder that plain `docker buildx build` builds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from builder.commands.context import Context, Outcome
from builder.commands.render_base import BaseFiles, find_or_make_base
from builder.core.audit.kernels import baked, counted
from builder.core.buildid import Invocation
from builder.core.dockerfile import groups_of, installer, invocation, small_files
from builder.core.document import Result
from builder.core.labels import BASE_DIGEST
from builder.core.lock import Lock, WheelPin, canonical_json, digest_of
from builder.core.spec import ImageSpec
from builder.core.staleness import refuse_stale
from builder.edge import context as build_context
from builder.edge import files
from builder.edge.kernel_facts import read_kernels
from builder.edge.project import read_lock_folder, read_spec
from builder.edge.store import Store
from builder.errors import BadInput, Outside


class RenderResult(Result):
    """What was written."""

    image: str
    platform: str
    folder: str
    lock_digest: str
    spec_digest: str
    base_digest: str
    """Of base.tar, or of the base image's manifest; empty with `--no-base`."""
    files: dict[str, str]
    """File → digest, of those that are not named by the lock."""
    command: str
    """Builds the folder, run inside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A build folder before it is written."""

    spec: ImageSpec
    lock: Lock
    platform: str
    texts: Mapping[str, bytes]
    kernels: str = ""
    """The label that counts GPU code; empty on the CPU, and before the wheels were read."""

    @property
    def digests(self) -> dict[str, str]:
        """File → digest of everything rendered."""
        return {name: digest_of(data) for name, data in sorted(self.texts.items())}


def run(
    context: Context, image: str, *, out: Path, platform: str = "", base: bool = True
) -> Outcome[RenderResult]:
    """Write the folder `out`, which must be new or an earlier render; nothing else stays in it.

    Raises:
        StaleLock: image.toml says something else than when the lock was made.
        BadInput: no such platform, or `out` holds something else.
        Outside: wheels or .debs are not in the store.

    """
    plan = plan_build(context, image, platform)
    _refuse_other_folder(out)
    links: dict[str, Path] = {}
    texts: Mapping[str, bytes] = {}
    labels: dict[str, str] = {}
    if base:
        root = find_or_make_base(context, plan.lock, plan.platform)
        links = large_files(context, plan, root)
        plan = with_kernels(context, plan)
        texts = root.texts
        labels = {BASE_DIGEST: root.digest}
    with context.output.step("render", f"writing {out}"), files.fresh_folder(out) as folder:
        build_context.write_context(folder, {**plan.texts, **texts}, links)
    command = invocation(plan.lock, plan.platform)
    return Outcome(
        result=RenderResult(
            image=image,
            platform=plan.platform,
            folder=str(out),
            lock_digest=plan.lock.digest,
            spec_digest=plan.spec.digest,
            base_digest=labels.get(BASE_DIGEST, ""),
            files=plan.digests,
            command=command.text(),
        ),
        text=_text(out, command, whole=base),
    )


def plan_build(context: Context, image: str, platform: str = "") -> Plan:
    """Read spec and lock and render every small file; raises StaleLock, BadInput, SpecError."""
    place = context.lock_folder(image)
    spec, lock = read_spec(context.project, image), read_lock_folder(place, image)
    refuse_stale(spec, lock, str(place / "lock.toml"))
    chosen = platform or spec.image.platforms[0]
    if chosen not in lock.platforms:
        raise BadInput(
            f"the lock has no platform {chosen!r}",
            subject=str(place),
            action=f"it has: {', '.join(sorted(lock.platforms))}",
        )
    texts = small_files(
        spec,
        lock,
        chosen,
        templates=build_context.read_templates(context.project),
        programs=build_context.read_programs(),
    )
    return Plan(spec=spec, lock=lock, platform=chosen, texts=texts)


def with_kernels(context: Context, plan: Plan) -> Plan:
    """Add what GPU code the wheels hold, which the image's preflight compares with the GPU.

    Raises Outside when a wheel is not in the store, Refused when one is damaged.
    """
    gpus = plan.spec.image.targets
    if not plan.spec.image.cuda:
        return plan
    pins = plan.lock.platforms[plan.platform].wheels
    with context.output.step("kernels", f"reading the GPU code of {len(pins)} wheels"):
        rows = read_kernels(pins, Store(context.places.store), context.places.cache / "kernels")
    return replace(
        plan,
        texts={**plan.texts, "runtime/kernels.json": canonical_json(baked(rows, gpus))},
        kernels=json.dumps(counted(rows, gpus), sort_keys=True, separators=(",", ":")),
    )


def large_files(context: Context, plan: Plan, base: BaseFiles) -> dict[str, Path]:
    """Map names in the folder to files of the store; raises Outside when some are not there."""
    store = Store(context.places.store)
    tool = installer(plan.lock, plan.platform)
    wanted: dict[str, WheelPin] = {f"tools/{tool.file}": tool}
    for group in groups_of(plan.lock, plan.platform):
        wanted |= {f"wheels/{group.name}/{pin.file}": pin for pin in group.wheels}
    absent = [pin for pin in wanted.values() if not store.has(pin.sha256, pin.size)]
    if absent:
        raise Outside(
            f"{len(absent)} locked wheels are not in the store: "
            + ", ".join(pin.name for pin in absent[:5]),
            subject=str(store.root),
            action=f"run `nightlock fetch {plan.spec.name}` first",
        )
    links = {name: store.path(pin.sha256) for name, pin in wanted.items()}
    return {**base.links, **links}


def _refuse_other_folder(out: Path) -> None:
    """Only what a render may have written is replaced."""
    if out.exists() and not (out / "lock/lock.toml").is_file() and any(out.iterdir()):
        raise BadInput(
            "the folder holds something else than a render",
            subject=str(out),
            action="name a new folder, or remove that one",
        )


def _text(out: Path, command: Invocation, *, whole: bool) -> str:
    if not whole:
        return f"{out}: Dockerfile, lock and programs, without base and wheels"
    return (
        f"{out}: build it with\n  cd {out} && {command.text()}\n"
        "(with the private engine, first run what `nightlock engine status` says under `to use it`)"
    )
