"""`nightlock lock --check`: whether each lock is whole, up to date, and its sources still there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder.commands.context import Context, Outcome
from builder.commands.lock_result import ImageLock, LockResult, image_lock
from builder.commands.lock_sources import Sources, find_sources
from builder.core.finding import Finding
from builder.core.lock import Lock
from builder.core.settings import Settings
from builder.core.spec import ImageSpec
from builder.core.staleness import not_locked, stale
from builder.edge import project as projects
from builder.errors import LockFileError


def check_locks(
    context: Context, settings: Settings, pairs: Sequence[tuple[ImageSpec, Path]]
) -> Outcome[LockResult]:
    """Judge the lock of each image, in the folder beside its spec; nothing is downloaded.

    Sources are asked about only for locks that are whole and up to date.

    Raises NetworkError when a source could not be asked and nothing else is wrong.
    """
    locks: list[ImageLock] = []
    lines: list[str] = []
    findings: list[Finding] = []
    whole: list[tuple[ImageSpec, Lock]] = []
    for spec, folder in pairs:
        lock, problem = judge_lock(spec, folder)
        if lock is None:
            row = ImageLock(image=spec.name, digest="", path=str(folder), change="checked")
        else:
            row = image_lock(lock, folder, "checked")
        locks.append(row)
        findings += [problem] if problem else []
        state = "up to date" if problem is None else f"not usable: {problem.evidence}"
        lines.append(f"{spec.name}: the lock is {state}")
        if lock is not None and lock.header.older:
            lines.append(f"  of the schema before; `nightlock lock {spec.name} --migrate`")
        if lock is not None and problem is None:
            whole.append((spec, lock))
    if whole:
        sources = find_sources(context, settings, whole)
        findings += sources.findings
        if sources.down and not findings:
            raise sources.down[0]
        lines += [f"not asked: {error.subject or error.what}" for error in sources.down[:5]]
        lines += _sources_line(whole, sources)
    return Outcome(
        result=LockResult(locks=locks),
        text="\n".join(lines),
        ok=not findings,
        findings=tuple(findings),
    )


def _sources_line(whole: Sequence[tuple[ImageSpec, Lock]], sources: Sources) -> list[str]:
    count = sum(
        len(content.wheels) + len(content.debs)
        for _, lock in whole
        for content in lock.platforms.values()
    )
    if sources.findings or sources.down:
        return [f"{len(sources.findings)} of {count} files are not where they were locked from"]
    return [f"all {count} files are still where they were locked from"]


def judge_lock(spec: ImageSpec, folder: Path) -> tuple[Lock | None, Finding | None]:
    """Read the lock of an image, and say what is wrong with it; None when it cannot be read."""
    try:
        lock = projects.read_lock_folder(folder, spec.name)
    except LockFileError as error:
        return None, not_locked(spec, error.what, subject=error.subject or str(folder))
    if (row := stale(spec, lock)) is not None:
        return lock, row
    if missing := sorted(set(spec.image.platforms) - lock.platforms.keys()):
        return lock, not_locked(spec, f"it lacks {', '.join(missing)}")
    return lock, None
