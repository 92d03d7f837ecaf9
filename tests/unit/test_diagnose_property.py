"""How a log came never changes its answer: prefixes, interleaving, chunks, junk."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.core.logline import parse_line
from tests.support.diagnosing import NOISE, STYLES, answer, diagnose, diagnose_bytes

W0 = "(Worker_TP0 pid=97) ERROR 11-30 19:59:33 [multiproc_executor.py:783] "
W1 = "(Worker_TP1 pid=98) ERROR 11-30 19:59:33 [multiproc_executor.py:783] "
API = "(APIServer pid=7) "


def trace(head: str, error: str, path: str = "vllm/v1/worker/gpu_worker.py") -> list[str]:
    """Write a traceback of one process."""
    return [
        f"{head}Traceback (most recent call last):",
        f'{head}  File "/opt/venv/lib/python3.13/site-packages/{path}", line 9, in step',
        f"{head}    return self.run()",
        f"{head}{error}",
    ]


WRAPPED = [
    f"{API}RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}"
]
LOADING = ["Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:01<00:03,  1.89s/it]"]
CASES: dict[str, list[list[str]]] = {
    "gpu-out-of-memory": [
        trace(W0, "torch.OutOfMemoryError: CUDA out of memory."),
        trace(W1, "ValueError: x")[:-1],
        WRAPPED,
    ],
    "no-kernel-image": [
        trace(
            W1,
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "flashinfer/decode.py",
        ),
        trace(W0, "torch.distributed.DistBackendError: NCCL error")[:2],
        WRAPPED,
    ],
    "stale-caches": [
        trace(
            W0,
            "ImportError: libcudart.so.13: cannot open shared object file",
            "../.cache/flashinfer/x.so",
        ),
        LOADING,
        WRAPPED,
    ],
    "fp8-kv-triton-mla": [
        trace(W0, "NotImplementedError: TritonMLA V1 with FP8 KV cache not yet supported"),
        LOADING,
        WRAPPED,
    ],
    "jit-needs-nvcc": [
        [
            W0 + "RuntimeError: Ninja build failed. Ninja output:",
            W0 + "/bin/sh: 1: nvcc: not found",
            W0 + "ninja: build stopped",
        ],
        LOADING,
        WRAPPED,
    ],
    "graph-capture-oom": [
        [
            W0.replace("ERROR", "INFO") + "Capturing CUDA graphs (decode)",
            *trace(W0, "torch.OutOfMemoryError: CUDA out of memory."),
        ],
        [W1.replace("ERROR", "INFO") + "Starting to load model /m..."],
        WRAPPED,
    ],
    "hf-offline": [[API + "OSError: Can't load the configuration of '/m'."], LOADING],
}
"""Finding key → what each process writes; the order within one is kept."""


def merged(streams: list[list[str]], rng: random.Random) -> list[str]:
    """Mix streams at random, each in its own order."""
    left = [list(stream) for stream in streams if stream]
    lines: list[str] = []
    while left:
        stream = rng.choice(left)
        lines.append(stream.pop(0))
        left = [stream for stream in left if stream]
    return lines


@pytest.mark.parametrize("key", CASES)
@settings(max_examples=30)
@given(
    rng=st.randoms(use_true_random=False),
    style=st.sampled_from(sorted(STYLES)),
    cuts=st.lists(st.integers(0, 10**6), max_size=9),
)
def test_the_answer_does_not_depend_on_how_a_log_came(
    key: str, rng: random.Random, style: str, cuts: list[int]
) -> None:
    """Any order among processes, any collector, any cut of its bytes."""
    noise = [rng.choice(NOISE) for _ in range(rng.randrange(9))]
    lines = merged([*CASES[key], noise], rng)
    styled = [STYLES[style](number, line) for number, line in enumerate(lines)]
    whole = diagnose_bytes("\n".join(styled).encode(), cuts)
    assert key == (whole.root and whole.root.key)
    assert answer(whole) == answer(diagnose(styled))


@given(
    st.lists(
        st.sampled_from(
            [line for streams in CASES.values() for stream in streams for line in stream]
            + list(NOISE)
        ),
        max_size=40,
    ),
    st.lists(st.integers(0, 10**6), max_size=5),
)
def test_lines_left_out_change_nothing(lines: list[str], cuts: list[int]) -> None:
    """Reading only the lines that can mean something gives what reading all gives."""
    whole = diagnose(lines)
    skipped = diagnose_bytes("\n".join(lines).encode(), cuts)
    assert (whole.status, answer(whole), whole.phase) == (
        skipped.status,
        answer(skipped),
        skipped.phase,
    )
    assert [hit.key for hit in whole.others] == [hit.key for hit in skipped.others]


@given(st.binary(max_size=4000), st.lists(st.integers(0, 5000), max_size=5))
def test_junk_breaks_nothing(junk: bytes, cuts: list[int]) -> None:
    """And hides nothing that stands on a line of its own."""
    diagnose_bytes(junk, cuts)
    line = b"\n(EngineCore pid=9) RuntimeError: Insufficient space in /dev/shm\n"
    found = diagnose_bytes(junk.replace(b"{", b"") + line + junk, cuts)
    assert found.root is not None


@given(st.text(max_size=300))
def test_any_text_is_a_line(text: str) -> None:
    """What is taken apart is never more than there was."""
    for line in parse_line(1, text):
        assert len(line.text) <= len(text)
        assert (line.rank is None) or line.rank >= 0
        assert line.seconds is None or line.seconds > -1e11


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n\n",
        b"\0" * 5000,
        b"x" * 3_000_000,
        b"\r" * 100_000,
        b"(" * 50_000 + b"\n",
        b"[" * 50_000 + b"pid=",
        b"\x1b[" * 50_000,
        b'{"log":' * 10_000 + b"\n",
        b"\xff\xfe" + "Error 803: x".encode("utf-16-le"),
        (b"Traceback (most recent call last):\n" * 3000),
        b"Error: " + b"a" * 200_000,
        b'"content": "' + b"ab" * 50_000,
    ],
    ids=lambda data: repr(data[:12]),
)
def test_odd_input_breaks_nothing(data: bytes) -> None:
    """Nothing, blanks, NULs, endless lines, endless progress."""
    whole = diagnose_bytes(data)
    assert answer(whole) == answer(diagnose_bytes(data, list(range(0, len(data), 65_536))))


def test_a_line_beyond_the_limit_is_read_at_its_beginning() -> None:
    """And the lines after it are whole."""
    long = b"(EngineCore pid=9) RuntimeError: Insufficient space in /dev/shm " + b"x" * 5_000_000
    assert "shm-too-small" == answer(diagnose_bytes(long))[0]
    after = b"x" * 5_000_000 + b"\n(EngineCore pid=9) RuntimeError: Error 804: y"
    found = diagnose_bytes(after, [1_000_000, 2_000_000, 4_999_999])
    assert found.root is not None
    assert ("cuda-compat-804", 2) == (found.root.key, found.root.seen.number)
