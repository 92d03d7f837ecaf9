"""How far the probabilities of the same tokens moved between two images (C61).

A kernel that is slightly wrong gives the right words for long; its probabilities tell earlier.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, JsonValue


class Score(BaseModel):
    """One token and how likely the model found it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    """Of the token."""
    logprob: float
    """Natural logarithm."""


def drift(before: Sequence[Score], now: Sequence[Score]) -> tuple[float, int]:
    """Return the mean distance in nats over the tokens both share, and how many those are.

    Tokens are compared up to the first that differs: after another token every probability is
    another one's. (0, 0) when nothing is shared.
    """
    shared: list[float] = []
    for one, other in zip(before, now, strict=False):
        if one.text != other.text:
            break
        shared.append(abs(one.logprob - other.logprob))
    return (sum(shared) / len(shared) if shared else 0.0), len(shared)


def scores_of(choice: JsonValue) -> tuple[Score, ...]:
    """Read a choice's log probabilities in both of OpenAI's shapes; empty where there are none.

    Completions: parallel lists `tokens` and `token_logprobs`, whose first is null for a prompt that
    is echoed. Chat: a list `content` of objects.
    """
    table = choice.get("logprobs") if isinstance(choice, dict) else None
    if not isinstance(table, dict):
        return ()
    content = table.get("content")
    if isinstance(content, list):
        rows = [(row.get("token"), row.get("logprob")) for row in content if isinstance(row, dict)]
    else:
        tokens, values = table.get("tokens"), table.get("token_logprobs")
        if not isinstance(tokens, list) or not isinstance(values, list):
            return ()
        rows = list(zip(tokens, values, strict=False))
    return tuple(
        Score(text=token, logprob=float(value))
        for token, value in rows
        if isinstance(token, str) and isinstance(value, int | float)
    )
