"""Processes that outlive us: started, recognised again, ended; never another one's.

A process is named by its number and its start together (proc_pid_stat(5)) and signalled through a
pidfd, so that a number the kernel gave to somebody else meanwhile is left alone.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from builder.core.engine import Running

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19
"""Positions after the name in /proc/PID/stat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process that runs now."""

    running: Running
    program: Path
    """What it executes; as it was when the file has been deleted since."""
    command: str


def spawn(argv: Sequence[str | Path], *, environment: Mapping[str, str], log: Path) -> Running:
    """Start a program that does not end with us: own session, no input, output to `log`.

    Raises OSError when it cannot be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    # env(1) changes the folder, which posix_spawn cannot, and becomes the program.
    command = ["/usr/bin/env", "--chdir=/", *map(str, argv)]
    out = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        command,
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), out, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGPIPE),
    )
    return Running(pid=pid, started=_started(pid) or 0)


def is_alive(running: Running | None) -> bool:
    """Whether exactly that process still runs; a zombie does not."""
    if running is None:
        return False
    # One of ours that ended stays a zombie until it is waited for.
    with suppress(ChildProcessError):
        os.waitpid(running.pid, os.WNOHANG)
    return _started(running.pid) == running.started


def end(processes: Iterable[Running], number: signal.Signals, seconds: float) -> list[Running]:
    """Signal the processes and wait until they are gone; return those that are not."""
    handles: dict[int, Running] = {}
    try:
        for running in processes:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(running.pid)
                handles[handle] = running
                # Looked at after the handle is held: from here the number cannot pass to another.
                if _started(running.pid) == running.started:
                    signal.pidfd_send_signal(handle, number)
        _wait(handles, seconds)
        return [running for running in handles.values() if is_alive(running)]
    finally:
        for handle in handles:
            os.close(handle)


def running_from(folder: Path) -> list[Process]:
    """Find every process that executes a program from a folder."""
    return [process for process in _processes() if process.program.is_relative_to(folder)]


def running_named(name: str) -> list[Process]:
    """Find processes by their program's name, in our network namespace alone."""
    own = _link("self/ns/net")
    return [
        process
        for process in _processes()
        if process.program.name == name and _link(f"{process.running.pid}/ns/net") == own
    ]


def running_in_cgroup(name: str) -> list[Running]:
    """Find every process of control groups at or below `/name` (cgroups(7))."""
    found = []
    for pid in _pids():
        with suppress(OSError):
            lines = (_PROC / str(pid) / "cgroup").read_text().splitlines()
            groups = [line.split(":", 2)[2].split("/") for line in lines]
            started = _started(pid)
            if started is not None and any(group[1] == name for group in groups):
                found.append(Running(pid=pid, started=started))
    return found


def boot_id() -> str:
    """Name the current boot of this machine (random(4))."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def tail(log: Path, lines: int = 30) -> str:
    """Return the last lines of a log; empty when there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def _wait(handles: Mapping[int, Running], seconds: float) -> None:
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    left, deadline = set(handles), time.monotonic() + seconds
    while left and (rest := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(rest * 1000):
            poll.unregister(handle)
            left.discard(handle)


def _processes() -> Iterator[Process]:
    for pid in _pids():
        target = _link(f"{pid}/exe")
        started = _started(pid)
        if not target or started is None:
            continue
        with suppress(OSError):
            words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
            yield Process(
                running=Running(pid=pid, started=started),
                program=Path(target.removesuffix(" (deleted)")),
                command=b" ".join(words).decode(errors="replace").strip(),
            )


def _pids() -> list[int]:
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]


def _started(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    return None if fields[_STATE] in "ZX" else int(fields[_STARTED])


def _link(name: str) -> str:
    try:
        return str((_PROC / name).readlink())
    except OSError:
        return ""
