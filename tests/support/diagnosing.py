"""Logs for tests of `diagnose`: the same lines as they reach people through different hands."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Sequence

from builder.core.diagnosis import Diagnoser, Diagnosis
from builder.core.logscan import LogScan
from builder.core.signature_table import SignatureTable
from builder.edge.signatures import read_table

Style = Callable[[int, str], str]
"""Takes a line's number and text, gives it with what a collector puts before it."""


def _stamp(number: int) -> str:
    return f"2026-11-30T19:{number // 60 % 60:02}:{number % 60:02}.{number:09}Z"


STYLES: dict[str, Style] = {
    "bare": lambda _, line: line,
    "docker": lambda number, line: f"{_stamp(number)} {line}",
    "journald": lambda number, line: f"Aug 17 18:42:{number % 60:02} gpu1 vllm[{8052}]: {line}",
    "journald-iso": lambda number, line: (
        f"2026-08-17T18:42:{number % 60:02}+0000 gpu1 docker[9]: {line}"
    ),
    "compose": lambda _, line: f"vllm-1  | {line}",
    "compose-timestamps": lambda number, line: f"vllm-1  | {_stamp(number)} {line}",
    "kubectl": lambda _, line: f"[pod/vllm-5d9c/vllm] {line}",
    "cri": lambda number, line: f"{_stamp(number)} stderr F {line}",
    "ci": lambda number, line: f"[{_stamp(number)}] {line}",
    "json-file": lambda number, line: json.dumps(
        {"log": line + "\n", "stream": "stderr", "time": _stamp(number)}
    ),
    "colours": lambda _, line: (
        line.replace("(", "\x1b[0;36m(", 1).replace(") ", ")\x1b[0;0m ", 1)
        if line.startswith("(")
        else f"\x1b[31m{line}\x1b[0m"
    ),
    "crlf": lambda _, line: line + "\r",
}
NOISE = (
    "(APIServer pid=7) INFO 11-30 19:58:58 [model.py:733] Resolved architecture: LlamaForCausalLM",
    "(Worker_TP5 pid=555) INFO 11-30 19:59:29 [base_loader.py:82] Initializing model took 0.1 seconds",
    "Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:01<00:03,  1.89s/it]",
)
"""Lines of other processes, as they come between."""


@functools.cache
def table() -> SignatureTable:
    """Read nightlock's own signatures once."""
    return read_table()


def diagnose(lines: Iterable[str], *, now: float | None = None) -> Diagnosis:
    """Read a log line by line."""
    diagnoser = Diagnoser(table())
    for line in lines:
        diagnoser.feed(line)
    return diagnoser.diagnosis(now=now)


def diagnose_bytes(data: bytes, cuts: Sequence[int] = ()) -> Diagnosis:
    """Read a log as bytes, cut where told."""
    diagnoser = Diagnoser(table())
    scan = LogScan(diagnoser, table().needles, table().quiet_needles)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in itertools.pairwise(places):
        scan.feed(data[begin:end])
    scan.end()
    return diagnoser.diagnosis()


def answer(diagnosis: Diagnosis) -> tuple[str | None, str, str]:
    """Give what must not depend on how a log came: root cause, its line's text, its process."""
    root = diagnosis.root
    seen = root.seen if root else diagnosis.first_error
    return (
        root.key if root else None,
        seen.text if seen else "",
        seen.process if seen else "",
    )


def keys(diagnosis: Diagnosis) -> set[str]:
    """Every key that a log names."""
    hits = [*([diagnosis.root] if diagnosis.root else []), *diagnosis.others]
    return {hit.key for hit in hits}


def root_of(*lines: str, noise: bool = True) -> Diagnosis:
    """Diagnose a log in every style, whole and line by line, with noise and without.

    Asserts that the answer is the same each time, and gives it.
    """
    plain = diagnose(lines)
    for name, style in STYLES.items():
        logs = [list(lines)]
        if noise:
            logs.append([text for line in lines for text in (NOISE[0], line)])
        for log in logs:
            styled = [style(number, line) for number, line in enumerate(log)]
            expected = (name, *answer(plain))
            assert expected == (name, *answer(diagnose(styled)))
            assert expected == (name, *answer(diagnose_bytes("\n".join(styled).encode())))
    return plain


def root_key(*lines: str, noise: bool = True) -> str | None:
    """Give the root cause's key, asserted as `root_of` does."""
    found = root_of(*lines, noise=noise)
    return found.root.key if found.root else None


def unknown_of(*lines: str) -> tuple[str | None, str]:
    """Give the root cause's key and the first error of a log whose cause is not known."""
    found = root_of(*lines)
    return (
        found.root.key if found.root else None
    ), found.first_error.text if found.first_error else ""


CORE = "(EngineCore pid=51) "
ERROR = "(Worker_TP3 pid=97) ERROR 11-30 19:59:33 [multiproc_executor.py:783] "
WRAPPERS = (
    "(EngineCore pid=51) ERROR 11-30 19:59:34 [core.py:1136] EngineCore failed to start.",
    "(EngineCore pid=51) Exception: WorkerProc initialization failed due to an exception in a "
    "background process. See stack trace for root cause.",
    "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. "
    "Failed core proc(s): {}",
)


def traced(head: str, error: str, *paths: str) -> list[str]:
    """Write a traceback as vLLM logs it, every line with its header."""
    frames = [
        text
        for path in paths
        for text in (f'{head}  File "{path}", line 12, in step', f"{head}    return self.run()")
    ]
    return [f"{head}Traceback (most recent call last):", *frames, f"{head}{error}"]


SHARD = "Loading safetensors checkpoint shards:  {}% Completed | 1/9 [01:01<08:03, 61.89s/it]"
TIMEOUTS = (
    "(APIServer pid=7) TimeoutError: Timed out waiting for engine core processes to start. This is "
    "often caused by slow weight loading for large models. Waited 600s (configured by "
    "VLLM_ENGINE_READY_TIMEOUT_S).",
    "TimeoutError: Timed out waiting for engines to send initial message on input socket.",
)
