"""Logs of healthy starts, of ten versions and shapes, give no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.diagnosing import diagnose, diagnose_bytes

LOGS = sorted((Path(__file__).parents[1] / "data" / "logs").glob("*.log"))


def test_there_are_ten() -> None:
    """Each of its own version and shape."""
    assert 10 <= len(LOGS)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_healthy_start_gives_no_error(path: Path) -> None:
    """Whole, and line by line; what is told is a warning at most."""
    data = path.read_bytes()
    for found in (diagnose_bytes(data), diagnose(data.decode().split("\n"))):
        assert not found.failed
        assert found.status in ("up", "stopped")
        assert [] == [one.key for one in found.findings("x") if one.severity == "error"]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_half_a_healthy_start_gives_no_error(path: Path) -> None:
    """A log that is read while the server loads; only NCCL's line at its very end is suspect."""
    lines = path.read_text().partition("Traceback")[0].split("\n")[:-1]
    for end in range(len(lines)):
        if not any("nccl==" in line for line in lines[max(0, end - 3) : end]):
            found = diagnose(lines[:end])
            assert found.root is None or found.root.key == "external-sigterm", lines[end - 1]


def test_the_known_warnings_are_told() -> None:
    """What would be worth knowing is not lost among what is sound."""
    by_name = {path.stem: path.read_bytes() for path in LOGS}
    told = {
        name: sorted(hit.key for hit in diagnose_bytes(data).others)
        for name, data in by_name.items()
    }
    assert ["flag-and-env-drift"] == told["0.31-json-file"]
    assert ["shm-broadcast-60s"] == told["0.21-journald-tp2"]
    assert ["chat-template-missing"] == told["0.25-kubectl"]
    assert ["wrong-cuda-soname"] == told["0.33-survived-exceptions"]
    assert [] == told["0.6.5-bare"]


def test_what_people_ask_is_no_evidence() -> None:
    """A prompt about an error is a prompt."""
    data = next(path for path in LOGS if path.stem == "0.25-kubectl").read_bytes()
    assert b"Error 803" in data
    assert "cuda-compat-803" not in {hit.key for hit in diagnose_bytes(data).others}
