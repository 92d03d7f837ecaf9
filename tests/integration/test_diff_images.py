"""diff of two images in a registry, with differences that are planted."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from builder.commands import diff
from builder.commands.context import Context
from builder.core.diff_result import DiffResult
from builder.core.labels import BUILD_ID, LOCK_DIGEST
from builder.core.lock import Lock
from builder.core.places import Places
from builder.core.settings import Settings
from builder.errors import BadInput, HashMismatch, Refused
from builder.output import Output
from tests.support.layers import HandMade, Member, tar_of
from tests.support.pages import serve
from tests.support.two_nightlies import new_night, old_night

BASE = tar_of(Member(path="etc", type=tarfile.DIRTYPE, mode=0o755), Member(path="etc/passwd"))
TOOL = {"path": "opt/tool", "data": b"one", "mode": 0o755}


def context(folder: Path) -> Context:
    """Stand in an empty folder; no forge is asked."""
    environment = {"HOME": str(folder)}
    return Context(
        project=folder,
        places=Places.from_environment(environment),
        settings=Settings(forges={"vllm": "none", "flashinfer": "none"}),
        output=Output(),
    )


def night(lock: Lock | None, *layers: bytes, build: str = "") -> HandMade:
    """Make an image of layers and, as the last one, a lock."""
    labels = {LOCK_DIGEST: lock.digest} if lock else {}
    files = lock.files() if lock else {}
    content = [Member(path=f"opt/nightlock/lock/{name}", data=files[name]) for name in files]
    last = [tar_of(*content)] if lock else []
    labels |= {BUILD_ID: build} if build else {}
    return HandMade.of([BASE, *layers, *last], config={"Labels": labels})


def compared(folder: Path, old: HandMade, new: HandMade, *, files: bool = False) -> DiffResult:
    """Serve both and compare them."""
    with serve({**old.pages("x", "old"), **new.pages("x", "new")}) as host:
        outcome = diff.run(context(folder), f"{host}/x:old", f"{host}/x:new", files=files)
        again = diff.run(
            context(folder), f"{host}/x:old", f"{host}/x:new", exit_code=True, files=files
        )
    assert again.ok == outcome.result.same
    assert tuple(outcome.findings) == tuple(again.findings)
    return outcome.result


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mtime": 1e9}, "mtime"),
        ({"data": b"two"}, "content"),
        ({"mode": 0o700}, "mode"),
    ],
)
def test_a_planted_difference_is_named(
    tmp_path: Path, change: dict[str, object], field: str
) -> None:
    """Two builds of one lock: layer, path and field."""
    old = night(old_night(), tar_of(Member(**TOOL)), build="sha256:" + "b" * 64)  # type: ignore[arg-type]
    new = night(old_night(), tar_of(Member(**(TOOL | change))), build="sha256:" + "b" * 64)  # type: ignore[arg-type]
    result = compared(tmp_path, old, new)
    assert not result.same
    (image,) = result.images
    (layer,) = image.layers
    assert (2, 2, 3) == (layer.old_number, layer.new_number, image.layer_count)
    assert [("opt/tool", [field])] == [
        (path.path, [value.name for value in path.fields]) for path in layer.paths
    ]


def test_two_nights_are_told_by_their_locks(tmp_path: Path) -> None:
    """Gigabytes are not read to say what the locks say; with `files` they are."""
    old = night(old_night(), tar_of(Member(**TOOL)))  # type: ignore[arg-type]
    new = night(new_night(), tar_of(Member(**(TOOL | {"data": b"two"}))))  # type: ignore[arg-type]
    result = compared(tmp_path, old, new)
    assert result.packages
    assert {"unread"} == {layer.reason for layer in result.images[0].layers}
    whole = compared(tmp_path, old, new, files=True)
    assert {"files"} == {layer.reason for layer in whole.images[0].layers}


def test_images_without_locks_are_compared_all_the_same(tmp_path: Path) -> None:
    """Those of anybody."""
    old, new = (night(None, tar_of(Member(path=f"opt/{name}"))) for name in ("a", "b"))
    result = compared(tmp_path, old, new)
    assert [("opt/a", "removed"), ("opt/b", "added")] == [
        (path.path, path.kind) for path in result.images[0].layers[0].paths
    ]
    assert ("", []) == (result.old.lock, result.packages)


def test_one_image_is_the_same_as_itself(tmp_path: Path) -> None:
    """No layer is fetched."""
    image = night(old_night(), tar_of(Member(**TOOL)))  # type: ignore[arg-type]
    result = compared(tmp_path, image, image)
    assert (True, True) == (result.same, result.images[0].same)


def test_bytes_that_are_not_the_layers_are_refused(tmp_path: Path) -> None:
    """A damaged registry is not taken for a difference of images."""
    old, new = (night(None, tar_of(Member(path=f"opt/{name}"))) for name in ("a", "b"))
    pages = {**old.pages("x", "old"), **new.pages("x", "new")}
    layer = f"/v2/x/blobs/{new.manifest.body.layers[1].digest}"
    for data, error in (
        (old.blobs[old.manifest.body.layers[1].digest], HashMismatch),
        (b"x", Refused),
    ):
        broken = {**pages, layer: (200, "application/octet-stream", data)}
        with serve(broken) as host, pytest.raises(error):
            diff.run(context(tmp_path), f"{host}/x:old", f"{host}/x:new")


def test_images_of_different_platforms_are_bad_input(tmp_path: Path) -> None:
    """There is nothing to compare."""
    old, arm = HandMade.of([BASE]), HandMade.of([BASE], architecture="arm64")
    with (
        serve({**old.pages("x", "old"), **arm.pages("x", "new")}) as host,
        pytest.raises(BadInput, match="no platform in common: linux/amd64 and linux/arm64"),
    ):
        diff.run(context(tmp_path), f"{host}/x:old", f"{host}/x:new")
