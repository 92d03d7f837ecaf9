"""`nightlock lock IMAGE|SET…`: choose vLLM, resolve, hash, audit, plan layers, write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from packaging.utils import canonicalize_name

from builder.commands import cross_check as cross_checks
from builder.commands import lock_history, lock_import
from builder.commands.context import Context, Outcome
from builder.commands.cross_check import SecondOpinion
from builder.commands.lock_base import with_bases
from builder.commands.lock_check import check_locks
from builder.commands.lock_image import Job, known_packages, lock_jobs
from builder.commands.lock_migrate import migrate_locks
from builder.commands.lock_options import refuse_contrary
from builder.commands.lock_result import (
    Change,
    LockChange,
    LockResult,
    changes_of,
    image_lock,
    text,
)
from builder.commands.lock_vllm import Chosen, choose_vllm, on_channel
from builder.commands.lock_workshop import Workshop
from builder.core.assembly import LockedPlatform, assemble, problems
from builder.core.diff_commits import PROJECTS
from builder.core.finding import Finding
from builder.core.imported import Imported
from builder.core.indexes import DEFAULT_URLS, check_sources
from builder.core.keys import finding
from builder.core.lock import Lock, ResolverTable
from builder.core.nightly_set import check_taken
from builder.core.second_opinion import Method
from builder.core.sets import Group, groups
from builder.core.settings import Settings, index_source
from builder.core.spec import GENERAL, ImageSpec
from builder.edge import debs, uv
from builder.edge import project as projects
from builder.edge.history import Forge
from builder.edge.reach import open_indexes
from builder.edge.store import Store
from builder.edge.userconfig import UserConfig
from builder.edge.wheels import WheelReader
from builder.errors import BadInput, LockFileError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """One lock before it is written."""

    job: Job
    lock: Lock
    notes: dict[str, list[str]]
    findings: tuple[Finding, ...]
    changes: list[LockChange]


def run(
    context: Context,
    *names: str,
    check: bool = False,
    migrate: bool = False,
    channel: str = "",
    commit: str = "",
    indexes: Sequence[str] = (),
    platforms: Sequence[str] = (),
    upgrade: bool = False,
    upgrade_packages: Sequence[str] = (),
    import_from: Path | None = None,
    cross_check: Method | None = None,
    replan: bool = False,
    out: Path | None = None,
) -> Outcome[LockResult]:
    """Lock images and sets; of one set nothing is written unless every image of it is fit.

    `indexes` are `NAME=URL-or-folder`; `channel` and `commit` replace what image.toml says. `out`
    takes the files of one image, or a folder for each of several. `import_from` is a lock of
    pip-compile or uv, whose versions are preferred; `cross_check` asks a second resolver.
    `replan` plans layers anew, from the locks in git's history.
    """
    refuse_contrary(
        {
            "--check": check,
            "--migrate": migrate,
            "--channel": channel,
            "--commit": commit,
            "--index": indexes,
            "--platform": platforms,
            "--upgrade": upgrade,
            "--upgrade-package": upgrade_packages,
            "--from": import_from,
            "--cross-check": cross_check,
            "--replan": replan,
            "--out": out,
        }
    )
    found = groups(
        names, projects.read_sets(context.project), projects.image_names(context.project)
    )
    images = [image for group in found for image in group.images]
    if migrate:
        return migrate_locks(context, images)
    specs = {name: projects.read_spec(context.project, name) for name in images}
    settings = with_indexes(context.settings, indexes)
    _refuse_unknown_indexes(settings, specs.values(), indexes)
    if check:
        folders = {name: projects.lock_folder(context.project, name) for name in images}
        return check_locks(context, settings, [(specs[name], folders[name]) for name in images])
    imported = lock_import.read(import_from) if import_from is not None else None
    result = LockResult(locks=[])
    with open_indexes(settings, os.environ, connections=8 * settings.threads) as reach:
        findings = _ignored(reach.config)
        workshop = Workshop(
            indexes=reach,
            reader=WheelReader(
                reach.client, Store(context.places.store), context.places.cache / "facts"
            ),
            config=reach.config,
            cache=context.places.cache,
            threads=settings.threads,
            output=context.output,
        )
        for group in found:
            jobs = [
                _job(
                    context,
                    on_channel(specs[name], "nightly" if commit else channel),
                    specs[name].digest,
                    platforms=platforms,
                    upgrade=upgrade,
                    upgrade_packages=upgrade_packages,
                    imported=imported,
                )
                for name in group.images
            ]
            for job in jobs:
                check_sources(job.spec, settings.indexes)
            past = _past(context, jobs) if replan else {}
            opinion = cross_checks.prepare(context, jobs, cross_check) if cross_check else None
            jobs = with_bases(context, jobs)
            chosen = _choose(context, workshop, group, jobs, commit)
            made = _make(context, workshop, jobs, chosen, opinion, past)
            findings += chosen.findings
            result.skipped += [str(skip) for skip in chosen.skipped if not skip.quiet]
            findings += [row for one in made for row in one.findings]
            folders = {
                name: _folder(context, name, out, several=len(images) > 1) for name in images
            }
            _write(context, made, folders, result, explicit=out is not None)
    refused = any(lock.change == "refused" for lock in result.locks)
    return Outcome(result=result, text=text(result), ok=not refused, findings=tuple(findings))


def relock_debs(context: Context, image: str, out: Path) -> tuple[Lock, list[LockChange]]:
    """Lock the .debs alone anew, into the folder `out`; wheels and all else stay.

    For `quickstart` and the tests, when a locked .deb has left Debian's mirrors.
    """
    spec = projects.read_spec(context.project, image)
    before = projects.read_lock(context.project, image)
    lock = before
    for platform in lock.platforms:
        lock = debs.relock(
            lock, spec.base, platform, context.settings.debian, context.places.cache / "apt"
        ).lock
    lock = Lock.parse(lock.files(), str(out))
    projects.write_lock(context.project, lock, out)
    return lock, changes_of(before, lock)


def with_indexes(settings: Settings, indexes: Sequence[str]) -> Settings:
    """Lay `--index NAME=URL-or-folder` over the settings; raises BadInput for another form."""
    places = dict(settings.indexes)
    for given in indexes:
        name, equals, where = given.partition("=")
        if not (name and equals and where):
            raise BadInput(
                "an index is given as NAME=URL-or-folder",
                subject=f"--index {given}",
                action="for instance --index pytorch-cpu=/srv/wheels",
            )
        places[name] = where
    return settings.model_copy(update={"indexes": places})


def _refuse_unknown_indexes(
    settings: Settings, specs: Iterable[ImageSpec], flags: Sequence[str]
) -> None:
    """Refuse a place for an index that nothing comes from: a misspelt name changes nothing."""
    known = {GENERAL, *DEFAULT_URLS}.union(*(spec.lock.sources.values() for spec in specs))
    unknown = sorted(set(settings.indexes) - known)
    if unknown:
        raise BadInput(
            f"there is no index called {', '.join(unknown)}",
            subject=", ".join(index_source(name, flags, os.environ) for name in unknown),
            action=f"the indexes are {', '.join(sorted(known))}",
        )


def _job(
    context: Context,
    spec: ImageSpec,
    digest: str,
    *,
    platforms: Sequence[str],
    upgrade: bool,
    upgrade_packages: Sequence[str],
    imported: Imported | None,
) -> Job:
    unknown = sorted(set(platforms) - set(spec.image.platforms))
    if unknown:
        raise BadInput(
            f"the image {spec.name} is not for {', '.join(unknown)}",
            subject="--platform",
            action=f"its platforms are {', '.join(spec.image.platforms)}",
        )
    previous = _previous(context, spec.name)
    moving: frozenset[str] = frozenset(canonicalize_name(name) for name in upgrade_packages)
    if previous is not None and (missing := moving - known_packages(spec, previous)):
        raise BadInput(
            f"the lock has no {', '.join(sorted(missing))}",
            subject="--upgrade-package",
            action=f"name packages of lock/{spec.name}/, or change image.toml",
        )
    return Job(
        spec=spec,
        digest=digest,
        previous=previous,
        platforms=tuple(platforms) or tuple(spec.image.platforms),
        moving=moving,
        upgrade=upgrade,
        imported=imported,
    )


def _previous(context: Context, image: str) -> Lock | None:
    folder = projects.lock_folder(context.project, image)
    if not (folder / "lock.toml").is_file():
        return None
    try:
        return projects.read_lock_folder(folder)
    except LockFileError as error:
        context.output.note(f"warning: {folder}: {error.what}; nothing of it is kept")
        return None


def _past(context: Context, jobs: Sequence[Job]) -> dict[str, list[Lock]]:
    found = {job.spec.name: lock_history.past(context, job.spec.name, job.previous) for job in jobs}
    for name, locks in found.items():
        context.output.note(f"  {name}: layers are planned anew, from {len(locks)} earlier locks")
    return found


def _choose(
    context: Context, workshop: Workshop, group: Group, jobs: Sequence[Job], commit: str
) -> Chosen:
    first = jobs[0].spec
    with context.output.step(f"choose {group.name}", f"choosing vLLM for {group.name}"):
        chosen = choose_vllm(
            workshop,
            [job.spec for job in jobs],
            {
                (job.spec.name, platform): job.target(platform)
                for job in jobs
                for platform in job.spec.image.platforms
            },
            {job.spec.name: job.previous for job in jobs},
            upgrade=any(job.upgrade or job.spec.lock.package in job.moving for job in jobs),
            commit=commit,
            forge=Forge(
                place=context.settings.forges.get("vllm", PROJECTS["vllm"].api),
                client=workshop.indexes.client,
            ),
            now=datetime.now(UTC),
        )
    for skip in chosen.skipped:
        if not skip.quiet:
            context.output.note(f"  passed over: {skip}")
    where = next(iter(chosen.wheels.values())).index
    context.output.note(f"  {first.lock.package} {chosen.version} from {where}")
    return chosen


def _make(
    context: Context,
    workshop: Workshop,
    jobs: Sequence[Job],
    chosen: Chosen,
    opinion: SecondOpinion | None,
    past: Mapping[str, Sequence[Lock]],
) -> list[_Made]:
    pairs = [f"{job.spec.name} {platform}" for job in jobs for platform in job.platforms]
    with context.output.step("resolve", f"resolving {', '.join(pairs)}"):
        resolved = lock_jobs(context, workshop, jobs, chosen)
    resolver = ResolverTable(name="uv", version=uv.version())
    for job in jobs:
        if job.previous is not None and job.previous.header.resolver != resolver:
            was = job.previous.header.resolver
            context.output.note(
                f"  {job.spec.name} was resolved by {was.name} {was.version}, now by "
                f"{resolver.name} {resolver.version}"
            )
    made = []
    for job in jobs:
        locked = resolved[job.spec.name]
        found = [
            row
            for platform, content in locked.items()
            for row in problems(job.spec, platform, content, chosen.commit)
        ]
        found += _taken(job, chosen, locked)
        found += lock_import.findings(workshop, job, locked)
        found += opinion.differences(workshop, job, locked) if opinion else []
        lock = assemble(
            job.spec,
            locked,
            job.previous,
            resolver,
            digest=job.digest,
            commit=chosen.commit,
            past=past.get(job.spec.name),
        )
        made.append(
            _Made(
                job=job,
                lock=lock,
                notes={name: list(content.notes) for name, content in locked.items()},
                findings=tuple(found),
                changes=changes_of(job.previous, lock),
            )
        )
    return made


def _taken(job: Job, chosen: Chosen, locked: Mapping[str, LockedPlatform]) -> list[Finding]:
    """Make sure that no resolver chose vLLM."""
    name = canonicalize_name(job.spec.lock.package)
    found = []
    for platform, content in locked.items():
        vllm = chosen.wheels[job.spec.name, platform]
        for pin in (wheel.pin for wheel in content.wheels if wheel.pin.name == name):
            found += check_taken(vllm.one_each[0].file, vllm.index.name, pin)
    return found


def _folder(context: Context, image: str, out: Path | None, *, several: bool) -> Path:
    if out is None:
        return projects.lock_folder(context.project, image)
    return out / image if several else out


def _write(
    context: Context,
    made: Sequence[_Made],
    folders: dict[str, Path],
    result: LockResult,
    *,
    explicit: bool,
) -> None:
    """Write all locks of a group, or none of them."""
    fit = not any(row.severity == "error" for one in made for row in one.findings)
    for one in made:
        folder = folders[one.job.spec.name]
        change: Change = "refused"
        if fit:
            change = projects.write_lock(context.project, one.lock, folder if explicit else None)
        result.locks.append(
            image_lock(one.lock, folder, change, changes=one.changes, notes=one.notes)
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
