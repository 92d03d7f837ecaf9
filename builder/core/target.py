"""Target: what a set of packages must run on; and which CUDA code runs on which GPU.

The choice among architectures is FlashInfer's own (0.7.2, `jit/_cuda_architecture.py` and
`compilation_context.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from packaging.tags import Tag, compatible_tags, cpython_tags

from builder.core.distribution import cuda_label
from builder.core.spec import ImageSpec

MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""OCI platform → `platform_machine` and the last part of wheel tags."""

_ARCHITECTURE = re.compile(r"(?:sm|compute)?_?(?P<major>\d{1,2})\.?(?P<minor>\d)(?P<suffix>[af]?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the packages are for."""

    cuda: str = ""
    """CUDA toolkit `major.minor` of the image; empty for the CPU build."""
    gpus: tuple[str, ...] = ()
    """As `sm_120`; empty for the CPU build."""
    python: str = "3.13"
    """`major.minor`, or with the patch where it is known."""
    glibc: str = ""
    """Of the base, as `2.41`; empty: unknown."""
    platform: str = "linux/amd64"
    package: str = "vllm"
    """Distribution that is vLLM."""
    commit: str = ""
    """vLLM commit that is wanted, full or abbreviated; empty: any."""
    programs: frozenset[str] | None = None
    """Programs the base brings (`ninja`, `c++`, `nvcc`); None: nobody looked."""

    @property
    def label(self) -> str:
        """`cu130`, or `cpu`."""
        return cuda_label(self.cuda)

    @property
    def environment(self) -> dict[str, str]:
        """Values of the environment markers (PEP 508) on the target."""
        minor = ".".join(self.python.split(".")[:2])
        full = self.python if self.python.count(".") == 2 else f"{minor}.0"
        return {
            "implementation_name": "cpython",
            "implementation_version": full,
            "os_name": "posix",
            "platform_machine": MACHINES[self.platform],
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": full,
            "python_version": minor,
            "sys_platform": "linux",
            "extra": "",
        }

    def takes(self, tags: Iterable[Tag]) -> bool:
        """Whether the interpreter and machine take a wheel with one of these tags.

        The glibc in a tag is not judged here: the symbols inside decide (C18).
        """
        machine = MACHINES[self.platform]
        python = ".".join(self.python.split(".")[:2])
        return any(_plain(tag, machine) in _accepted(python, machine) for tag in tags)


def target_of(
    spec: ImageSpec,
    platform: str,
    *,
    glibc: str = "",
    commit: str = "",
    programs: frozenset[str] | None = None,
) -> Target:
    """Return the target of one platform of an image."""
    return Target(
        cuda=spec.image.cuda or "",
        gpus=tuple(gpu for gpu in spec.image.targets if gpu != "cpu"),
        python=spec.image.python,
        glibc=glibc,
        platform=platform,
        package=spec.lock.package,
        commit=commit,
        programs=programs,
    )


def _plain(tag: Tag, machine: str) -> tuple[str, str, str]:
    known = re.fullmatch(rf"(?:many)?linux\w*_{machine}", tag.platform)
    return tag.interpreter, tag.abi, "linux" if known else tag.platform


@cache
def _accepted(python: str, machine: str) -> frozenset[tuple[str, str, str]]:
    major, minor = (int(part) for part in python.split("."))
    interpreter = f"cp{major}{minor}"
    platforms = [f"linux_{machine}"]
    tags = [
        *cpython_tags((major, minor), [interpreter], platforms),
        *compatible_tags((major, minor), interpreter, platforms),
    ]
    return frozenset(_plain(tag, machine) for tag in tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One CUDA architecture: `sm_120f` is 12, 0, `f`."""

    major: int
    minor: int
    suffix: str
    """Empty (plain), `a` (this one alone) or `f` (its family)."""

    @property
    def tag(self) -> str:
        """As FlashInfer's providers are named: `sm120f`."""
        return f"sm{self.major}{self.minor}{self.suffix}"

    @property
    def listed(self) -> str:
        """As FLASHINFER_CUDA_ARCH_LIST wants it: `12.0f`."""
        return f"{self.major}.{self.minor}{self.suffix}"


def architecture(text: str) -> Architecture | None:
    """Read `sm_120`, `sm120f`, `12.0f`, `compute_90a`; None where it is none."""
    match = _ARCHITECTURE.fullmatch(text.strip().lower())
    if match is None:
        return None
    return Architecture(
        major=int(match["major"]), minor=int(match["minor"]), suffix=match["suffix"]
    )


def compiled_for(gpu: Architecture) -> Architecture:
    """Return what FlashInfer compiles for a GPU named without a suffix (CUDA 12.9 or newer)."""
    if gpu.suffix or gpu.major < 9:
        return gpu
    suffix = "f" if (gpu.major, gpu.minor) == (12, 0) else "a"
    return Architecture(major=gpu.major, minor=gpu.minor, suffix=suffix)


def best_architecture(gpu: str, offered: Iterable[str]) -> str | None:
    """Choose the code that runs best on a GPU: exact, `a` of the same capability, `f`, plain.

    `a` runs on its own capability alone; `f` and plain also on later ones of the same major.
    Returns the offered spelling, or None when nothing runs.
    """
    device = architecture(gpu)
    if device is None:
        return None
    device = compiled_for(device)
    scored: list[tuple[int, int, str]] = []
    for text in offered:
        code = architecture(text)
        if code is not None and (score := _score(code, device)):
            scored.append((score, code.minor, text))
    return max(scored)[2] if scored else None


def _score(code: Architecture, device: Architecture) -> int:
    if code == device:
        return 4
    if code.suffix == "a":
        return 3 if (code.major, code.minor) == (device.major, device.minor) else 0
    if code.major != device.major or code.minor > device.minor:
        return 0
    return 2 if code.suffix == "f" else 1
