"""Many answers at once, judged as one: the worst of them, and what the server managed."""

from __future__ import annotations

from collections.abc import Sequence

from builder.core.answer import Answer
from builder.core.ruling import Verdict

_RANK = {"fail": 0, "inconclusive": 1, "skip": 2, "pass": 3}


def judge_burst(
    answers: Sequence[Answer], verdicts: Sequence[Verdict], concurrency: int, seconds: float
) -> tuple[int, Verdict, dict[str, float]]:
    """Return the number of the worst answer, the verdict on all, and the figures.

    `seconds` is what all of them took together. Percentiles are nearest-rank: every figure is one
    that a request really had.
    """
    worst = min(range(len(verdicts)), key=lambda number: _RANK[verdicts[number].status])
    times = sorted(answer.reply.seconds for answer in answers)
    firsts = sorted(answer.reply.first_seconds for answer in answers)
    tokens = sum(answer.usage.completion for answer in answers if answer.usage)
    figures = {
        "requests": float(len(answers)),
        "concurrency": float(concurrency),
        "p50_seconds": round(percentile(times, 50), 3),
        "p95_seconds": round(percentile(times, 95), 3),
        "first_byte_p50_seconds": round(percentile(firsts, 50), 3),
        "requests_per_second": round(len(answers) / seconds, 2),
        "tokens_per_second": round(tokens / seconds, 1),
    }
    verdict = verdicts[worst]
    told = (
        f"{len(answers)} requests, {concurrency} at once: p50 {figures['p50_seconds']:g} s, "
        f"p95 {figures['p95_seconds']:g} s, {figures['tokens_per_second']:g} tokens/s"
    )
    bad = sum(one.status != "pass" for one in verdicts)
    if bad:
        told = f"{bad} of {len(answers)} at once did not pass: {verdict.reason}; {told}"
    return (
        worst,
        Verdict(status=verdict.status, reason=told, key=verdict.key, blame=verdict.blame),
        figures,
    )


def percentile(ordered: Sequence[float], share: int) -> float:
    """Pick the nearest-rank percentile of an ascending sequence that is not empty."""
    rank = -(-share * len(ordered) // 100)
    return ordered[max(rank, 1) - 1]
