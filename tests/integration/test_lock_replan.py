"""`lock --replan`: layers from the history in git; without it the plan that is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.commands import lock as recipe
from builder.core.settings import Settings
from builder.edge.project import read_lock
from builder.errors import BadInput
from tests.support.index import FakeIndex, fake_index
from tests.support.lockable import Tiny, clean_machine
from tests.support.repository import commit, run_git
from tests.support.wheels import make_vllm, make_wheel

PLATFORM = "linux/amd64"
PACKAGES = ("apple", "berry", "citron", "date")
"""As large as each other: only history tells them apart."""


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeIndex]:
    """Run an index; no configuration of this machine is seen."""
    clean_machine(monkeypatch, tmp_path)
    first = [make_wheel(name, "1.0", padding=50_000) for name in PACKAGES]
    with fake_index(make_vllm("0.32.0", requires=list(PACKAGES)), *first) as index:
        yield index


@pytest.fixture
def tiny(tmp_path: Path, general: FakeIndex) -> Tiny:
    """Make a project in git whose image may have four layers, and lock it."""
    project = Tiny(tmp_path, Settings(indexes={"general": general.url}))
    project.spec("vllm==0.32.0")
    spec = tmp_path / "images/tiny/image.toml"
    spec.write_text(spec.read_text() + "[layers]\nbudget = 4\n")
    run_git(tmp_path, "init", "--quiet")
    (tmp_path / ".gitignore").write_text("*\n!lock/**\n!lock/\n")
    layers(project)
    commit(tmp_path)
    return project


def layers(tiny: Tiny, *, replan: bool = False, upgrade: tuple[str, ...] = ()) -> list[list[str]]:
    """Lock, and give the plan."""
    outcome = recipe.run(tiny.context, "tiny", replan=replan, upgrade_packages=upgrade)
    assert outcome.ok, outcome.text
    return read_lock(tiny.root, "tiny").header.layers[PLATFORM]


def upgrade(tiny: Tiny, index: FakeIndex, version: str, *names: str) -> list[list[str]]:
    """Let these come out anew, lock them and commit."""
    index.add(*(make_wheel(name, version, padding=50_000) for name in names))
    found = layers(tiny, upgrade=names)
    commit(tiny.root)
    return found


def shared(groups: list[list[str]]) -> list[str]:
    """Give the one layer of several packages."""
    (group,) = (group for group in groups if len(group) > 1)
    return group


def test_layers_stay_until_they_are_planned_anew_from_what_changed_together(
    tiny: Tiny, general: FakeIndex
) -> None:
    """Four packages in three layers: the two that always change together belong into one."""
    before = read_lock(tiny.root, "tiny").header.layers[PLATFORM]
    pair = sorted(set(PACKAGES) - {shared(before)[0]})[1:]
    for version in ("2.0", "3.0", "4.0"):
        assert before == upgrade(tiny, general, version, *pair)
    for version in ("2.0", "3.0"):
        assert before == upgrade(tiny, general, version, shared(before)[0])
    assert before == layers(tiny)
    after = layers(tiny, replan=True)
    assert pair == shared(after)
    assert ["vllm"] == after[-1]
    files = tiny.lock_files()
    assert after == layers(tiny, replan=True) == layers(tiny)
    assert files == tiny.lock_files()
    assert "tiny: layers are planned anew, from 6 earlier locks" in tiny.said.getvalue()


def test_a_package_that_comes_joins_a_layer_and_moves_no_other(
    tiny: Tiny, general: FakeIndex
) -> None:
    """There is no room for a fourth layer of others."""
    before = read_lock(tiny.root, "tiny").header.layers[PLATFORM]
    general.add(make_wheel("apple", "2.0", requires=["elder"]), make_wheel("elder", "1.0"))
    after = layers(tiny, upgrade=("apple",))
    assert before == [[name for name in group if name != "elder"] for group in after]


def test_a_first_lock_may_be_planned_anew(tiny: Tiny) -> None:
    """It is what it would have been."""
    first = tiny.lock_files()
    for path in tiny.lock.iterdir():
        path.unlink()
    run_git(tiny.root, "update-ref", "-d", "HEAD")
    layers(tiny, replan=True)
    assert first == tiny.lock_files()


def test_a_shallow_clone_is_refused_before_anything_is_resolved(
    tiny: Tiny, tmp_path: Path, general: FakeIndex
) -> None:
    """A plan from a part of the history would be another one."""
    commit(tiny.root, "another")
    run_git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{tmp_path}", "shallow")
    clone = Tiny(tmp_path / "shallow", tiny.settings)
    clone.spec("vllm==0.32.0")
    general.requests.clear()
    with pytest.raises(BadInput, match="lacks older commits"):
        recipe.run(clone.context, "tiny", replan=True)
    assert [] == general.requests
