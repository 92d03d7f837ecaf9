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
from builder.core.places import Places
from builder.core.spec import CompanionName, ImageSpec, parse_spec
from builder.edge.project import read_lock, read_lock_folder, read_settings, read_spec, write_lock
from builder.errors import BadInput, LockFileError, SpecError
from tests.support.small_lock import small_lock

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


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("run.server", [], "at least 1 item"),
        ("run.server", ["a\nb"], "run.server.0"),
        ("lock.package", "vllm/..", "not a package name"),
        ("lock.package", "\u0663", "not a package name"),
        ("lock.requirements", ["x @ https://a.example/x.whl"], "an address is not allowed"),
        ("lock.requirements", ["x; sys_platform == 'a\nb'"], "control characters"),
        ("lock.requirements", ["x; " + "(" * 20_000], "not a PEP 508 requirement"),
        ("lock.sources", {"torch": "PyTorch CPU"}, "lock.sources.torch"),
        ("lock.sources", {"a b": "general"}, "not a package name"),
        ("image.targets", [], "at least 1 item"),
        ("image.targets", ["cpu", "sm_120"], "`cpu` and GPUs"),
        ("image.python", "3.\u0663", "image.python"),
        ("smoke.profile", "../x", "smoke.profile"),
    ],
)
def test_what_would_fail_later_is_refused_here(path: str, value: object, words: str) -> None:
    """Before anything is resolved, rendered or written."""
    with pytest.raises(SpecError) as caught:
        parse(changed(path, value))
    assert words in caught.value.what


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "9" * 5000,
        "a = 0x" + "f" * 5000,
        ".".join(["a"] * 5000) + " = 1",
    ],
)
def test_no_toml_breaks_the_reader(text: str) -> None:
    """Absurd nesting and numbers are errors in words."""
    with pytest.raises(SpecError):
        parse_spec(text, "images/cpu/image.toml")


def test_a_byte_order_mark_is_no_part_of_a_file() -> None:
    """Some editors write one."""
    assert parse(BASE) == parse_spec("\ufeff" + tomli_w.dumps(BASE), "images/cpu/image.toml")


@pytest.mark.parametrize("table", ['[tool]\nnightlock = "x"', "tool = 1", "a = " + "[" * 100_000])
def test_settings_of_another_form_are_refused(tmp_path: Path, table: str) -> None:
    """Not passed over."""
    (tmp_path / "pyproject.toml").write_text(table)
    with pytest.raises(SpecError) as caught:
        read_settings(tmp_path, Places.from_environment({"HOME": str(tmp_path)}), {})
    assert str(tmp_path / "pyproject.toml") == caught.value.subject


@pytest.mark.parametrize(
    ("user", "own", "variables", "source"),
    [
        ("threads = 0", "", {}, "config.toml"),
        ("threads = 4", "threads = 0", {}, "pyproject.toml: [tool.nightlock]"),
        ("threads = 0", "threads = 0", {"NIGHTLOCK_THREADS": "x"}, "NIGHTLOCK_THREADS"),
        ("thread = 1", "", {"NIGHTLOCK_THREADS": "2"}, "config.toml"),
        ("[engine]\nport = 1", "", {"NIGHTLOCK_BUILDER": "b"}, "config.toml"),
        ("engine = 3", "", {}, "config.toml"),
    ],
)
def test_a_bad_setting_names_the_one_place_it_came_from(
    tmp_path: Path, user: str, own: str, variables: dict[str, str], source: str
) -> None:
    """Not all the places that it might have come from."""
    (tmp_path / "nightlock").mkdir()
    (tmp_path / "nightlock" / "config.toml").write_text(user)
    (tmp_path / "pyproject.toml").write_text(f"[tool.nightlock]\n{own}\n")
    places = Places.from_environment({"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    with pytest.raises(SpecError) as caught:
        read_settings(tmp_path, places, variables)
    assert caught.value.subject.endswith(source)
    assert "," not in caught.value.subject


def test_a_signing_key_is_named_by_variable_over_file(tmp_path: Path) -> None:
    """NIGHTLOCK_SIGNING_KEY wins over `[signing] key`."""
    (tmp_path / "pyproject.toml").write_text('[tool.nightlock.signing]\nkey = "project.key"\n')
    places = Places.from_environment({"HOME": str(tmp_path)})
    assert "project.key" == read_settings(tmp_path, places, {}).signing.key
    said = {"NIGHTLOCK_SIGNING_KEY": "awskms:///alias/x"}
    assert said["NIGHTLOCK_SIGNING_KEY"] == read_settings(tmp_path, places, said).signing.key


@pytest.mark.parametrize("kind", ["folder", "loop"])
def test_what_cannot_be_read_is_an_error_in_words(tmp_path: Path, kind: str) -> None:
    """With its path."""
    spec = tmp_path / "images" / "cpu" / "image.toml"
    spec.parent.mkdir(parents=True)
    for path in (spec, tmp_path / "pyproject.toml"):
        path.mkdir() if kind == "folder" else path.symlink_to(path.name)
    with pytest.raises(SpecError, match="cannot be read") as caught:
        read_settings(tmp_path, Places.from_environment({"HOME": str(tmp_path)}), {})
    assert str(tmp_path / "pyproject.toml") == caught.value.subject
    lock = tmp_path / "lock"
    lock.write_text("") if kind == "folder" else lock.symlink_to("lock")
    with pytest.raises(LockFileError) as refused:
        read_lock_folder(lock)
    assert str(lock) == refused.value.subject


def test_a_lock_of_another_image_is_refused(tmp_path: Path) -> None:
    """The folder has the image's name."""
    write_lock(tmp_path, small_lock(), tmp_path / "lock" / "other")
    with pytest.raises(LockFileError, match="the lock of image 'cpu', not of 'other'"):
        read_lock(tmp_path, "other")


def test_writing_a_lock_leaves_other_files_alone(tmp_path: Path) -> None:
    """A folder without a lock is refused; beside a lock, only files of the older one go."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="something else than a lock"):
        write_lock(tmp_path, small_lock(), tmp_path)
    assert ["notes.txt"] == [path.name for path in tmp_path.iterdir()]
    out = tmp_path / "out"
    assert "created" == write_lock(tmp_path, small_lock(), out)
    (out / "notes.txt").write_text("mine")
    (out / "linux-arm64.txt").write_text("old")
    assert "updated" == write_lock(tmp_path, small_lock(), out)
    assert {*small_lock().files(), "notes.txt"} == {path.name for path in out.iterdir()}
    assert "unchanged" == write_lock(tmp_path, small_lock(), out)


def test_a_base_is_a_release_or_an_image() -> None:
    """A reference is read as docker reads it; what is none is told."""
    image = parse({**BASE, "base": {"image": "debian:13", "packages": ["tini"]}})
    assert ("debian:13", ["tini"]) == (image.base.image, image.base.packages)
    for text, words in (("debian/", "not a repository"), ("debian@sha256:1", "not a digest")):
        with pytest.raises(SpecError, match=words) as caught:
            parse({**BASE, "base": {"image": text}})
        assert "base.image" in caught.value.what
    with pytest.raises(SpecError, match="exactly one of `debian` and `image`"):
        parse({**BASE, "base": {"packages": ["tini"]}})


def test_wrong_nvcc_of_the_distribution_is_refused() -> None:
    """C24: whichever nvcc is found first decides what FlashInfer compiles for."""
    with pytest.raises(SpecError, match="wrong-nvcc: nvidia-cuda-toolkit has an nvcc") as caught:
        parse({**BASE, "base": {"debian": "trixie", "packages": ["tini", "nvidia-cuda-toolkit"]}})
    assert "base.packages" in caught.value.what
