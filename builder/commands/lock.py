"""`nightlock lock IMAGE`: resolve, hash, plan the layers, and write lock/IMAGE/."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from packaging.utils import canonicalize_name
from pydantic import Field

from builder.commands import cross_check as cross_checks
from builder.commands.context import Context, Outcome
from builder.commands.lock_wheels import Before, Workshop, lock_wheels
from builder.core import second_opinion
from builder.core.assembly import LockedPlatform, assemble, problems
from builder.core.debs import diff_debs
from builder.core.document import Result
from builder.core.finding import Finding
from builder.core.indexes import check_sources
from builder.core.keys import finding
from builder.core.lock import Lock, ResolverTable, WheelPin
from builder.core.settings import Settings
from builder.core.spec import ImageSpec
from builder.core.target import target_of
from builder.core.wheel_target import wheel_target
from builder.edge import debs, uv
from builder.edge import project as projects
from builder.edge.download import open_client
from builder.edge.index import Indexes
from builder.edge.store import Store
from builder.edge.userconfig import UserConfig, read_user_config
from builder.edge.wheels import WheelReader
from builder.errors import BadInput, LockFileError


class PlatformCounts(Result):
    """How much one platform of a lock holds."""

    wheels: int
    debs: int
    wheel_bytes: int
    deb_bytes: int
    layers: int
    """Layers of wheels; the base comes on top."""


class LockChange(Result):
    """One package that moved; an empty version means it is not there."""

    platform: str
    kind: Literal["wheel", "deb", "tool"]
    name: str
    old: str
    new: str


class LockResult(Result):
    """What `lock` wrote, or with `--check` what stands there."""

    image: str
    digest: str
    """The lock digest; empty when there is no lock."""
    path: str
    change: Literal["created", "updated", "unchanged", "refused", "checked"]
    channel: str = ""
    vllm: str = ""
    commit: str = ""
    platforms: dict[str, PlatformCounts] = Field(default_factory=dict)
    changes: list[LockChange] = Field(default_factory=list)
    """Against the lock that stood there; empty for a first lock."""


def run(
    context: Context,
    image: str,
    *,
    check: bool = False,
    indexes: Sequence[str] = (),
    platforms: Sequence[str] = (),
    upgrade: bool = False,
    upgrade_packages: Sequence[str] = (),
    out: Path | None = None,
    cross_check: second_opinion.Method | None = None,
) -> Outcome[LockResult]:
    """Lock one image; `indexes` are `NAME=URL-or-folder`. Nothing is written when it is unfit."""
    spec = projects.read_spec(context.project, image)
    folder = out or projects.lock_folder(context.project, image)
    if check:
        return check_lock(spec, projects.lock_folder(context.project, image))
    settings = with_indexes(context.settings, indexes)
    check_sources(spec, settings.indexes)
    wanted = _platforms(spec, platforms)
    opinion = cross_checks.prepare(context, spec, wanted, cross_check) if cross_check else None
    previous = _previous(context, image)
    moving = _moving(spec, previous, upgrade_packages)
    config = read_user_config(os.environ)
    with open_client(config, connections=4 * settings.threads) as client:
        workshop = Workshop(
            indexes=Indexes(client, config, settings),
            reader=WheelReader(client, Store(context.places.store), context.places.cache / "facts"),
            config=config,
            cache=context.places.cache,
            threads=settings.threads,
            output=context.output,
        )
        resolved = {}
        for platform in wanted:
            before = _before(previous, platform, moving, upgrade=upgrade)
            resolved[platform] = _resolve(context, workshop, spec, platform, before)
        findings = _ignored(config)
        for platform, locked in resolved.items():
            findings += opinion.differences(workshop, platform, locked) if opinion else []
    for platform, locked in resolved.items():
        findings += problems(spec, platform, locked)
    resolver = ResolverTable(name="uv", version=uv.version())
    lock = assemble(spec, resolved, previous, resolver)
    changes = _changes(previous, lock)
    if any(row.severity == "error" for row in findings):
        result = _result(lock, folder, "refused", changes)
        text = f"{image}: not locked, see the findings; {folder} stays as it is"
        return Outcome(result=result, text=text, ok=False, findings=tuple(findings))
    change = projects.write_lock(context.project, lock, out)
    result = _result(lock, folder, change, changes)
    return Outcome(result=result, text=_text(result), findings=tuple(findings))


def check_lock(spec: ImageSpec, folder: Path) -> Outcome[LockResult]:
    """Say whether a lock is whole and was made from this spec; nothing is fetched."""
    problem: Finding | None = None
    lock: Lock | None = None
    try:
        lock = projects.read_lock_folder(folder)
    except LockFileError as error:
        problem = _not_locked(spec, str(error.what), error.subject or str(folder))
    if lock is not None:
        if lock.header.spec != spec.digest:
            problem = _not_locked(
                spec, f"it was made from spec {lock.header.spec}, which is now {spec.digest}", ""
            )
        elif missing := sorted(set(spec.image.platforms) - lock.platforms.keys()):
            problem = _not_locked(spec, f"it lacks {', '.join(missing)}", "")
    if lock is None:
        result = LockResult(image=spec.name, digest="", path=str(folder), change="checked")
    else:
        result = _result(lock, folder, "checked", [])
    state = "up to date" if problem is None else f"not usable: {problem.evidence}"
    return Outcome(
        result=result,
        text=f"{spec.name}: the lock is {state}",
        ok=problem is None,
        findings=(problem,) if problem else (),
    )


def relock_debs(context: Context, image: str, out: Path) -> tuple[Lock, list[LockChange]]:
    """Lock the .debs alone anew, into the folder `out`; wheels and all else stay.

    For `quickstart` and the tests, when a locked .deb has left Debian's mirrors.
    """
    spec = projects.read_spec(context.project, image)
    before = projects.read_lock(context.project, image)
    lock = before
    for platform in lock.platforms:
        lock = debs.relock(
            lock, spec.base, platform, context.settings.debian, _apt_folder(context)
        ).lock
    lock = Lock.parse(lock.files(), str(out))
    projects.write_lock(context.project, lock, out)
    return lock, _changes(before, lock)


def with_indexes(settings: Settings, indexes: Sequence[str]) -> Settings:
    """Lay `--index NAME=URL-or-folder` over the settings; raises BadInput for another form."""
    places = dict(settings.indexes)
    for text in indexes:
        name, equals, where = text.partition("=")
        if not (name and equals and where):
            raise BadInput(
                "an index is given as NAME=URL-or-folder",
                subject=f"--index {text}",
                action="for instance --index pytorch-cpu=/srv/wheels",
            )
        places[name] = where
    return settings.model_copy(update={"indexes": places})


def _platforms(spec: ImageSpec, wanted: Sequence[str]) -> list[str]:
    unknown = sorted(set(wanted) - set(spec.image.platforms))
    if unknown:
        raise BadInput(
            f"the image {spec.name} is not for {', '.join(unknown)}",
            subject="--platform",
            action=f"its platforms are {', '.join(spec.image.platforms)}",
        )
    return list(wanted) or list(spec.image.platforms)


def _previous(context: Context, image: str) -> Lock | None:
    folder = projects.lock_folder(context.project, image)
    if not (folder / "lock.toml").is_file():
        return None
    try:
        return projects.read_lock_folder(folder)
    except LockFileError as error:
        context.output.note(f"warning: {folder}: {error.what}; nothing of it is kept")
        return None


def _moving(spec: ImageSpec, previous: Lock | None, packages: Sequence[str]) -> frozenset[str]:
    """Normalise `--upgrade-package`; raises BadInput for a package that no lock has."""
    names: frozenset[str] = frozenset(canonicalize_name(name) for name in packages)
    known: set[str] = {canonicalize_name(name) for name in spec.lock.sources}
    for platform, content in (previous.platforms if previous else {}).items():
        assert previous is not None  # noqa: S101 - it has platforms
        known |= {pin.name for pin in (*content.wheels, *previous.tools(platform))}
    if previous is not None and names - known:
        raise BadInput(
            f"the lock has no {', '.join(sorted(names - known))}",
            subject="--upgrade-package",
            action=f"name packages of lock/{spec.name}/, or change image.toml",
        )
    return names


def _before(
    previous: Lock | None, platform: str, moving: frozenset[str], *, upgrade: bool
) -> dict[str, Before]:
    """Say what may be kept, of wheels and of tools."""
    content = previous.platforms.get(platform) if previous else None
    if previous is None or content is None:
        empty = Before(decided=moving)
        return {"wheels": empty, "tools": empty}
    rows = {name: row for name, row in content.meta.items() if isinstance(row, dict)}
    hash_from = {
        pin.sha256: str(rows[pin.name]["hash_from"])
        for pin in content.wheels
        if "hash_from" in rows.get(pin.name, {})
    }

    def kept(pins: Sequence[WheelPin]) -> tuple[WheelPin, ...]:
        return tuple(pin for pin in pins if not upgrade and pin.name not in moving)

    return {
        "wheels": Before(pins=kept(content.wheels), hash_from=hash_from, decided=moving),
        "tools": Before(pins=kept(previous.tools(platform)), decided=moving),
    }


def _resolve(
    context: Context,
    workshop: Workshop,
    spec: ImageSpec,
    platform: str,
    before: Mapping[str, Before],
) -> LockedPlatform:
    target = wheel_target(spec, platform)
    with context.output.step(f"resolve {platform}", f"resolving {spec.name} for {platform}"):
        lock = partial(
            lock_wheels,
            workshop,
            spec,
            target,
            environment=target_of(spec, platform).environment,
        )
        wheels = lock(spec.lock.requirements, before["wheels"])
        tools = lock(spec.lock.tools, before["tools"], tools=True) if spec.lock.tools else ()
    with context.output.step(f"base {platform}", f"resolving Debian {spec.base.debian} packages"):
        pins = debs.resolve_base(spec.base, platform, context.settings.debian, _apt_folder(context))
    return LockedPlatform(wheels=wheels, tools=tools, debs=pins)


def _apt_folder(context: Context) -> Path:
    return context.places.cache / "apt"


def _changes(old: Lock | None, new: Lock) -> list[LockChange]:
    if old is None:
        return []
    rows: list[LockChange] = []
    for platform, content in new.platforms.items():
        before = old.platforms.get(platform)
        if before is None:
            continue
        tools = old.tools(platform), new.tools(platform)
        for kind, pair in (("wheel", (before.wheels, content.wheels)), ("tool", tools)):
            rows += _wheel_changes(platform, kind, *pair)
        rows += [
            LockChange(platform=platform, kind="deb", name=row.name, old=row.old, new=row.new)
            for row in diff_debs(before.debs, content.debs)
        ]
    return rows


def _wheel_changes(
    platform: str, kind: str, old: Sequence[WheelPin], new: Sequence[WheelPin]
) -> list[LockChange]:
    before = {pin.name: pin for pin in old}
    after = {pin.name: pin for pin in new}
    return [
        LockChange.model_validate(
            {
                "platform": platform,
                "kind": kind,
                "name": name,
                "old": before[name].version if name in before else "",
                "new": after[name].version if name in after else "",
            }
        )
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _result(
    lock: Lock,
    folder: Path,
    change: Literal["created", "updated", "unchanged", "refused", "checked"],
    changes: list[LockChange],
) -> LockResult:
    header = lock.header
    return LockResult(
        image=header.image,
        digest=lock.digest,
        path=str(folder),
        change=change,
        channel=header.channel,
        vllm=header.vllm.version,
        commit=header.vllm.commit,
        platforms={
            platform: PlatformCounts(
                wheels=len(content.wheels),
                debs=len(content.debs),
                wheel_bytes=sum(pin.size for pin in content.wheels),
                deb_bytes=sum(pin.size for pin in content.debs),
                layers=len(header.layers[platform]),
            )
            for platform, content in lock.platforms.items()
        },
        changes=changes,
    )


def _text(result: LockResult) -> str:
    lines = [f"{result.image}: lock {result.change}, {result.digest}", f"  {result.path}"]
    lines += [
        f"  {platform}: {counts.wheels} wheels ({counts.wheel_bytes / 1e6:,.0f} MB) in "
        f"{counts.layers} layers, {counts.debs} .debs ({counts.deb_bytes / 1e6:,.0f} MB)"
        for platform, counts in result.platforms.items()
    ]
    several = len(result.platforms) > 1
    for row in result.changes:
        mark = "~" if row.old and row.new else "+" if row.new else "-"
        versions = " → ".join(version for version in (row.old, row.new) if version)
        if row.old == row.new:
            versions = f"{row.new}, other bytes"
        place = f" ({row.platform})" if several else ""
        kind = "" if row.kind == "wheel" else f" {row.kind}"
        lines.append(f"  {mark}{kind} {row.name} {versions}{place}")
    return "\n".join(lines)


def _not_locked(spec: ImageSpec, evidence: str, subject: str) -> Finding:
    return finding(
        "not-locked",
        subject=subject or f"lock/{spec.name}",
        evidence=evidence,
        cause="The lock is not the one that image.toml asks for.",
        action=f"`nightlock lock {spec.name}`",
    )


def _ignored(config: UserConfig) -> list[Finding]:
    return [
        finding(
            "user-configuration-ignored",
            severity="warning",
            subject=entry.origin,
            evidence=entry.value,
        )
        for entry in config.ignored
    ]
