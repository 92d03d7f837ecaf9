"""Judging answers: what was expected, what came, and whose fault the difference is.

The verdicts of field-cases C54 to C61 and C67. A check passes, fails (the image is at fault), is
skipped (the profile never claimed it) or is inconclusive (model, profile or test stand in the way);
only passes and skips let a smoke pass.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from packaging.version import InvalidVersion, Version
from pydantic import JsonValue

from builder.core.answer import Answer, Usage
from builder.core.profile import Check, ExpectedCall

Status = Literal["pass", "fail", "skip", "inconclusive"]
Blame = Literal["", "image", "model", "profile", "test"]

_CALL_MARKUP = re.compile(
    r"<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<function=|"
    r'\{\s*"name"\s*:.*"(?:arguments|parameters)"\s*:',
    re.DOTALL,
)
_EXCERPT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How one check ended."""

    status: Status
    reason: str
    key: str = ""
    """Finding key, where something is worth one."""
    blame: Blame = ""
    again: bool = False
    """Worth asking once more with a larger token limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known around a check."""

    served_name: str = ""
    version: str = ""
    """vLLM's version by the image's labels."""
    claims_tools: bool = False
    earlier: Mapping[str, Answer] = field(default_factory=dict)
    """Answers of earlier checks, by name."""


def judge(check: Check, answer: Answer, facts: Facts) -> Verdict:
    """Compare what came with what the check expects."""
    if answer.reply.failure:
        return _fail(f"no whole answer: {answer.reply.failure}", "health-is-not-ready")
    if answer.reply.status != 200:
        return _judge_refusal(answer, facts)
    if check.request == "get":
        return _judge_get(check, answer, facts)
    empty = None if answer.problems else _judge_empty(check, answer)
    if empty is not None:
        return empty
    broken = "streaming-usage" if check.stream else "garbage-output"
    problems = [(problem, broken) for problem in answer.problems] or [
        *_calls_problems(check.expect.tool_calls, answer),
        *_text_problems(check, answer),
        *_stream_problems(check, answer, facts),
    ]
    if problems:
        return _fail("; ".join(text for text, _ in problems), problems[0][1])
    return Verdict(status="pass", reason=_praise(check, answer))


def _judge_refusal(answer: Answer, facts: Facts) -> Verdict:
    status, message = answer.reply.status, answer.error_message
    said = f"HTTP {status}: {message[:300]}".rstrip(": ")
    if status >= 500:
        return _fail(said, "health-is-not-ready")
    if status == 404 and answer.error_type != "NotFoundError":
        return _fail(
            f"{said} (not vLLM's own: a wrong path, or a proxy answered)", "model-name-404"
        )
    if status == 400 and "--tool-call-parser" in message and facts.claims_tools:
        return _fail(f"the flags are given, yet {said}", "tool-calls")
    outcome: Status = "inconclusive"
    key = "request-refused"
    blame: Blame = "test"
    if status == 404:
        key, blame = "model-name-404", "profile"
    elif status == 400 and "--tool-call-parser" in message:
        # The profile never claimed tool calls, so nothing is left unproven.
        outcome, key, blame = "skip", "tool-calls", "profile"
    elif status == 400 and "chat template" in message:
        key, blame = "chat-template-missing", "model"
    return Verdict(status=outcome, reason=said, key=key, blame=blame)


def _judge_get(check: Check, answer: Answer, facts: Facts) -> Verdict:
    try:
        body: JsonValue = json.loads(answer.reply.body) if answer.reply.body else None
    except ValueError:
        body = None
    if check.expect.models:
        return _judge_models(model_ids(body), facts.served_name)
    if check.expect.version:
        found = body.get("version") if isinstance(body, dict) else None
        return _judge_version(found if isinstance(found, str) else "", facts.version)
    return Verdict(status="pass", reason="HTTP 200")


def _judge_models(ids: list[str], wanted: str) -> Verdict:
    if not ids:
        return _fail("the list of models is empty", "model-name-404")
    listed = ", ".join(ids)
    if wanted and wanted not in ids:
        return Verdict(
            status="inconclusive",
            reason=f"{wanted!r} is not served, these are: {listed}",
            key="model-name-404",
            blame="profile",
        )
    return Verdict(status="pass", reason=f"serves {listed}")


def _judge_version(found: str, label: str) -> Verdict:
    if not found:
        return _fail("the answer names no version", "tag-vs-content")
    if not label:
        return Verdict(
            status="inconclusive",
            reason=f"the server is {found}; the image has no label to compare with",
            key="tag-vs-content",
            blame="image",
        )
    if not same_version(label, found):
        return _fail(f"the server is {found}, the label says {label}", "tag-vs-content")
    return Verdict(status="pass", reason=f"the server is {found}")


def _judge_empty(check: Check, answer: Answer) -> Verdict | None:
    """C55: three different things look like an empty answer."""
    expect = check.expect
    wants_text = expect.content not in (None, "") or bool(expect.contains)
    if answer.text or answer.tool_calls or not (wants_text or expect.tool_calls):
        return None
    if answer.finish_reason == "length":
        where = "inside the reasoning" if answer.reasoning else "before any text"
        return Verdict(
            status="inconclusive",
            reason=f"the token limit was reached {where}",
            key="content-null",
            blame="test",
            again=True,
        )
    if answer.reasoning:
        return Verdict(
            status="inconclusive",
            reason=(
                "the parser put everything into the reasoning: "
                f"{_quote(answer.reasoning)}; content is empty"
            ),
            key="content-null",
            blame="profile",
        )
    return _fail(f"no text at all, finish_reason {answer.finish_reason!r}", "content-null")


def _calls_problems(expected: list[ExpectedCall] | None, answer: Answer) -> list[tuple[str, str]]:
    if expected is None:
        return []
    if expected and not answer.tool_calls:
        left = _CALL_MARKUP.search(answer.text) is not None
        why = "the call was left as text (wrong tool parser?)" if left else "no call came"
        return [(f"{why}: {_quote(answer.text)}", "tool-calls")]
    problems = [
        f"arguments of {call.name} are no JSON: {_quote(call.arguments)}"
        for call in answer.tool_calls
        if call.parsed() is None
    ]
    wanted = [(call.name, dict(call.arguments)) for call in expected]
    found = [(call.name, call.parsed()) for call in answer.tool_calls]
    if not problems and wanted != found:
        problems.append(f"expected the calls {wanted}, got {found}")
    return [(problem, "tool-calls") for problem in problems]


def _text_problems(check: Check, answer: Answer) -> list[tuple[str, str]]:
    expect, problems = check.expect, []
    if expect.content is not None and answer.text != expect.content:
        problems.append(f"expected {_quote(expect.content)}, got {_quote(answer.text)}")
    problems += [
        f"{_quote(part)} is not in {_quote(answer.text)}"
        for part in expect.contains
        if part not in answer.text
    ]
    odd = garbled(answer.text)
    if odd and (problems or expect.content is None):
        problems.insert(0, odd)
    if expect.finish_reason is not None and answer.finish_reason != expect.finish_reason:
        problems.append(f"finish_reason {answer.finish_reason!r}, not {expect.finish_reason!r}")
    rows = [(problem, "garbage-output") for problem in problems]
    if expect.reasoning is not None and (answer.reasoning or "").strip() != expect.reasoning:
        shown = _quote(answer.reasoning or "")
        rows.append(
            (f"expected the reasoning {_quote(expect.reasoning)}, got {shown}", "content-null")
        )
    return rows


def _stream_problems(check: Check, answer: Answer, facts: Facts) -> list[tuple[str, str]]:
    expect, problems = check.expect, []
    if expect.min_chunks is not None and answer.chunks < expect.min_chunks:
        problems.append(f"{answer.chunks} events carried text, expected {expect.min_chunks}")
    if expect.usage and answer.usage is None:
        problems.append("no usage came")
    other = facts.earlier.get(expect.same_as or "")
    if expect.same_as is not None and other is None:
        problems.append(f"check {expect.same_as!r} has no answer to compare with")
    if other is not None:
        if (answer.content, answer.reasoning) != (other.content, other.reasoning):
            problems.append(
                f"{expect.same_as!r} had {_quote(other.text)}, this {_quote(answer.text)}"
            )
        if answer.usage and other.usage and not _close(answer.usage, other.usage):
            problems.append(f"{expect.same_as!r} counted {other.usage}, this {answer.usage}")
    return [(problem, "streaming-usage") for problem in problems]


def _close(one: Usage, other: Usage) -> bool:
    """Versions differ in whether the end token counts."""
    return one.prompt == other.prompt and abs(one.completion - other.completion) <= 2


def garbled(text: str) -> str:
    """Say what is odd about a text: repetition, or characters no text has (C61); empty if sound.

    It repeats itself when fewer than four of ten runs of three words are different ones, in the
    whole or in its last sixty words; characters stand for words where there are too few.
    """
    bad = sorted(
        {char for char in text if char == "\ufffd" or (char < " " and char not in "\n\t\r")}
    )
    if bad:
        return f"characters that no text has: {', '.join(f'U+{ord(char):04X}' for char in bad)}"
    words = text.split()
    parts, joint = (words, " ") if len(words) >= 12 else (list(text), "")
    for window in (parts, parts[-60:]):
        runs = Counter(zip(window, window[1:], window[2:], strict=False))
        if runs.total() >= 10 and len(runs) < 0.4 * runs.total():
            run, count = runs.most_common(1)[0]
            return f"the answer repeats itself: {_quote(joint.join(run))} {count} times"
    return ""


def same_version(label: str, answer: str) -> bool:
    """Whether a server's own version is the one of its distribution.

    `/version` comes from `vllm/_version.py`, which may lack the variant that the wheel's local
    label ends in (`0.32.1.dev1+gea5f903f8` beside `….cpu`); all else must be equal.
    """
    try:
        wanted, found = Version(label), Version(answer)
    except InvalidVersion:
        return label == answer
    plain = re.sub(r"(?:^|\.)(?:cpu|cu\d+|rocm\d+)$", "", wanted.local or "")
    return wanted.public == found.public and (found.local or "") in (wanted.local or "", plain)


def model_ids(body: JsonValue) -> list[str]:
    """Ids in an answer of /v1/models."""
    data = body.get("data") if isinstance(body, dict) else None
    rows = data if isinstance(data, list) else []
    ids = [row.get("id") for row in rows if isinstance(row, dict)]
    return [name for name in ids if isinstance(name, str)]


def _praise(check: Check, answer: Answer) -> str:
    parts = []
    if answer.tool_calls:
        parts.append(", ".join(f"{call.name}({call.arguments})" for call in answer.tool_calls))
    if answer.text:
        parts.append(_quote(answer.text))
    if answer.reasoning_field:
        parts.append(f"reasoning in field `{answer.reasoning_field}`")
    if check.stream:
        parts.append(f"{answer.chunks} events")
    return "; ".join(parts)


def _fail(reason: str, key: str) -> Verdict:
    return Verdict(status="fail", reason=reason, key=key, blame="image")


def _quote(text: str) -> str:
    return json.dumps(text[:_EXCERPT] + ("…" if len(text) > _EXCERPT else ""), ensure_ascii=False)
