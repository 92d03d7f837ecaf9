"""The CUDA toolchain: every part of one minor, the image's.

Packages ask for nvcc, cccl or cuda-python without an upper bound, while torch pins the rest
through cuda-toolkit; an unconstrained resolution mixes two toolkits, and FlashInfer then cannot
compile. Names and numbers: cuda-toolkit 12.9 … 13.5 on PyPI.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from builder.core.distribution import Distribution, parse_version
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.target import Target

TOOLKIT = "cuda-toolkit"

PARTS = (
    "nvidia-cuda-cccl",
    "nvidia-cuda-crt",
    "nvidia-cuda-culibos",
    "nvidia-cuda-cupti",
    "nvidia-cuda-nvcc",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-opencl",
    "nvidia-cuda-profiler-api",
    "nvidia-cuda-runtime",
    "nvidia-nvfatbin",
    "nvidia-nvjitlink",
    "nvidia-nvml-dev",
    "nvidia-nvptxcompiler",
    "nvidia-nvtx",
    "nvidia-nvvm",
)
"""Wheels whose version begins with the toolkit's (`-cu12` at the end of the name for CUDA 12).

Not here: cuobjdump and nvdisasm only read files, and cutlass-dsl's `sass` extra asks for newer
ones; cuBLAS, cuFFT and the like count by themselves, and cuda-toolkit pins them.
"""

BINDINGS = ("cuda-python", "cuda-bindings")
"""Of the image's major; of one minor with each other. They load the driver's symbols by name, so
a newer minor runs on an older toolkit."""

_CUDA_IN_NAME = re.compile(r"-(?:cu|cuda)(?P<major>\d{2})(?:\d|x)?")

BOTH_MAJORS = {
    "nvidia-cutlass-dsl-libs-cu12": "nvidia-cutlass-dsl 4.8 requires the libraries of both majors; "
    "each lies in a folder of its own",
}
"""Packages of another CUDA major that are right, with the reason."""

_SONAME = re.compile(r"lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink)\.so\.(?P<major>\d+)")
"""Libraries whose soname is the CUDA major; cuFFT's and others' count by themselves."""


def constraints(cuda: str) -> tuple[str, ...]:
    """Return what a lock must add by itself to hold the toolchain, as PEP 508; empty on the CPU."""
    version = parse_version(cuda)
    if not cuda or version is None:
        return ()
    major, minor = version.major, version.minor
    suffix = "" if major >= 13 else f"-cu{major}"
    rows = [f"{TOOLKIT}=={major}.{minor}.*"]
    for part in PARTS:
        prefix = f"{major}.{minor}"
        if part == "nvidia-cuda-cccl" and (major, minor) >= (13, 3):
            prefix = f"{major}.3.{minor}"
        rows.append(f"{part}{suffix}=={prefix}.*")
    rows += [f"{name}>={major},<{major + 1}" for name in BINDINGS]
    return tuple(sorted(rows))


def toolkit_of(name: str, version: str) -> str | None:
    """Return the CUDA `major.minor` a part belongs to; None when it is no part of the toolkit.

    From CUDA 13.3 on cccl is numbered `13.` and its own version, `13.3.5.0.6` for CUDA 13.5: CCCL
    3.N is the one of CUDA 13.N (cuda-toolkit 13.3.1, 13.4.3, 13.5.0).
    """
    stem = re.sub(r"-cu\d{2}$", "", name)
    parsed = parse_version(version)
    if parsed is None or stem not in (TOOLKIT, *PARTS):
        return None
    release = parsed.release
    if stem == "nvidia-cuda-cccl" and len(release) >= 5:
        return f"{release[0]}.{release[2]}"
    return f"{release[0]}.{release[1]}" if len(release) > 1 else None


def check_toolchain(distributions: Sequence[Distribution], target: Target) -> list[Finding]:
    """Compare every part of the toolkit with the image's minor, and cuda-python with its major."""
    if not target.cuda:
        return []
    major = target.cuda.split(".")[0]
    wrong: list[Distribution] = []
    right: list[Distribution] = []
    for one in distributions:
        suffix = _CUDA_IN_NAME.search(one.name)
        belongs = toolkit_of(one.name, one.version)
        if belongs is None or (suffix and suffix["major"] != major):
            continue
        (right if belongs == target.cuda else wrong).append(one)
    findings = []
    if wrong:
        beside = f"; beside them {_list(right)}" if right else ""
        findings.append(
            finding(
                "cuda-toolchain-mixed",
                subject=", ".join(sorted({one.name for one in wrong})),
                evidence=f"{_list(wrong)} in a CUDA {target.cuda} image{beside}",
            )
        )
    return findings + _bindings(distributions, major)


def _list(distributions: Sequence[Distribution]) -> str:
    return ", ".join(one.spelled for one in sorted(distributions, key=lambda one: one.name))


def _needed(one: Distribution, libraries: Sequence[str]) -> str:
    """Name libraries, and for each a file that needs it."""
    users = dict(one.content.users)
    return ", ".join(name + (f" ({users[name]})" if name in users else "") for name in libraries)


def _bindings(distributions: Sequence[Distribution], major: str) -> list[Finding]:
    there = [one for one in distributions if one.name in BINDINGS and one.parsed is not None]
    minors = {one.parsed.release[:2] for one in there if one.parsed is not None}
    strange = [one for one in there if one.parsed is not None and str(one.parsed.major) != major]
    if not strange and len(minors) < 2:
        return []
    why = f"CUDA {major} wants {major}.x" if strange else "they must be of one minor"
    return [
        finding(
            "cuda-toolchain-mixed",
            subject=", ".join(sorted({one.name for one in strange or there})),
            evidence=f"{_list(there)}: {why}",
            cause="Old cuda-python has no requirement on cuda-bindings and brings its own, so a "
            "resolver may pair the newest of one with an old one of the other; both own the same "
            "files.",
        )
    ]


def check_majors(distributions: Sequence[Distribution], target: Target) -> list[Finding]:
    """Find packages of another CUDA major, by their name and by the libraries they need."""
    if not target.cuda:
        return []
    major = target.cuda.split(".")[0]
    findings = []
    for one in distributions:
        if one.name in BOTH_MAJORS:
            continue
        named = _CUDA_IN_NAME.search(one.name)
        needed = sorted(
            library
            for library in one.content.libraries or ()
            if (match := _SONAME.fullmatch(library)) and match["major"] != major
        )
        key = "default-variant-flip" if one.name == target.package else "wrong-cuda-soname"
        if needed:
            findings.append(
                finding(
                    key,
                    subject=one.file or one.name,
                    evidence=f"{one.spelled} needs {_needed(one, needed)}; the image is CUDA "
                    f"{target.cuda}",
                )
            )
        elif named and named["major"] != major:
            findings.append(
                finding(
                    key,
                    subject=one.name,
                    evidence=f"{one.spelled} is named for CUDA {named['major']}; the image is CUDA "
                    f"{target.cuda}",
                )
            )
        elif one.name == target.package and one.label not in ("", target.label):
            findings.append(
                finding(
                    key,
                    subject=one.file or one.name,
                    evidence=f"{one.spelled} is {one.label}; the image is {target.label}",
                )
            )
    return findings
