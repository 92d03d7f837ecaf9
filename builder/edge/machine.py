"""Facts about this machine that decide what may run here."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from builder.core.engine import EngineFolders
from builder.core.engine_machine import Machine, is_debian_family, parse_os_release
from builder.edge import daemon, files, process


def read_machine(folders: EngineFolders) -> Machine:
    """Look at the system, the disk and the processes."""
    release = parse_os_release(_read("/etc/os-release") or _read("/usr/lib/os-release"))
    others = [
        one
        for one in daemon.running_named("dockerd")
        if not one.program.is_relative_to(folders.tools)
    ]
    return Machine(
        root=os.geteuid() == 0,
        debian=is_debian_family(release),
        codename=release.get("VERSION_CODENAME", ""),
        glibc=glibc(),
        missing_programs=tuple(
            name for name in ("apt-get", "dpkg", "dpkg-deb") if process.find(name) is None
        ),
        free_bytes=files.free_bytes(folders.top),
        dockerd=f"pid {others[0].running.pid}: {others[0].command}" if others else "",
        cgroups="cgroup" in _read("/proc/filesystems"),
        run_writable=os.access(_existing(folders.run), os.W_OK),
    )


def folder_bytes(folder: Path) -> int:
    """Bytes that a folder takes on its disk; what cannot be read is passed over.

    What is mounted inside is not counted: a running container shows its layers a second time.
    """
    total = 0
    waiting = [folder]
    disk = folder.stat().st_dev if folder.exists() else 0
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if found.st_dev != disk:
                        continue
                    total += found.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
    return total


def glibc() -> tuple[int, int]:
    """Version of the C library; (0, 0) when it is not glibc."""
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        said = ""
    match = re.fullmatch(r"glibc (\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
