"""The table of companions: what must stand beside flashinfer-python, by era.

flashinfer-python is the leader; vLLM's metadata pins it. No dependency ties the others to it:
flashinfer-cubin (equal version) and flashinfer-jit-cache (equal version, `+cuNNN`; from 0.7 a
shim beside one provider an architecture). Versions, homes and checks by era: flashinfer
`__main__.py` and `jit/env.py` of 0.6.4 … 0.7.4, vLLM's wheels 0.11 … 0.33.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import Version

from builder.core.distribution import cuda_label, parse_version
from builder.core.spec import GENERAL
from builder.core.target import Target, architecture, best_architecture, compiled_for

LEADER = "flashinfer-python"
CUBIN = "flashinfer-cubin"
JIT_CACHE = "flashinfer-jit-cache"
INDEX = "flashinfer"
"""Name of flashinfer.ai/whl in the table of indexes."""

PROVIDER = re.compile(r"flashinfer-jit-cache-(sm\d{2,3}[af]?)")
"""Name of a provider; its group is the architecture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The index of an era."""

    since: tuple[int, ...]
    """First release of flashinfer-python it holds for."""
    index: str
    path: str = ""
    """Below the index's address; `{label}` is the CUDA label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """One row: a package that must match the leader."""

    package: str
    since: tuple[int, ...]
    """First release that has it."""
    homes: tuple[Home, ...]
    """Newest era first."""
    nightly: str
    """Path below `flashinfer` of a `.devN` version."""
    labelled: bool
    """Whether its version carries the CUDA label."""
    providers_since: tuple[int, ...] | None
    """First release that is a shim beside providers."""
    programs: tuple[str, ...]
    """What must be in the image when it is left out."""
    environment: tuple[tuple[str, str], ...]
    """What must be set when it is left out; `{architectures}` is filled in."""
    without: str
    """What follows when it is left out."""


COMPANIONS: tuple[Companion, ...] = (
    Companion(
        package=CUBIN,
        since=(0, 4, 0),
        homes=(
            Home(since=(0, 6, 14), index=INDEX),
            Home(since=(0,), index=GENERAL),
        ),
        nightly="nightly",
        labelled=False,
        providers_since=None,
        # vLLM's has_flashinfer() wants cubin, or nvcc and ninja.
        programs=("nvcc", "ninja", "c++"),
        # Else vLLM asks NVIDIA's artifact store over the network whether it may use XQA decode.
        environment=(("VLLM_HAS_FLASHINFER_CUBIN", "1"),),
        without="cubins are not in the image: vLLM needs nvcc and ninja to see FlashInfer at all, "
        "and VLLM_HAS_FLASHINFER_CUBIN=1 so that it does not ask the network",
    ),
    Companion(
        package=JIT_CACHE,
        since=(0, 4, 0),
        homes=(Home(since=(0,), index=INDEX, path="{label}"),),
        nightly="nightly/{label}",
        labelled=True,
        providers_since=(0, 7),
        programs=("nvcc", "ninja", "c++"),
        # Unset and without a visible GPU FlashInfer finds no architecture and fails.
        environment=(("FLASHINFER_CUDA_ARCH_LIST", "{architectures}"),),
        without="kernels are compiled when a request first needs them: nvcc, ninja and a C++ "
        "compiler must be in the image, and the first requests take minutes",
    ),
)
"""The table of companions that follow flashinfer-python."""

LABELS = ("12.9", "13.0", "13.4")
"""CUDA versions jit-cache is published for (flashinfer 0.7.2, `__main__.py`).

An image takes the highest of its major that is not newer than its own.
"""

MISMATCH_ERAS: tuple[tuple[tuple[int, ...], str], ...] = (
    (
        (0, 7, 2),
        "this flashinfer only warns, ignores the package, and downloads or compiles kernels",
    ),
    ((0,), "importing this flashinfer raises RuntimeError"),
)
"""Since which release of the leader → what a mismatch does; newest first."""

PINNED_ERAS: tuple[tuple[tuple[int, ...], str], ...] = (
    ((0, 26), "vLLM's wheel names only flashinfer-python; cubin is not on the general index"),
    ((0, 19), "vLLM's wheel pins flashinfer-cubin too, and the general index has it"),
    ((0,), "vLLM's wheel names only flashinfer-python"),
)
"""Since which vLLM → where its companions are pinned; newest first."""


def home_of(row: Companion, leader: Version, label: str) -> tuple[str, str]:
    """Return index name and path below it, for a companion of this leader."""
    if leader.is_devrelease:
        return INDEX, row.nightly.format(label=label)
    home = next(home for home in row.homes if leader.release >= home.since)
    return home.index, home.path.format(label=label)


def jit_cache_label(cuda: str) -> str:
    """Return the label of the jit-cache an image of this CUDA takes; empty when there is none."""
    mine = parse_version(cuda)
    if mine is None:
        return ""
    fitting = [
        Version(label)
        for label in LABELS
        if Version(label).major == mine.major and Version(label) <= mine
    ]
    return cuda_label(str(max(fitting))) if fitting else ""


def providers_of(requires_dist: Iterable[str]) -> tuple[str, ...]:
    """Architectures of the providers a shim names in its Requires-Dist, as `sm120f`."""
    found = set()
    for text in requires_dist:
        name = canonicalize_name(re.split(r"[\s\[(<>=!~;]", text.strip(), maxsplit=1)[0])
        if match := PROVIDER.fullmatch(name):
            found.add(match[1])
    return tuple(sorted(found))


def choose_providers(
    target: Target, offered: Sequence[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """Choose a provider for each GPU: provider → GPUs it serves, and GPUs without any."""
    chosen: dict[str, list[str]] = {}
    missing = []
    for gpu in target.gpus:
        best = best_architecture(gpu, offered)
        if best is None:
            missing.append(gpu)
        else:
            chosen.setdefault(best, []).append(gpu)
    return dict(sorted(chosen.items())), missing


def architectures(target: Target) -> str:
    """Spell the target's GPUs as FLASHINFER_CUDA_ARCH_LIST wants them: `12.0f`."""
    known = [architecture(gpu) for gpu in target.gpus]
    return " ".join(compiled_for(gpu).listed for gpu in known if gpu is not None)


def era_of(eras: tuple[tuple[tuple[int, ...], str], ...], release: tuple[int, ...]) -> str:
    """Return the text of the era a release belongs to."""
    return next(text for since, text in eras if release >= since)


def programs_of(debs: Iterable[str]) -> frozenset[str]:
    """Programs that these .debs bring, of those FlashInfer's compilation wants."""
    rows = {"g++": "c++", "clang": "c++", "ninja-build": "ninja"}
    names = list(debs)
    found = {rows[name] for name in names if name in rows}
    if any(re.fullmatch(r"g\+\+-\d+", name) for name in names):
        found.add("c++")
    if any(re.fullmatch(r"cuda-nvcc-\d+-\d+", name) for name in names):
        found.add("nvcc")
    return frozenset(found)
