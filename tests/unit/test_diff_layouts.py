"""`diff` of two OCI layouts: what differs of the images counts, not what stands around them."""

from __future__ import annotations

import json
from pathlib import Path

from builder.commands import diff
from builder.commands.context import Context
from builder.core.labels import BUILD_ID
from builder.core.places import Places
from builder.core.settings import Settings
from builder.output import Output
from tests.support.layout import Entry, write_layout

NOTE = "opt/venv/lib/python3.13/site-packages/click-8.1.8.dist-info/uv_cache.json"
RECORD = NOTE.replace("uv_cache.json", "RECORD")


def context(folder: Path) -> Context:
    """Stand in an empty folder."""
    places = Places.from_environment({"HOME": str(folder)})
    return Context(project=folder, places=places, settings=Settings(), output=Output())


def image(folder: Path, clock: str) -> str:
    """Make an image as an installer leaves it that keeps a note with the time, beside a base."""
    site: dict[str, Entry] = {
        NOTE: b'{"timestamp": {"secs_since_epoch": ' + clock.encode() + b"}}",
        RECORD: b"click-8.1.8.dist-info/uv_cache.json,sha256=" + clock.encode() + b",41\n",
        "opt/venv/bin/click": b"#!/opt/venv/bin/python\n",
    }
    labels = {BUILD_ID: "sha256:" + "b" * 64}
    return write_layout(folder, [{"etc/passwd": b"root"}, site], labels=labels)


def test_equal_manifests_in_different_indexes_are_equal(tmp_path: Path) -> None:
    """C31: an attestation or an annotation moves the index's digest, and no image with it."""
    one, two = image(tmp_path / "one", "1"), image(tmp_path / "two", "1")
    place = tmp_path / "two/index.json"
    index = json.loads(place.read_text())
    index["annotations"] = {"org.opencontainers.image.created": "2026-11-30T00:00:00Z"}
    place.write_text(json.dumps(index))
    outcome = diff.run(context(tmp_path), one, two, exit_code=True)
    assert (True, True, ()) == (outcome.ok, outcome.result.same, tuple(outcome.findings))


def test_not_reproducible_an_installers_note_is_named(tmp_path: Path) -> None:
    """C31: of one build id two digests; the file with the time in it, and its line in RECORD."""
    one, two = image(tmp_path / "one", "1"), image(tmp_path / "two", "2")
    outcome = diff.run(context(tmp_path), one, two, exit_code=True)
    assert not outcome.ok
    assert ["not-reproducible"] == [row.key for row in outcome.findings]
    (compared,) = outcome.result.images
    (layer,) = compared.layers
    assert sorted([NOTE, RECORD]) == sorted(path.path.lstrip("/") for path in layer.paths)
    assert NOTE in outcome.text
