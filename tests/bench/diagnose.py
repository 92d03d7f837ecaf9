"""How fast `nightlock diagnose` reads 100 MB of log, beside `grep -c` and a plain loop over lines.

Each kind of log is made anew, with seconds that move and numbers that differ: `serving` is what a
server writes for days, `prompts` has a text of its own in each line, `failing` is one traceback
after the other (a container that restarts for ever). Prints the rows of the table in README.md.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_WORDS = (
    "the",
    "capital",
    "of",
    "France",
    "is",
    "Paris",
    "a",
    "cat",
    "sat",
    "on",
    "warm",
    "stones",
)
_PLAIN = "import sys\nn=0\nfor line in open(sys.argv[1],'rb'): n+=1\nprint(n)"


def serving(rng: random.Random) -> Iterator[str]:
    """Access lines and a figure every few of them."""
    port = rng.randrange(30000, 60000)
    for _ in range(rng.randrange(1, 8)):
        path = rng.choice(("chat/completions", "completions", "models"))
        yield f'(APIServer pid=7) INFO:     172.31.255.1:{port} - "POST /v1/{path} HTTP/1.1" 200 OK'
    yield '(APIServer pid=7) INFO:     172.31.255.1:41042 - "GET /health HTTP/1.1" 200 OK'
    yield (
        "(APIServer pid=7) INFO 11-30 19:59:33 [loggers.py:271] Engine 000: Avg prompt throughput: "
        f"{rng.random() * 900:.1f} tokens/s, Avg generation throughput: {rng.random() * 900:.1f} "
        f"tokens/s, Running: {rng.randrange(9)} reqs, Waiting: 0 reqs, GPU KV cache usage: "
        f"{rng.random() * 100:.1f}%, Prefix cache hit rate: {rng.random() * 100:.1f}%"
    )


def prompts(rng: random.Random) -> Iterator[str]:
    """Write requests with their text, as with --enable-log-requests."""
    text = " ".join(rng.choice(_WORDS) for _ in range(20))
    yield (
        f"(APIServer pid=7) INFO 11-30 19:59:33 [logger.py:39] Received request "
        f"chatcmpl-{rng.getrandbits(128):032x}: prompt: '{text}', params: SamplingParams(n=1)"
    )


def failing(rng: random.Random) -> Iterator[str]:
    """Tracebacks of two workers, line by line between each other."""
    for number in range(rng.randrange(10, 30)):
        for rank in (0, 1):
            head = f"(Worker_TP{rank} pid={97 + rank}) ERROR 11-30 19:59:33 [executor.py:783]"
            if number == 0:
                yield f"{head} Traceback (most recent call last):"
            yield f'{head}   File "/opt/venv/lib/python3.13/vllm/v1/w{number}.py", line 9, in step'
            yield f"{head}     return self.step_{rng.randrange(99)}(*args)"
    yield f"{head} ValueError: step {rng.getrandbits(64):x} of a kind that nobody knows"


def write(path: Path, make: Callable[[random.Random], Iterator[str]], size: int) -> None:
    """Fill a file with lines that carry the engine's timestamps."""
    rng = random.Random(1)  # noqa: S311 - the same log each time
    written, tick = 0, 0
    with path.open("w") as file:
        while written < size:
            lines = []
            for line in make(rng):
                tick += rng.randrange(1, 10**7)
                minute, rest = divmod(tick, 10**9)
                lines.append(f"2026-11-30T19:{minute % 60:02}:33.{rest:09}Z {line}\n")
            written += file.write("".join(lines))


def timed(argv: list[str]) -> tuple[float, float, float]:
    """Run a program; wall and CPU seconds, and its largest memory in MB so far."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    # Not to /dev/null: grep would stop at its first match.
    subprocess.run(argv, check=False, capture_output=True)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, after.ru_maxrss / 1024


def main() -> None:
    """Make each log, read it three ways, print a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    size = parser.parse_args().megabytes * 1_000_000
    print("| log | grep -c | plain loop | diagnose | diagnose/plain loop | MB/s | peak MB |")
    print("|---|---|---|---|---|---|---|")
    for make in (serving, prompts, failing):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "server.log"
            write(path, make, size)
            grep = timed(["grep", "-c", "Error", str(path)])
            plain = timed([sys.executable, "-c", _PLAIN, str(path)])
            ours = timed([sys.executable, "-m", "builder", "diagnose", str(path)])
            times = " | ".join(f"{wall:.2f} ({cpu:.2f})" for wall, cpu, _ in (grep, plain, ours))
            figures = f"{ours[1] / plain[1]:.0f} | {size / 1e6 / ours[1]:.0f} | {ours[2]:.0f}"
            print(f"| {make.__name__} | {times} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
