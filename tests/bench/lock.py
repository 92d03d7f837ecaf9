"""Time `nightlock lock SET` against bare resolver runs of the same vLLM for the same platforms.

    python tests/bench/lock.py --runs 5             cold: every run with empty caches
    python tests/bench/lock.py --runs 5 --warm      caches of a first, uncounted run
    python tests/bench/lock.py --runs 1 --peers BIN   also `pip lock` and `pip-compile` of that
                                                    folder, for this machine and its Python, each
                                                    given up after --limit seconds

Runs of the contenders alternate, so that a machine whose speed drifts is fair to all; wall, CPU
and memory are the kernel's accounts of the whole process tree (wait4), memory of its largest
process. Needs the package index.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uv import find_uv_bin

from builder.core.lock import Lock
from builder.core.target import MACHINES
from builder.edge.project import read_lock, read_sets

PROJECT = Path(__file__).parents[2]


@dataclass(slots=True)
class Contender:
    """One way to resolve the set; each command line is given a cache folder and an output one."""

    name: str
    commands: Callable[[Path, Path], list[list[str]]]
    environment: Callable[[Path], dict[str, str]]
    limit: float = 0
    """Seconds after which a command is ended; 0: never."""
    rows: list[tuple[float, float, float]] = field(default_factory=list)
    """Wall and CPU seconds, memory in MB."""
    unfinished: bool = False
    """Whether a run was ended; its figures are those until then."""

    def run(self, cache: Path, *, counted: bool) -> None:
        """Run all its commands, one after the other."""
        wall = cpu = memory = 0.0
        with tempfile.TemporaryDirectory() as out:
            for argv in self.commands(cache, Path(out)):
                started = time.monotonic()
                process = subprocess.Popen(
                    argv,
                    env={**os.environ, **self.environment(cache)},
                    cwd=PROJECT,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                ended = threading.Event()

                def end(group: int = process.pid, ended: threading.Event = ended) -> None:
                    ended.set()
                    os.killpg(group, signal.SIGKILL)

                timer = threading.Timer(self.limit or threading.TIMEOUT_MAX, end)
                timer.daemon = True
                timer.start()
                _, status, usage = os.wait4(process.pid, 0)
                timer.cancel()
                process.returncode = os.waitstatus_to_exitcode(status)
                wall += time.monotonic() - started
                self.unfinished |= ended.is_set()
                if status and not ended.is_set():
                    raise SystemExit(f"{self.name} ended with {process.returncode}: {argv}")
                cpu += usage.ru_utime + usage.ru_stime
                memory = max(memory, usage.ru_maxrss / 1024)
        if counted:
            self.rows.append((wall, cpu, memory))


def nightlock(name: str) -> Contender:
    """`nightlock lock SET`: choice, resolution, hashes, wheel directories, .debs, audit, layers."""
    return Contender(
        name=f"nightlock lock {name}",
        commands=lambda _, out: [
            [sys.executable, "-m", "builder", "lock", name, "--out", str(out)]
        ],
        environment=lambda cache: {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(PROJECT)},
    )


def bare_uv(locks: Sequence[Lock]) -> Contender:
    """`uv pip compile` of the same vLLM, once a platform, nothing else."""

    def commands(cache: Path, out: Path) -> list[list[str]]:
        requirement = out / "in.txt"
        requirement.write_text(f"vllm=={locks[0].header.vllm.version}\n")
        rows = []
        for lock in locks:
            for platform in lock.platforms:
                machine = MACHINES[platform]
                rows.append(
                    [
                        find_uv_bin(), "pip", "compile", "--no-config", "--quiet",
                        "--format", "pylock.toml", "--only-binary", ":all:",
                        "--python-version", lock.header.target.python,
                        "--python-platform", f"{machine}-manylinux_2_40",
                        "--cache-dir", str(cache / "uv"),
                        "--output-file", str(out / f"pylock.{machine}.toml"), str(requirement),
                    ]
                )  # fmt: skip
        return rows

    return Contender(name="uv pip compile, twice", commands=commands, environment=lambda _: {})


def pip_lock(folder: str, locks: Sequence[Lock], limit: float) -> Contender:
    """`pip lock` for the Python and machine that run it: it has no option for others."""
    return Contender(
        name="pip lock, one platform",
        commands=lambda cache, out: [
            [
                f"{folder}/pip", "--cache-dir", str(cache / "pip"), "lock", "--quiet",
                "--only-binary=:all:", "--use-feature=fast-deps",
                "--output", str(out / "pylock.toml"), f"vllm=={locks[0].header.vllm.version}",
            ]
        ],
        environment=lambda _: {"PIP_CONSTRAINT": os.devnull},
        limit=limit,
    )  # fmt: skip


def pip_compile(folder: str, locks: Sequence[Lock], limit: float) -> Contender:
    """`pip-compile` with hashes, for the Python and machine that run it."""

    def commands(cache: Path, out: Path) -> list[list[str]]:
        requirement = out / "in.txt"
        requirement.write_text(f"vllm=={locks[0].header.vllm.version}\n")
        return [
            [
                f"{folder}/pip-compile", "--quiet", "--generate-hashes", "--allow-unsafe",
                "--strip-extras", "--cache-dir", str(cache / "pip-tools"),
                "--pip-args", "--only-binary=:all: --no-cache-dir",
                "--output-file", str(out / "requirements.txt"), str(requirement),
            ]
        ]  # fmt: skip

    return Contender(
        name="pip-compile, one platform",
        commands=commands,
        # What it downloads ends with its folder.
        environment=lambda cache: {"PIP_CONSTRAINT": os.devnull, "TMPDIR": str(cache)},
        limit=limit,
    )


def table(contenders: Sequence[Contender]) -> str:
    """Medians with minimum and maximum, and the ratio of wall times run by run."""

    def spread(values: Sequence[float], digits: int) -> str:
        return (
            f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})"
        )

    lines = ["| | wall s | CPU s | MB |", "|---|---|---|---|"]
    for one in contenders:
        wall, cpu, memory = zip(*one.rows, strict=True)
        took = f"not finished in {one.limit:.0f}" if one.unfinished else spread(wall, 1)
        lines.append(f"| {one.name} | {took} | {spread(cpu, 1)} | {max(memory):.0f} |")
    first, second = contenders[:2]
    ratios = [a[0] / b[0] for a, b in zip(first.rows, second.rows, strict=True)]
    lines.append(f"\nwall, {first.name} / {second.name}: {spread(ratios, 2)}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--set", default="cuda13", help="a set of images/sets.toml")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warm", action="store_true", help="keep caches between runs")
    parser.add_argument(
        "--peers", metavar="BIN", help="folder with a pip of 25.1 or newer and pip-compile"
    )
    parser.add_argument("--limit", type=float, default=120, help="seconds for each of those")
    given = parser.parse_args()
    images = read_sets(PROJECT)[given.set].values()
    locks = [read_lock(PROJECT, image) for image in images]
    contenders = [nightlock(given.set), bare_uv(locks)]
    if given.peers:
        contenders += [make(given.peers, locks, given.limit) for make in (pip_lock, pip_compile)]
    with tempfile.TemporaryDirectory() as top:
        for number in range(-1 if given.warm else 0, given.runs):
            for at, one in enumerate(contenders):
                cache = Path(top) / str(at)
                if not given.warm:
                    shutil.rmtree(cache, ignore_errors=True)
                cache.mkdir(exist_ok=True)
                one.run(cache, counted=number >= 0)
    print(f"{given.set}, {given.runs} runs, {'warm' if given.warm else 'cold'}\n")
    print(table(contenders))


if __name__ == "__main__":
    main()
