"""A boot as data: ends in words, owners, causes in a log."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from builder.core.boot import Exit, Owner, recognise
from builder.edge.owner import is_dead, this_process


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (Exit(code=1), "ended with status 1"),
        (Exit(code=0), "ended with status 0"),
        (Exit(code=137), "ended with status 137 (SIGKILL)"),
        (Exit(code=132), "ended with status 132 (SIGILL)"),
        (Exit(code=255), "ended with status 255 (signal 127)"),
        (Exit(code=137, out_of_memory=True), "was killed: out of memory"),
        (Exit(code=127, error="exec: not found"), "ended with status 127: exec: not found"),
    ],
)
def test_an_end_in_words(end: Exit, expected: str) -> None:
    """Signals by name, memory before all else."""
    assert expected == end.text


OWNER = Owner(boot="b", space="pid:[1]", pid=7, started=9)


def test_an_owner_is_read_back() -> None:
    """And nothing else is taken for one."""
    assert OWNER == Owner.parse(OWNER.text)
    for text in ("", "x", "b pid:[1] 7", "b pid:[1] x 9", "b pid:[1] 7 9 1"):
        assert Owner.parse(text) is None


def test_an_owner_is_dead_only_for_certain() -> None:
    """Numbers recur; another machine, boot or namespace may hold a living one."""
    me = this_process()
    assert os.getpid() == me.pid

    assert not is_dead(me, same_machine=True)
    assert is_dead(replace(me, started=me.started - 1), same_machine=False)
    assert is_dead(replace(me, pid=2**22 + 1), same_machine=False)
    assert not is_dead(replace(me, space="pid:[1]", pid=2**22 + 1), same_machine=True)
    assert not is_dead(replace(me, boot="other"), same_machine=False)
    assert is_dead(replace(me, boot="other"), same_machine=True)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (
            "(EngineCore pid=91) RuntimeError: Insufficient space in /dev/shm: 160 MiB required",
            "shm-too-small",
        ),
        (
            "Worker_TP1: Error while creating shared memory segment /dev/shm/nccl-aB (size 734)",
            "shm-too-small",
        ),
        (
            "huggingface_hub.utils._http.OfflineModeIsEnabled: Cannot reach https://x: offline",
            "hf-offline",
        ),
        ("huggingface_hub.errors.IncompleteSnapshotError: x", "hf-offline"),
        (
            "huggingface_hub.errors.HFValidationError: Repo id must use alphanumeric chars, '-'.",
            "hf-offline",
        ),
        ("api_server.py: error: unrecognized arguments: /root/models/x", "entrypoint-form"),
        ("vllm: error: unrecognized arguments: serve /models/x", "entrypoint-form"),
        ("vllm: error: unrecognized arguments: --disable-log-requests", "flag-and-env-drift"),
        ("api_server.py: error: argument --dtype: invalid choice: 'x'", "flag-and-env-drift"),
    ],
)
def test_a_cause_is_recognised_among_other_lines(line: str, key: str) -> None:
    """Whatever stands before it; its line is the evidence, once."""
    noise = [
        "INFO starting",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    (finding,) = recognise([noise[0], line, line, noise[1]], "image")
    assert (key, "error", line, "image") == (
        finding.key,
        finding.severity,
        finding.evidence,
        finding.subject,
    )


def test_a_sound_or_unknown_log_names_no_cause() -> None:
    """Nothing is guessed."""
    lines = [
        "INFO 11-30 [api_server.py:1] vLLM API server version 0.32.0",
        "Segmentation fault (core dumped)",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    assert () == recognise(lines, "image")
