"""Mounts and control groups of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from builder.core.mounts import CGROUPS, Mount, parse_mountinfo
from builder.edge import files, process
from builder.errors import CommandFailed

_NO_TABLE = ("--no-mtab",)
"""Otherwise mount(8) leaves a table of its own below /run."""


def mounted() -> tuple[Mount, ...]:
    """Read what is mounted, in the order of mounting."""
    return parse_mountinfo(Path("/proc/self/mountinfo").read_text())


def listed_cgroups() -> str:
    """Return the text of /proc/cgroups; empty where the kernel has none."""
    try:
        return Path("/proc/cgroups").read_text()
    except OSError:
        return ""


def mount(wanted: Mount) -> None:
    """Mount a file system that has no source; raise CommandFailed when the kernel refuses."""
    Path(wanted.point).mkdir(exist_ok=True)
    options = ["-o", ",".join(wanted.options)] if wanted.options else []
    process.run(["mount", *_NO_TABLE, "-t", wanted.kind, *options, "nightlock", wanted.point])


def unmount(points: Iterable[str]) -> list[str]:
    """Unmount in the given order, by force where something still uses it; return what stays."""
    left = []
    for point in points:
        for options in ([], ["--lazy"]):
            try:
                process.run(["umount", *_NO_TABLE, *options, "--", point])
            except CommandFailed:
                continue
            break
        else:
            left.append(point)
    return [point for point in left if point in {entry.point for entry in mounted()}]


def try_overlay(folder: Path) -> str:
    """Mount an overlay in a folder and take it away again; return why not, or ""."""
    top = folder / "overlay-trial"
    files.remove(top)
    parts = [top / name for name in ("lower", "upper", "work", "merged")]
    for part in parts:
        part.mkdir(parents=True)
    lower, upper, work, merged = parts
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    try:
        process.run(["mount", *_NO_TABLE, "-t", "overlay", "-o", options, "overlay", merged])
    except CommandFailed as error:
        return error.tail or error.what
    else:
        unmount([str(merged)])
        return ""
    finally:
        files.remove(top)


def remove_cgroups(name: str) -> None:
    """Remove the empty control groups at and below `/name` in every hierarchy."""
    for top in (Path(CGROUPS), *Path(CGROUPS).glob("*")):
        for folder, _, _ in os.walk(top / name, topdown=False):
            # A group with a process in it stays, as the kernel wants it.
            with suppress(OSError):
                Path(folder).rmdir()
