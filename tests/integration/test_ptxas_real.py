"""The assembler of the locked Triton, asked as the structural test asks it; no GPU, no engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

from builder.edge import probes
from builder.edge.project import read_lock

ROOT = Path(__file__).parents[2]


@pytest.mark.network
def test_ptxas_too_old_is_not_the_locked_tritons(tmp_path: Path) -> None:
    """C23: it makes code for SM120 and for GB10, and says no to a GPU that does not exist."""
    (content,) = read_lock(ROOT, "cuda13-sm120").platforms.values()
    pin = content.wheel("triton")
    assert pin is not None
    install = [find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    python = ["--python", sys.executable]
    subprocess.run([*install, *python, f"triton=={pin.version}"], check=True)
    ran = subprocess.run(
        [sys.executable, "-c", probes.read("ptxas"), "120", "121", "999"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ["sm_120a", "sm_121a", "sm_999a"] == [row["gpu"] for row in rows]
    assert [True, True, False] == [row["status"] == 0 for row in rows]
    assert "Value 'sm_999a' is not defined for option 'gpu-name'" in rows[-1]["said"]
