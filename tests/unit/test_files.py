"""Files on disk: a folder is the old one or the new one, whatever happens in between."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from builder.edge import files
from builder.errors import DiskFull

ROOT = Path(__file__).parents[2]
OLD = {"lock.toml": b"old", "linux-amd64.txt": b"old wheels"}
NEW = {"lock.toml": b"new", "linux-arm64.txt": b"new wheels"}


def content(folder: Path) -> dict[str, bytes]:
    """Names and bytes of the files in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refuse(*_: object) -> None:
    """Answer as a file system that cannot exchange two names."""
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


@pytest.fixture(params=["exchange", "two renames"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Put folders in place by one call of the kernel, and where it knows none."""
    if request.param == "two renames":
        monkeypatch.setattr(files, "_exchange", refuse)
    return str(request.param)


def test_a_folder_holds_exactly_the_files(tmp_path: Path, way: str) -> None:
    """What it says is what it did; nothing lies beside it afterwards."""
    folder = tmp_path / "cpu"
    assert "created" == files.write_folder(folder, OLD)
    assert "updated" == files.write_folder(folder, NEW)
    assert NEW == content(folder) == files.read_folder(folder)
    assert "unchanged" == files.write_folder(folder, NEW)
    assert [folder] == list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_renamed_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a mount point; and one with folders inside, which are nobody's business."""

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    folder = tmp_path / "cpu"
    files.write_folder(folder, OLD)
    with monkeypatch.context() as patch:
        patch.setattr(files, "_exchange", busy)
        assert "updated" == files.write_folder(folder, NEW)
    assert NEW == content(folder)
    (folder / "notes").mkdir()
    (folder / "notes" / "a").write_bytes(b"mine")
    assert "updated" == files.write_folder(folder, OLD)
    assert b"mine" == (folder / "notes" / "a").read_bytes()
    assert OLD == files.read_folder(folder)
    assert [folder] == list(tmp_path.iterdir())


def test_a_failure_while_it_is_written_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the second file; nothing half-made stays."""
    folder = tmp_path / "cpu"
    files.write_folder(folder, OLD)
    real = files.write

    def write(path: Path, data: bytes) -> files.Change:
        if path.name == "linux-arm64.txt":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, data)

    monkeypatch.setattr(files, "write", write)
    with pytest.raises(DiskFull):
        files.write_folder(folder, NEW)
    assert OLD == content(folder)
    assert [folder] == list(tmp_path.iterdir())


def test_a_reader_sees_the_old_files_or_the_new_ones(tmp_path: Path, way: str) -> None:
    """However often they are swapped while it reads."""
    folder = tmp_path / "cpu"
    files.write_folder(folder, OLD)
    done = threading.Event()

    def swap() -> None:
        for number in range(100):
            files.write_folder(folder, OLD if number % 2 else NEW)
        done.set()

    writer = threading.Thread(target=swap)
    writer.start()
    seen = []
    while not done.is_set():
        seen.append(files.read_folder(folder))
    writer.join()
    assert [] == [one for one in seen if one not in (OLD, NEW)]


KILLED = """
import os, signal, sys
from pathlib import Path
from builder.edge import files

folder, step = Path(sys.argv[1]), sys.argv[2]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def refuse(*_):
    raise OSError(22, "no exchange")

files._exchange = refuse
if step == "writing":
    files._put = die
elif step == "between":
    real = Path.rename
    Path.rename = lambda own, to: die() if own.name.endswith(".fresh") else real(own, to)
else:
    files._end_swap = die
files.write_folder(folder, {"lock.toml": b"new", "linux-arm64.txt": b"new wheels"})
"""


@pytest.mark.parametrize(("step", "found"), [("writing", OLD), ("between", OLD), ("clearing", NEW)])
def test_a_killed_writer_loses_nothing(tmp_path: Path, step: str, found: dict[str, bytes]) -> None:
    """At any step: a reader finds a whole folder, and the next writer leaves nothing beside it."""
    folder = tmp_path / "cpu"
    files.write_folder(folder, OLD)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, folder, step], cwd=ROOT, capture_output=True, check=False
    )
    assert -signal.SIGKILL == killed.returncode, killed.stderr.decode()
    assert found == files.read_folder(folder)
    third = {"lock.toml": b"third"}
    assert "updated" == files.write_folder(folder, third)
    assert third == content(folder)
    assert [folder] == list(tmp_path.iterdir())


def test_a_fresh_folder_that_failed_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of two renames: the first is taken back."""
    monkeypatch.setattr(files, "_exchange", refuse)
    folder = tmp_path / "out"
    files.write_folder(folder, OLD)
    real = Path.rename

    def rename(own: Path, target: Path) -> Path:
        if own.name.endswith(".fresh"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(own, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename)
        with pytest.raises(OSError, match="Input/output"):
            files.write_folder(folder, NEW)
    assert OLD == content(folder)
    assert [folder] == list(tmp_path.iterdir())


def test_the_scratch_folder_of_a_living_writer_stays(tmp_path: Path) -> None:
    """Only those of the dead are swept away."""
    folder = tmp_path / "out"
    with files.fresh_folder(folder) as first:
        (first / "a").write_bytes(b"first")
        with files.fresh_folder(folder) as second:
            (second / "a").write_bytes(b"second")
        assert b"second" == (folder / "a").read_bytes()
        assert b"first" == (first / "a").read_bytes()
    assert {"a": b"first"} == content(folder)
    assert [folder] == list(tmp_path.iterdir())


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    """What it leads to is replaced."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    link = tmp_path / "cpu"
    link.symlink_to(target)
    files.write_folder(link, OLD)
    files.write_folder(link, NEW)
    assert link.is_symlink()
    assert NEW == content(target) == files.read_folder(link)


def test_a_lock_holds_without_room_for_its_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who frees space on a full disk needs locks too."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with files.locked(tmp_path / "a.lock", remove=True):
        assert (tmp_path / "a.lock").exists()
    assert not (tmp_path / "a.lock").exists()


def test_who_waits_for_a_lock_is_told_who_holds_it(tmp_path: Path) -> None:
    """By its process id."""
    path = tmp_path / "a.lock"
    told: list[str] = []
    waits = threading.Event()

    def waiting(words: str) -> None:
        told.append(words)
        waits.set()

    def second() -> None:
        with files.locked(path, waiting):
            pass

    thread = threading.Thread(target=second)
    with files.locked(path):
        thread.start()
        assert waits.wait(30)
    thread.join(30)
    assert [f"waiting for a.lock, held by pid {os.getpid()}"] == told
