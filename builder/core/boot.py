"""A boot as data: how a container is started, and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass

RUN_LABEL = "org.nightlock.run"
"""On every container of ours: the id of the boot."""
OWNER_LABEL = "org.nightlock.owner"
"""On every container of ours: the process that must remove it, as `Owner` spells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPlan:
    """What is started."""

    image: str
    """`name@sha256:…`."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    port: int
    """Inside the container."""
    host_port: int
    """Outside, on loopback; 0 takes a free one."""
    shm_bytes: int
    folder: str
    """Folder on this machine that the container must see; empty for none."""
    mount: str
    grace: float
    """Seconds between SIGTERM and SIGKILL."""
    gpus: int = 0
    """How many, whichever; none for 0."""
    gpu_ids: tuple[str, ...] = ()
    """Instead: these, by index or UUID, or by CDI name (`nvidia.com/gpu=0`)."""
    ipc: str = ""
    """`host`, `private`, `shareable`; empty for the engine's default."""
    volumes: tuple[str, ...] = ()
    """`SOURCE:TARGET[:ro]`; a source that is no path is a volume of the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a container ended."""

    code: int
    out_of_memory: bool = False
    error: str = ""
    """What the engine adds, as a failure to start."""

    @property
    def text(self) -> str:
        """As a sentence's end."""
        if self.out_of_memory:
            return "was killed: out of memory"
        if self.error:
            return f"ended with status {self.code}: {self.error}"
        if self.code > 128:
            # A shell's and tini's way to say that the child died of a signal.
            number = self.code - 128
            known = {int(item): item.name for item in signal.Signals}
            return f"ended with status {self.code} ({known.get(number, f'signal {number}')})"
        return f"ended with status {self.code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A deadline that passed, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process, named so that its death can be told; `text` and `parse` are inverse."""

    boot: str
    """/proc/sys/kernel/random/boot_id."""
    space: str
    """Its PID namespace (pid_namespaces(7))."""
    pid: int
    started: int
    """Clock ticks after boot: numbers of processes recur."""

    @property
    def text(self) -> str:
        """As a label's value."""
        return f"{self.boot} {self.space} {self.pid} {self.started}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Read a label; None when it is not ours."""
        parts = text.split(" ")
        if len(parts) != 4 or not (parts[2].isdigit() and parts[3].isdigit()):
            return None
        return cls(boot=parts[0], space=parts[1], pid=int(parts[2]), started=int(parts[3]))
