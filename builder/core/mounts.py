"""Mount tables and control groups as data (proc_pid_mountinfo(5), cgroups(7))."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

CGROUPS = "/sys/fs/cgroup"
# What runc and dockerd look for; containers start without the others.
_CONTROLLERS = ("devices", "memory", "cpu", "cpuacct", "cpuset", "pids", "freezer", "blkio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of a mount table."""

    point: str
    kind: str
    options: tuple[str, ...] = ()
    """Of the file system itself: for control groups the names of the controllers."""


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Read /proc/self/mountinfo, in its order."""
    found = []
    for line in text.splitlines():
        own, _, rest = line.partition(" - ")
        fields, (kind, _source, options) = own.split(" "), rest.split(" ", 2)
        found.append(
            Mount(point=_unescaped(fields[4]), kind=kind, options=tuple(options.split(",")))
        )
    return tuple(found)


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def below(mounts: Iterable[Mount], folders: Iterable[str]) -> tuple[str, ...]:
    """Mount points at or below any of the folders, the last mounted first."""
    tops = tuple(folders)
    return tuple(
        mount.point
        for mount in reversed(tuple(mounts))
        if any(PurePosixPath(mount.point).is_relative_to(top) for top in tops)
    )


def missing_cgroups(proc_cgroups: str, mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Say which control groups must be mounted before containers run, in order.

    Nothing where the unified hierarchy is in its usual place. A machine that uses the old
    hierarchies gets those of the needed ones that are not mounted; one that uses none gets the
    unified one.
    """
    listed = tuple(mounts)
    at = {mount.point: mount for mount in listed}
    if CGROUPS in at and at[CGROUPS].kind == "cgroup2":
        return ()
    rows = [line.split() for line in proc_cgroups.splitlines() if not line.startswith("#")]
    in_use = {name for name, hierarchy, _, enabled in rows if enabled == "1" and hierarchy != "0"}
    enabled = {row[0] for row in rows if row[3] == "1"}
    if not in_use:
        return (Mount(point=CGROUPS, kind="cgroup2"),)
    mounted = {name for mount in listed if mount.kind == "cgroup" for name in mount.options}
    wanted = [name for name in _CONTROLLERS if name in enabled and name not in mounted]
    plan = [Mount(point=f"{CGROUPS}/{name}", kind="cgroup", options=(name,)) for name in wanted]
    if plan and CGROUPS not in at:
        plan.insert(0, Mount(point=CGROUPS, kind="tmpfs"))
    return tuple(plan)
