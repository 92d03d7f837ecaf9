"""The layer plan: few layers, and an update moves only what changed."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from builder.core.layers import plan

ALONE = 60_000_000
NAMES = st.text("abcdefgh-", min_size=1, max_size=6).filter(lambda name: name != "vllm")
SETS = st.dictionaries(NAMES, st.integers(1, 300_000_000), max_size=60)
BUDGETS = st.integers(4, 60)


def planned(
    sizes: dict[str, int], budget: int, previous: list[list[str]] | None = None
) -> list[list[str]]:
    """Plan with a vLLM."""
    return plan(
        {**sizes, "vllm": 300_000_000},
        last="vllm",
        alone_above=ALONE,
        budget=budget,
        previous=previous or [],
    )


def companions(groups: list[list[str]], left_out: str) -> dict[str, list[str]]:
    """Package → the others in its layer, one package not counted."""
    return {
        name: [other for other in group if other != left_out]
        for group in groups
        for name in group
        if name != left_out
    }


@given(SETS, BUDGETS)
def test_every_package_has_one_layer_and_vllm_the_last(sizes: dict[str, int], budget: int) -> None:
    """Within the budget, no layer empty, and the same again."""
    groups = planned(sizes, budget)
    assert sorted([*sizes, "vllm"]) == sorted(name for group in groups for name in group)
    assert ["vllm"] == groups[-1]
    assert len(groups) <= budget
    assert all(groups)
    assert groups == planned(dict(reversed(sizes.items())), budget)
    assert groups == planned(sizes, budget, groups)


@given(SETS, BUDGETS, st.data())
def test_a_package_that_changes_moves_no_other(
    sizes: dict[str, int], budget: int, data: st.DataObject
) -> None:
    """Whatever its new size, all others stay with whom they were."""
    assume(sizes)
    before = planned(sizes, budget)
    name = data.draw(st.sampled_from(sorted(sizes)))
    # A large one that shrinks frees a layer, which one waiting for it may take.
    crowded = len([s for s in sizes.values() if s >= ALONE]) > budget - 1 - min(
        8, (budget - 1) // 3
    )
    assume(not crowded)
    sizes = {**sizes, name: data.draw(st.integers(1, 300_000_000))}
    after = planned(sizes, budget, before)
    assert companions(before, name) == companions(after, name)


@given(SETS, BUDGETS, NAMES, st.integers(1, 300_000_000))
def test_a_package_that_comes_moves_no_other(
    sizes: dict[str, int], budget: int, name: str, size: int
) -> None:
    """Even where there is no room for it: those that have a layer keep it."""
    assume(name not in sizes)
    before = planned(sizes, budget)
    after = planned({**sizes, name: size}, budget, before)
    assert companions(before, name) == companions(after, name)


def test_large_ones_stand_alone_and_small_ones_share() -> None:
    """The order: large by name, buckets, vLLM."""
    groups = planned({"torch": 190_000_000, "triton": 250_000_000, "b": 1, "c": 2, "a": 3}, 16)
    assert [["torch"], ["triton"]] == groups[:2]
    assert ["a", "b", "c"] == sorted(name for group in groups[2:-1] for name in group)


def test_without_room_the_largest_stand_alone() -> None:
    """A budget of four is one bucket, two large ones, and vLLM."""
    groups = planned({"a": 70_000_000, "b": 90_000_000, "c": 80_000_000, "d": 1}, 4)
    assert [["b"], ["c"], ["a", "d"], ["vllm"]] == groups


def test_a_set_without_vllm_has_no_last_layer() -> None:
    """As tools."""
    assert [["a"]] == plan({"a": 1}, last="vllm", alone_above=ALONE, budget=10)
