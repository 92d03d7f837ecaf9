"""The torch family: one CUDA label for all, the image's; versions are vLLM's business (C05, C06).

The label is what `torch/version.py` says where somebody read it, and the local version otherwise:
PyPI's torch has no local version and is a CUDA build all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.core.distribution import Distribution
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.target import Target

FAMILY = ("torch", "torchvision", "torchaudio", "torchcodec", "triton", "pytorch-triton")
"""Compared where they carry a label; triton seldom does."""


def check_torch(distributions: Sequence[Distribution], target: Target) -> list[Finding]:
    """Compare the family's CUDA labels with the image's; an unknown label is not judged."""
    family = [one for one in distributions if one.name in FAMILY and one.label]
    wrong = [one for one in family if one.label != target.label]
    if not wrong:
        return []
    evidence = ", ".join(
        f"{one.spelled} is {one.label} (its {one.label_from} says so)" for one in family
    )
    torch = [one for one in wrong if one.name == "torch"]
    key = "torch-family-cuda-mixed"
    if torch and torch[0].label == "cpu":
        key = "torch-backend-auto"
    return [
        finding(
            key,
            subject=", ".join(sorted({one.name for one in wrong})),
            evidence=f"{evidence}; the image is {target.label}",
        )
    ]
