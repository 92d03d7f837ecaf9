"""What preflight stops for is what diagnose finds in the container's log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.core.diagnosis import Diagnoser
from builder.core.signature_table import SignatureTable
from builder.edge.signatures import read_table
from builder.runtime import preflight
from builder.runtime.report import Report

FOLDER = Path(preflight.__file__).parent
STOPS = sorted(
    {
        key
        for name in ("preflight.py", "gpus.py", "checkpoint.py", "kvcache.py")
        for key in re.findall(r'stop\(\s*"([a-z0-9-]+)"', (FOLDER / name).read_text())
    }
    | {"vram-settle-and-boot-race"}
)


@pytest.fixture(scope="module")
def table() -> SignatureTable:
    """Read nightlock's own signatures."""
    return read_table()


@pytest.mark.parametrize("key", STOPS)
def test_a_stop_is_the_root_cause(table: SignatureTable, key: str) -> None:
    """Key, cause and fix of the line come back, behind a prefix of the engine as well."""
    report = Report()
    report.ok("cache", "/cache can be written")
    report.stop(key, "this is wrong", "do that")
    for prefix in ("", "2026-11-30T01:02:03.123456789Z "):
        diagnoser = Diagnoser(table)
        for line in report.lines():
            diagnoser.feed(f"{prefix}nightlock: {line}")
        (found,) = diagnoser.diagnosis().findings("log")
        assert (key, "do that.") == (found.key, found.action)
        assert "this is wrong" in found.cause
