"""The offline bundle on disk: filled, gone on with, read back, refused when it is not whole."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.commands.bundle import take_in_bundle
from builder.commands.context import Context
from builder.core.bundle import NAME, SUMS, Bundle, BundledPlatform, parse_sums, readme, sums
from builder.core.lock import Lock
from builder.core.settings import Settings
from builder.edge import bundle, files, rootfs
from builder.edge.store import Store
from builder.edge.templates import read_template
from builder.errors import BadInput, DiskFull, HashMismatch
from builder.output import Output
from tests.support.small_lock import AMD64, small_lock
from tests.support.stocked import places, write_project

BASE = b"the root file system"


def sha256(data: bytes) -> str:
    """Bare hex."""
    return hashlib.sha256(data).hexdigest()


def described(lock: Lock | None = None, /, **row: object) -> Bundle:
    """Describe a bundle of one platform."""
    fields: dict[str, object] = {
        "folder": "linux-amd64",
        "command": "docker buildx build .",
        "base": f"sha256:{sha256(BASE)}",
        "base_size": len(BASE),
        "buildkit": "26.1",
        "build_id": "sha256:" + "1" * 64,
        "digest": "sha256:" + "2" * 64,
    }
    return Bundle(
        image="cpu",
        lock=(lock or small_lock()).digest,
        nightlock="0.1",
        platforms={AMD64: BundledPlatform.model_validate(fields | row)},
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with three files."""
    made = Store(places(tmp_path).store)
    for data in (BASE, b"wheel", b"deb"):
        source = tmp_path / "source"
        source.write_bytes(data)
        made.add(source)
    return made


def contents(store: Store) -> tuple[dict[str, bytes], dict[str, Path]]:
    """Return small and large files of a bundle."""
    texts = {NAME: described().data(), "README.md": b"read me\n", "linux-amd64/Dockerfile": b"x"}
    links = {
        "linux-amd64/base.tar": store.path(sha256(BASE)),
        "linux-amd64/wheels/group-01/a.whl": store.path(sha256(b"wheel")),
        "debs/a.deb": store.path(sha256(b"deb")),
    }
    return texts, links


def fill(folder: Path, store: Store) -> list[int]:
    """Fill it; return the bytes it told."""
    told: list[int] = []
    bundle.fill(folder, *contents(store), told.append)
    return told


def checked(folder: Path) -> int:
    """Check it as its README says."""
    return subprocess.run(
        ["sha256sum", "--quiet", "--check", "--strict", SUMS],
        cwd=folder,
        capture_output=True,
        check=False,
    ).returncode


def test_a_filled_bundle_passes_its_own_check(tmp_path: Path, store: Store) -> None:
    """Every file is listed, and nothing else is there."""
    out = tmp_path / "out"
    assert sorted([len(BASE), 5, 3]) == sorted(fill(out, store))
    assert 0 == checked(out)
    found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert found == {*parse_sums((out / SUMS).read_text(), ""), SUMS}
    assert described() == bundle.read(out)


def test_a_second_run_leaves_the_files(tmp_path: Path, store: Store) -> None:
    """Copies, as on another disk, are recognised by their bytes; others are brought again."""
    out = tmp_path / "out"
    fill(out, store)
    for name in ("linux-amd64/base.tar", "debs/a.deb"):
        data = (out / name).read_bytes()
        (out / name).unlink()
        (out / name).write_bytes(data if name.endswith(".deb") else b"x" * len(data))
    kept = (out / "debs/a.deb").stat().st_ino
    fill(out, store)
    assert kept == (out / "debs/a.deb").stat().st_ino
    assert BASE == (out / "linux-amd64/base.tar").read_bytes()
    assert 0 == checked(out)


def test_what_was_cut_short_is_no_bundle_until_it_is_done(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksums come last; the next run goes on, and takes away what is not of it."""
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(bundle, "link", lambda *_: (_ for _ in ()).throw(DiskFull("full")))
        with pytest.raises(DiskFull):
            fill(out, store)
    (out / "debs").mkdir(exist_ok=True)
    (out / "debs/.a.deb.part").write_bytes(b"half")
    (out / "linux-amd64/wheels/group-09").mkdir(parents=True, exist_ok=True)
    (out / "linux-amd64/wheels/group-09/old.whl").touch()
    with pytest.raises(BadInput, match="SHA256SUMS is not there"):
        bundle.read(out)
    bundle.require_ours(out)
    fill(out, store)
    assert 0 == checked(out)
    assert not (out / "linux-amd64/wheels/group-09").exists()
    assert not (out / "debs/.a.deb.part").exists()


def test_another_folder_is_never_touched(tmp_path: Path) -> None:
    """Neither somebody's home nor a file."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter").touch()
    for place in (tmp_path / "home", tmp_path / "home/letter"):
        with pytest.raises(BadInput, match="something else than a bundle"):
            bundle.require_ours(place)
    bundle.require_ours(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    bundle.require_ours(tmp_path / "empty")


def test_linked_files_need_no_room(tmp_path: Path, store: Store) -> None:
    """On another disk all of them do."""
    _, links = contents(store)
    assert 0 == bundle.bytes_to_copy(tmp_path / "new/folder", links)
    far = Path("/dev/shm")  # noqa: S108 - another file system
    if far.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("one file system holds both")
    assert len(BASE) + 8 == bundle.bytes_to_copy(far / "new", links)


@pytest.mark.parametrize(
    "line",
    [
        "0" * 64 + "  ../outside",
        "0" * 64 + "  /etc/passwd",
        "0" * 63 + "  short",
        "0" * 64 + " one-space",
        "g" * 64 + "  name",
    ],
)
def test_checksums_that_lead_away_are_refused(line: str) -> None:
    """A bundle may come from anywhere."""
    with pytest.raises(BadInput, match="not a line of checksums"):
        parse_sums(f"{line}\n", "x")


def test_checksums_are_written_and_read() -> None:
    """Sorted by name, as sha256sum reads them."""
    rows = {"b": "1" * 64, "a b": "0" * 64}
    assert rows == parse_sums(sums(rows).decode(), "x")
    assert sums(rows).startswith(b"0" * 64 + b"  a b\n")


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[", described().data().replace(b"bundle/1", b"x/9")]
)
def test_another_document_is_no_bundle(data: bytes) -> None:
    """Also one of a later nightlock."""
    with pytest.raises(BadInput, match="not a bundle"):
        Bundle.parse(data, "x")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({}, "the image whose manifest is\n`sha256:2222"),
        ({"digest": ""}, "the image that `nightlock build` makes"),
        ({"digest": "", "buildkit": "", "build_id": ""}, "No engine answered"),
    ],
)
def test_the_readme_says_what_comes_out(row: dict[str, object], words: str) -> None:
    """As far as it was known when the bundle was written."""
    said = readme(described(**row), read_template("bundle.md.j2")).decode()
    assert words in said
    assert "cd linux-amd64\ndocker buildx build .\n```" in said
    assert "nightlock build cpu --bundle .." in said


@pytest.fixture
def project(tmp_path: Path) -> Context:
    """Return a project on another machine: its lock, and an empty store."""
    far = tmp_path / "far"
    write_project(far, small_lock())
    return Context(project=far, places=places(far), settings=Settings(), output=Output())


def test_a_bundle_fills_the_store(tmp_path: Path, store: Store, project: Context) -> None:
    """Every large file by its hash, and the base is known as that of the .debs."""
    out = tmp_path / "out"
    fill(out, store)
    take_in_bundle(project, "cpu", out)
    theirs = Store(project.places.store)
    assert all(theirs.has(sha256(data), len(data)) for data in (BASE, b"wheel", b"deb"))
    debs = small_lock().platforms[AMD64].debs
    base = rootfs.find_base(debs, theirs, project.places.state / "base")
    assert base is not None
    assert sha256(BASE) == base.sha256
    # What is there is not read again.
    (out / "debs/a.deb").unlink()
    (out / "debs/a.deb").write_bytes(b"bad")
    take_in_bundle(project, "cpu", out)


def spoil(folder: Path) -> None:
    """Change a byte."""
    (folder / "debs/a.deb").unlink()
    (folder / "debs/a.deb").write_bytes(b"deB")


def lose(folder: Path) -> None:
    """Forget a file while copying."""
    (folder / "linux-amd64/wheels/group-01/a.whl").unlink()


def swap(folder: Path) -> None:
    """Let it be of another lock."""
    other = small_lock(channel="nightly")
    (folder / NAME).write_bytes(described(other).data())


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (spoil, HashMismatch, "sha256"),
        (lose, BadInput, "1 files are not there: linux-amd64/wheels/group-01/a.whl"),
        (swap, BadInput, "this project's lock of cpu"),
    ],
)
def test_a_bad_bundle_is_told(
    tmp_path: Path,
    store: Store,
    project: Context,
    fault: Callable[[Path], None],
    error: type[Exception],
    words: str,
) -> None:
    """Nothing wrong gets into the store."""
    out = tmp_path / "out"
    fill(out, store)
    fault(out)
    with pytest.raises(error, match=words):
        take_in_bundle(project, "cpu", out)
    assert not Store(project.places.store).path(sha256(b"deB")).exists()


def test_too_little_room_is_said_first(
    tmp_path: Path, store: Store, project: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is copied."""
    out = tmp_path / "out"
    fill(out, store)
    monkeypatch.setattr(files, "free_bytes", lambda _: 1)
    with pytest.raises(DiskFull, match="taking in the bundle of cpu"):
        take_in_bundle(project, "cpu", out)
    assert not list(project.places.store.rglob("*.part"))
