"""Wheels with a history, made up, for the planner; and the plan by names that it must beat."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from hypothesis import strategies as st

from builder.core.churn import RATES, Churn, Wheel

VLLM = "vllm"
ALONE = 60_000_000
NAMES = st.text("abcdefgh", min_size=1, max_size=3)
SIZES = st.one_of(st.integers(0, 100_000), st.integers(1, 600_000_000))
BUDGETS = st.integers(4, 60)


@st.composite
def wheels(draw: st.DrawFn, most: int = 40) -> dict[str, Wheel]:
    """Any set of wheels, some of which move together; vLLM is one."""
    names = draw(st.sets(NAMES, max_size=most))
    return {name: draw(wheel(name)) for name in sorted(names)} | {
        VLLM: Wheel(name=VLLM, size=300_000_000)
    }


@st.composite
def wheel(draw: st.DrawFn, name: str) -> Wheel:
    """One of any size and kind."""
    return Wheel(
        name=name,
        size=draw(SIZES),
        cause=draw(st.sampled_from(["", "", "", "torch", "cutlass"])),
        kind=draw(st.sampled_from(sorted(RATES))),
    )


@st.composite
def churns(draw: st.DrawFn, most: int = 40) -> Churn:
    """Any set with any history: each lock changes some wheels, and vLLM."""
    found = draw(wheels(most))
    history = [dict.fromkeys(found, "0")]
    for step in range(1, draw(st.integers(0, 8))):
        moved = draw(st.sets(st.sampled_from(sorted(found)))) | {VLLM}
        history.append(history[-1] | dict.fromkeys(moved, str(step)))
    return Churn(found.values(), history)


def by_name(sizes: Mapping[str, int], budget: int) -> list[list[str]]:
    """Plan without any history: large wheels alone, the others by a hash of their name."""
    others = {name: size for name, size in sizes.items() if name != VLLM}
    buckets = min(8, max(1, (budget - 1) // 3))
    large = [name for name, size in others.items() if size >= ALONE]
    large.sort(key=lambda name: (-others[name], name))
    alone = large[: budget - 1 - buckets]
    shared: dict[int, list[str]] = {}
    for name in sorted(others.keys() - set(alone)):
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        shared.setdefault(number % buckets, []).append(name)
    return [*([name] for name in alone), *(group for _, group in sorted(shared.items())), [VLLM]]
