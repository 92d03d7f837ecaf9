"""image.toml: what is allowed, what an error says, and what makes a lock stale."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, get_args

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from builder.core.companion import COMPANIONS
from builder.core.spec import CompanionName, ImageSpec, parse_spec
from builder.edge.project import read_spec
from builder.errors import SpecError

BASE: dict[str, Any] = {
    "image": {
        "name": "cpu",
        "description": "x",
        "platforms": ["linux/amd64", "linux/arm64"],
        "python": "3.11",
        "targets": ["cpu"],
    },
    "lock": {
        "channel": "release",
        "package": "vllm",
        "requirements": ["vllm==0.32.0", "torch[a,b]>=2,<3", "ninja"],
        "overrides": ["torchvision; sys_platform == 'never'", "click>=8"],
        "sources": {"torch": "pytorch-cpu", "flashinfer-cubin": "flashinfer"},
    },
    "base": {"debian": "bookworm", "packages": ["python3", "tini", "gcc"]},
}


def parse(data: dict[str, Any]) -> ImageSpec:
    """Parse a spec given as data."""
    return parse_spec(tomli_w.dumps(data), "images/cpu/image.toml")


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the spec with one key changed."""
    table, key = path.split(".")
    return {**BASE, table: {**BASE.get(table, {}), key: value}}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("image.name", "a.b", 'image.name: "a.b": String should match pattern'),
        ("image.platforms", ["windows/amd64"], 'image.platforms.0: "windows/amd64"'),
        ("image.platforms", [], "image.platforms: []: List should have at least 1 item"),
        ("image.python", 3.11, "image.python: 3.11: Input should be a valid string"),
        ("image.targets", ["sm120"], 'image.targets.0: "sm120"'),
        ("lock.channel", "beta", "lock.channel: \"beta\": Input should be 'release' or 'nightly'"),
        ("lock.requirements", ["torch ="], 'lock.requirements.0: "torch =": not a PEP 508'),
        ("lock.requirement", ["x"], "lock.requirement: no such key"),
        ("lock.companions", {"flashinfer-cubin": "maybe"}, "lock.companions.flashinfer-cubin"),
        ("lock.companions", {"flashinfer-cubbin": "none"}, "lock.companions.flashinfer-cubbin"),
        ("lock.winners", [{"package": "x", "reason": "y"}], "lock.winners.0.paths: missing"),
        ("base.image", "debian:13", "exactly one of `debian` and `image` must be given"),
        ("layers.budget", 61, "layers.budget: 61: Input should be less than or equal to 60"),
        ("run.user", "root", 'run.user: "root"'),
    ],
)
def test_an_error_names_file_key_value_and_what_is_allowed(
    path: str, value: object, words: str
) -> None:
    """One line for each."""
    with pytest.raises(SpecError) as caught:
        parse(changed(path, value))
    assert words in caught.value.what
    assert "images/cpu/image.toml" == caught.value.subject
    assert 2 == caught.value.exit_code


def test_all_errors_of_a_file_are_told_at_once() -> None:
    """And what is missing."""
    data = changed("image.python", "4")
    del data["base"]
    with pytest.raises(SpecError) as caught:
        parse(data)
    assert ["base: missing", "image.python"] == sorted(
        row if row.startswith("base") else row.split(":")[0]
        for row in caught.value.what.split("; ")
    )


def test_what_is_no_toml_is_said_with_its_line() -> None:
    """The parser's own words."""
    with pytest.raises(SpecError, match=r"not TOML: .*line 2"):
        parse_spec("[image]\nname = \n", "images/cpu/image.toml")


@given(st.randoms(use_true_random=False))
def test_order_and_spelling_do_not_make_another_spec(chance: random.Random) -> None:
    """lock-noise: tables, keys, lists and names in any order and case, duplicates and spaces."""

    def shuffled(value: object) -> object:
        if isinstance(value, dict):
            keys = list(value)
            chance.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        if isinstance(value, list):
            rows = [*value, *chance.sample(value, chance.randint(0, len(value)))]
            chance.shuffle(rows)
            return rows
        return value

    data: Any = shuffled(BASE)
    respelled = {
        "torch[a,b]>=2,<3": ["Torch[b, a] <3, >=2", "torch[a,b] (>=2,<3)"],
        "torchvision; sys_platform == 'never'": ['TorchVision ;sys_platform=="never"'],
    }
    for key in ("requirements", "overrides"):
        data["lock"][key] = [
            chance.choice([text, *respelled.get(text, [])]) for text in data["lock"][key]
        ]
    if chance.random() < 0.5:
        data["lock"]["sources"] = {"Torch": "pytorch-cpu", "FlashInfer_Cubin": "flashinfer"}
    found = parse(data)
    assert parse(BASE).digest == found.digest
    assert parse(BASE).lock == found.lock


@pytest.mark.parametrize(
    ("path", "value", "stale"),
    [
        ("image.python", "3.12", True),
        ("image.platforms", ["linux/amd64"], True),
        ("lock.requirements", ["vllm==0.32.1"], True),
        ("lock.sources", {"torch": "pytorch-cpu"}, True),
        ("base.packages", ["python3"], True),
        ("layers.budget", 20, True),
        ("run.user", "1000:0", False),
        ("run.environment", {"A": "b"}, False),
        ("smoke.profile", "other", False),
    ],
)
def test_what_makes_a_lock_stale(path: str, value: object, stale: bool) -> None:
    """The digest covers [image], [lock], [base] and [layers], nothing else."""
    assert stale == (parse(BASE).digest != parse(changed(path, value)).digest)


def test_a_package_has_one_index() -> None:
    """By any spelling of its name; what is not bound comes from the general one."""
    spec = parse(BASE)
    assert ("pytorch-cpu", "flashinfer", "general") == tuple(
        spec.index_of(name) for name in ("Torch", "flashinfer_cubin", "numpy")
    )


def test_the_projects_own_images_are_specs(project_root: Path) -> None:
    """Each folder below images/ with an image.toml."""
    names = sorted(path.parent.name for path in (project_root / "images").glob("*/image.toml"))
    assert "cpu" in names
    assert names == [read_spec(project_root, name).name for name in names]


def test_policies_and_winners_make_a_lock_stale_only_where_they_are_stated() -> None:
    """A default is no statement: images that had no such keys keep the digest they had."""
    digest = parse(BASE).digest
    assert digest == parse(changed("lock.companions", {})).digest
    assert digest == parse(changed("lock.winners", [])).digest
    row = {"package": "Flashinfer_Python", "paths": ["b", "a"], "reason": "r"}
    same = {"package": "flashinfer-python", "paths": ["a", "b", "a"], "reason": "r"}
    stated = {
        parse(changed("lock.companions", {"flashinfer-cubin": "none"})).digest,
        parse(changed("lock.companions", {"flashinfer-cubin": "match"})).digest,
        parse(changed("lock.winners", [row])).digest,
    }
    assert 3 == len(stated - {digest})
    assert (
        parse(changed("lock.winners", [row])).digest
        == parse(changed("lock.winners", [same])).digest
    )


def test_what_can_have_a_policy_is_the_table_of_companions() -> None:
    """The two lists are one."""
    assert {row.package for row in COMPANIONS} == set(get_args(CompanionName))
