"""Tags of upstream's nightlies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from builder.core.reference import ImageRef
from builder.core.upstream_tag import is_nightly, judge_tag

NOW = datetime(2026, 11, 30, tzinfo=UTC)
SHA = "ea5f903f80000000000000000000000000000000"


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (f"nightly-{SHA}", True),
        (f"cu134-nightly-{SHA}", True),
        (f"nightly-{SHA}-x86_64", True),
        ("nightly", False),
        ("nightly-x86_64", False),
        ("cu130-nightly", False),
        ("v0.33.0", False),
        ("", False),
    ],
)
def test_tags_of_one_commit_are_told_apart(tag: str, expected: bool) -> None:
    """What moves is not deleted, what is released stays."""
    assert expected == is_nightly(tag)


@pytest.mark.parametrize(
    ("there", "days", "expected"),
    [
        (True, 3, None),
        (True, None, None),
        (True, 11, ("warning", "it is 11 days old; upstream keeps the tags of 14 builds")),
        (False, None, ("error", "the tag is gone; upstream keeps those of 14 builds")),
    ],
)
def test_nightly_tags_purged(
    there: bool, days: int | None, expected: tuple[str, str] | None
) -> None:
    """C63: said before it is gone, while there is time to mirror it."""
    created = "" if days is None else (NOW - timedelta(days=days)).isoformat()
    reference = ImageRef.parse(f"docker.io/vllm/vllm-openai:nightly-{SHA}@sha256:{'a' * 64}")
    row = judge_tag(reference, there=there, created=created, now=NOW)
    assert expected == (None if row is None else (row.severity, row.evidence))
    assert row is None or f"docker.io/vllm/vllm-openai:nightly-{SHA}" == row.subject


def test_a_release_may_grow_old() -> None:
    """Its tag stays."""
    reference = ImageRef.parse("docker.io/vllm/vllm-openai:v0.33.0")
    assert judge_tag(reference, there=True, created="2020-01-01T00:00:00Z", now=NOW) is None
