"""Time `nightlock diff` of two real locks against what any program of Python has to do first.

    python tests/bench/diff.py --runs 10
    python tests/bench/diff.py --old HEAD~20:lock/cuda13-sm120 --new lock/cuda13-sm120

The floor imports the libraries that every verb needs (typer, pydantic) and ends. Runs alternate;
figures are of whole processes, byte code compiled before the first counted run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FLOOR = [sys.executable, "-c", "import typer, pydantic; pydantic.BaseModel"]


def run(argv: list[str], codes: str) -> tuple[float, float, float]:
    """Run one process: wall and CPU seconds, MB."""
    environment = {
        **{key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPATH": str(PROJECT),
        "PYTHONPYCACHEPREFIX": codes,
        "NIGHTLOCK_FORGE_VLLM": "none",
        "NIGHTLOCK_FORGE_FLASHINFER": "none",
    }
    started = time.monotonic()
    process = subprocess.Popen(
        argv, env=environment, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"ended with {process.returncode}: {argv}")
    wall = time.monotonic() - started
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--old", default="lock/cuda13-sm121")
    parser.add_argument("--new", default="lock/cuda13-sm120")
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    diff = [sys.executable, "-m", "builder", "diff", given.old, given.new]
    rows: dict[str, list[tuple[float, float, float]]] = {"nightlock diff": [], "floor": []}
    with tempfile.TemporaryDirectory() as codes:
        for number in range(-1, given.runs):
            for name, argv in (("nightlock diff", diff), ("floor", FLOOR)):
                row = run(argv, codes)
                if number >= 0:
                    rows[name].append(row)
    print("| | wall s | CPU s | MB |\n|---|---|---|---|")
    for name, found in rows.items():
        wall, cpu, memory = zip(*found, strict=True)
        spread = [
            f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"
            for each in (wall, cpu)
        ]
        print(f"| {name} | {' | '.join(spread)} | {max(memory):.0f} |")
    ratios = [a[1] / b[1] for a, b in zip(*rows.values(), strict=True)]
    print(f"\nCPU, nightlock diff / floor: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
