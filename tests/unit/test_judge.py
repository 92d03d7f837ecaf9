"""Answers read and judged: each verdict of C54 to C61 and C67, by its key.

Bodies are those of vLLM 0.32.0 with its own parsers, shortened; older and other shapes are marked.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from builder.core.answer import Answer, Reply, events, read_answer
from builder.core.judge import Facts, garbled, judge, model_ids, same_version
from builder.core.profile import Check
from builder.core.ruling import Verdict

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
STORY = "The keeper climbed one hundred and twelve steps every evening to wake the great lamp."


def check(expect: dict[str, Any], **fields: Any) -> Check:  # noqa: ANN401
    """Make a check of a chat request."""
    fields = {"messages": MESSAGES} | fields
    return Check.model_validate({"name": "x", "expect": expect, **fields})


def body(message: dict[str, Any], finish: str = "stop", usage: object = None) -> Reply:
    """Make a reply that was not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usual = {"prompt_tokens": 23, "total_tokens": 25, "completion_tokens": 2}
    return Reply(status=200, body=json.dumps({"choices": [choice], "usage": usage or usual}))


def stream(*deltas: dict[str, Any], end: str = "data: [DONE]\n\n", usage: bool = True) -> Reply:
    """Make a streamed reply: one event a delta, the usage in an event without choices."""
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if usage:
        chunks.append({"choices": [], "usage": {"prompt_tokens": 23, "completion_tokens": 2}})
    return Reply(status=200, body="".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + end)


def refusal(status: int, message: str, kind: str = "BadRequestError") -> Reply:
    """Make an error as vLLM writes it."""
    error = {"message": message, "type": kind, "param": None, "code": status}
    return Reply(status=status, body=json.dumps({"error": error}))


def verdict(
    reply: Reply, expect: dict[str, Any], facts: Facts | None = None, *, stream: bool = False
) -> Verdict:
    """Read and judge a reply."""
    made = check(expect, stream=stream)
    return judge(made, read_answer(reply, streamed=made.stream), facts or Facts())


def short(found: Verdict) -> tuple[str, str, str]:
    """Pick what decides: how it ended, the key, whose fault."""
    return found.status, found.key, found.blame


def test_the_known_answer_passes() -> None:
    """Exactly the text and the reason to stop."""
    found = verdict(body({"content": "Paris"}), {"content": "Paris", "finish_reason": "stop"})
    assert ("pass", "", "") == short(found)
    assert '"Paris"' == found.reason


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_field_rename(field: str) -> None:
    """C54: both names are read, streamed or not, and the report says which it was."""
    expect = {"reasoning": "It is Paris.", "content": "Paris"}
    found = verdict(body({"content": "Paris", field: "It is Paris."}), expect)
    assert "pass" == found.status
    assert f"reasoning in field `{field}`" in found.reason
    reply = stream({field: "It is "}, {field: "Paris."}, {"content": "Paris"})
    found = verdict(reply, expect, stream=True)
    assert ("pass", True) == (found.status, f"`{field}`" in found.reason)


def test_reasoning_field_rename_both_at_once() -> None:
    """C54: versions that send the text under both names do not double it."""
    both = {"reasoning": "It is Paris.", "reasoning_content": "It is Paris.", "content": "Paris"}
    found = verdict(body(both), {"reasoning": "It is Paris.", "content": "Paris"})
    assert "pass" == found.status
    assert "`reasoning`" in found.reason


def test_content_null_by_length() -> None:
    """C55: the limit was reached inside the reasoning: the test's fault, worth another try."""
    found = verdict(body({"content": None, "reasoning": "Well"}, "length"), {"content": "Paris"})
    assert ("inconclusive", "content-null", "test") == short(found)
    assert found.again


def test_content_null_by_the_parser() -> None:
    """C55: all text became reasoning: parser and model do not fit."""
    found = verdict(body({"content": None, "reasoning": "Paris"}), {"content": "Paris"})
    assert ("inconclusive", "content-null", "profile") == short(found)
    assert (False, True) == (found.again, '"Paris"' in found.reason)


@pytest.mark.parametrize("content", [None, ""])
def test_content_null_with_nothing_at_all(content: str | None) -> None:
    """C55: stop and no text anywhere fails the image."""
    found = verdict(body({"content": content, "reasoning": None}), {"contains": ["Paris"]})
    assert ("fail", "content-null", "image") == short(found)


def test_a_check_without_expected_text_takes_reasoning_alone() -> None:
    """C54: not empty reasoning passes when the test did not ask for content."""
    found = verdict(body({"content": None, "reasoning": "Well"}), {"finish_reason": "stop"})
    assert "pass" == found.status


CALL = {"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]}


def call(arguments: str, name: str = "get_weather") -> dict[str, Any]:
    """Make a message with one call."""
    function = {"name": name, "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def test_tool_calls() -> None:
    """C56: name and arguments as data, in any spelling of the JSON."""
    assert "pass" == verdict(body(call('{ "city":"Paris" }'), "tool_calls"), CALL).status


def test_tool_calls_assembled_from_a_stream() -> None:
    """C56: name first, arguments in pieces, another call between them."""
    pieces: list[dict[str, Any]] = [
        {"content": None, "tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a'}}]},
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '": 1}'}}]},
    ]
    expect = {"tool_calls": [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]}
    assert "pass" == verdict(stream(*pieces), expect, stream=True).status


FLAGS = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


def test_tool_calls_not_switched_on() -> None:
    """C56: skipped where the profile claims nothing, a fail where it gave the flags."""
    assert ("skip", "tool-calls", "profile") == short(verdict(refusal(400, FLAGS), CALL))
    claimed = verdict(refusal(400, FLAGS), CALL, Facts(claims_tools=True))
    assert ("fail", "tool-calls", "image") == short(claimed)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        '[TOOL_CALLS][{"name": "get_weather"}]',
        '<|python_tag|>get_weather(city="Paris")',
        '{"name": "get_weather", "parameters": {"city": "Paris"}}',
        "<function=get_weather>",
    ],
)
def test_tool_calls_left_as_text(text: str) -> None:
    """C56: markup of a call in the content is the parser's, so the profile's fault."""
    found = verdict(body({"content": text, "tool_calls": []}), CALL)
    assert ("fail", "tool-calls", "profile") == short(found)
    assert "left as text" in found.reason
    plain = verdict(body({"content": "It is sunny."}), CALL)
    assert ("tool-calls", True) == (plain.key, "no call came" in plain.reason)


@pytest.mark.parametrize(
    ("arguments", "name", "part"),
    [
        ('{"city": "Par', "get_weather", "no JSON"),
        ('{"city": "Rome"}', "get_weather", "Rome"),
        ('{"city": "Paris"}', "get_time", "get_time"),
    ],
)
def test_tool_calls_that_are_wrong(arguments: str, name: str, part: str) -> None:
    """C56: arguments must parse, and name and values must be those expected."""
    found = verdict(body(call(arguments, name), "tool_calls"), CALL)
    assert ("fail", "tool-calls", "image") == short(found)
    assert part in found.reason


def test_streaming_usage_in_the_last_event() -> None:
    """C57: an event without choices carries the total."""
    found = verdict(stream({"content": "Paris"}), {"content": "Paris", "usage": True}, stream=True)
    assert "pass" == found.status


def test_streaming_usage_in_every_event() -> None:
    """C57: `continuous_usage_stats` repeats a growing count."""
    chunks = [
        {
            "choices": [{"delta": {"content": t}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": n},
        }
        for n, t in enumerate(["", "Pa", "ris"])
    ]
    text = ": keep-alive\n\n" + "".join(f"data: {json.dumps(c)}\r\n\r\n" for c in chunks)
    reply = Reply(status=200, body=text + "data: [DONE]")
    answer = read_answer(reply, streamed=True)
    assert (2, ()) == (answer.usage.completion if answer.usage else None, answer.problems)
    assert "pass" == verdict(reply, {"content": "Paris", "usage": True}, stream=True).status


def test_streaming_usage_that_is_missing_or_double() -> None:
    """C57: no total, or two of them."""
    expect = {"content": "Paris", "usage": True}
    none = verdict(stream({"content": "Paris"}, usage=False), expect, stream=True)
    assert ("fail", "streaming-usage", "image") == short(none)
    total = 'data: {"choices": [], "usage": {"prompt_tokens": 23, "completion_tokens": 2}}\n\n'
    twice = stream({"content": "Paris"}, end=total + "data: [DONE]\n\n")
    assert "2 usage totals in one stream" == verdict(twice, expect, stream=True).reason


def test_streaming_usage_stream_cut() -> None:
    """C57: a connection that ends without [DONE] is told, though all text had come."""
    found = verdict(stream({"content": "Paris"}, end=""), {"content": "Paris"}, stream=True)
    assert ("fail", "streaming-usage", "image") == short(found)
    assert "stream cut" in found.reason


def test_streaming_usage_error_inside_a_stream() -> None:
    """An error event after HTTP 200 is not an answer."""
    event = 'data: {"error": {"message": "EngineCore died", "type": "InternalServerError"}}\n\n'
    found = verdict(stream({"content": "Pa"}, end=event), {"content": "Paris"}, stream=True)
    assert ("fail", True) == (found.status, "EngineCore died" in found.reason)
    found = verdict(stream(end="data: [1]\n\ndata: {\n\ndata: [DONE]\n\n"), {}, stream=True)
    assert 2 == found.reason.count("no JSON object")


def test_streaming_equals_the_whole_answer() -> None:
    """C57: same text, same counts within two tokens; chunks are counted."""
    whole = read_answer(body({"content": "Paris"}), streamed=False)
    expect = {"same_as": "whole", "min_chunks": 2}
    facts = Facts(earlier={"whole": whole})
    reply = stream({"role": "assistant", "content": ""}, {"content": "Pa"}, {"content": "ris"})
    assert "pass" == verdict(reply, expect, facts, stream=True).status
    found = verdict(stream({"content": "Paris"}), expect, facts, stream=True)
    assert ("fail", "1 events carried text, expected 2") == (found.status, found.reason)
    found = verdict(stream({"content": "Ly"}, {"content": "on"}), expect, facts, stream=True)
    assert ("streaming-usage", True) == (found.key, '"Lyon"' in found.reason)
    far = Facts(
        earlier={
            "whole": read_answer(
                body({"content": "Paris"}, usage={"prompt_tokens": 23, "completion_tokens": 9}),
                streamed=False,
            )
        }
    )
    assert "counted" in verdict(reply, expect, far, stream=True).reason
    assert "no answer to compare" in verdict(reply, expect, Facts(), stream=True).reason


def test_chat_template_missing() -> None:
    """C58: a property of the model; nothing was proven about the image."""
    text = "As of transformers v4.44, default chat template is no longer allowed, so you must …"
    found = verdict(refusal(400, text), {"content": "Paris"})
    assert ("inconclusive", "chat-template-missing", "model") == short(found)


def test_model_name_404() -> None:
    """C59: vLLM's own 404 is told from a proxy's or a wrong path's."""
    own = refusal(404, "The model `default` does not exist.", "NotFoundError")
    assert ("inconclusive", "model-name-404", "profile") == short(verdict(own, {"content": "x"}))
    for text in ('{"detail":"Not Found"}', "<html>404</html>"):
        found = verdict(Reply(status=404, body=text), {"content": "x"})
        assert ("fail", True) == (found.status, "not vLLM's own" in found.reason)


LISTED = json.dumps({"object": "list", "data": [{"id": "smoke"}, {"id": "other"}]})


def get(path: str, reply: Reply, expect: dict[str, Any], facts: Facts) -> Verdict:
    """Judge a GET."""
    made = Check.model_validate({"name": "x", "request": "get", "path": path, "expect": expect})
    return judge(made, Answer(reply=reply), facts)


def test_model_name_404_list_of_models() -> None:
    """C59: an empty list fails, another name is the profile's fault."""
    expect = {"models": True}
    good, empty = Reply(status=200, body=LISTED), Reply(status=200, body='{"data": []}')
    assert (
        "serves smoke, other" == get("/v1/models", good, expect, Facts(served_name="smoke")).reason
    )
    assert "pass" == get("/v1/models", good, expect, Facts()).status
    wrong = get("/v1/models", good, expect, Facts(served_name="mine"))
    assert ("inconclusive", "model-name-404", "profile") == short(wrong)
    assert ("fail", "model-name-404", "image") == short(get("/v1/models", empty, expect, Facts()))
    for text in ("", "x", "[]", '{"data": [7, {}, {"id": 3}]}'):
        odd = get("/v1/models", Reply(status=200, body=text), expect, Facts())
        assert "fail" == odd.status
    assert ["smoke", "other"] == model_ids(json.loads(LISTED))


def test_health_is_not_ready() -> None:
    """C60: no answer in time, or an engine that is dead, fails the image."""
    late = Reply(status=0, failure="no whole answer within 60 s")
    dead = refusal(503, "EngineDeadError", "ServiceUnavailable")
    for reply in (late, dead, Reply(status=200, body="{", failure="reset")):
        found = verdict(reply, {"content": "Paris"})
        assert ("fail", "health-is-not-ready", "image") == short(found)


def test_garbage_output_wrong_answer() -> None:
    """C61: HTTP 200 and another city."""
    found = verdict(body({"content": "Lyon"}), {"content": "Paris"})
    assert ("fail", "garbage-output", "image") == short(found)
    assert 'expected "Paris", got "Lyon"' == found.reason


def test_garbage_output_repeated_tokens() -> None:
    """C61: said as such, not only as another text than expected."""
    text = "あるい" * 40
    for expect in ({"content": "Paris"}, {"contains": ["ある"]}, {"finish_reason": "stop"}):
        found = verdict(body({"content": text}), expect)
        assert ("fail", "garbage-output", True) == (
            found.status,
            found.key,
            "repeats" in found.reason,
        )


@pytest.mark.parametrize(
    "text",
    [
        "あるい" * 10,
        "!" * 40,
        "the the the " * 8,
        "I am a cat and you are a dog " * 6,
        STORY + " Then" + " so it goes on and" * 30,
        "Paris \ufffd\ufffd",
        "Par\x00is",
    ],
)
def test_garbled_texts_are_noticed(text: str) -> None:
    """C61: any period, also after a sound beginning; characters no text has."""
    assert garbled(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris",
        "ha ha ha",
        STORY,
        "こんにちは 👋",
        '{"capital": "Paris"}',
        "1, 2, 3, 4, 5, 6, 7, 8",
        "Ships came home by that light, heavy with wool.\n\nThen a storm broke the window.",
        "-" * 9,
    ],
)
def test_sound_texts_are_left_alone(text: str) -> None:
    """Short answers, prose, JSON, other scripts."""
    assert "" == garbled(text)


def test_an_expected_repetition_is_no_garbage() -> None:
    """What is expected to the letter is right, whatever it looks like."""
    text = "ab" * 40
    assert "pass" == verdict(body({"content": text}), {"content": text}).status


def test_request_refused_is_not_the_images_fault() -> None:
    """Any other 400: the test asked for something this vLLM does not take."""
    found = verdict(refusal(400, "max_tokens is too large"), {"content": "x"})
    assert ("inconclusive", "request-refused", "test") == short(found)


def test_what_is_no_answer() -> None:
    """HTTP 200 with a web page."""
    found = verdict(Reply(status=200, body="<html>"), {"content": "Paris"})
    assert ("fail", "garbage-output", "image") == short(found)


def test_tag_vs_content() -> None:
    """C67: the running version against the label."""
    expect, reply = {"version": True}, Reply(status=200, body='{"version": "0.32.0"}')
    assert "pass" == get("/version", reply, expect, Facts(version="0.32.0")).status
    other = get("/version", reply, expect, Facts(version="0.33.0"))
    assert ("fail", "tag-vs-content", "image") == short(other)
    unlabelled = get("/version", reply, expect, Facts())
    assert ("inconclusive", "tag-vs-content", "image") == short(unlabelled)
    silent = get("/version", Reply(status=200, body="{}"), expect, Facts(version="0.32.0"))
    assert ("fail", "tag-vs-content", "image") == short(silent)


@pytest.mark.parametrize(
    ("label", "answer", "expected"),
    [
        ("0.32.0", "0.32.0", True),
        ("0.32.0+cpu", "0.32.0", True),
        ("0.32.0+cpu", "0.32.0+cpu", True),
        ("0.32.0", "0.32.0+cpu", False),
        ("0.32.0+cpu", "0.32.0+cu130", False),
        ("0.32.1.dev1+gea5f903f8.cpu", "0.32.1.dev1+gea5f903f8", True),
        ("0.32.1.dev1+gea5f903f8.cpu", "0.32.1.dev1", False),
        ("0.32.1.dev1+gea5f903f8", "0.32.1.dev1+g000000000", False),
        ("0.32.1.dev2+gea5f903f8", "0.32.1.dev1+gea5f903f8", False),
        ("dev", "dev", True),
        ("dev", "0.1", False),
    ],
)
def test_versions_differ_in_the_variant_alone(label: str, answer: str, expected: bool) -> None:
    """`/version` may lack the variant, and nothing else."""
    assert expected == same_version(label, answer)


def test_every_problem_is_told() -> None:
    """Not only the first."""
    found = verdict(
        body({"content": "Lyon"}, "length"), {"content": "Paris", "finish_reason": "stop"}
    )
    assert 1 == found.reason.count(";")


def test_events_of_a_stream() -> None:
    """Comments, other fields, joined lines, a last event without its blank line."""
    text = ":x\nevent: y\ndata: a\ndata:b\n\n\n\ndata:  c\r\rdata: d"
    assert ["a\nb", " c", "d"] == list(events(text))
