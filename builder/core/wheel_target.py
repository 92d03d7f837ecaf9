"""WheelTarget: which wheels a platform of an image takes; never asks this machine.

`core/target.py` knows what the packages run on (CUDA, GPUs); this knows tags, as pip orders them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from packaging.tags import Tag, compatible_tags, cpython_tags

from builder.core.spec import ImageSpec
from builder.core.target import MACHINES
from builder.errors import SpecError

GLIBC = {"bookworm": "2.36", "trixie": "2.41"}
"""glibc of each Debian release that can be a base."""
_UV_NEWEST = 40
"""The newest `manylinux_2_N` that uv has a name for; wheels for a newer glibc are not offered."""
_OLDEST_MINOR = {"x86_64": 5, "aarch64": 17}
"""The first `manylinux_2_N` of each machine (PEP 600)."""
_OLD_NAMES = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


@dataclass(frozen=True, kw_only=True)
class WheelTarget:
    """Python, glibc and machine that wheels are for."""

    python: str
    """`3.11`."""
    glibc: str
    """`2.36`."""
    machine: str
    """The kernel's name of the processor: `x86_64`, `aarch64`."""

    def __str__(self) -> str:
        return f"Python {self.python}, glibc {self.glibc}, {self.machine}"

    @property
    def uv_platform(self) -> str:
        """Name for `uv --python-platform`; its plain `linux` means glibc 2.28."""
        minor = min(int(self.glibc.split(".")[1]), _UV_NEWEST)
        return f"{self.machine}-manylinux_2_{minor}"

    @cached_property
    def ranks(self) -> dict[Tag, int]:
        """Every compatibility tag that is taken → its rank, 0 the best (as pip orders them)."""
        version = tuple(int(part) for part in self.python.split("."))
        interpreter = "cp" + self.python.replace(".", "")
        platforms = list(self._platforms())
        tags = [
            *cpython_tags(python_version=version, abis=[interpreter], platforms=platforms),
            *compatible_tags(python_version=version, interpreter=interpreter, platforms=platforms),
        ]
        return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}

    def _platforms(self) -> Iterator[str]:
        newest = int(self.glibc.split(".")[1])
        for minor in range(newest, _OLDEST_MINOR[self.machine] - 1, -1):
            yield f"manylinux_2_{minor}_{self.machine}"
            if minor in _OLD_NAMES:
                yield f"{_OLD_NAMES[minor]}_{self.machine}"
        yield f"linux_{self.machine}"


def wheel_target(spec: ImageSpec, platform: str, glibc: str = "") -> WheelTarget:
    """Work out what one platform of an image takes; `glibc` is that of a base that is an image.

    Raises SpecError for a base whose glibc is not known.
    """
    known = GLIBC.get(spec.base.debian or "", glibc)
    if not known:
        raise SpecError(
            f"base.image: {spec.base.image!r}: its glibc is not known",
            subject=f"images/{spec.name}/image.toml",
            action="lock it: the base is read then",
        )
    return WheelTarget(python=spec.image.python, glibc=known, machine=MACHINES[platform])
