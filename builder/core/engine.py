"""The private engine as data: what runs, where its parts lie, what is enough for a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from builder.core.places import Places


class Running(BaseModel):
    """One process of ours; both numbers together name it, since numbers of processes recur."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    started: int
    """Clock ticks after boot, field 22 of /proc/PID/stat (proc_pid_stat(5))."""


class EngineRecord(BaseModel):
    """What `engine start` started, kept in `engine.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    boot: str
    """/proc/sys/kernel/random/boot_id: after a reboot nothing of this runs."""
    tools: str
    """Folder of the unpacked packages."""
    host: str = ""
    """As DOCKER_HOST; empty where the user's engine is used and only the registry is ours."""
    bridge: str = ""
    subnet: str = ""
    registry_port: int = 0
    dockerd: Running | None = None
    registry: Running | None = None

    @classmethod
    def parse(cls, text: str) -> EngineRecord | None:
        """Read a record; a damaged one counts as none, since everything is found without it."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return None

    def text(self) -> str:
        """Spell it as a file."""
        return self.model_dump_json(indent=2) + "\n"


class EngineFolders:
    """Where the private engine keeps its parts."""

    def __init__(self, places: Places) -> None:
        self.top = places.state / "engine"
        self.run = places.run
        self.record = self.top / "engine.json"
        self.found = self.top / "found.json"
        """The machine's network before the first start."""
        self.port = self.top / "registry-port"
        """Outlives a stop, so that references stay valid."""
        self.lock = places.state / "engine.lock"
        """Outside `top`, which a purge removes."""
        self.tools = self.top / "tools"
        self.apt = self.top / "apt"
        self.data = self.top / "data"
        self.registry = self.top / "registry"
        self.logs = self.top / "logs"
        self.scratch = self.top / "tmp"
        """TMPDIR of the engine: containerd mounts there."""
        self.client = self.top / "client"
        """DOCKER_CONFIG of the private client: its plugins, and the user's own config.json."""
        self.socket = self.run / "docker.sock"
        self.exec = self.run / "exec"

    @property
    def host(self) -> str:
        """As DOCKER_HOST."""
        return f"unix://{self.socket}"


def tool(tools: Path, name: str) -> Path:
    """Path of a program in a folder of unpacked packages; `bin/` holds one name for each."""
    return tools / "bin" / name


MODERN_SUITE = "trixie"
"""Debian 13: the first whose BuildKit has COPY --link and heredocs; needs glibc 2.34."""
_OLDER_SUITE = "bookworm"
_MODERN = ("docker.io", "docker-cli", "docker-buildx", "containerd")
_CLOSE_TO_THE_SYSTEM = ("runc", "iptables", "nftables", "tini", "libsystemd0")
_REGISTRY = ("docker-registry",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    """Packages that are unpacked together."""

    suites: Mapping[str, tuple[str, ...]]
    """Suite → the names taken from it."""
    libraries: str
    """The suite that missing libraries come from."""
    programs: tuple[str, ...]
    """What must run afterwards."""

    @property
    def names(self) -> tuple[str, ...]:
        """All packages that are asked for by name."""
        return tuple(name for names in self.suites.values() for name in names)


def engine_tools(codename: str, glibc: tuple[int, int]) -> ToolSet:
    """Name what a private engine is made of, on a system of this release."""
    suite = local_suite(codename, glibc)
    suites = {MODERN_SUITE: _MODERN}
    suites[suite] = (*suites.get(suite, ()), *_CLOSE_TO_THE_SYSTEM, *_REGISTRY)
    return ToolSet(
        suites=suites,
        libraries=suite,
        programs=(
            "dockerd",
            "docker",
            "containerd",
            "runc",
            "iptables-nft",
            "iptables-legacy",
            "nft",
            "docker-registry",
        ),
    )


def registry_tools(codename: str, glibc: tuple[int, int], *, client: bool) -> ToolSet:
    """Name what is added to the user's own engine: a registry, and a client where it lacks."""
    suite = local_suite(codename, glibc)
    suites = {suite: _REGISTRY}
    if client:
        own = ("docker-cli", "docker-buildx")
        suites[MODERN_SUITE] = (*suites.get(MODERN_SUITE, ()), *own)
    programs = ("docker-registry", "docker") if client else ("docker-registry",)
    return ToolSet(suites=suites, libraries=suite, programs=programs)


def local_suite(codename: str, glibc: tuple[int, int]) -> str:
    """Choose the suite of what must fit the system's own libraries.

    The system's own release where it is one of Debian; else the newest that its glibc carries.
    """
    if codename in (_OLDER_SUITE, MODERN_SUITE):
        return codename
    return MODERN_SUITE if glibc >= (2, 41) else _OLDER_SUITE
