"""What it means that a locked wheel is, or is not, on the pages of its places."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.core.simple import Candidate
from builder.core.sources import Sighting, judge
from builder.errors import NetworkError
from tests.support.small_lock import pin

PIN = pin("click", "8.1.8", 100)
HERE = Candidate(
    file=PIN.file, url="https://i.example/c.whl", place="general at i", sha256=PIN.sha256
)
OTHER = replace(HERE, sha256="0" * 64)
DOWN = NetworkError("the server does not answer in time")


@pytest.mark.parametrize(
    ("sighting", "expected"),
    [
        (Sighting(pin=PIN, offer=HERE), None),
        (Sighting(pin=PIN, down=(DOWN,)), None),
        (Sighting(pin=PIN, offer=HERE, down=(DOWN,)), None),
        (Sighting(pin=PIN), ("source-gone", "error")),
        (Sighting(pin=PIN, others=(OTHER,)), ("hash-mismatch", "error")),
        (Sighting(pin=PIN, others=(OTHER,), down=(DOWN,)), ("hash-mismatch", "error")),
        (Sighting(pin=PIN, others=(OTHER,), offer=HERE), ("hash-mismatch", "warning")),
        (
            Sighting(pin=pin("vllm", "0.33.1rc1.dev7+gabc", 1, "vllm")),
            ("rolling-index-version-gone", "error"),
        ),
    ],
)
def test_each_sighting_has_its_meaning(
    sighting: Sighting, expected: tuple[str, str] | None
) -> None:
    """Another file is an alarm even where the right one lies elsewhere; silence is no answer."""
    row = judge(sighting, image="tiny", package="vllm")
    assert expected == (None if row is None else (row.key, row.severity))


def test_another_file_is_told_with_both_hashes() -> None:
    """And how to take it on purpose."""
    row = judge(Sighting(pin=PIN, others=(OTHER,)), image="tiny", package="vllm")
    assert row is not None
    assert PIN.sha256 in row.evidence
    assert OTHER.sha256 in row.evidence
    assert "`nightlock lock tiny --upgrade-package click`" in row.action
