"""A disk that is full: met for real, on a tmpfs of some MB, and said in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

import pytest

from builder.commands import lock as lock_recipe
from builder.core.settings import Settings
from tests.support.archive import LocalArchive
from tests.support.index import FakeIndex, fake_index, serve
from tests.support.lockable import NO_FORGE, Tiny, clean_machine
from tests.support.tiny_disk import on_tiny_disk
from tests.support.wheels import make_vllm, make_wheel

VLLM = make_vllm("0.32.0", requires=["torch==2.13.0", "click>=8"])
TORCH = make_wheel(
    "torch", "2.13.0+cpu", tag="cp311-cp311-manylinux_2_28_x86_64", padding=2_000_000
)
CLICK = make_wheel("click", "8.1.0")


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration of this machine reaches a test; there are no .debs."""
    clean_machine(monkeypatch, tmp_path)


@pytest.fixture
def index() -> Iterator[FakeIndex]:
    """Run an index with all that is needed."""
    with fake_index(VLLM, CLICK, TORCH) as running:
        yield running


@pytest.fixture
def tiny(tmp_path: Path, index: FakeIndex) -> Tiny:
    """Make a project that can be locked."""
    project = Tiny(
        tmp_path,
        Settings(forges=NO_FORGE, indexes={"general": index.url, "pytorch-cpu": index.url}),
    )
    project.spec("vllm==0.32.0", "torch==2.13.0", torch="pytorch-cpu")
    return project


RUN = """
import os
from builder.edge import debs, files
debs.resolve_base = lambda *_: ()
files.require_free = lambda *_: None
from builder.commands import fetch, lock
from builder.commands.context import Context
from builder.core.places import Places
from builder.core.settings import Settings
from builder.output import Output
places = Places.from_environment(os.environ)
indexes = dict.fromkeys(("general", "pytorch-cpu"), os.environ["INDEX"])
settings = Settings(forges={"vllm": "none"}, indexes=indexes)
context = Context(
    project=Path(os.environ["PROJECT"]), places=places, settings=settings, output=Output()
)
"""


def environment(tiny: Tiny, index: FakeIndex, disk: Path) -> dict[str, str]:
    """Put the caches of a run on the disk; its state and its temporary files are elsewhere."""
    return {
        "INDEX": index.url,
        "PROJECT": str(tiny.root),
        "XDG_CACHE_HOME": str(disk),
        "XDG_STATE_HOME": str(tiny.root / "state"),
    }


def test_a_fetch_that_fills_the_disk_says_so(tiny: Tiny, index: FakeIndex, tmp_path: Path) -> None:
    """Another program took the room after it was checked; the next fetch goes on."""
    assert lock_recipe.run(tiny.context, "tiny").ok
    disk = tmp_path / "disk"
    said = on_tiny_disk(
        disk, "1m", RUN + "fetch.run(context, 'tiny')", environment(tiny, index, disk)
    )
    assert ["disk-full", 4, "the disk is full"] == said[:3]
    assert str(said[3]).startswith(str(disk))
    assert "free some space" in str(said[4])


@pytest.mark.parametrize("left", [0, 40_000])
def test_a_lock_that_fills_its_cache_says_so(
    tiny: Tiny, index: FakeIndex, tmp_path: Path, left: int
) -> None:
    """In uv's cache or our own; nothing of a lock is written."""
    disk = tmp_path / "disk"
    body = RUN + f"fill({left})\nlock.run(context, 'tiny')"
    said = on_tiny_disk(disk, "1m", body, environment(tiny, index, disk))
    assert ["disk-full", 4] == said[:2], said
    assert "the disk is full" in str(said[2])
    assert str(said[3]).startswith(str(disk))
    assert not tiny.lock.exists()


def test_uv_without_temporary_space_says_so(tiny: Tiny, index: FakeIndex, tmp_path: Path) -> None:
    """Its working folder lies under TMPDIR."""
    disk = tmp_path / "disk"
    elsewhere = environment(tiny, index, tmp_path / "cache") | {"TMPDIR": str(disk)}
    said = on_tiny_disk(disk, "1m", RUN + "fill(4096)\nlock.run(context, 'tiny')", elsewhere)
    assert ["disk-full", 4, "the disk is full", str(disk)] == said[:4]
    assert "TMPDIR" in str(said[4])


def test_a_lock_file_is_held_on_a_full_disk(tmp_path: Path) -> None:
    """What frees space takes locks as well."""
    body = """
from builder.edge import files
fill()
with files.locked(DISK / "a.lock", remove=True):
    held = (DISK / "a.lock").exists()
return [held, (DISK / "a.lock").exists()]
"""
    assert [[True, False]] == on_tiny_disk(tmp_path / "disk", "1m", body)


@pytest.mark.parametrize(
    "work", ["files.make_folder(DISK / 'b/c')", "files.locked(DISK / 'b/a.lock').__enter__()"]
)
def test_folders_on_a_disk_without_inodes_are_explained(tmp_path: Path, work: str) -> None:
    """Room for bytes is not all that a disk may lack."""
    body = f"from builder.edge import files\n{work}"
    said = on_tiny_disk(tmp_path / "disk", "1m,nr_inodes=1", body)
    assert ["disk-full", 4, "the disk is full"] == said[:3]


def test_a_render_that_fills_the_disk_leaves_the_old_one(tmp_path: Path) -> None:
    """Whole; and nothing half-made takes the room that is left."""
    body = """
from builder.edge import files
from builder.edge.context import write_context
with files.fresh_folder(DISK / "out") as folder:
    write_context(folder, {"Dockerfile": b"old"}, {})
fill(100_000)
try:
    with files.fresh_folder(DISK / "out") as folder:
        write_context(folder, {"Dockerfile": b"new", "wheels/a.whl": bytes(200_000)}, {})
except NightlockError as error:
    kind = error.kind
names = sorted(path.name for path in DISK.iterdir())
return [kind, names, (DISK / "out/Dockerfile").read_text()]
"""
    said = on_tiny_disk(tmp_path / "disk", "1m", body)
    assert [["disk-full", ["filler", "out"], "old"]] == said


APT = """
from builder.core.debian import AptSource
from builder.edge import apt
apt._ROOM, apt._SILENCE = 0, 5
{more}
source = AptSource(uri="{uri}", suites=("bookworm",), trusted=True)
apt.AptRoot(DISK / "root", [source], "amd64").update()
"""


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[str]:
    """Serve an archive whose index is larger than the disk."""
    archive = LocalArchive(folder=tmp_path / "archive")
    archive.add("one", "1.0", fields="X-Noise: " + "x" * 2_000_000 + "\n")

    def respond(handler: BaseHTTPRequestHandler) -> None:
        path = archive.folder / unquote(handler.path).lstrip("/")
        if not path.is_file():
            handler.send_error(404)
            return
        data = path.read_bytes()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    with serve(respond) as host:
        yield f"http://{host}"


@pytest.mark.parametrize("more", ["", "fill(70_000)", "fill()"], ids=["small", "nearly", "full"])
def test_apt_on_a_full_disk_ends_in_words(tmp_path: Path, archive: str, more: str) -> None:
    """Where apt itself waits for ever, too."""
    said = on_tiny_disk(tmp_path / "disk", "1m", APT.format(uri=archive, more=more))
    assert ["disk-full", 4] == said[:2], said
    assert str(said[3]).startswith(str(tmp_path / "disk"))


def test_room_for_indexes_is_asked_for_before_apt_is(tmp_path: Path) -> None:
    """With the amount."""
    body = APT.format(uri="file:/nosuch", more="apt._ROOM = 250_000_000")
    said = on_tiny_disk(tmp_path / "disk", "4m", body)
    assert ["disk-full", 4, "reading Debian's indexes needs 0.2 GB, 0.0 GB are free"] == said[:3]


def test_an_apt_that_hangs_is_ended(tmp_path: Path) -> None:
    """On a disk with room: the outside world, and what to do."""
    programs = tmp_path / "bin"
    programs.mkdir()
    stuck = programs / "apt-get"
    stuck.write_text("#!/bin/sh\nexec sleep 600\n")
    stuck.chmod(0o755)
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    body = APT.format(uri="file:/nosuch", more="apt._SILENCE = 1")
    said = on_tiny_disk(tmp_path / "disk", "4m", body, path)
    assert ["outside", 4, "apt-get said nothing for 1 s and was ended"] == said[:3]
    assert "try again" in str(said[4])


def test_unpacking_a_package_on_a_full_disk_says_so(tmp_path: Path) -> None:
    """In dpkg's words, in whatever language the user has."""
    archive = LocalArchive(folder=tmp_path / "archive")
    deb = archive.add("one", "1.0", files={"usr/share/one": "x" * 2_000_000})
    body = f"from builder.edge import tools\ntools.unpack(Path({str(deb)!r}), DISK / 'root')"
    said = on_tiny_disk(tmp_path / "disk", "1m", body, {"LC_ALL": "de_DE.UTF-8"})
    assert ["disk-full", 4] == said[:2], said
    assert "usr/share/one" in str(said[2])
