"""Churn: what changes together, how often, and what a layer costs."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.core.churn import RATES, Churn, Wheel, churn_of, wheels_of
from builder.edge.project import read_lock
from tests.support.churning import churns

ROOT = Path(__file__).parents[2]


def test_a_layer_costs_its_bytes_times_how_often_something_of_it_changes() -> None:
    """Four upgrades known and four not: the module's formula, by hand."""
    wheels = [Wheel(name="a", size=600), Wheel(name="b", size=400), Wheel(name="v", size=100)]
    rows = [("0", "0"), ("1", "1"), ("2", "2"), ("2", "3"), ("2", "3")]
    locks = [{"a": a, "b": b, "v": str(at)} for at, (a, b) in enumerate(rows)]
    churn = Churn(wheels, locks)
    stays = (1000 - RATES["other"]) / 1000
    expected_a = 600 * (2 + 4 * (1 - stays)) / 8
    expected_both = 1000 * (3 + 4 * (1 - stays**2)) / 8
    assert round(expected_a) == churn.expected([["a"]])
    assert round(expected_both) == churn.expected([["a", "b"]])
    assert 100 == churn.expected([["v"]], "v")
    assert 4 == churn.known


def test_wheels_of_one_cause_cost_no_more_together_than_alone() -> None:
    """And those of two causes do."""
    wheels = [Wheel(name=name, size=10**6, cause=name[0]) for name in ("a1", "a2", "b1")]
    churn = Churn(wheels)
    apart = churn.expected([["a1"], ["a2"]])
    assert apart == churn.expected([["a1", "a2"]])
    assert churn.expected([["a1"], ["b1"]]) < churn.expected([["a1", "b1"]])


def test_neighbours_that_hold_the_same_are_no_upgrade() -> None:
    """A lock that was committed and lies there unchanged counts once; .debs do not count."""
    history = [{"a": "0"}, {"a": "0"}, {"a": "1"}, {"a": "1"}]
    assert 1 == Churn([Wheel(name="a", size=1)], history).known


def test_a_wheel_that_came_changed_then() -> None:
    """Its layer was pulled for it; what left long ago is nobody's any more."""
    history = [{"gone": "0", "a": "0"}, {"a": "0", "b": "0"}]
    churn = Churn([Wheel(name="a", size=1), Wheel(name="b", size=1)], history)
    assert [0, 1] == [churn.load([name]).seen for name in ("a", "b")]


@given(churns(), st.data())
@settings(max_examples=50)
def test_a_larger_layer_changes_no_less_often(churn: Churn, data: st.DataObject) -> None:
    """Weights grow with the wheels, and stay below that of all upgrades."""
    names = st.sets(st.sampled_from(sorted(churn.sizes)))
    one, two = churn.load(data.draw(names)), churn.load(data.draw(names))
    both = churn.weight(one | two)
    assert max(churn.weight(one), churn.weight(two)) <= both <= churn.total
    assert churn.together(one, two) >= churn.cost(one) + churn.cost(two)


def causes(requires: dict[str, list[str]], *names: str) -> dict[str, str]:
    """Package → what moves it; every package is there in version 1."""
    versions = dict.fromkeys([*requires, *names], "1")
    found = wheels_of(dict.fromkeys(versions, 1), versions, requires, "vllm")
    return {wheel.name: wheel.cause for wheel in found}


def test_what_is_pinned_moves_with_who_pins_it() -> None:
    """Through several, up to the one that vLLM names; a range binds nothing."""
    found = causes(
        {
            "vllm": ["dsl==1", "loose>=1"],
            "dsl": ["base==1", "free>=1", "other==2"],
            "base": ["core==1.*; extra == 'x'", "not PEP 508 at all =="],
        },
        "core", "free", "loose", "other",
    )  # fmt: skip
    assert {"base": "dsl", "core": "dsl", "dsl": "dsl"} == {
        name: found[name] for name in ("base", "core", "dsl")
    }
    assert {"free", "loose", "other", "vllm"} == {name for name in found if found[name] == name} - {
        "dsl"
    }


def test_families_move_as_one() -> None:
    """They are pinned one by one: torch, torchvision and FlashInfer's packages."""
    found = causes(
        {
            "vllm": ["torch==1", "torchvision==1", "flashinfer-python==1", "flashinfer-cubin==1"],
            "torch": ["nccl==1", "cuda-toolkit==1"],
            "torchvision": ["torch==1"],
            "extensions": ["nccl==1; extra == 'y'"],
            "cuda-toolkit": ["cublas==1"],
        },
        "nccl", "cublas", "flashinfer-cubin", "flashinfer-python",
    )  # fmt: skip
    assert {"torch", "torchvision", "nccl"} == {name for name in found if found[name] == "torch"}
    assert {"cuda-toolkit", "cublas"} == {name for name in found if found[name] == "cuda-toolkit"}
    assert {"flashinfer-python", "flashinfer-cubin"} == {
        name for name in found if found[name] == "flashinfer-python"
    }


def test_pins_in_a_circle_end() -> None:
    """Two packages that pin each other are one."""
    found = causes({"vllm": [], "a": ["b==1"], "b": ["a==1"], "c": ["a==1"]})
    assert {"a": "a", "b": "a", "c": "c", "vllm": "vllm"} == found


def test_kinds_come_from_vllms_own_metadata() -> None:
    """A pin of another version than the one that is there is none."""
    requires = {"vllm": ["a==1", "b>=0", "c==2; python_version < '3'", "a"], "b": ["d==1"]}
    versions = dict.fromkeys("abcd", "1") | {"vllm": "1"}
    found = wheels_of(dict.fromkeys(versions, 1), versions, requires, "vllm")
    assert {"a": "pinned", "b": "required", "c": "required", "d": "other", "vllm": "other"} == {
        wheel.name: wheel.kind for wheel in found
    }


def test_of_a_cause_the_highest_kind_counts() -> None:
    """Torchvision pins torch and vLLM does not: both move as often as what vLLM pins."""
    pair = [
        Wheel(name="a", size=1, kind="other"),
        Wheel(name="b", size=1, cause="a", kind="pinned"),
    ]
    assert Churn(pair).weight(Churn(pair).load(["a"])) == Churn(
        [Wheel(name="a", size=1, kind="pinned")]
    ).weight(Churn(pair).load(["a"]))


def test_a_committed_lock_tells_all_that_is_needed() -> None:
    """Metadata and sizes of the real one: torch's libraries move with it, CUDA's do not."""
    lock = read_lock(ROOT, "cuda13-sm120")
    (content,) = lock.platforms.values()
    churn = churn_of(content, "vllm", [content, content])
    assert 0 == churn.known
    torch, nccl, cufft = (
        churn.load([name]).causes for name in ("torch", "nvidia-nccl-cu13", "nvidia-cufft")
    )
    assert torch == nccl != cufft
