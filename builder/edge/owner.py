"""Processes as owners of containers: who we are, and whether another owner is dead (proc(5))."""

from __future__ import annotations

import os
from pathlib import Path

from builder.core.boot import Owner

_PROC = Path("/proc")
_STARTED = 19
"""Field 22 of /proc/PID/stat, counted after the name in parentheses."""


def this_process() -> Owner:
    """Name this process."""
    return Owner(
        boot=(_PROC / "sys/kernel/random/boot_id").read_text().strip(),
        space=str((_PROC / "self/ns/pid").readlink()),
        pid=os.getpid(),
        started=_started(os.getpid()) or 0,
    )


def is_dead(owner: Owner, *, same_machine: bool) -> bool:
    """Whether the process is gone for certain; in doubt it lives.

    `same_machine`: whether what it owned is known to be on this machine, so that another boot id
    means an earlier boot and not another machine.
    """
    me = this_process()
    if owner.boot != me.boot:
        return same_machine
    if owner.space != me.space:
        return False
    return _started(owner.pid) != owner.started


def _started(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_STARTED])
