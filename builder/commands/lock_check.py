"""`nightlock lock --check`: whether each lock is whole, and made from the image.toml there is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder.commands.context import Outcome
from builder.commands.lock_result import ImageLock, LockResult, image_lock
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.lock import Lock
from builder.core.spec import ImageSpec
from builder.edge import project as projects
from builder.errors import LockFileError


def check_locks(pairs: Sequence[tuple[ImageSpec, Path]]) -> Outcome[LockResult]:
    """Judge the lock of each image, in the folder beside its spec; nothing is fetched."""
    locks: list[ImageLock] = []
    lines: list[str] = []
    findings: list[Finding] = []
    for spec, folder in pairs:
        lock, problem = _check(spec, folder)
        if lock is None:
            row = ImageLock(image=spec.name, digest="", path=str(folder), change="checked")
        else:
            row = image_lock(lock, folder, "checked")
        locks.append(row)
        findings += [problem] if problem else []
        state = "up to date" if problem is None else f"not usable: {problem.evidence}"
        lines.append(f"{spec.name}: the lock is {state}")
    return Outcome(
        result=LockResult(locks=locks),
        text="\n".join(lines),
        ok=not findings,
        findings=tuple(findings),
    )


def _check(spec: ImageSpec, folder: Path) -> tuple[Lock | None, Finding | None]:
    try:
        lock = projects.read_lock_folder(folder)
    except LockFileError as error:
        return None, _not_locked(spec, str(error.what), error.subject or str(folder))
    if lock.header.spec != spec.digest:
        evidence = f"it was made from spec {lock.header.spec}, which is now {spec.digest}"
        return lock, _not_locked(spec, evidence, "")
    if missing := sorted(set(spec.image.platforms) - lock.platforms.keys()):
        return lock, _not_locked(spec, f"it lacks {', '.join(missing)}", "")
    return lock, None


def _not_locked(spec: ImageSpec, evidence: str, subject: str) -> Finding:
    return finding(
        "not-locked",
        subject=subject or f"lock/{spec.name}",
        evidence=evidence,
        cause="The lock is not the one that image.toml asks for.",
        action=f"`nightlock lock {spec.name}`",
    )
