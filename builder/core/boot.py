"""A boot as data: how a container is started, how it ended, what its log says about the cause."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from builder.core.finding import Finding

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    key: str
    pattern: re.Pattern[str]
    cause: str
    action: str


_SIGNATURES = (
    _Signature(
        key="shm-too-small",
        pattern=re.compile(
            r"Insufficient space in /dev/shm|Error while creating shared memory segment /dev/shm"
        ),
        cause="the container's /dev/shm is too small for vLLM's processes (Docker gives 64 MiB)",
        action="start it with `--shm-size 1g` (a profile: `server.shm_mib`), or with `--ipc host`",
    ),
    _Signature(
        key="hf-offline",
        pattern=re.compile(
            r"OfflineModeIsEnabled|IncompleteSnapshotError|offline mode is enabled|"
            r"Repo id must be in the form|Can't load the configuration of|"
            r"Invalid repository ID or local directory"
        ),
        cause="the model is not where the server looks, and it may not be downloaded",
        action="check `model.folder`, `model.mount` and the model argument of the profile",
    ),
    _Signature(
        key="entrypoint-form",
        pattern=re.compile(r"error: unrecognized arguments: (?:serve\b|/)"),
        cause="the arguments do not fit the image's entrypoint",
        action="give only what follows `vllm serve`, and see the image's entrypoint",
    ),
    _Signature(
        key="flag-and-env-drift",
        pattern=re.compile(r"error: (?:unrecognized arguments: -|argument --\S+: )"),
        cause="this vLLM does not know a flag, or not with that value",
        action="correct `server.arguments` of the profile; `vllm serve --help=all` lists the flags",
    ),
    _Signature(
        key="non-root-user",
        pattern=re.compile(r"PermissionError: \[Errno 13\] Permission denied"),
        cause="the image does not run as root, and its user may not read or write that path",
        action="make the mounted files readable for every user, and caches writable",
    ),
)


def recognise(lines: Iterable[str], subject: str) -> tuple[Finding, ...]:
    """Name the causes that a failed boot's log shows; the first line of each is the evidence."""
    found: dict[str, Finding] = {}
    for line in lines:
        for signature in _SIGNATURES:
            if signature.key not in found and signature.pattern.search(line):
                found[signature.key] = Finding(
                    key=signature.key,
                    severity="error",
                    subject=subject,
                    evidence=line.strip()[:500],
                    cause=signature.cause,
                    action=signature.action,
                )
    return tuple(found.values())
