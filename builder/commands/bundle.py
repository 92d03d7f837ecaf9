"""The offline bundle: written by `fetch --bundle`, taken in by `build --bundle`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from builder.commands.build import Job, decide
from builder.commands.context import Context
from builder.commands.fetch import BundleRow
from builder.commands.render import Plan, large_files, plan_build, with_kernels
from builder.commands.render_base import find_or_make_base
from builder.core.bundle import NAME, Bundle, BundledPlatform, readme
from builder.core.dockerfile import invocation
from builder.core.lock import Lock
from builder.core.reference import ImageRef
from builder.edge import builds, files, rootfs
from builder.edge import bundle as folders
from builder.edge.distribution import own_version
from builder.edge.engine import Engine, find_engine
from builder.edge.project import image_files, read_lock_folder
from builder.edge.store import Store
from builder.edge.templates import read_template
from builder.errors import BadInput, EngineError, ToolMissing

_LOCAL = "localhost/nightlock"


def write_bundle(context: Context, image: str, folder: Path) -> BundleRow:
    """Write or complete a bundle of an image whose files are in the store.

    Raises BadInput when the folder holds something else; StaleLock, Outside, ToolMissing, DiskFull,
    HashMismatch.
    """
    folders.require_ours(folder)
    lock = read_lock_folder(context.lock_folder(image), image)
    engine = find_engine(context.places, context.settings, os.environ)
    links, texts = _project(context, image, lock)
    rows: dict[str, BundledPlatform] = {}
    for platform in sorted(lock.platforms):
        plan = with_kernels(context, plan_build(context, image, platform))
        row, more, small = _platform(context, plan, engine)
        rows[platform] = row
        links |= {f"{row.folder}/{name}": path for name, path in more.items()}
        texts |= {f"{row.folder}/{name}": data for name, data in small.items()}
    bundle = Bundle(image=image, lock=lock.digest, nightlock=own_version(), platforms=rows)
    texts |= {NAME: bundle.data(), "README.md": readme(bundle, read_template("bundle.md.j2"))}
    mark = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    total = sum(path.stat().st_size for path in links.values())
    with files.locked(
        context.places.state / "locks" / f"bundle-{mark}.lock", context.output.note, remove=True
    ):
        needed = folders.bytes_to_copy(folder, links) + sum(map(len, texts.values()))
        files.require_free(folder, needed, f"the bundle of {image}")
        with (
            context.output.step("bundle", f"writing {folder}"),
            context.output.bar("bundle", total) as bar,
        ):
            folders.fill(folder, texts, links, bar.advance)
    return BundleRow(
        folder=str(folder),
        files=len(links) + len(texts) + 1,
        bytes=total + sum(map(len, texts.values())),
        commands={platform: row.command for platform, row in rows.items()},
        digests={platform: row.digest for platform, row in rows.items() if row.digest},
    )


def take_in_bundle(context: Context, image: str, folder: Path) -> None:
    """Take a bundle's files into the store, and its base.tar for the base of its .debs.

    Raises BadInput when it is no whole bundle, or of another lock than the project's; HashMismatch.
    """
    bundle = folders.read(folder)
    lock = read_lock_folder(context.lock_folder(image), image)
    if bundle.image != image or bundle.lock != lock.digest:
        raise BadInput(
            f"the bundle is of {bundle.image}, lock {bundle.lock}; this project's lock of {image} "
            f"is {lock.digest}",
            subject=str(folder),
            action=f"build from the bundle's own project: `cd {folder / 'project'}`",
        )
    store = Store(context.places.store)
    wanted = folders.missing(folder, bundle, store)
    total = sum((folder / name).stat().st_size for name in wanted)
    if wanted:
        files.require_free(store.root, total, f"taking in the bundle of {image}")
        with (
            context.output.step("bundle", f"taking in {len(wanted)} files of {folder}"),
            context.output.bar("bundle", total) as bar,
        ):
            folders.take_in(folder, wanted, store, bar.advance)
    for platform, row in bundle.platforms.items():
        if row.base_size:
            rootfs.remember(
                lock.platforms[platform].debs,
                context.places.state / "base",
                row.base.removeprefix("sha256:"),
                row.base_size,
            )


def _project(context: Context, image: str, lock: Lock) -> tuple[dict[str, Path], dict[str, bytes]]:
    """Choose what nightlock needs of a project: specs, templates, the lock; and the .debs."""
    store = Store(context.places.store)
    debs = [pin for content in lock.platforms.values() for pin in content.debs]
    links = {f"debs/{PurePosixPath(pin.path).name}": store.path(pin.sha256) for pin in debs}
    texts = {f"project/lock/{image}/{name}": data for name, data in lock.files().items()}
    texts |= {
        f"project/images/{name}": data for name, data in image_files(context.project, image).items()
    }
    return links, texts


def _platform(
    context: Context, plan: Plan, engine: Engine | None
) -> tuple[BundledPlatform, Mapping[str, Path], Mapping[str, bytes]]:
    base = find_or_make_base(context, plan.lock, plan.platform)
    job = _job(context, plan, engine)
    if job is None:
        command, record = invocation(plan.lock, plan.platform), None
    else:
        command = replace(job.invocation, name=f"nightlock/{plan.spec.name}:local", push=False)
        record = builds.read(context.places.state / "builds", job.build_id)
    row = BundledPlatform(
        folder=plan.platform.replace("/", "-"),
        command=command.text(),
        base=base.digest,
        base_size=0 if plan.lock.header.base.image else base.size,
        buildkit=job.buildkit if job else "",
        build_id=job.build_id if job else "",
        digest=record.digest if record else "",
    )
    return row, large_files(context, plan, base), {**plan.texts, **base.texts}


def _job(context: Context, plan: Plan, engine: Engine | None) -> Job | None:
    """Decide the build as `nightlock build` does; None where no engine can say its version."""
    if engine is None:
        return None
    repository = ImageRef.parse(f"{_LOCAL}/{plan.spec.name}")
    try:
        return decide(context, engine, plan, repository, "")
    except (EngineError, ToolMissing) as error:
        context.output.detail(str(error))
        return None
