"""A start that is waited for: deadlines of its phases, what is shown, its timeline, its budget."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from builder.commands.smoke_phases import Session
from builder.commands.smoke_timeline import find_previous, over_budget, whole
from builder.commands.smoke_watch import Watch
from builder.core.answer import Reply
from builder.core.places import Places
from builder.core.profile import parse_profile
from builder.core.smoke import Phase, receipt_of
from builder.core.timeline import Span, Timeline
from builder.edge import records
from builder.edge.logfile import LogFile
from builder.edge.openai import OpenAI
from builder.edge.server import Server
from builder.errors import BootFailed
from builder.output import Output
from tests.support.report import DIGEST, make_report

BANNER = (
    b"2026-05-19T02:30:10.0Z (APIServer pid=1) INFO 05-19 02:30:10 [utils.py:299]  "
    b"\xe2\x96\x88  version 0.22.0\n"
)
LOADING = (
    b"2026-05-19T02:30:30.0Z (EngineCore pid=7) INFO 05-19 02:30:30 [x.py:1] "
    b"Starting to load model /m...\n"
    b"2026-05-19T02:30:40.0Z Loading safetensors checkpoint shards:  50% Completed | 4/8 "
    b"[00:10<00:10,  2.50s/it]\n"
)
PROFILE = """
kind = "cpu"
[deadlines]
health = 3600
phases = {weights = 1e-9}
[[check]]
name = "models"
request = "get"
path = "/v1/models"
expect = {models = true}
"""


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        """Say so."""
        return True


class NeverHealthy(OpenAI):
    """A server that loads for ever."""

    def get(self, path: str, seconds: float) -> Reply:  # noqa: ARG002
        """Say no."""
        return Reply(status=503, body="loading")


def test_a_phase_has_its_own_deadline(tmp_path: Path) -> None:
    """Long before that of /health, and the phase is named with how much of it was done."""
    session = Session(
        profile=parse_profile(PROFILE, "x.toml"),
        subject="image",
        version="",
        output=Output(err=io.StringIO()),
    )
    with LogFile(tmp_path / "log") as log, NeverHealthy("http://127.0.0.1:1") as client:
        log.add(BANNER + LOADING)
        with pytest.raises(BootFailed, match=r"weights took more than .* \(weights 4/8"):
            session.until_ready(Server("http://127.0.0.1:1", log), client)
    assert "engine-ready-timeout" == session.key
    assert ["health"] == [phase.name for phase in session.phases]


def test_plain_lines_without_a_terminal(tmp_path: Path) -> None:
    """One a phase, however often it is looked at."""
    err = io.StringIO()
    watch = Watch(Output(err=err), {})
    with LogFile(tmp_path / "log") as log:
        for piece in (BANNER, LOADING):
            log.add(piece)
            watch.look(log)
            watch.look(log)
    watch.end()
    assert ["  0 s, engine-init", "  0 s, weights"] == err.getvalue().splitlines()


def test_one_changing_line_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replaces the one before, a note takes it away first, and none is left at the end."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    err = Terminal()
    output = Output(err=err)
    watch = Watch(output, {})
    with LogFile(tmp_path / "log") as log:
        log.add(BANNER + LOADING)
        watch.look(log)
        output.note("something else")
        watch.look(log)
    watch.end()
    line = "\r\x1b[2K  0 s, weights 4/8 (EngineCore)"
    assert f"{line}\r\x1b[2Ksomething else\n{line}\r\x1b[2K" == err.getvalue()


def test_a_minute_of_silence_is_told(tmp_path: Path) -> None:
    """With the phase and the last line; once a minute, not at each look."""
    err = io.StringIO()
    with LogFile(tmp_path / "log") as log:
        log.add(LOADING)
        watch = Watch(Output(err=err), {})
        for module_time in (watch, log):
            _minute_ago(module_time)
        watch.look(log)
        watch.look(log)
    told = [line for line in err.getvalue().splitlines() if "no new line" in line]
    assert 1 == len(told)
    assert "in weights; last: Loading safetensors" in told[0]


def _minute_ago(one: Any) -> None:  # noqa: ANN401
    """Put what it remembers 61 seconds back."""
    name = "_told" if isinstance(one, Watch) else "_changed"
    setattr(one, name, getattr(one, name) - 61)


def phases(first: float) -> tuple[Phase, ...]:
    """Make the phases of a boot whose first answer took so long."""
    took = {"start": 1.0, "health": 30.0, "models": 0.5, "first-answer": first}
    return tuple(Phase(name=name, seconds=s, deadline=0) for name, s in took.items())


def log_of(weights: float) -> Timeline:
    """Make what a log says of a start."""
    return Timeline().with_spans(
        Span(process="Worker_TP0", phase="weights", start=10, end=10 + weights)
    )


def test_log_and_clock_are_one_timeline() -> None:
    """Both count from when the container was asked for."""
    timeline = whole(log_of(5), phases(2))
    spans = {f"{s.process} {s.phase}": (s.start, s.end) for s in timeline.spans}
    assert {
        "container container-start": (0, 1),
        "Worker_TP0 weights": (11, 16),
        "client first-answer": (31.5, 33.5),
    } == spans
    assert 33.5 == timeline.startup


def test_startup_over_budget_names_what_grew() -> None:
    """Compared with the start before, where there is one."""
    timeline = whole(log_of(50), phases(40))
    assert [] == over_budget(timeline, None, None, "image")
    assert [] == over_budget(timeline, 71.5, None, "image")
    (alone,) = over_budget(timeline, 71, None, "image")
    assert ("startup-over-budget", "error") == (alone.key, alone.severity)
    assert "first answer after 71.5 s, budget 71 s; longest: weights, 50.0 s" == alone.evidence
    before = make_report().model_copy(update={"timeline": whole(log_of(20), phases(30))})
    (found,) = over_budget(timeline, 60, before, "image")
    assert found.evidence.endswith("61.5 s in the start before; weights grew most, by 30.0 s")


def test_the_previous_start_is_the_newest_that_passed(tmp_path: Path) -> None:
    """Of this repository and profile, whatever its digest; its receipt holds the timeline too."""
    places = Places(config=tmp_path, cache=tmp_path, state=tmp_path / "state", run=tmp_path)
    assert find_previous(places, "x", "smoke-cpu") is None
    for number, verdict in enumerate(("pass", "pass", "fail")):
        report = make_report(digest=f"{DIGEST[:-1]}{number}").model_copy(
            update={
                "timeline": whole(log_of(number + 1), phases(2)),
                "finished": f"2026-11-30T17:0{number}:00Z",
                "verdict": verdict,
            }
        )
        records.write_report(records.smoke_folder(places, report.digest, "1"), report, {})
    found = find_previous(places, report.name, report.profile)
    assert found is not None
    assert f"{DIGEST[:-1]}1" == found.digest
    assert found.timeline == receipt_of(found).predicate.startup
    assert find_previous(places, report.name, "another") is None
