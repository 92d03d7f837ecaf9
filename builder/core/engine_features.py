"""What an engine must be able to do for our builds, read from what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_STORE = "io.containerd.snapshotter.v1"
NEEDED_BUILDKIT = (0, 12)
"""Dockerfile 1.4 (COPY --link, heredocs), OCI layouts as contexts, SOURCE_DATE_EPOCH in layers."""
DAEMON_JSON = '"features": {"containerd-snapshotter": true}'
CREATE_BUILDER = "docker buildx create --name nightlock --driver docker-container --bootstrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildKit:
    """A builder, as `docker buildx inspect` describes it."""

    driver: str
    """`docker` (the engine's own), `docker-container`, `kubernetes`, `remote`; "" for none."""
    version: str
    """As `v0.13.2`; "" when it does not say."""

    @property
    def number(self) -> tuple[int, int]:
        """Major and minor version; (0, 0) when it does not say."""
        match = re.match(r"v?(\d+)\.(\d+)", self.version)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def describe(self, engine: str) -> str:
        """Name it for a person; `engine` is the version of the engine it may be a part of."""
        if not self.driver:
            return "none"
        if self.number > (0, 0):
            return f"{self.version} ({self.driver})"
        return f"part of Docker {engine}" if self.driver == "docker" else self.driver


def parse_buildkit(inspected: str) -> BuildKit:
    """Read the text of `docker buildx inspect`."""
    driver = re.search(r"(?m)^Driver:\s*(\S+)", inspected)
    version = re.search(r"(?im)^\s*buildkit(?: version)?:\s*(\S+)", inspected)
    return BuildKit(driver=driver[1] if driver else "", version=version[1] if version else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuilderPlatforms:
    """What a builder's nodes run, as OCI platforms without variants."""

    native: frozenset[str]
    emulated: frozenset[str]
    """Those for which an emulator is registered in a node's kernel (binfmt_misc)."""


def parse_platforms(inspected: str) -> BuilderPlatforms:
    """Read the text of `docker buildx inspect`, which lists platforms by node.

    Each list begins with the node's own platform, what its kernel can emulate follows
    (moby/buildkit, util/archutil/detect.go); buildx marks those that a user set with `*`.
    """
    native, every = set(), set()
    for line in re.findall(r"(?m)^Platforms:[ \t]*(\S.*)$", inspected):
        names = ["/".join(part.strip().rstrip("*").split("/")[:2]) for part in line.split(",")]
        native.add(names[0])
        every.update(names)
    return BuilderPlatforms(native=frozenset(native), emulated=frozenset(every - native))


def has_containerd_store(info: Mapping[str, Any]) -> bool:
    """Whether the engine keeps images in containerd, from `docker info`.

    Only then can its own builder export zstd layers and OCI media types.
    """
    rows = info.get("DriverStatus") or []
    return any(_STORE in str(cell) for row in rows for cell in row)
