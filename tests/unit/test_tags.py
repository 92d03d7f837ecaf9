"""Candidate tags: one spelling, inside OCI's grammar, for every kind of version."""

from __future__ import annotations

import re

import pytest

from builder.core.lock import TargetTable, VllmTable
from builder.core.tags import candidate_tag, version_part
from tests.support.small_lock import small_lock, small_spec

BUILD = "sha256:" + "0123456789abcdef" * 4
COMMIT = "ea5f903f8" + "0" * 31


@pytest.mark.parametrize(
    ("version", "variant", "cuda", "targets", "channel", "expected"),
    [
        ("0.32.0", "cpu", "", ["cpu"], "release", "0.32.0-cpu-0123456789ab"),
        ("0.33.0", "cu130", "13.0", ["sm_120"], "release", "0.33.0-cu130-sm120-0123456789ab"),
        (
            "0.32.1.dev1+gea5f903f8.cu130",
            "cu130",
            "13.0",
            ["sm_120"],
            "nightly",
            "0.32.1.dev1-gea5f903f8-cu130-sm120-0123456789ab",
        ),
        (
            "0.33.1rc1.dev7+gea5f903f8",
            "",
            "13.0",
            ["sm_120", "sm_121a"],
            "nightly",
            "0.33.1rc1.dev7-gea5f903f8-cu130-sm120-sm121a-0123456789ab",
        ),
        ("1!0.33.0+fork.2", "", "", ["cpu"], "release", "1_0.33.0_fork.2-cpu-0123456789ab"),
    ],
)
def test_candidate_tag(
    version: str, variant: str, cuda: str, targets: list[str], channel: str, expected: str
) -> None:
    """Version, commit of a nightly, CUDA, targets, twelve digits of the build id."""
    spec = small_spec()
    spec = spec.model_copy(update={"image": spec.image.model_copy(update={"targets": targets})})
    header = small_lock(
        spec,
        channel=channel,
        vllm=VllmTable(package="vllm", version=version, commit=COMMIT, variant=variant),
        target=TargetTable(python="3.11", glibc="2.36", cuda=cuda),
    ).header
    tag = candidate_tag(spec, header, BUILD)
    assert expected == tag
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", tag)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.33.0+cpu", "0.33.0"),
        ("0.33.0+g1234567", "0.33.0"),
        ("0.33.0+abc.cpu.g1234567", "0.33.0_abc"),
        ("0.33.0+gnu", "0.33.0_gnu"),
    ],
)
def test_local_labels_that_the_tag_says_elsewhere_are_left_out(version: str, expected: str) -> None:
    """Commit, variant and CUDA have their own places; anything else must not be lost."""
    header = small_lock(
        vllm=VllmTable(package="vllm", version=version, commit=COMMIT, variant="cpu")
    ).header
    assert expected == version_part(header)
