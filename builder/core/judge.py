"""Judging answers: what was expected, what came, and whose fault the difference is.

What was seen becomes a case of the verdict table (`ruling.py`), which says what it means.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from packaging.version import InvalidVersion, Version
from pydantic import JsonValue

from builder.core.answer import Answer, Usage
from builder.core.drift import Score, drift
from builder.core.profile import Check, ExpectedCall
from builder.core.ruling import Verdict, rule
from builder.core.structure import misfits

_CALL_MARKUP = re.compile(
    r"<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<function=|"
    r'\{\s*"name"\s*:.*"(?:arguments|parameters)"\s*:',
    re.DOTALL,
)
_EXCERPT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known around a check."""

    served_name: str = ""
    version: str = ""
    """vLLM's version by the image's labels."""
    claims_tools: bool = False
    earlier: Mapping[str, Answer] = field(default_factory=dict)
    """Answers of earlier checks, by name."""
    before: Mapping[str, Sequence[Score]] = field(default_factory=dict)
    """Log probabilities that the last image gave, by check."""


def judge(check: Check, answer: Answer, facts: Facts) -> Verdict:
    """Compare what came with what the check expects."""
    if answer.reply.failure or answer.reply.status != 200:
        return _judge_refusal(answer, facts)
    if check.request == "get":
        return _judge_get(check, answer, facts)
    empty = None if answer.problems else _judge_empty(check, answer)
    if empty is not None:
        return empty
    broken = "stream-differs" if check.stream else "text-differs"
    problems = [(problem, broken) for problem in answer.problems] or [
        *_calls_problems(check.expect.tool_calls, answer),
        *_structure_problems(check, answer),
        *_text_problems(check, answer),
        *_stream_problems(check, answer, facts),
    ]
    if problems:
        return rule(problems[0][1], "; ".join(text for text, _ in problems))
    if check.expect.max_drift is not None:
        return _judge_drift(check, answer, facts, check.expect.max_drift)
    return Verdict(status="pass", reason=_praise(check, answer))


def _judge_drift(check: Check, answer: Answer, facts: Facts, most: float) -> Verdict:
    praise, before = _praise(check, answer), facts.before.get(check.name, ())
    if not answer.scores:
        return rule("no-probabilities", f"{praise}; no log probabilities came")
    if not before:
        return Verdict(status="pass", reason=f"{praise}; no earlier probabilities to compare with")
    moved, shared = drift(before, answer.scores)
    if not shared:
        said = f"already the first token is another: {_quote(answer.scores[0].text)}"
        return rule("probabilities-moved", f"{said}, was {_quote(before[0].text)}")
    said = f"probabilities of {shared} tokens moved by {moved:.4f} nats on average"
    if moved > most:
        return rule("probabilities-moved", f"{said}, more than {most:g}")
    return Verdict(status="pass", reason=f"{praise}; {said}")


def _judge_refusal(answer: Answer, facts: Facts) -> Verdict:
    if answer.reply.failure:
        return rule("no-answer", f"no whole answer: {answer.reply.failure}")
    status, message = answer.reply.status, answer.error_message
    said = f"HTTP {status}: {message[:300]}".rstrip(": ")
    if status >= 500:
        return rule("engine-error", said)
    if status == 404:
        own = answer.error_type == "NotFoundError"
        odd = "" if own else " (not vLLM's own: a wrong path, or a proxy answered)"
        return rule("model-unknown" if own else "foreign-404", said + odd)
    if status == 400 and "--tool-call-parser" in message:
        # Where the profile never claimed tool calls, nothing is left unproven.
        claimed = facts.claims_tools
        case = "tools-claimed-yet-refused" if claimed else "tools-not-claimed"
        return rule(case, f"the flags are given, yet {said}" if claimed else said)
    if status == 400 and "chat template" in message:
        return rule("no-chat-template", said)
    return rule("request-refused", said)


def _judge_get(check: Check, answer: Answer, facts: Facts) -> Verdict:
    text = answer.reply.body
    if check.expect.metrics:
        return _judge_metrics(check.expect.metrics, text)
    try:
        body: JsonValue = json.loads(text) if text else None
    except ValueError:
        body = None
    if check.expect.models:
        return _judge_models(model_ids(body), facts.served_name)
    if check.expect.version:
        found = body.get("version") if isinstance(body, dict) else None
        return _judge_version(found if isinstance(found, str) else "", facts.version)
    return Verdict(status="pass", reason="HTTP 200")


def _judge_metrics(wanted: list[str], text: str) -> Verdict:
    # Prometheus' text format: a sample is a name, then `{` of its labels or a blank.
    rows = (line for line in text.splitlines() if line and not line.startswith("#"))
    names = {re.split(r"[{\s]", row, maxsplit=1)[0] for row in rows}
    missing = [name for name in wanted if name not in names]
    if missing:
        return rule("metrics-missing", f"{len(names)} metrics, none of them {', '.join(missing)}")
    return Verdict(status="pass", reason=f"{len(names)} metrics, {', '.join(wanted)} among them")


def _judge_models(ids: list[str], wanted: str) -> Verdict:
    if not ids:
        return rule("no-model-listed", "the list of models is empty")
    listed = ", ".join(ids)
    if wanted and wanted not in ids:
        return rule("model-not-listed", f"{wanted!r} is not served, these are: {listed}")
    return Verdict(status="pass", reason=f"serves {listed}")


def _judge_version(found: str, label: str) -> Verdict:
    if not found:
        return rule("version-differs", "the answer names no version")
    if not label:
        said = f"the server is {found}; the image has no label to compare with"
        return rule("no-label", said)
    if not same_version(label, found):
        return rule("version-differs", f"the server is {found}, the label says {label}")
    return Verdict(status="pass", reason=f"the server is {found}")


def _judge_empty(check: Check, answer: Answer) -> Verdict | None:
    """C55: three different things look like an empty answer."""
    expect = check.expect
    wants_text = expect.content not in (None, "") or bool(expect.contains or check.structure)
    if answer.text or answer.tool_calls or not (wants_text or expect.tool_calls):
        return None
    if answer.finish_reason == "length":
        where = "inside the reasoning" if answer.reasoning else "before any text"
        return rule("limit-reached", f"the token limit was reached {where}")
    if answer.reasoning:
        said = f"all text was taken for reasoning: {_quote(answer.reasoning)}; content is empty"
        return rule("all-is-reasoning", said)
    said = f"no text at all, finish_reason {answer.finish_reason!r}"
    return rule("nothing-came", said)


def _calls_problems(expected: list[ExpectedCall] | None, answer: Answer) -> list[tuple[str, str]]:
    if expected is None:
        return []
    if expected and not answer.tool_calls:
        if _CALL_MARKUP.search(answer.text) is not None:
            said = f"the call was left as text (wrong tool parser?): {_quote(answer.text)}"
            return [(said, "call-left-as-text")]
        return [(f"no call came: {_quote(answer.text)}", "call-differs")]
    problems = [
        f"arguments of {call.name} are no JSON: {_quote(call.arguments)}"
        for call in answer.tool_calls
        if call.parsed() is None
    ]
    wanted = [(call.name, dict(call.arguments)) for call in expected]
    found = [(call.name, call.parsed()) for call in answer.tool_calls]
    if not problems and wanted != found:
        problems.append(f"expected the calls {wanted}, got {found}")
    return [(problem, "call-differs") for problem in problems]


def _structure_problems(check: Check, answer: Answer) -> list[tuple[str, str]]:
    if not check.structure:
        return []
    try:
        value: JsonValue = json.loads(answer.text)
    except ValueError:
        problems = [f"the text is no JSON: {_quote(answer.text)}"]
    else:
        problems = misfits(check.structure, value)
    return [(problem, "structure-broken") for problem in problems]


def _text_problems(check: Check, answer: Answer) -> list[tuple[str, str]]:
    expect, problems = check.expect, []
    if expect.content is not None and answer.text != expect.content:
        problems.append(f"expected {_quote(expect.content)}, got {_quote(answer.text)}")
    problems += [
        f"{_quote(part)} is not in {_quote(answer.text)}"
        for part in expect.contains
        if part not in answer.text
    ]
    rows = [(problem, "text-differs") for problem in problems]
    odd = garbled(answer.text)
    if odd and (problems or expect.content is None) and not check.structure:
        rows.insert(0, (odd, "text-garbled"))
    if expect.finish_reason is not None and answer.finish_reason != expect.finish_reason:
        said = f"finish_reason {answer.finish_reason!r}, not {expect.finish_reason!r}"
        rows.append((said, "text-differs"))
    if expect.reasoning is not None and (answer.reasoning or "").strip() != expect.reasoning:
        shown = _quote(answer.reasoning or "")
        said = f"expected the reasoning {_quote(expect.reasoning)}, got {shown}"
        rows.append((said, "reasoning-differs"))
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
    rows = [(problem, "stream-differs") for problem in problems]
    least, counted = expect.min_prompt_tokens, answer.usage.prompt if answer.usage else 0
    if least is not None and counted < least:
        rows.append(
            (f"the prompt counts {counted} tokens, at least {least} were sent", "prompt-cut")
        )
    return rows


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


def _quote(text: str) -> str:
    return json.dumps(text[:_EXCERPT] + ("…" if len(text) > _EXCERPT else ""), ensure_ascii=False)
