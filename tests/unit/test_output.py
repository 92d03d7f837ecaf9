"""The printer: what goes to which stream, without a terminal."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest

from builder import cli
from builder.errors import BadInput
from builder.output import Output


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Lie."""
        return True


def silent(**fields: object) -> Output:
    """Make a printer whose streams are kept."""
    return Output(out=io.StringIO(), err=io.StringIO(), **fields)  # type: ignore[arg-type]


def streams(output: Output) -> tuple[str, str]:
    """Read what went to stdout and stderr."""
    assert isinstance(output.out, io.StringIO)
    assert isinstance(output.err, io.StringIO)
    return output.out.getvalue(), output.err.getvalue()


def events(path: Path) -> list[dict[str, object]]:
    """Read the NDJSON file, without the clock."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(isinstance(row.pop("time"), float) for row in rows)
    return rows


def test_without_json_the_result_is_on_stdout_alone() -> None:
    """Prose goes to stderr, a document nowhere, an empty answer prints no line."""
    output = silent()
    output.result("yes")
    output.result("")
    output.note("on the way")
    output.document({"schema": "x"})
    assert ("yes\n", "on the way\n") == streams(output)


def test_with_json_stdout_is_one_document() -> None:
    """The result is in it, letters are kept as they are."""
    output = silent(json=True)
    output.result("yes")
    output.note("on the way")
    output.document({"ok": True, "said": "Zürich 👋"})
    out, err = streams(output)
    assert {"ok": True, "said": "Zürich 👋"} == json.loads(out)
    assert "Zürich" in out
    assert "on the way\n" == err


@pytest.mark.parametrize(("verbose", "expected"), [(False, ""), (True, "more\n")])
def test_details_are_for_verbose(verbose: bool, expected: str) -> None:
    """On stderr."""
    output = silent(verbose=verbose)
    output.detail("more")
    assert ("", expected) == streams(output)


def test_a_step_is_announced_timed_and_reported(tmp_path: Path) -> None:
    """Events have its name; a second time adds to its seconds."""
    output = silent(events=tmp_path / "events")
    for _ in range(2):
        with output.step("fetch", "fetching 3 files"):
            output.event("half", number=1, folder=tmp_path)
    assert ("", "· fetching 3 files\n· fetching 3 files\n") == streams(output)
    assert ["fetch"] == list(output.phases)
    rows = events(tmp_path / "events")
    assert ["step-started", "half", "step-finished"] * 2 == [row["event"] for row in rows]
    assert {"event": "half", "number": 1, "folder": str(tmp_path)} == rows[1]
    assert {"fetch"} == {row["step"] for row in rows if "step" in row}


def test_a_step_that_fails_is_reported_and_the_error_goes_on(tmp_path: Path) -> None:
    """By what it said, or by its name when it said nothing; no time is noted."""
    output = silent(events=tmp_path / "events")
    for error in (ValueError("too much"), KeyboardInterrupt()):
        with pytest.raises(type(error)), output.step("build"):
            raise error
    failed = [row["error"] for row in events(tmp_path / "events") if row["event"] == "step-failed"]
    assert ["too much", "KeyboardInterrupt"] == failed
    assert {} == output.phases


def test_events_that_cannot_be_written_are_bad_input(tmp_path: Path) -> None:
    """Said before the work begins; without the option there is nothing to check."""
    with pytest.raises(BadInput, match="--events") as caught:
        silent(events=tmp_path / "no/such/file").check_events()
    assert str(tmp_path / "no/such/file") == caught.value.subject
    silent().check_events()


def test_a_bar_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Silent for two seconds, then one line each ten; nothing is drawn."""
    start = time.monotonic()
    clock = [start]
    monkeypatch.setattr("builder.output.time.monotonic", lambda: clock[0])
    output = silent()
    with output.bar("fetch", 8_000_000) as bar:
        for seconds in (1, 3, 4, 12, 14, 25):
            clock[0] = start + seconds
            bar.advance(1_000_000)
    assert ("", "fetch: 2 MB of 8 MB\nfetch: 5 MB of 8 MB\nfetch: 6 MB of 8 MB\n") == streams(
        output
    )


@pytest.mark.parametrize(
    ("total", "expected"), [(3, "layers: 2 of 3\n"), (None, "layers: 2\n")], ids=["known", "open"]
)
def test_a_bar_counts_pieces_too(
    monkeypatch: pytest.MonkeyPatch, total: float | None, expected: str
) -> None:
    """With what there is in all, where that is known."""
    start = time.monotonic()
    clock = [start]
    monkeypatch.setattr("builder.output.time.monotonic", lambda: clock[0])
    output = silent()
    with output.bar("layers", total, unit="layers") as bar:
        bar.advance(1)
        clock[0] += 60
        bar.advance(1)
    assert expected == streams(output)[1]


def test_colour_is_for_terminals_that_may_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No terminal, TERM=dumb and NO_COLOR: none."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Output(out=io.StringIO(), err=Screen())
    assert (True, True) == (screen.terminal, screen.color)
    assert (False, False) == (silent().terminal, silent().color)
    monkeypatch.setenv("NO_COLOR", "1")
    assert (True, False) == (screen.terminal, screen.color)
    monkeypatch.setenv("TERM", "dumb")
    assert (False, False) == (screen.terminal, screen.color)


def test_a_stream_that_lacks_a_letter_gets_an_escape() -> None:
    """As under LANG=C: no answer is lost to an encoding."""
    data = io.BytesIO()
    with io.TextIOWrapper(data, encoding="ascii") as plain:
        Output(out=plain, err=io.StringIO()).result("Zürich → ok")
        assert b"Z\\xfcrich \\u2192 ok\n" == data.getvalue()


@pytest.mark.parametrize("verbose", [False, True])
def test_the_traceback_of_an_error_is_for_verbose(
    verbose: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What, on which input and what to do are said either way; stdout stays empty."""
    (tmp_path / "images").mkdir()
    words = ["fetch", "nosuch", "--project", str(tmp_path), *(["--verbose"] if verbose else [])]
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    out, err = capsys.readouterr()
    assert (2, "") == (left.value.code, out)
    assert "nightlock: there is no image 'nosuch'\n  on: " in err
    assert "  do: " in err
    assert verbose == ("Traceback (most recent call last)" in err)
    assert verbose == ("in read_spec" in err)
