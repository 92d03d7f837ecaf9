"""Whether a lock is the one that image.toml asks for (finding `not-locked`)."""

from __future__ import annotations

from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.lock import Lock
from builder.core.spec import ImageSpec
from builder.errors import StaleLock


def not_locked(spec: ImageSpec, evidence: str, *, subject: str = "") -> Finding:
    """Say that an image has no lock that can be used; `subject` is the file that shows it."""
    return finding(
        "not-locked",
        subject=subject or f"lock/{spec.name}",
        evidence=evidence,
        cause="The lock is not the one that image.toml asks for.",
        action=f"`nightlock lock {spec.name}`",
    )


def stale(spec: ImageSpec, lock: Lock) -> Finding | None:
    """Compare the spec a lock was made from with the one that stands there now."""
    if lock.header.spec == spec.digest:
        return None
    evidence = f"it was made from spec {lock.header.spec}, which is now {spec.digest}"
    return not_locked(spec, evidence)


def refuse_stale(spec: ImageSpec, lock: Lock, where: str) -> None:
    """Raise StaleLock, with its finding, unless the lock is of this spec; `where` is its folder."""
    row = stale(spec, lock)
    if row is None:
        return
    error = StaleLock(
        f"image.toml has changed since the lock was made from {lock.header.spec}; it is now "
        f"{spec.digest}",
        subject=where,
        action=f"run `nightlock lock {spec.name}`, or take the change in image.toml back",
    )
    error.findings = (row,)
    raise error
