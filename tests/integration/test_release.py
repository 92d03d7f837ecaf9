"""A locked .deb leaves the mirrors: with `relock` the chain goes on; against real apt and uv."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.commands import fetch, release
from builder.commands import lock as lock_recipe
from builder.commands.context import Context
from builder.core.lock import Lock
from builder.core.settings import Settings
from builder.edge import debs, mmdebstrap
from builder.edge.debs import missing
from builder.edge.project import read_lock, read_lock_folder
from builder.edge.store import Store
from builder.errors import AptDrift, ToolMissing
from tests.support.archive import LocalArchive
from tests.support.index import FakeIndex, fake_index
from tests.support.lockable import NO_FORGE, Tiny
from tests.support.wheels import make_vllm, make_wheel

AMD64 = "linux/amd64"
CLEAN = ("PIP_", "UV_", "VIRTUAL_ENV", "XDG_", "NETRC", "NIGHTLOCK_")
VLLM = make_vllm("0.32.0", requires=["torch==2.13.0"])
TORCH = make_wheel("torch", "2.13.0+cpu", tag="cp311-cp311-manylinux_2_28_x86_64")

UV = make_wheel("uv", "0.13.9")


def add_fix(archive: LocalArchive, number: int) -> None:
    """Put a security fix of `libfix` into the archive."""
    archive.add(
        "libfix",
        f"1.0-1+deb12u{number}",
        suite="bookworm-security",
        fields="Priority: required\n",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifting:
    """A locked project, the archive and the index that its files come from."""

    tiny: Tiny
    archive: LocalArchive
    index: FakeIndex

    def fill(self, *, relock: bool = True) -> tuple[Context, list[tuple[str, str, str]]]:
        """Fetch; return what is gone on with, and what moved."""
        context, _, changes = release.fill_store(self.tiny.context, "tiny", relock=relock)
        return context, [(change.name, change.old, change.new) for change in changes]

    def project_files(self) -> dict[str, bytes]:
        """Everything that git would see."""
        folders = (self.tiny.root / "images", self.tiny.root / "lock")
        files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.tiny.root)): path.read_bytes() for path in sorted(files)}

    def publish_fix(self) -> None:
        """Bring a security update of `libfix`; the archive drops the file it replaces."""
        add_fix(self.archive, 2)
        (self.archive.folder / "pool/main/l/libfix/libfix_1.0-1+deb12u1_amd64.deb").unlink()


@pytest.fixture
def drifting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drifting]:
    """Lock a project, then let a security update replace one of its .debs."""
    for name in list(os.environ):
        if name.startswith(CLEAN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    archive = LocalArchive(folder=tmp_path / "archive")
    archive.add("base-files", "12", fields="Essential: yes\nPriority: required\n")
    add_fix(archive, 1)
    # Unsigned: a signed one would need Debian's own key.
    monkeypatch.setattr(debs, "host_sources", lambda _codename, _settings: archive.sources)
    # No base is made here, so the program that makes them is not fetched.
    monkeypatch.setattr(mmdebstrap, "find_mmdebstrap", lambda folder: folder)
    with fake_index(VLLM, TORCH, UV) as index:
        settings = Settings(
            forges=NO_FORGE, indexes={"general": index.url, "pytorch-cpu": index.url}
        )
        tiny = Tiny(tmp_path / "project", settings)
        tiny.spec("vllm==0.32.0", "torch==2.13.0", tools=("uv==0.13.9",), torch="pytorch-cpu")
        assert lock_recipe.run(tiny.context, "tiny").ok
        made = Drifting(tiny=tiny, archive=archive, index=index)
        assert ["base-files 12", "libfix 1.0-1+deb12u1"] == versions(read_lock(tiny.root, "tiny"))
        made.publish_fix()
        yield made


@pytest.fixture
def cut(drifting: Drifting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on with the first run done and neither index nor archive in reach."""
    drifting.fill()
    drifting.archive.folder.rename(drifting.archive.folder.with_name("away"))
    drifting.index.requests.clear()

    def nowhere(*_: object) -> object:
        raise ToolMissing("the archive was asked for")

    monkeypatch.setattr(debs, "host_sources", nowhere)


def versions(lock: Lock) -> list[str]:
    """Name and version of each .deb."""
    return [f"{pin.name} {pin.version}" for pin in lock.platforms[AMD64].debs]


def test_without_relock_a_dropped_deb_is_a_drift(drifting: Drifting) -> None:
    """`release` stops; nothing is locked anew."""
    with pytest.raises(AptDrift, match=r"libfix 1\.0-1\+deb12u1"):
        drifting.fill(relock=False)
    assert not (drifting.tiny.context.places.state / "relock").exists()


def test_with_relock_the_chain_goes_on(drifting: Drifting) -> None:
    """The .deb diff is said, all files arrive, and git sees nothing of it."""
    before = drifting.project_files()
    context, moved = drifting.fill()
    assert [("libfix", "1.0-1+deb12u1", "1.0-1+deb12u2")] == moved
    said = drifting.tiny.said.getvalue()
    assert "1 locked .deb(s) are on no source any more: libfix 1.0-1+deb12u1" in said
    assert "libfix: 1.0-1+deb12u1 → 1.0-1+deb12u2" in said
    assert before == drifting.project_files()
    own = read_lock(drifting.tiny.root, "tiny")
    relocked = read_lock_folder(context.lock_folder("tiny"))
    assert drifting.tiny.context.places.state in context.lock_folder("tiny").parents
    assert ["base-files 12", "libfix 1.0-1+deb12u2"] == versions(relocked)
    assert own.platforms[AMD64].wheels == relocked.platforms[AMD64].wheels
    assert () == missing(relocked.platforms[AMD64].debs, Store(context.places.store))
    # A later step finds it whole: nothing is left to bring.
    assert 0 == fetch.run(context, "tiny").result.bytes_fetched


@pytest.mark.usefixtures("cut")
def test_the_next_run_asks_nobody(drifting: Drifting) -> None:
    """It takes the same .debs, and says again what moved."""
    drifting.tiny.said.truncate(0)
    context, moved = drifting.fill()
    assert [("libfix", "1.0-1+deb12u1", "1.0-1+deb12u2")] == moved
    assert "libfix: 1.0-1+deb12u1 → 1.0-1+deb12u2" in drifting.tiny.said.getvalue()
    relocked = read_lock_folder(context.lock_folder("tiny"))
    assert ["base-files 12", "libfix 1.0-1+deb12u2"] == versions(relocked)
    assert [] == drifting.index.requests


@pytest.mark.usefixtures("cut")
def test_a_relock_that_lost_a_file_asks_again(drifting: Drifting) -> None:
    """The store was cleaned: what is not whole does not count as there."""
    own = read_lock(drifting.tiny.root, "tiny")
    (base,) = (pin for pin in own.platforms[AMD64].debs if pin.name == "base-files")
    Store(drifting.tiny.context.places.store).path(base.sha256).unlink()
    with pytest.raises(ToolMissing, match="the archive was asked for"):
        drifting.fill()


def test_a_second_drift_is_locked_anew_too(drifting: Drifting) -> None:
    """The re-locked files were not brought by then, and another update replaced them."""
    context, _ = drifting.fill()
    first = read_lock_folder(context.lock_folder("tiny"))
    (libfix,) = (pin for pin in first.platforms[AMD64].debs if pin.name == "libfix")
    Store(context.places.store).path(libfix.sha256).unlink()
    add_fix(drifting.archive, 3)
    (drifting.archive.folder / libfix.path).unlink()
    _, moved = drifting.fill()
    assert [("libfix", "1.0-1+deb12u1", "1.0-1+deb12u3")] == moved


def test_a_lock_of_the_project_made_since_then_wins(drifting: Drifting) -> None:
    """`nightlock lock` locks the .debs for good: the earlier re-lock is no answer any more."""
    drifting.fill()
    add_fix(drifting.archive, 3)
    assert lock_recipe.run(drifting.tiny.context, "tiny").ok
    context, moved = drifting.fill()
    assert (drifting.tiny.lock, []) == (context.lock_folder("tiny"), moved)
