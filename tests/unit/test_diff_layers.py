"""Bytes an operator pulls, under both layer plans."""

from __future__ import annotations

from builder.core.diff import compare
from builder.core.diff_result import Pull
from builder.core.lock import BaseLock, Lock, TargetTable
from tests.support.two_nightlies import (
    AMD64,
    deb,
    make_lock,
    new_night,
    old_night,
    wheel,
    with_header,
)

TORCH = wheel("torch", "2.14.0", size=500)
NUMPY = wheel("numpy", "2.5.2", size=30)
SIX = wheel("six", "1.17.0", size=1)
PLAN = {AMD64: [["torch"], ["numpy", "six"], ["vllm"]]}


def lock(vllm: str = "1.0", **header: object) -> Lock:
    """Make a lock of three layers; `header` replaces its plan and other fields."""
    pins = [TORCH, NUMPY, SIX, wheel("vllm", vllm, size=270)]
    debs = {AMD64: [deb("tini", "0.19.0-1", size=5)]}
    return with_header(make_lock({AMD64: pins}, debs=debs, layers=PLAN), **header)


def pull(old: Lock, new: Lock) -> Pull:
    """Give the pull of the one platform."""
    (found,) = compare(old, new).pulls
    return found


def test_a_nightly_that_moves_only_vllm_is_one_layer() -> None:
    """The wheel's bytes, and nothing of the base."""
    found = pull(lock("1.0"), lock("1.1"))
    assert (806, 270, 0, False) == (found.total, found.pull, found.base, found.base_changed)
    assert [(3, 270, ["vllm"])] == [(one.number, one.bytes, one.changed) for one in found.layers]


def test_a_shared_layer_counts_whole() -> None:
    """One small wheel moves all that lie beside it."""
    new = make_lock(
        {AMD64: [TORCH, NUMPY, wheel("six", "1.18.0", size=2), wheel("vllm", "1.0", size=270)]},
        layers=PLAN,
    )
    (layer,) = pull(lock(), new).layers
    assert (32, ["six"], ["numpy", "six"]) == (layer.bytes, layer.changed, layer.packages)


def test_a_package_that_leaves_its_layer_moves_the_rest() -> None:
    """Nothing in it is new, and yet it is another layer."""
    new = make_lock({AMD64: [TORCH, NUMPY, wheel("vllm", "1.0", size=270)]}, layers=PLAN)
    (layer,) = pull(lock(), new).layers
    assert (30, []) == (layer.bytes, layer.changed)


def test_the_order_of_layers_costs_nothing() -> None:
    """A linked layer is a function of its wheels alone; the plan's change is said."""
    plan = {AMD64: [["six", "numpy"], ["torch"], ["vllm"]]}
    result = compare(lock(), lock(layers=plan))
    assert 0 == result.pulls[0].pull
    assert [("layer plan", "3 layers", "3 layers, another order")] == [
        (fact.name, fact.old, fact.new) for fact in result.facts
    ]
    assert not result.same


def test_a_regrouping_is_pulled_and_explained() -> None:
    """The same wheels in other company."""
    plan = {AMD64: [["torch"], ["numpy"], ["six"], ["vllm"]]}
    result = compare(lock(), lock(layers=plan))
    assert 31 == result.pulls[0].pull
    assert ["4 layers, 2 packages in other company"] == [fact.new for fact in result.facts]


def test_another_python_moves_every_layer() -> None:
    """The site folder has its version in its path; a patch release does not."""
    new = lock(target=TargetTable(python="3.14", glibc="2.41", cuda="13.0"))
    assert (801, 3) == (pull(lock(), new).pull, len(pull(lock(), new).layers))
    assert "Python 3.13 → 3.14" in pull(lock(), new).reason
    patch = lock(target=TargetTable(python="3.13.9", glibc="2.41", cuda="13.0"))
    assert 0 == pull(lock(), patch).pull


def test_the_base_counts_when_a_deb_changed() -> None:
    """Whole: it is one layer."""
    pins = {AMD64: [TORCH, NUMPY, SIX, wheel("vllm", "1.0", size=270)]}
    new = make_lock(pins, debs={AMD64: [deb("tini", "0.19.0-2", size=7)]}, layers=PLAN)
    found = pull(lock(), new)
    assert (7, 7, True) == (found.pull, found.base, found.base_changed)


def test_a_base_image_has_no_known_size() -> None:
    """It is said to change, and no bytes are made up."""
    bases = [BaseLock(image="debian:13", images={AMD64: f"sha256:{x * 64}"}) for x in "ab"]
    pins = {AMD64: [wheel("vllm", "1.0")]}
    found = pull(*(make_lock(pins, base=base) for base in bases))
    assert (0, True) == (found.base, found.base_changed)


def test_what_the_plan_does_not_name_is_one_more_layer() -> None:
    """No bytes are forgotten for a lock without a plan."""
    found = pull(lock(layers={}), lock("1.1", layers={}))
    assert (801, 1) == (found.pull, found.layer_count)


def test_nothing_to_pull_between_equal_locks() -> None:
    """And all of both nights' sizes add up."""
    assert (0, []) == (pull(lock(), lock()).pull, pull(lock(), lock()).layers)
    for found in compare(old_night(), new_night()).pulls:
        platform = new_night().platforms[found.platform]
        wheels = sum(pin.size for pin in platform.wheels)
        assert wheels + sum(pin.size for pin in platform.debs) == found.total
