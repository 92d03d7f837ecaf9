"""The whole comparison: noise is nothing, everything else is something."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.core.diff import compare
from builder.core.diff_alarms import alarms
from builder.core.diff_result import DiffResult, Kind
from builder.core.lock import (
    BaseLock,
    Header,
    Lock,
    PlatformLock,
    ResolverTable,
    TargetTable,
    VllmTable,
)
from tests.support.two_nightlies import (
    AMD64,
    ARM64,
    NEW_COMMIT,
    OLD_VLLM,
    deb,
    make_lock,
    new_night,
    old_night,
    wheel,
    with_header,
)

QUICK = settings(max_examples=60, deadline=None)
"""Locks are large values: a hundred of them take seconds."""

MIRRORED: dict[Kind, Kind] = {
    "added": "removed",
    "removed": "added",
    "upgraded": "downgraded",
    "downgraded": "upgraded",
    "re-hashed": "re-hashed",
    "moved": "moved",
}


def noisy(lock: Lock, seed: int) -> Lock:
    """Give the same lock, resolved in another order."""
    chance = random.Random(seed)  # noqa: S311 - hypothesis owns the seed
    platforms = {}
    for platform, content in reversed(list(lock.platforms.items())):
        platforms[platform] = PlatformLock(
            wheels=tuple(chance.sample(content.wheels, len(content.wheels))),
            debs=tuple(chance.sample(content.debs, len(content.debs))),
            meta=dict(reversed(list(content.meta.items()))),
        )
    return Lock(header=lock.header, platforms=platforms)


@QUICK
@given(st.integers())
def test_lock_noise_is_no_change(seed: int) -> None:
    """Whatever order packages were found in; a lock on disk has one form, others are refused."""
    old = Lock.parse(old_night().files(), "old")
    new = Lock.parse(noisy(old_night(), seed).files(), "new")
    result = compare(old, new)
    assert result.same
    assert [] == said(result)
    assert () == alarms(result)


def test_lock_noise_other_spelling_of_metadata_is_no_change() -> None:
    """Requires-Dist and Requires-Python say the same in many ways."""
    pins = {AMD64: [wheel("vllm", OLD_VLLM)]}
    spellings = (
        (["Torch >=2, <3", 'ray[cgraph]>=2; extra=="ray"', "b"], ">=3.11,<3.15"),
        (["b", "torch<3,>=2", "ray[cgraph]>=2 ; extra == 'ray'"], "<3.15, >=3.11"),
    )
    old, new = (
        make_lock(pins, requires={"vllm": lines}, meta={"vllm": {"requires_python": python}})
        for lines, python in spellings
    )
    assert [] == said(compare(old, new))


def said(result: DiffResult) -> list[object]:
    """Everything a diff says."""
    return [
        *result.platforms_added,
        *result.platforms_removed,
        *result.facts,
        *result.commits,
        *result.packages,
        *result.dropped,
        *result.requirements,
        *result.metadata,
        *result.debs,
        *result.tools,
    ]


NAMES = ("numpy", "six", "torch", "flashinfer-python")
WHEELS = st.builds(
    wheel,
    st.sampled_from(NAMES),
    st.sampled_from(("1.0", "1.1", "2.0+cu130")),
    size=st.just(7),
    index=st.sampled_from(("general", "mirror")),
    tag=st.sampled_from(("py3-none-any", "1-py3-none-any")),
    content=st.sampled_from(("", "other")),
)
DEBS = st.builds(
    deb,
    st.sampled_from(("tini", "gcc")),
    st.sampled_from(("1-1", "1-2")),
    suite=st.sampled_from(("trixie", "trixie-security")),
    content=st.sampled_from(("", "other")),
)
ROWS = st.fixed_dictionaries(
    {
        "hash_from": st.sampled_from(("index", "computed")),
        "licence": st.sampled_from(("MIT", "BSD")),
        "requires_dist": st.sampled_from(([], ["six"], ["six", "torch>2"])),
        "requires_python": st.sampled_from(("", ">=3.11")),
    }
)


@st.composite
def platform_locks(draw: st.DrawFn) -> PlatformLock:
    """Make up what one platform installs."""
    pins = draw(st.lists(WHEELS, max_size=3, unique_by=lambda pin: pin.name))
    debs = draw(st.lists(DEBS, max_size=2, unique_by=lambda pin: pin.name))
    meta: dict[str, object] = {pin.name: draw(ROWS) for pin in pins}
    if draw(st.booleans()):
        meta["winners"] = {"b12x/__init__.py": draw(st.sampled_from(NAMES))}
    return PlatformLock(wheels=tuple(sorted(pins)), debs=tuple(sorted(debs)), meta=meta)


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    """Make up a whole lock."""
    platforms = draw(st.dictionaries(st.sampled_from((AMD64, ARM64)), platform_locks(), min_size=1))
    header = Header(
        image=draw(st.sampled_from(("a", "b"))),
        spec="sha256:" + draw(st.sampled_from("12")) * 64,
        channel=draw(st.sampled_from(("nightly", "release"))),
        epoch=draw(st.integers(0, 2)),
        vllm=VllmTable(
            package="vllm",
            version=draw(st.sampled_from(("1.0", "1.1.dev3"))),
            commit=draw(st.sampled_from(("a" * 40, "b" * 40))),
            variant=draw(st.sampled_from(("", "cpu"))),
        ),
        target=TargetTable(
            python=draw(st.sampled_from(("3.12", "3.13"))),
            glibc=draw(st.sampled_from(("2.36", "2.41"))),
            cuda=draw(st.sampled_from(("", "13.0"))),
        ),
        companions=draw(st.sampled_from(({}, {"torch": "1.0"}))),
        base=BaseLock(debian=draw(st.sampled_from(("bookworm", "trixie")))),
        tools={platform: [draw(WHEELS).line()] for platform in platforms},
        layers={
            platform: [[pin.name] for pin in content.wheels]
            for platform, content in platforms.items()
        },
        resolver=ResolverTable(name="uv", version=draw(st.sampled_from(("1", "2")))),
    )
    return Lock(header=header, platforms=platforms)


HEADER_PARTS = (
    "image", "spec", "channel", "epoch", "vllm", "target", "companions", "base", "resolver",
)  # fmt: skip


def transplanted(lock: Lock, other: Lock, part: str) -> Lock:
    """Give a lock with one part of another one, so that a single difference cannot hide."""
    if part in HEADER_PARTS:
        return with_header(lock, **{part: getattr(other.header, part)})
    if part == "tools":
        tools = {name: other.header.tools.get(name, []) for name in lock.platforms}
        return with_header(lock, tools=tools)
    platforms = {}
    for platform, content in lock.platforms.items():
        source = other.platforms.get(platform, content)
        wheels = source.wheels if part == "wheels" else content.wheels
        if part == "meta":
            meta = {name: source.meta.get(name, row) for name, row in content.meta.items()}
        else:
            meta = {pin.name: content.meta.get(pin.name, {}) for pin in wheels}
        debs = source.debs if part == "debs" else content.debs
        platforms[platform] = PlatformLock(wheels=wheels, debs=debs, meta=meta)
    layers = {name: [[pin.name] for pin in found.wheels] for name, found in platforms.items()}
    return Lock(header=lock.header.model_copy(update={"layers": layers}), platforms=platforms)


@QUICK
@given(locks(), locks(), st.sampled_from((*HEADER_PARTS, "tools", "wheels", "debs", "meta")))
def test_what_differs_is_said_and_nothing_else(lock: Lock, other: Lock, part: str) -> None:
    """A diff says nothing exactly when the two locks have the same bytes."""
    old, new = transplanted(lock, lock, part), transplanted(lock, other, part)
    assert (old.files() == new.files()) == ([] == said(compare(old, new)))


@QUICK
@given(locks(), locks())
def test_a_diff_read_backwards_mirrors_itself(old: Lock, new: Lock) -> None:
    """Added is removed, upgraded is downgraded, and alarms of one name stay."""
    there, back = compare(old, new), compare(new, old)
    for ours, theirs in ((there.packages, back.packages), (there.debs, back.debs)):
        assert sorted((c.name, c.new, MIRRORED[c.kind], c.platforms) for c in ours) == sorted(
            (c.name, c.old, c.kind, c.platforms) for c in theirs
        )


@QUICK
@given(locks())
def test_a_lock_equals_itself(lock: Lock) -> None:
    """Nothing is said, nothing is pulled."""
    result = compare(lock, lock)
    assert (True, []) == (result.same, said(result))
    assert {0} == {pull.pull for pull in result.pulls}


def test_companions_come_first_and_vllm_before_them() -> None:
    """Also the one that is gone; whether vLLM pins it is said."""
    packages = compare(old_night(), new_night()).packages
    assert [
        ("vllm", None),
        ("flashinfer-cubin", False),
        ("flashinfer-python", True),
        ("torchaudio", False),
    ] == [(change.name, change.pinned) for change in packages if change.companion]
    assert all(change.companion for change in packages[:4])


@pytest.mark.parametrize(
    ("change", "name", "counts"),
    [
        ({"resolver": ResolverTable(name="pip", version="26.3")}, "resolver", False),
        ({"spec": "sha256:" + "6" * 64}, "spec", False),
        ({"channel": "release"}, "channel", True),
        ({"target": TargetTable(python="3.14", glibc="2.41", cuda="13.0")}, "Python", True),
        ({"target": TargetTable(python="3.13", glibc="2.41", cuda="13.2")}, "CUDA", True),
        ({"base": BaseLock(debian="forky")}, "base", True),
        ({"vllm": VllmTable(package="v", version=OLD_VLLM, commit="")}, "vLLM package", True),
    ],
)  # fmt: skip
def test_settings_count_when_they_change_an_image(
    change: Mapping[str, object], name: str, counts: bool
) -> None:
    """Who resolved is recorded; it makes no lock another one."""
    pins = {AMD64: [wheel("vllm", OLD_VLLM)]}
    vllm = VllmTable(package="vllm", version=OLD_VLLM, commit="")
    old = make_lock(pins, vllm=vllm)
    result = compare(old, with_header(old, **change))
    assert [name] == [fact.name for fact in result.facts]
    assert counts is not result.same


def test_a_base_image_is_compared_by_its_digest() -> None:
    """Per platform."""
    pins = {AMD64: [wheel("vllm", OLD_VLLM)]}
    old, new = (
        make_lock(pins, base=BaseLock(image="debian:13", images={AMD64: f"sha256:{x * 64}"}))
        for x in "ab"
    )
    assert [("base image", AMD64)] == [
        (fact.name, fact.platform) for fact in compare(old, new).facts
    ]


def test_who_gave_a_hash_is_said_and_changes_no_image() -> None:
    """The bytes are the same."""
    pins = {AMD64: [wheel("vllm", OLD_VLLM)]}
    result = compare(make_lock(pins), make_lock(pins, meta={"vllm": {"hash_from": "computed"}}))
    assert result.same
    assert [("hash_from", False)] == [(row.field, row.counts) for row in result.metadata]


def test_a_platform_that_came_is_not_compared() -> None:
    """It is one line, not two hundred added packages."""
    pins = [wheel("vllm", OLD_VLLM)]
    result = compare(make_lock({AMD64: pins}), make_lock({AMD64: pins, ARM64: pins}))
    assert ([ARM64], [], False) == (result.platforms_added, result.packages, result.same)


def test_file_rehashed_is_an_error_for_wheels_debs_and_tools() -> None:
    """Same version and file name, other bytes: nobody may overlook that."""
    sides = [
        make_lock(
            {AMD64: [wheel("vllm", OLD_VLLM, content=content)]},
            debs={AMD64: [deb("tini", "0.19.0-1", content=content)]},
            tools={AMD64: [wheel("uv", "0.13.9", content=content).line()]},
        )
        for content in ("", "other bytes")
    ]
    found = alarms(compare(*sides))
    assert [("file-rehashed", "error")] * 3 == [(alarm.key, alarm.severity) for alarm in found]
    assert wheel("vllm", OLD_VLLM, content="other bytes").sha256 in found[0].evidence


def test_companion_downgraded_unless_vllm_went_back_too() -> None:
    """A rollback takes its companions along."""
    old, new = old_night(), new_night()
    assert ["torchaudio (linux/amd64, linux/arm64)"] == [
        alarm.subject for alarm in alarms(compare(old, new)) if alarm.key == "companion-downgraded"
    ]
    assert [] == [a for a in alarms(compare(new, old)) if a.key == "companion-downgraded"]


def test_alarms_put_errors_first() -> None:
    """A release manager reads from the top."""
    severities = [alarm.severity for alarm in alarms(compare(old_night(), new_night()))]
    assert sorted(severities) == severities
    assert {"error", "warning"} == set(severities)


def test_the_result_is_plain_data() -> None:
    """It survives JSON, as `--json` prints it."""
    result = compare(old_night(), new_night())
    again = DiffResult.model_validate(json.loads(result.model_dump_json()))
    assert result == again
    assert NEW_COMMIT == again.new.commit
