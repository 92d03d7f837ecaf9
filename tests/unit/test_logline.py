"""One line of a log, taken apart."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from builder.core.logline import LogLine, parse_line, seconds_of

VLLM = '(Worker_TP3 pid=97) ERROR 11-30 19:59:33 [core.py:1136]   File "x.py", line 1'


def parsed(raw: str) -> LogLine:
    """Parse a line that has one state."""
    (line,) = parse_line(7, raw)
    return line


def test_a_line_of_vllm() -> None:
    """Every part of it, and the indentation of the text."""
    line = parsed("2026-11-30T19:58:32.810092735Z " + VLLM)
    expected = ("Worker_TP3", 97, 3, "ERROR", "core.py:1136", '  File "x.py", line 1', 7)
    assert expected == (
        line.process, line.pid, line.rank, line.level, line.logger, line.text, line.number,
    )  # fmt: skip
    assert datetime(2026, 11, 30, 19, 58, 32, 810092, tzinfo=UTC).timestamp() == line.seconds


@pytest.mark.parametrize(
    ("raw", "source"),
    [
        (VLLM, ""),
        ("vllm-1  | " + VLLM, "vllm-1"),
        ("[pod/vllm-5d9c/vllm] " + VLLM, "vllm-5d9c/vllm"),
        ("Aug 17 18:42:18 gpu1 vllm[8052]: " + VLLM, "vllm"),
        ("Aug  7 18:42:18 gpu1 vllm: " + VLLM, "vllm"),
        ("2026-08-17T18:42:18+0000 gpu1 docker[1]: " + VLLM, "docker"),
        ("2026-08-17T18:42:18.1Z stdout F " + VLLM, ""),
        ("[2026-08-17T18:42:18Z] " + VLLM, ""),
        ("vllm-1  | 2026-08-17T18:42:18.1Z " + VLLM, "vllm-1"),
        ("Aug 17 18:42:18 gpu1 docker[1]: vllm-1  | " + VLLM, "vllm-1"),
        ('{"log":"' + VLLM.replace('"', '\\"') + '\\n","time":"2026-08-17T18:42:18.1Z"}', ""),
        ('{"MESSAGE":"' + VLLM.replace('"', '\\"') + '"}', ""),
        (VLLM.replace("(W", "\x1b[0;36m(W").replace("97)", "97)\x1b[0;0m"), ""),
        (VLLM.replace("(W", "^[[0;36m(W").replace("97)", "97)^[[0;0m"), ""),
        (VLLM.replace("ERROR", "\x1b[31mERROR\x1b[0m").replace("[core", "\x1b[90m[core"), ""),
        (VLLM + "\r\n", ""),
    ],
)
def test_what_stands_before_it_does_not_matter(raw: str, source: str) -> None:
    """Docker, compose, kubectl, journald, CRI, CI, files of both, colours."""
    line = parsed(raw)
    assert ("Worker_TP3", 97, "ERROR", "core.py:1136", '  File "x.py", line 1', source) == (
        line.process, line.pid, line.level, line.logger, line.text, line.source,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "process", "pid", "rank"),
    [
        ("(APIServer pid=7) x", "APIServer", 7, None),
        ("(EngineCore_DP1 pid=8) x", "EngineCore_DP1", 8, None),
        ("(Worker_DP2_TP1_EP9 pid=329) x", "Worker_DP2_TP1_EP9", 329, 1),
        ("(VllmWorker rank=2 pid=337) x", "VllmWorker rank=2", 337, 2),
        ("(VllmWorker-0 pid=64) x", "VllmWorker-0", 64, 0),
        (
            "(EngineCore pid=311) (RayWorkerWrapper pid=144, ip=172.18.0.2) x",
            "RayWorkerWrapper",
            144,
            None,
        ),
        ("[rank3]: x", "rank 3", 0, 3),
        ("Worker_TP1: x", "Worker_TP1", 0, 1),
        ("x", "", 0, None),
    ],
)
def test_processes_of_every_version(raw: str, process: str, pid: int, rank: int | None) -> None:
    """The innermost of two counts."""
    line = parsed(raw)
    assert ("x", process, pid, rank) == (line.text, line.process, line.pid, line.rank)


@pytest.mark.parametrize(
    ("raw", "level", "logger"),
    [
        ("INFO 12-20 00:49:35 config.py:887] x", "INFO", "config.py:887"),
        ("WARNING 11-30 19:58:36 [v1/engine/core.py:12] x", "WARNING", "v1/engine/core.py:12"),
        ("INFO:     x", "INFO", ""),
        ("2026-03-08 16:44:29,692 - INFO - autotuner.py:262 - x", "INFO", "autotuner.py:262"),
        ("[W1130 19:59:29.826575829 utils.cpp:41] x", "WARNING", "utils.cpp:41"),
        ("ERROR: x", "ERROR", ""),
        ("x", "", ""),
    ],
)
def test_headers_of_every_logger(raw: str, level: str, logger: str) -> None:
    """Those of vLLM old and new, uvicorn, FlashInfer, torch, pip."""
    line = parsed(raw)
    assert ("x", level, logger) == (line.text, line.level, line.logger)


@pytest.mark.parametrize(
    "raw",
    [
        "INFORMATION: x", "a | b | c d", "(not a process) x", "[0] NCCL INFO x", "gpu1:97:97 [0] x",
        '{"message": {"content": null}}', "2026 was a year", "100%|####| 3/3", "E: x", "",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_head_stays(raw: str) -> None:
    """The text is whole."""
    expected = "c d" if raw.startswith("a |") else raw
    assert expected == parsed(raw).text


def test_progress_that_rewrites_its_line() -> None:
    """One line a state, all with the engine's stamp; of endless ones the first and the last."""
    stamp = "2026-11-30T17:00:00.2Z"
    lines = list(parse_line(3, f"{stamp}  10%|#\r 90%|##\r(Worker_TP0 pid=4) done\r\n"))
    assert [(" 10%|#", ""), (" 90%|##", ""), ("done", "Worker_TP0")] == [
        (line.text, line.process) for line in lines
    ]
    assert {(3, stamp)} == {(line.number, line.stamp) for line in lines}
    many = list(parse_line(1, "\r".join(f"{n}%" for n in range(1000))))
    assert (64, "0%", "999%") == (len(many), many[0].text, many[-1].text)


@pytest.mark.parametrize(
    ("earlier", "later", "seconds"),
    [
        ("2026-11-30T19:58:32.5Z", "2026-11-30T19:58:34Z", 1.5),
        ("2026-11-30T19:58:32+01:00", "2026-11-30T18:58:33+0000", 1),
        ("02-29 23:59:59", "03-01 00:00:01", 2),
        ("Aug  7 18:42:18", "Aug 17 18:42:18", 864000),
        ("2026-03-08 16:44:29,692", "2026-03-08 16:44:30,692", 1),
    ],
)
def test_times_can_be_subtracted(earlier: str, later: str, seconds: float) -> None:
    """Whatever the collector's way to write them."""
    first, second = seconds_of(earlier), seconds_of(later)
    assert first is not None
    assert second is not None
    assert seconds == pytest.approx(second - first)


@pytest.mark.parametrize(
    "stamp", ["", "x", "2026-99-99T00:00:00Z", "13-45 00:00:00", "Foo 17 18:42:18"]
)
def test_what_is_no_time_is_none(stamp: str) -> None:
    """Nothing is raised."""
    assert None is seconds_of(stamp)
