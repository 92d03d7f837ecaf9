"""Hangs and limits that passed: silence, progress and what came before tell which, C42 to C44."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.diagnosing import (
    CORE,
    ERROR,
    SHARD,
    STYLES,
    TIMEOUTS,
    diagnose,
    root_key,
    root_of,
    traced,
    unknown_of,
)

NCCL = "(Worker_TP0 pid=97) INFO 11-30 19:59:33 [pynccl.py:113] vLLM is using nccl==2.28.9"
SHM = (
    "(EngineCore pid=51) INFO 11-30 20:00:33 [shm_broadcast.py:501] No available shared memory "
    "broadcast block found in 60 seconds. This typically happens when some processes are hanging "
    "or doing some time-consuming work (e.g. compilation, weight/kv cache quantization)."
)
TWO = (
    "(Worker_TP0 pid=97) INFO 11-30 19:59:29 [parallel_state.py:1395] world_size=2 rank=0 "
    "local_rank=0 distributed_init_method=tcp://127.0.0.1:1 backend=nccl"
)
AUTOTUNE = (
    "(Worker_TP0 pid=97) 2026-11-30 19:59:44,692 - INFO - autotuner.py:262 - flashinfer.jit: "
    "[Autotuner]: Autotuning process starts ..."
)
HEALTH = '(APIServer pid=7) INFO:     127.0.0.1:4 - "GET /health HTTP/1.1" 503 Service Unavailable'


def test_nccl_p2p_hang_by_silence() -> None:
    """C42: the log ends with NCCL's line; idle lines do not matter."""
    assert "nccl-p2p-hang" == root_key(TWO, NCCL, noise=False)
    assert "nccl-p2p-hang" == root_key(TWO, NCCL, HEALTH, HEALTH, noise=False)
    assert "nccl-p2p-hang" == root_key(TWO, NCCL, *([SHM] * 7), HEALTH, noise=False)


def test_nccl_p2p_hang_needs_silence() -> None:
    """C42: a line after it, or a log that has just begun, is no hang."""
    later = "(Worker_TP0 pid=97) INFO 11-30 19:59:34 [x.py:1] Starting to load model /model..."
    assert None is root_key(TWO, NCCL, later, noise=False)
    log = [STYLES["docker"](number, line) for number, line in enumerate((TWO, NCCL))]
    begun = datetime(2026, 11, 30, 19, 0, 1, tzinfo=UTC).timestamp()
    assert None is diagnose(log, now=begun + 5).root
    hung = diagnose(log, now=begun + 700)
    assert hung.root is not None
    assert ("nccl-p2p-hang", True) == (hung.root.key, "12 min" in hung.root.cause)


def test_nccl_p2p_hang_in_its_second_stage() -> None:
    """C42: with P2P off it gets to the autotuner and hangs there, by TP 2 alone."""
    assert "nccl-p2p-hang" == root_key(TWO, NCCL, AUTOTUNE, *([SHM] * 5), noise=False)
    watched = (TWO, NCCL, AUTOTUNE, "observed at 2026-11-30T20:19:44Z")
    assert "nccl-p2p-hang" == root_key(*watched, noise=False)
    assert None is root_key(TWO, NCCL, AUTOTUNE, noise=False)


def test_nccl_p2p_hang_mentions_a_slicing_layer() -> None:
    """C42: HAMi's library gives the same picture."""
    found = root_of("[HAMI-core Msg(97:1)]: Initializing libvgpu.so", TWO, NCCL, noise=False)
    assert found.root is not None
    assert "libvgpu" in found.root.cause


def test_shm_broadcast_60s_is_benign_with_progress() -> None:
    """C43: other lines between them show work."""
    lines = [line for share in range(10, 90, 10) for line in (SHM, SHARD.format(share))]
    found = root_of(*lines)
    assert None is found.root
    assert {"shm-broadcast-60s": "info"} == {f.key: f.severity for f in found.findings("x")}


def test_shm_broadcast_60s_is_a_hang_without() -> None:
    """C43: five times nothing else; what stands before chooses the words."""
    load = "(Worker_TP0 pid=97) INFO 11-30 19:59:33 [x.py:1] Starting to load model /model..."
    assert None is root_key(load, *([SHM] * 4), noise=False)
    found = root_of(load, *([SHM] * 5), HEALTH, noise=False)
    assert found.root is not None
    assert ("shm-broadcast-60s", "error", True) == (
        found.root.key,
        found.root.severity,
        "load" in found.root.cause,
    )
    back = [load, *([SHM] * 9), SHARD.format(90)]
    assert None is root_key(*back, noise=False)


def test_shm_broadcast_60s_in_serving() -> None:
    """C43: followed by the end of an RPC it hangs while serving."""
    up = "(APIServer pid=7) INFO:     Application startup complete."
    rpc = "(EngineCore pid=51) TimeoutError: RPC call to sample_tokens timed out."
    found = root_of(
        up, SHM, SHM, rpc, "(APIServer pid=7) EngineDeadError: EngineCore encountered an issue."
    )
    assert found.root is not None
    assert ("shm-broadcast-60s", True) == (found.root.key, "serving" in found.root.cause)


@pytest.mark.parametrize("line", TIMEOUTS)
@pytest.mark.parametrize(
    ("before", "word"),
    [
        (AUTOTUNE, "cold start"),
        (
            "(EngineCore pid=51) INFO 11-30 19:59:33 [backends.py:9] Dynamo bytecode transform time: 9 s",
            "cold start",
        ),
        (SHARD.format(50), "storage"),
        (TWO, "hang"),
    ],
)
def test_engine_ready_timeout(line: str, before: str, word: str) -> None:
    """C44: compiling before it is a cold start, silence a hang; one limit, one key."""
    found = root_of(before, line, noise=False)
    assert found.root is not None
    assert ("engine-ready-timeout", True) == (found.root.key, word in found.root.cause)


def test_engine_ready_timeout_is_no_cause_of_its_own() -> None:
    """C44: an error before it is what was waited for."""
    assert "shm-too-small" == root_key(ERROR + "Insufficient space in /dev/shm", TIMEOUTS[0])
    other = "ValueError: no such quantisation"
    assert (None, other) == unknown_of(*traced(CORE, other, "/x/vllm/y.py"), TIMEOUTS[0])
