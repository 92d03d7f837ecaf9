"""Which lock a release with `relock` goes on with, before anybody is asked."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builder.commands import fetch, lock, release
from builder.commands.context import Context
from builder.commands.lock_result import LockChange
from builder.core.debs import with_debs
from builder.core.lock import DebPin, Lock, WheelPin
from builder.core.settings import Settings
from builder.edge.project import read_lock, write_lock
from builder.edge.store import Store
from builder.errors import AptDrift, NetworkError
from builder.output import Output
from tests.support.small_lock import AMD64, pin, small_lock
from tests.support.stocked import places, stock, stock_base_maker, write_project

OLD = small_lock()
(TINI,) = OLD.platforms[AMD64].debs
NEWER = replace(TINI, version="0.19.0-2", sha256="1" * 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """A project whose wheels are all in the store, and its earlier re-lock."""

    context: Context
    said: io.StringIO
    relocked: Lock

    @property
    def folder(self) -> Path:
        """Where the re-lock belongs."""
        mark = read_lock(self.context.project, "cpu").digest.removeprefix("sha256:")[:16]
        return self.context.places.state / "relock" / mark / "cpu"

    def keep(self, *pins: DebPin | WheelPin) -> None:
        """Let the store have them."""
        stock(Store(self.context.places.store), *pins)

    def fill(self, *, relock: bool = True) -> tuple[str, list[tuple[str, str, str]]]:
        """Return the folder of the lock that is gone on with, and what moved."""
        context, fetched, changes = release.fill_store(self.context, "cpu", relock=relock)
        assert 0 == fetched.bytes_fetched
        moved = [(change.name, change.old, change.new) for change in changes]
        return str(context.lock_folder("cpu")), moved


@pytest.fixture
def drifted(tmp_path: Path) -> Drifted:
    """Make a project whose lock names a .deb that the store lacks; the re-locked one is there."""
    said = io.StringIO()
    context = Context(
        project=tmp_path,
        places=places(tmp_path),
        settings=Settings(),
        output=Output(out=io.StringIO(), err=said),
    )
    write_project(tmp_path, OLD)
    stock_base_maker(tmp_path)
    made = Drifted(context=context, said=said, relocked=with_debs(OLD, AMD64, [NEWER]))
    made.keep(*OLD.platforms[AMD64].wheels, *OLD.tools(AMD64), NEWER)
    write_lock(tmp_path, made.relocked, made.folder)
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the mirrors be out of reach; hear which locks had .debs to ask for."""
    heard: list[str] = []

    def bring(_context: Context, wanted: Lock, *_rest: object) -> None:
        heard.append(wanted.digest)
        raise NetworkError("no network", subject="mirror")

    monkeypatch.setattr(fetch, "_fetch_debs", bring)
    return heard


def test_an_earlier_relock_is_used_without_asking(drifted: Drifted) -> None:
    """The store has all of it and lacks one of the project's own; it says what moved."""
    expected = (str(drifted.folder), [("tini", "0.19.0-1", "0.19.0-2")])
    assert expected == drifted.fill()
    assert "tini: 0.19.0-1 → 0.19.0-2" in drifted.said.getvalue()
    assert OLD.files() == read_lock(drifted.context.project, "cpu").files()


def test_the_projects_own_debs_come_first(drifted: Drifted) -> None:
    """When the store has them, nothing needs to be stood in for."""
    drifted.keep(TINI)
    assert (str(drifted.context.project / "lock/cpu"), []) == drifted.fill()


def test_without_relock_the_state_folder_is_not_looked_at(
    drifted: Drifted, asked: list[str]
) -> None:
    """`release` and `build` take the project's lock alone."""
    with pytest.raises(NetworkError):
        drifted.fill(relock=False)
    assert [OLD.digest] == asked


def _absent(drifted: Drifted) -> None:
    for path in drifted.folder.iterdir():
        path.unlink()


def _damaged(drifted: Drifted) -> None:
    (drifted.folder / "linux-amd64.debs.txt").write_text("")


def _incomplete(drifted: Drifted) -> None:
    Store(drifted.context.places.store).path(NEWER.sha256).unlink()


def _other_wheels(drifted: Drifted) -> None:
    content = drifted.relocked.platforms[AMD64]
    other = replace(content, wheels=(pin("click", "8.2.0", 1), *content.wheels[1:]))
    write_lock(drifted.folder, replace(drifted.relocked, platforms={AMD64: other}), drifted.folder)


def _other_tools(drifted: Drifted) -> None:
    header = drifted.relocked.header.model_copy(
        update={"tools": {AMD64: [pin("uv", "0.14.0", 1).line()]}}
    )
    write_lock(drifted.folder, replace(drifted.relocked, header=header), drifted.folder)


def _other_spec(drifted: Drifted) -> None:
    header = drifted.relocked.header.model_copy(update={"spec": "sha256:" + "e" * 64})
    write_lock(drifted.folder, replace(drifted.relocked, header=header), drifted.folder)


def _locked_again(drifted: Drifted) -> None:
    newest = replace(TINI, version="0.19.0-3", sha256="2" * 64)
    write_lock(drifted.context.project, with_debs(OLD, AMD64, [newest]))


@pytest.mark.parametrize(
    "change",
    [_absent, _damaged, _incomplete, _other_wheels, _other_tools, _other_spec, _locked_again],
)
def test_what_does_not_stand_in_for_the_lock_is_passed_over(
    drifted: Drifted, asked: list[str], change: Callable[[Drifted], None]
) -> None:
    """Then the mirrors are asked for the project's own .debs, as in the first run."""
    change(drifted)
    with pytest.raises(NetworkError):
        drifted.fill()
    assert [read_lock(drifted.context.project, "cpu").digest] == asked


def test_a_drift_locks_the_debs_anew(drifted: Drifted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into the folder where the next run finds it; only .debs may be asked for."""
    _absent(drifted)
    drifts: list[str] = []

    def gone(_context: Context, wanted: Lock, _store: Store, pins: list[DebPin], _: object) -> None:
        if pins:
            drifts.append(wanted.digest)
            raise AptDrift("1 locked .deb(s) are on no source any more: tini 0.19.0-1")

    def relock(_context: Context, _image: str, out: Path) -> tuple[Lock, list[LockChange]]:
        write_lock(drifted.context.project, drifted.relocked, out)
        return drifted.relocked, []

    monkeypatch.setattr(fetch, "_fetch_debs", gone)
    monkeypatch.setattr(lock, "relock_debs", relock)
    expected = (str(drifted.folder), [("tini", "0.19.0-1", "0.19.0-2")])
    assert [expected] * 2 == [drifted.fill(), drifted.fill()]
    assert [OLD.digest] == drifts
