"""`nightlock lock --migrate`: locks of the schema before, in today's; nothing is resolved."""

from __future__ import annotations

from collections.abc import Sequence

from builder.commands.context import Context, Outcome
from builder.commands.lock_result import Change, LockResult, image_lock
from builder.edge import project as projects


def migrate_locks(context: Context, images: Sequence[str]) -> Outcome[LockResult]:
    """Rewrite the lock of each image; one of today's schema stays as it is.

    All are read before one is written. What a lock names does not change, its digest does. Raises
    LockFileError when one is of a schema that this nightlock does not read, or is damaged.
    """
    locks = [projects.read_lock(context.project, image) for image in images]
    result = LockResult(locks=[])
    lines = []
    for lock in locks:
        name, before = lock.header.image, lock.header.schema_version
        folder = projects.lock_folder(context.project, name)
        change: Change = "unchanged"
        if lock.header.older:
            old, lock = lock.digest, lock.migrated()  # noqa: PLW2901 - the new one counts
            change = projects.write_lock(context.project, lock)
            after = lock.header.schema_version
            lines.append(f"{name}: from schema {before} to {after}; {old} is now {lock.digest}")
        else:
            lines.append(f"{name}: its schema is today's ({before}): nothing to migrate")
        result.locks.append(image_lock(lock, folder, change))
    return Outcome(result=result, text="\n".join(lines))
