"""Audit a lock's wheels, and say seconds and memory: the rows of README.md's table.

python tests/bench/audit.py [--lock cuda13-sm120 | --image REF] [--runs 3]

The wheels have to be in the store (`nightlock fetch`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time


def once(arguments: list[str]) -> tuple[float, float, float]:
    """Run once; wall seconds, CPU seconds, MB at most."""
    command = [sys.executable, "-m", "builder", "audit", *arguments, "--json"]
    started = time.monotonic()
    null = os.open(os.devnull, os.O_WRONLY)
    process = os.posix_spawn(
        sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)]
    )
    _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status) > 1:
        sys.exit("the audit failed: see above")
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


def main() -> None:
    """Print one row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock", default="")
    parser.add_argument("--image", default="")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    chosen = options.lock or ("" if options.image else "cuda13-sm120")
    arguments = ["--lock", chosen] if chosen else ["--image", options.image]
    runs = [once(arguments) for _ in range(options.runs)]
    wall, processor, memory = zip(*runs, strict=True)
    sys.stdout.write(
        f"| `audit {' '.join(arguments)}` | {statistics.median(wall):.1f} "
        f"({min(wall):.1f} to {max(wall):.1f}) | {statistics.median(processor):.1f} "
        f"| {max(memory):.0f} | {os.getloadavg()[0]:.1f} |\n"
    )


if __name__ == "__main__":
    main()
