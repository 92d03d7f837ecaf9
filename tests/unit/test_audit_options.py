"""`audit`: what can be asked, and in which words it refuses."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from builder.commands import audit
from builder.errors import BadInput, Outside, Refused
from tests.support.audited import Audited, others, vllm


@pytest.fixture
def project(tmp_path: Path) -> Audited:
    """Make an empty project."""
    return Audited.at(tmp_path)


def test_nothing_to_audit(project: Audited) -> None:
    """One of three has to be named."""
    with pytest.raises(BadInput, match="nothing to audit"):
        audit.run(project.context)


def test_a_folder_and_an_image_at_once(project: Audited) -> None:
    """Only a lock may stand beside another."""
    with pytest.raises(BadInput, match="at once"):
        audit.run(project.context, wheels=project.root, image="localhost:5000/x:y")


def test_a_folder_without_wheels(project: Audited) -> None:
    """A folder that is not there, and one that holds none."""
    with pytest.raises(BadInput, match="no such folder"):
        audit.run(project.context, wheels=project.root / "nowhere")
    with pytest.raises(BadInput, match="has no wheels"):
        audit.run(project.context, wheels=project.root)


def test_one_wheel_twice(project: Audited) -> None:
    """Two files of one name: nobody could say which one was meant."""
    folder = project.folder(others())
    (folder / "again").mkdir()
    (folder / "again" / others()[0].file).write_bytes(b"x")
    with pytest.raises(BadInput, match="is there twice"):
        audit.run(project.context, wheels=folder)


def test_a_folder_that_is_no_layout(project: Audited) -> None:
    """`oci:` is taken at its word."""
    with pytest.raises(BadInput, match="no OCI layout"):
        audit.run(project.context, image=f"oci:{project.root}")


def test_wheels_that_were_not_fetched(project: Audited) -> None:
    """The store lacks them: what to run is said."""
    lock = project.lock([vllm(), *others()])
    for pin in lock.platforms["linux/amd64"].wheels[:2]:
        (project.context.places.store / "sha256" / pin.sha256[:2] / pin.sha256).unlink()
    with pytest.raises(Outside, match="2 locked wheels") as caught:
        audit.run(project.context, lock="gpu")
    assert "nightlock fetch gpu" in caught.value.action


@pytest.mark.parametrize("damage", ["cut", "bytes", "text"])
def test_a_damaged_wheel_is_refused(damage: str, project: Audited) -> None:
    """Cut off, with other bytes than its checksum says, and no zip file at all."""
    folder = project.folder([vllm(), *others()])
    path = next(folder.glob("vllm-*"))
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "text":
        data = bytearray(b"404: not found")
    else:
        with zipfile.ZipFile(path) as archive:
            entry = max(archive.infolist(), key=lambda one: one.compress_size)
        start = entry.header_offset + 30 + len(entry.filename)
        data[start + 20 : start + 40] = bytes(20)
    path.write_bytes(data)
    with pytest.raises(Refused, match="cannot be read"):
        audit.run(project.context, wheels=folder)


def test_wheels_alone_say_what_they_are_for(project: Audited) -> None:
    """Without a lock: CUDA from torch, and no companion is missed that no policy asks for."""
    outcome = audit.run(project.context, wheels=project.folder([vllm(), *others()]))
    (one,) = outcome.result.audits
    assert ("13.0", [], "linux/amd64") == (one.cuda, one.targets, one.platform)
    assert outcome.ok
    assert "without a target to judge it by" in outcome.text


def test_a_stale_spec_takes_overrides_from_the_lock(project: Audited) -> None:
    """What the lock itself leaves unmet was decided when it was made."""
    wheels = [vllm(requires=("torch==2.14.0", "absent>=1")), *others()]
    project.lock(wheels)
    spec = project.root / "images/gpu/image.toml"
    assert not audit.run(project.context, lock="gpu").ok
    spec.write_text(spec.read_text().replace("that is none", "of another day"))
    assert audit.run(project.context, lock="gpu").ok


def test_the_project_is_found_from_a_folder_inside(project: Audited) -> None:
    """As every verb finds it; without one a lock cannot be meant."""
    project.lock([vllm(), *others()])
    inside = replace(project.context, project=project.root / "images/gpu")
    assert audit.run(inside, lock="gpu").ok
    outside = replace(project.context, project=project.root.parent)
    with pytest.raises(BadInput, match="no nightlock project"):
        audit.run(outside, lock="gpu")
