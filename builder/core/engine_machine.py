"""May a private engine start on this machine? The answer is None, or an error with the fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from builder.errors import DiskFull, NightlockError, Refused, ToolMissing

ENGINE_BYTES = 1_500_000_000
"""Packages, unpacked programs and an empty data root, with some room."""
_OWN_ENGINE = "start a Docker Engine (26 or newer) yourself and name it by DOCKER_HOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What bears on whether a private engine can run."""

    root: bool
    debian: bool
    codename: str
    """Of the system's release, as `bookworm`; may be empty."""
    glibc: tuple[int, int]
    """(0, 0) where the C library is another one."""
    missing_programs: tuple[str, ...]
    """Of apt and dpkg."""
    free_bytes: int
    """Where the state folder is, or will be."""
    dockerd: str
    """Another one in our network namespace, as `pid 12: dockerd …`; empty when there is none."""
    cgroups: bool
    run_writable: bool


def parse_os_release(text: str) -> Mapping[str, str]:
    """Read os-release(5)."""
    rows = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, value in rows}


def is_debian_family(os_release: Mapping[str, str]) -> bool:
    """Whether the system is Debian or made from it."""
    return "debian" in f"{os_release.get('ID', '')} {os_release.get('ID_LIKE', '')}".split()


def refusal(machine: Machine, *, needed: int = ENGINE_BYTES) -> NightlockError | None:
    """Say why no private engine may start here; None when one may."""
    return next(_reasons(machine, needed), None)


def package_refusal(machine: Machine) -> NightlockError | None:
    """Say why Debian's packages cannot be unpacked and run here; None when they can."""
    if not machine.debian or machine.missing_programs:
        lacks = ", ".join(machine.missing_programs) or "the Debian family"
        return ToolMissing(
            "a private engine is unpacked from Debian's packages, and this is no such system",
            subject=f"not here: {lacks}",
            action=_OWN_ENGINE,
        )
    if machine.glibc < (2, 34):
        found = ".".join(map(str, machine.glibc))
        return ToolMissing(
            f"Debian's newer packages need glibc 2.34, this system has {found}",
            subject=machine.codename or "os-release",
            action=f"upgrade to Debian 12, or {_OWN_ENGINE}",
        )
    return None


def _reasons(machine: Machine, needed: int) -> Iterator[NightlockError]:
    if machine.dockerd:
        yield Refused(
            "another dockerd runs on this machine and does not answer on any known socket",
            subject=machine.dockerd,
            action="name its socket by DOCKER_HOST, or end it; two would undo each other's "
            "packet filter rules",
        )
    if not machine.root:
        yield ToolMissing(
            "a private engine needs root",
            subject="uid",
            action=f"become root for the whole chain (`sudo .venv/bin/nightlock quickstart`), or "
            f"{_OWN_ENGINE}",
        )
    lacks = package_refusal(machine)
    if lacks is not None:
        yield lacks
    if not machine.cgroups:
        yield ToolMissing(
            "this kernel has no control groups",
            subject="/proc/cgroups",
            action=f"boot a kernel with CONFIG_CGROUPS, or {_OWN_ENGINE}",
        )
    if not machine.run_writable:
        yield ToolMissing(
            "the folder for sockets cannot be written",
            subject="/run",
            action="make /run writable (mount a tmpfs there)",
        )
    if machine.free_bytes < needed:
        yield DiskFull(
            f"a private engine needs {needed / 1e9:.1f} GB, "
            f"{machine.free_bytes / 1e9:.1f} GB are free",
            subject="the state folder",
            action="free some space, or point XDG_STATE_HOME to a larger disk",
        )
