"""Checks of a profile, asked of a server over loopback by the session that smoke uses."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from builder.commands.smoke_phases import Session
from builder.core.answer import Answer, Reply, Usage
from builder.core.burst import judge_burst, percentile
from builder.core.drift import Score, drift, scores_of
from builder.core.keys import KEYS
from builder.core.profile import Check, Deadlines, Profile, ServerTable
from builder.core.ruling import RULINGS, Verdict, rule
from builder.core.smoke import CheckResult
from builder.core.structure import misfits, structure_fields, unknown_keywords
from builder.edge.logfile import LogFile
from builder.edge.openai import OpenAI
from builder.edge.server import Server
from builder.output import Output
from tests.support import openai_server

CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]
CITY: dict[str, Any] = {"type": "string", "enum": ["Paris", "Rome"]}


@contextmanager
def answering(misbehave: str) -> Iterator[str]:
    """Run the small server in this process; yield its address."""
    web = openai_server.Server(("127.0.0.1", 0), openai_server.Handler)
    web.misbehave = misbehave
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{web.server_address[1]}"
    finally:
        web.shutdown()
        thread.join()
        web.server_close()


def asked(
    folder: Path,
    misbehave: str = "",
    before: Mapping[str, tuple[Score, ...]] | None = None,
    **fields: Any,  # noqa: ANN401
) -> CheckResult:
    """Ask one check of a server that does something wrong."""
    check = Check.model_validate({"name": "x", **fields})
    profile = Profile(
        kind="cpu",
        check=[check],
        server=ServerTable(served_name="smoke"),
        deadlines=Deadlines(check=30),
    )
    output = Output(out=io.StringIO(), err=io.StringIO())
    session = Session(profile=profile, subject="x", version="0.32.0", output=output)
    session.before = before or {}
    with (
        answering(misbehave) as address,
        LogFile(folder / "log") as log,
        OpenAI(address) as client,
    ):
        session.model = "smoke"
        session.run_checks(Server(address, log), client)
    return session.checks[0]


pytestmark = pytest.mark.loopback


@pytest.mark.parametrize("form", ["response_format", "extra"])
def test_structured_output(tmp_path: Path, form: str) -> None:
    """The schema goes with the request; an answer without its structure fails the image."""
    fields: dict[str, Any] = {
        "messages": CAPITAL,
        "structure": CITY,
        "structure_form": form,
        "expect": {},
    }
    held = asked(tmp_path, **fields)
    name = "response_format" if form == "response_format" else "structured_outputs"
    assert f'"{name}"' in held.asked
    if form == "response_format":
        assert ("pass", '"Paris"') == (held.status, held.answered)
        held = asked(tmp_path, "unheld", **fields)
    assert ("fail", "structured-output", "image") == (held.status, held.key, held.blame)
    assert "no JSON" in held.reason


def test_metrics_missing(tmp_path: Path) -> None:
    """A sample of the name must be there; help texts do not count."""
    names = ["vllm:num_requests_running"]
    fields: dict[str, Any] = {"request": "get", "path": "/metrics", "expect": {"metrics": names}}
    assert "pass" == asked(tmp_path, **fields).status
    lost = asked(tmp_path, "mute", **fields)
    assert ("fail", "metrics-missing", "image") == (lost.status, lost.key, lost.blame)
    assert names[0] in lost.reason
    fields["expect"] = {"metrics": ["vllm:num_requests"]}
    assert "fail" == asked(tmp_path, **fields).status


def test_prompt_cut(tmp_path: Path) -> None:
    """A long prompt is written by its part and a number; the server must count it."""
    fields: dict[str, Any] = {
        "request": "completion",
        "prompt": "far out ",
        "repeat": 500,
        "parameters": {"max_tokens": 1},
        "expect": {"min_prompt_tokens": 1000},
    }
    assert "pass" == asked(tmp_path, **fields).status
    cut = asked(tmp_path, "truncates", **fields)
    assert ("fail", "prompt-cut", "image") == (cut.status, cut.key, cut.blame)


def test_a_burst_has_figures(tmp_path: Path) -> None:
    """Every request is judged; latencies and tokens a second are measured."""
    burst = {"requests": 12, "concurrency": 3}
    fields: dict[str, Any] = {"messages": CAPITAL, "burst": burst, "expect": {"content": "Paris"}}
    result = asked(tmp_path, **fields)
    assert "pass" == result.status, result.reason
    figures = result.figures
    assert (12, 3) == (figures["requests"], figures["concurrency"])
    assert figures["p95_seconds"] >= figures["p50_seconds"] >= 0
    assert figures["tokens_per_second"] > 0
    assert "12 requests, 3 at once" in result.reason


def test_garbage_output_in_a_burst(tmp_path: Path) -> None:
    """C61: one wrong answer among many fails all, and it is the one that is shown."""
    burst = {"requests": 8, "concurrency": 2}
    fields: dict[str, Any] = {"messages": CAPITAL, "burst": burst, "expect": {"content": "Paris"}}
    result = asked(tmp_path, "one-wrong", **fields)
    assert ("fail", "garbage-output", "Lyon") == (result.status, result.key, result.answered)
    assert "1 of 8 at once did not pass" in result.reason


def test_garbage_output_of_a_model_that_repeats_itself(tmp_path: Path) -> None:
    """C61: it is told from a wrong text, and an unheld schema is no excuse."""
    result = asked(tmp_path, "repeats", messages=CAPITAL, expect={"contains": ["Paris"]})
    assert ("fail", "garbage-output", True) == (
        result.status,
        result.key,
        "repeats" in result.reason,
    )


@pytest.mark.parametrize(
    ("ordered", "share", "expected"),
    [([1.0], 50, 1.0), ([1.0], 95, 1.0), ([1, 2, 3, 4], 50, 2), ([1, 2, 3, 4], 95, 4)],
)
def test_percentiles_are_figures_that_were_seen(
    ordered: list[float], share: int, expected: float
) -> None:
    """Nearest rank."""
    assert expected == percentile(ordered, share)


def test_figures_of_a_burst() -> None:
    """Tokens of all requests over the time of all; the worst verdict stands."""
    answers = [
        Answer(
            reply=Reply(status=200, seconds=n, first_seconds=n / 2),
            usage=Usage(prompt=1, completion=10),
        )
        for n in (1.0, 3.0)
    ]
    verdicts = [Verdict(status="pass", reason=""), rule("limit-reached", "short")]
    number, verdict, figures = judge_burst(answers, verdicts, 2, 4.0)
    assert (1, "inconclusive", "test") == (number, verdict.status, verdict.blame)
    assert (1, 3, 0.5, 0.5, 5) == (
        figures["p50_seconds"],
        figures["p95_seconds"],
        figures["first_byte_p50_seconds"],
        figures["requests_per_second"],
        figures["tokens_per_second"],
    )


def test_logprob_drift(tmp_path: Path) -> None:
    """C61: the same words, less likely than in the last image; the first has no other."""
    fields: dict[str, Any] = {
        "request": "completion",
        "prompt": "The capital of France is",
        "expect": {"content": " Paris", "max_drift": 0.5},
    }
    first = asked(tmp_path, **fields)
    assert ("pass", (Score(text=" Paris", logprob=-0.25),)) == (first.status, first.scores)
    assert "no earlier probabilities" in first.reason
    before = {"x": first.scores}
    same = asked(tmp_path, before=before, **fields)
    assert ("pass", True) == (same.status, "moved by 0.0000 nats" in same.reason)
    moved = asked(tmp_path, "drifts", before=before, **fields)
    assert ("fail", "logprob-drift", "image") == (moved.status, moved.key, moved.blame)
    assert "1 tokens moved by 1.2500 nats on average, more than 0.5" in moved.reason
    other = {"x": (Score(text=" Rome", logprob=-0.25),)}
    assert 'was " Rome"' in asked(tmp_path, before=other, **fields).reason
    chat = asked(tmp_path, messages=CAPITAL, expect={"max_drift": 0.5})
    assert ("inconclusive", "logprob-drift", "test") == (chat.status, chat.key, chat.blame)


def test_drift_is_measured_up_to_the_first_other_token() -> None:
    """After it nothing can be compared."""
    before = [Score(text=token, logprob=-1) for token in "abc"]
    now = [Score(text=token, logprob=value) for token, value in (("a", -1), ("b", -3), ("x", -9))]
    assert (1.0, 2) == drift(before, now)
    assert (0.0, 0) == drift(before, [])


def test_both_shapes_of_probabilities_are_read() -> None:
    """Completions with an echoed prompt, whose first token has none; chats; nothing at all."""
    echoed: Any = {"logprobs": {"tokens": ["a", "b"], "token_logprobs": [None, -2]}}
    chat: Any = {"logprobs": {"content": [{"token": "b", "logprob": -2.0}]}}
    expected = (Score(text="b", logprob=-2),)
    assert (expected, expected) == (scores_of(echoed), scores_of(chat))
    odd: list[Any] = [None, {}, {"logprobs": None}, {"logprobs": {"tokens": 1}}]
    assert {()} == {scores_of(one) for one in odd}


OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": CITY,
        "people": {"type": "integer"},
        "names": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"city": "Paris"}, []),
        ({"city": "Paris", "people": 2.0, "names": ["a"]}, []),
        ({}, ["$ has no 'city'"]),
        ({"city": "Bonn"}, ["$.city is 'Bonn', none of ['Paris', 'Rome']"]),
        ({"city": "Rome", "people": True}, ["$.people is True, no integer"]),
        ({"city": "Rome", "people": 2.5}, ["$.people is 2.5, no integer"]),
        ({"city": "Rome", "names": ["a", 1]}, ["$.names[1] is 1, no string"]),
        ({"city": "Rome", "x": 1}, ["$ has 'x', which the schema does not know"]),
        ([], ["$ is [], no object"]),
    ],
)
def test_structures(value: Any, expected: list[str]) -> None:  # noqa: ANN401
    """Each keyword says where a value is not what it should be."""
    assert expected == misfits(OBJECT, value)


def test_a_schema_that_is_not_checked_is_refused() -> None:
    """What nobody looks at proves nothing."""
    assert [] == unknown_keywords(OBJECT)
    deep: dict[str, Any] = {"properties": {"a": {"items": {"pattern": "x", "type": "text"}}}}
    assert ["pattern", "type 'text'"] == unknown_keywords(deep)
    check = {"name": "x", "messages": CAPITAL, "structure": deep, "expect": {}}
    with pytest.raises(ValidationError, match="keywords that are not checked: pattern"):
        Check.model_validate(check)


@pytest.mark.parametrize(
    ("version", "field"),
    [
        ("0.9.1", "guided_json"),
        ("0.10.1+cpu", "guided_json"),
        ("0.10.2", "structured_outputs"),
        ("0.33.1.dev3+g123456789", "structured_outputs"),
        ("", "structured_outputs"),
    ],
)
def test_the_field_of_a_structure_follows_from_the_version(version: str, field: str) -> None:
    """VLLM renamed it; OpenAI's own stays."""
    assert [field] == list(structure_fields(CITY, "extra", version))
    assert ["response_format"] == list(structure_fields(CITY, "response_format", version))


@pytest.mark.parametrize("field", ["structure", "burst", "repeat"])
def test_a_get_has_no_body(field: str) -> None:
    """What only a request with a body can have is refused."""
    values = {"structure": CITY, "burst": {}, "repeat": 2}
    check = {"name": "x", "request": "get", "path": "/", "expect": {}, field: values[field]}
    with pytest.raises(ValidationError, match="takes no `structure`"):
        Check.model_validate(check)
    metrics = {"name": "x", "messages": CAPITAL, "expect": {"metrics": ["a"]}}
    with pytest.raises(ValidationError, match="expectations of request 'get'"):
        Check.model_validate(metrics)


def test_a_long_chat_repeats_its_last_message() -> None:
    """The others stay."""
    system = {"role": "system", "content": "Be brief."}
    check = Check.model_validate(
        {"name": "x", "messages": [system, *CAPITAL], "repeat": 3, "expect": {}}
    )
    messages = check.body("m")["messages"]
    assert [system, {"role": "user", "content": CAPITAL[0]["content"] * 3}] == messages


def test_the_verdict_table_is_whole() -> None:
    """Every row has a known key; who is at fault follows from how it ended."""
    for case, row in RULINGS.items():
        assert row.key in KEYS, case
        assert row.blame, case
        found = rule(case, "seen")
        assert (row.status, row.key, row.blame, "seen") == (
            found.status,
            found.key,
            found.blame,
            found.reason,
        )
    # Only what the profile never claimed is skipped; nothing inconclusive blames a good image.
    assert {"profile"} == {row.blame for row in RULINGS.values() if row.status == "skip"}
    assert {"content-null"} == {row.key for row in RULINGS.values() if row.again}
