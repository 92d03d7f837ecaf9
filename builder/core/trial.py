"""A container that runs one program to its end, shut off from everything but its caches."""

from __future__ import annotations

from dataclasses import dataclass

from builder.core.boot import Exit, Expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is started: no network, a read-only root, /tmp in memory, a new volume for caches."""

    image: str
    """`name@sha256:…`."""
    arguments: tuple[str, ...]
    """After the image's entrypoint."""
    user: str
    """`uid:gid`."""
    caches: str
    """Folder of the image that the volume takes the place of, with its content, owner and mode."""
    shm_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How it went."""

    end: Exit | Expired
    out: str
    err: str
    """The end of it."""
