"""The timeline: logs of several vLLM versions to phases, whatever their form; and its picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.core.timeline import PHASES, Span, Timeline
from builder.core.timeline_picture import draw
from builder.core.timeline_reader import TimelineReader

LOGS = sorted((Path(__file__).parents[1] / "data" / "logs").glob("*.log"))
TP2 = """\
2026-05-19T02:30:00.000000000Z (APIServer pid=1) INFO 05-19 02:30:00 [utils.py:299]  █  version 0.22.0
2026-05-19T02:30:20.000000000Z (EngineCore pid=77) INFO 05-19 02:30:20 [core.py:105] Initializing a V1 LLM engine (v0.22.0) with config: model='/m'
2026-05-19T02:30:30.000000000Z (Worker_TP0 pid=98) INFO 05-19 02:30:30 [gpu_model_runner.py:4735] Starting to load model /m...
2026-05-19T02:30:31.000000000Z (Worker_TP1 pid=99) INFO 05-19 02:30:31 [gpu_model_runner.py:4735] Starting to load model /m...
2026-05-19T02:30:31.500000000Z (Worker_TP0 pid=98) INFO 05-19 02:30:31 [cuda.py:334] Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN'].
2026-05-19T02:30:41.000000000Z Loading safetensors checkpoint shards:  50% Completed | 4/8 [00:10<00:10,  2.50s/it]\rLoading safetensors checkpoint shards:  75% Completed | 6/8 [00:15<00:05,  2.50s/it]
2026-05-19T02:30:50.000000000Z (Worker_TP0 pid=98) INFO 05-19 02:30:50 [default_loader.py:384] Loading weights took 20.00 seconds
2026-05-19T02:30:56.000000000Z (Worker_TP1 pid=99) INFO 05-19 02:30:56 [default_loader.py:384] Loading weights took 25.00 seconds
2026-05-19T02:30:58.000000000Z (Worker_TP0 pid=98) INFO 05-19 02:30:58 [gpu_model_runner.py:4820] Model loading took 37.25 GiB memory and 28.100000 seconds
2026-05-19T02:30:59.000000000Z (Worker_TP1 pid=99) INFO 05-19 02:30:59 [gpu_model_runner.py:4820] Model loading took 37.25 GiB memory and 28.200000 seconds
2026-05-19T02:31:10.000000000Z (Worker_TP0 pid=98) INFO 05-19 02:31:10 [backends.py:1128] Dynamo bytecode transform time: 7.29 s
2026-05-19T02:31:40.000000000Z (Worker_TP0 pid=98) INFO 05-19 02:31:40 [monitor.py:53] torch.compile took 40.00 s in total
2026-05-19T02:31:45.000000000Z (Worker_TP0 pid=98) INFO 05-19 02:31:45 [gpu_worker.py:359] Available KV cache memory: 26.54 GiB
2026-05-19T02:31:45.500000000Z (EngineCore pid=77) INFO 05-19 02:31:45 [kv_cache_utils.py:1733] GPU KV cache size: 1,470,588 tokens
2026-05-19T02:31:46.000000000Z (Worker_TP0 pid=98) 2026-05-19 02:31:46,301 - INFO - autotuner.py:446 - flashinfer.jit: [Autotuner]: Autotuning process starts ...
2026-05-19T02:31:56.000000000Z (Worker_TP0 pid=98) 2026-05-19 02:31:56,301 - INFO - autotuner.py:455 - flashinfer.jit: [Autotuner]: Autotuning process ends
2026-05-19T02:31:57.000000000Z Capturing CUDA graphs (decode, FULL):  50%|█████     | 4/8 [00:01<00:01,  4.50it/s]
2026-05-19T02:32:08.000000000Z (Worker_TP0 pid=98) INFO 05-19 02:32:08 [gpu_model_runner.py:6010] Graph capturing finished in 12 secs, took 0.61 GiB
2026-05-19T02:32:09.000000000Z (EngineCore pid=77) INFO 05-19 02:32:09 [core.py:402] init engine (profile, create kv cache, warmup model) took 70.00 s
2026-05-19T02:32:10.000000000Z (APIServer pid=1) INFO 05-19 02:32:10 [api_server.py:580] Starting vLLM server on http://0.0.0.0:8000
2026-05-19T02:32:11.000000000Z INFO:     Application startup complete.
"""  # noqa: E501 - as vLLM writes them


def read(text: str | bytes, origin: float | None = None) -> Timeline:
    """Read a whole log."""
    reader = TimelineReader(origin=origin)
    reader.feed(text.encode() if isinstance(text, str) else text)
    return reader.timeline()


def span(timeline: Timeline, process: str, phase: str) -> Span:
    """Find the one span of a process's phase."""
    (found,) = (s for s in timeline.spans if (s.process, s.phase) == (process, phase))
    return found


def test_every_phase_of_two_ranks() -> None:
    """Weights with bytes and rate per rank; nothing is open once the server is up."""
    timeline = read(TP2)
    first, second = (span(timeline, f"Worker_TP{rank}", "weights") for rank in (0, 1))
    size = round(37.25 * (1 << 30))
    assert (30.0, 50.0, size, 2.0) == (first.start, first.end, first.bytes, first.gb_per_second)
    assert (31.0, 56.0, size, 1.6) == (second.start, second.end, second.bytes, second.gb_per_second)
    took = {
        (s.process, s.phase): (s.start, s.end)
        for s in timeline.spans
        if s.process in ("Worker_TP0", "EngineCore")
    }
    assert {
        ("EngineCore", "engine-init"): (20.0, 30.0),
        ("Worker_TP0", "engine-init"): (30.0, 30.0),
        ("Worker_TP0", "weights"): (30.0, 50.0),
        ("Worker_TP0", "kernels"): (50.0, 58.0),
        ("Worker_TP0", "compile"): (60.0, 100.0),
        ("Worker_TP0", "kv-cache"): (100.0, 105.0),
        ("EngineCore", "kv-cache"): (105.0, 105.5),
        ("Worker_TP0", "autotune"): (106.0, 116.0),
        ("Worker_TP0", "capture"): (116.0, 128.0),
        ("EngineCore", "warm-up"): (128.0, 129.0),
    } == took
    assert ("Using FLASHINFER attention backend",) == timeline.kernels
    assert not [s for s in timeline.spans if s.open]
    assert (131.0, (130.0, 131.0)) == (
        timeline.seconds,
        (span(timeline, "APIServer", "server-up").start, timeline.seconds),
    )


def test_the_origin_is_when_the_container_began() -> None:
    """Imports last from there, although nothing was logged."""
    timeline = read(TP2, origin=1779157790.0)
    assert (0.0, 10.0) == (
        span(timeline, "APIServer", "imports").start,
        span(timeline, "APIServer", "imports").end,
    )


@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
def test_logs_of_every_version_come_up(path: Path) -> None:
    """Bare, decorated, coloured, journald, compose, kubectl, json-file: all are read to the end."""
    reader = TimelineReader()
    reader.feed(path.read_bytes())
    timeline = reader.timeline()
    assert "server-up" in timeline.longest
    assert (None, []) == (reader.current, [s for s in timeline.spans if s.open])
    assert timeline.seconds > 30


def test_a_real_start_of_the_cpu_image() -> None:
    """Its log as docker gave it: no process says who drew the bars."""
    timeline = read((LOGS[0].parent / "0.32-cpu-docker.log").read_bytes())
    took = {f"{s.process} {s.phase}": s.seconds for s in timeline.spans}
    assert (3.481, 40.84, 12.027) == (
        took["APIServer imports"],
        took["APIServer engine-init"],
        took["EngineCore engine-init"],
    )
    assert "server imports" not in took


def test_vllm_0_6_says_gigabytes() -> None:
    """Before the engine was a process of its own."""
    weights = span(read((LOGS[0].parent / "0.6.5-bare.log").read_bytes()), "server", "weights")
    assert (round(7.5121 * (1 << 30)), 3.0) == (weights.bytes, weights.seconds)


def test_a_start_that_stops_says_where() -> None:
    """The phase it was in is open, and how much of it was done is told."""
    reader = TimelineReader()
    reader.feed("\n".join([*TP2.rstrip("\n").split("\n")[:6], ""]).encode())
    assert ("weights 6/8 (Worker_TP1)", "weights") == (reader.now, reader.current)
    assert {"Worker_TP0", "Worker_TP1"} == {
        s.process for s in reader.timeline().spans if s.open and s.phase == "weights"
    }


def test_the_order_of_processes_does_not_matter() -> None:
    """Journald's prefix instead of Docker's, and one worker's lines late: the same phases."""
    lines = TP2.rstrip("\n").split("\n")
    journald = [f"May 19 {line[11:19]} gpu1 docker[901]: {line[31:]}" for line in lines]
    expected = {(s.process, s.phase) for s in read(TP2).spans}
    assert expected == {(s.process, s.phase) for s in read("\n".join([*journald, ""])).spans}
    late = [*lines[:8], *lines[9:10], *lines[8:9], *lines[10:], ""]
    assert expected == {(s.process, s.phase) for s in read("\n".join(late)).spans}


@given(
    st.lists(
        st.one_of(
            st.sampled_from(TP2.rstrip("\n").split("\n")).map(str.encode),
            st.binary(max_size=80),
            st.text(max_size=80).map(lambda text: text.encode(errors="replace")),
        ),
        max_size=40,
    ),
    st.integers(min_value=1, max_value=200),
)
def test_unknown_lines_never_break_it(lines: list[bytes], cut: int) -> None:
    """Junk, any order, cut anywhere: spans are sane, and the cuts change nothing."""
    data = b"\n".join([*lines, b""])
    reader = TimelineReader()
    for at in range(0, len(data), cut):
        reader.feed(data[at : at + cut])
    timeline = reader.timeline()
    assert all(0 <= s.start <= s.end <= timeline.seconds for s in timeline.spans)
    assert len(timeline.spans) == len({(s.process, s.phase) for s in timeline.spans})
    assert read(data) == timeline
    ET.fromstring(draw(timeline, timeline))  # noqa: S314 - our own


@given(st.lists(st.binary(max_size=60).filter(lambda junk: b"\n" not in junk), max_size=10))
def test_junk_between_the_lines_changes_no_phase(junk: list[bytes]) -> None:
    """What has no meaning has no effect on what has."""
    lines = [line.encode() for line in TP2.rstrip("\n").split("\n")]
    mixed = [part for at, line in enumerate(lines) for part in (line, *junk[at : at + 1])]
    expected = {(s.process, s.phase) for s in read(TP2).spans}
    found = {(s.process, s.phase) for s in read(b"\n".join([*mixed, b""])).spans}
    assert expected <= found


def test_a_timeline_is_read_back() -> None:
    """Its JSON keeps everything."""
    timeline = read(TP2)
    assert timeline == Timeline.model_validate_json(timeline.model_dump_json())


def test_answers_are_added_and_compared() -> None:
    """What was seen from outside joins; what got slower is said."""
    asked = Span(process="client", phase="first-answer", start=131, end=141)
    timeline = read(TP2).shifted(1).with_spans(asked)
    assert (141.0, 141.0) == (timeline.seconds, timeline.startup)
    assert 31.0 == span(timeline, "Worker_TP0", "weights").start
    before = Timeline().with_spans(
        Span(process="Worker_TP0", phase="weights", start=0, end=10),
        Span(process="client", phase="first-answer", start=10, end=20),
    )
    rows = {row.split()[0]: row for row in timeline.rows(before)}
    assert rows["weights"].endswith("2.00 GB/s  slowest of 2  before 10.0 s, slower")
    assert rows["first-answer"].endswith("10.0 s  before 10.0 s")
    order = [row.split()[0] for row in timeline.rows()]
    assert [phase for phase in PHASES if phase in order] == order


def test_the_picture_stands_alone() -> None:
    """One row a process, one bar a span with its words; both schemes; nothing is fetched."""
    timeline = read(TP2)
    text = draw(timeline, timeline.shifted(5))
    root = ET.fromstring(text)  # noqa: S314 - our own
    titles = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert 2 * len(timeline.spans) == len(titles)
    assert "Worker_TP0: weights, 20.00 s from 30.00 s, 40.00 GB at 2.00 GB/s" in titles, titles
    assert "prefers-color-scheme:dark" in text
    assert "href" not in text
    assert "url(" not in text


def test_a_picture_of_many_or_odd_processes() -> None:
    """Names are escaped and cut, rows have a limit, an empty timeline is a picture too."""
    many = Timeline().with_spans(
        *(Span(process=f"<w&{n}>" * 5, phase="weights", start=0, end=n) for n in range(80))
    )
    text = draw(many)
    ET.fromstring(text)  # noqa: S314 - our own
    assert "and 16 more processes" in text
    ET.fromstring(draw(Timeline()))  # noqa: S314 - our own
