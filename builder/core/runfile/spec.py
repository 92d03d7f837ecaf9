"""A deployment in words that are the same for every format: what the writers are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from builder.core.profile import HostProfile, Profile
from builder.errors import BadInput

Form = Literal["docker", "compose", "systemd", "quadlet", "kubernetes"]
FORMS: tuple[Form, ...] = ("docker", "compose", "systemd", "quadlet", "kubernetes")
CACHE = "/cache"
READY_MARGIN = 120
"""Seconds that a unit waits longer than the load takes."""
STOP = 60
"""Seconds from SIGTERM to SIGKILL: longer than vLLM gives its own workers (C46)."""
RESTARTS = 3
"""How often a start that failed is tried again: a load of minutes must not be tried for ever."""
_SHM_OF_MANY = 16_384
"""MiB of /dev/shm where several GPUs work together: NCCL's buffers lie there (C41)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """Which GPUs the container gets."""

    count: int = 0
    """How many, of all; with `chosen` the length of that."""
    chosen: tuple[str, ...] = ()
    """UUIDs or indexes; empty takes the first `count`."""
    cdi: bool = False
    """By CDI names instead of the engine's own device requests (C77)."""

    @property
    def cdi_names(self) -> tuple[str, ...]:
        """Device names of the CDI specification, as nvidia-ctk writes them."""
        names = self.chosen or tuple(str(number) for number in range(self.count))
        return tuple(f"nvidia.com/gpu={name}" for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """One mount."""

    source: str
    """A folder of the host, absolute, or the name of a volume."""
    target: str
    read_only: bool = False

    @property
    def named(self) -> bool:
        """Whether the engine keeps it."""
        return not self.source.startswith("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything a run file says."""

    name: str
    image: str
    """Pinned: `registry/repository@sha256:…`."""
    tag: str
    """What the digest was found under; goes into a comment."""
    profile: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...] = ()
    """Why host profiles set what they set."""
    secrets: str = ""
    """File with `NAME=value` lines on the host; in Kubernetes the name of a Secret."""
    gpus: Gpus = field(default_factory=Gpus)
    shm_mib: int = 1024
    volumes: tuple[Volume, ...] = ()
    address: str = "127.0.0.1"
    host_port: int = 8000
    port: int = 8000
    startup: int = 600
    """Seconds that the first start may take; every limit follows from it (C44, C73, C74)."""


def describe(
    profile: Profile,
    *,
    name: str,
    profile_name: str,
    image: str,
    tag: str,
    hosts: Sequence[HostProfile] = (),
    model: str = "",
    gpus: Gpus | None = None,
    secrets: str = "",
    address: str = "127.0.0.1",
    host_port: int = 0,
    volumes: Sequence[Volume] = (),
) -> RunSpec:
    """Make one description of a profile, host profiles and what the operator chose.

    `model` is the folder on the host; the profile says where the server sees it. One cache volume
    serves all images: each keeps what it compiles in a folder named after its lock (C39).

    Raises BadInput when two profiles set one variable differently, or the model is not named.
    """
    if not model:
        wanted = f" ({profile.model.repository})" if profile.model.repository else ""
        raise BadInput(
            "no folder of the model was given",
            subject=profile_name,
            action=f"--model DIR: the checkpoint{wanted} on the host that will run it",
        )
    environment = dict(profile.server.environment)
    arguments = list(profile.server.arguments)
    for host in hosts:
        for key, value in host.environment.items():
            if environment.get(key, value) != value:
                raise BadInput(
                    f"two profiles set {key}: {environment[key]!r} and {value!r}",
                    subject=host.description,
                    action="leave one of the host profiles out",
                )
            environment[key] = value
        arguments += host.arguments
    startup = int(profile.run.startup or profile.deadlines.health)
    environment["VLLM_ENGINE_READY_TIMEOUT_S"] = str(startup)
    wanted_gpus = gpus or Gpus(count=profile.run.gpus)
    many = wanted_gpus.count > 1
    return RunSpec(
        name=name,
        image=image,
        tag=tag,
        profile=profile_name,
        arguments=tuple(arguments),
        environment=tuple(sorted(environment.items())),
        reasons=tuple(f"{host.description}: {host.reason}" for host in hosts),
        secrets=secrets,
        gpus=wanted_gpus,
        shm_mib=max(profile.server.shm_mib, _SHM_OF_MANY if many else 0),
        volumes=(
            Volume(source=model, target=profile.model.mount, read_only=True),
            Volume(source=f"{name}-cache", target=CACHE),
            *volumes,
        ),
        address=address,
        host_port=host_port or profile.server.port,
        port=profile.server.port,
        startup=startup,
    )


def header(spec: RunSpec, form: Form) -> list[str]:
    """Lines that every file begins with, without comment signs."""
    repository, _, digest = spec.image.partition("@")
    lines = [
        f"{spec.profile}, as {form}; written by `nightlock run`",
        f"image {repository}:{spec.tag}" if spec.tag else f"image {repository}@{digest}",
        "the digest below is what runs; `nightlock run --update FILE` moves it to where the tag is",
    ]
    return [*lines, *spec.reasons]
