"""What reads the code without running it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "arguments",
    [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)],
    ids=["ruff", "format", "mypy"],
)
def test_it_finds_nothing(arguments: tuple[str, ...], project_root: Path) -> None:
    """Lint, layout and types are clean over builder, images and tests."""
    ran = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (0, "") == (ran.returncode, "" if ran.returncode == 0 else ran.stdout + ran.stderr)
