"""The verdict table: what each way an answer can go means, and whose fault it is.

Cases C54 to C61 and C67 of the collection, as data. A check passes, fails, is skipped (the profile
never claimed it) or is inconclusive (model, profile or test stand in the way); only passes and
skips let a smoke pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["pass", "fail", "skip", "inconclusive"]
Blame = Literal["", "image", "model", "profile", "test"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """One row."""

    status: Status
    key: str
    """Finding key."""
    blame: Blame
    again: bool = False
    """Worth asking once more with a larger token limit."""


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


def _row(status: Status, key: str, blame: Blame, *, again: bool = False) -> Ruling:
    return Ruling(status=status, key=key, blame=blame, again=again)


RULINGS: Mapping[str, Ruling] = {
    # C54: either field counts; only a text that is not the expected one is judged.
    "reasoning-differs": _row("fail", "content-null", "image"),
    # C55: three things that look alike.
    "limit-reached": _row("inconclusive", "content-null", "test", again=True),
    "all-is-reasoning": _row("inconclusive", "content-null", "profile"),
    "nothing-came": _row("fail", "content-null", "image"),
    # C56
    "tools-not-claimed": _row("skip", "tool-calls", "profile"),
    "tools-claimed-yet-refused": _row("fail", "tool-calls", "image"),
    "call-left-as-text": _row("fail", "tool-calls", "profile"),
    "call-differs": _row("fail", "tool-calls", "image"),
    # C57
    "stream-differs": _row("fail", "streaming-usage", "image"),
    # C58
    "no-chat-template": _row("inconclusive", "chat-template-missing", "model"),
    # C59
    "model-unknown": _row("inconclusive", "model-name-404", "profile"),
    "model-not-listed": _row("inconclusive", "model-name-404", "profile"),
    "no-model-listed": _row("fail", "model-name-404", "image"),
    "foreign-404": _row("fail", "model-name-404", "image"),
    # C60
    "no-answer": _row("fail", "health-is-not-ready", "image"),
    "engine-error": _row("fail", "health-is-not-ready", "image"),
    # C61
    "text-differs": _row("fail", "garbage-output", "image"),
    "text-garbled": _row("fail", "garbage-output", "image"),
    "probabilities-moved": _row("fail", "logprob-drift", "image"),
    "no-probabilities": _row("inconclusive", "logprob-drift", "test"),
    # C67
    "version-differs": _row("fail", "tag-vs-content", "image"),
    "no-label": _row("inconclusive", "tag-vs-content", "image"),
    # Beyond the cases.
    "request-refused": _row("inconclusive", "request-refused", "test"),
    "structure-broken": _row("fail", "structured-output", "image"),
    "metrics-missing": _row("fail", "metrics-missing", "image"),
    "prompt-cut": _row("fail", "prompt-cut", "image"),
}
"""What happened → what it means."""


def rule(case: str, reason: str) -> Verdict:
    """Look a case up; `reason` says what was seen."""
    row = RULINGS[case]
    return Verdict(status=row.status, reason=reason, key=row.key, blame=row.blame, again=row.again)
