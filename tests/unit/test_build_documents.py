"""What `build` attaches: an SBOM with the licences of the base's packages, and a provenance."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import httpx
import pytest

from builder.commands.build_documents import attach_documents
from builder.commands.context import Context
from builder.commands.render_base import BaseFiles
from builder.core.artifact import CYCLONEDX, IN_TOTO
from builder.core.manifest import OCI_MANIFEST, Manifest
from builder.core.places import Places
from builder.core.provenance import Built
from builder.core.reference import ImageRef
from builder.core.settings import Settings
from builder.edge.referrers import content, referrers
from builder.edge.registry import Registry
from builder.output import Output
from tests.support.referrers_registry import ReferrersRegistry
from tests.support.registry import small_image
from tests.support.small_lock import AMD64, small_lock

HOST = "registry.example"
REPOSITORY = "team/cpu"
IMAGE = small_image({"org.nightlock.image": "cpu"})
COPYRIGHT = b"""Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
License: Expat
"""
MIT = [{"license": {"acknowledgement": "declared", "id": "MIT"}}]


def base_tar(folder: Path) -> BaseFiles:
    """Make a root file system that holds one copyright file."""
    path = folder / "base.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("usr/share/doc/tini/copyright")
        member.size = len(COPYRIGHT)
        archive.addfile(member, io.BytesIO(COPYRIGHT))
    return BaseFiles(digest="sha256:" + "e" * 64, size=1, links={"base.tar": path})


@pytest.mark.parametrize(("of_debs", "licences"), [(True, MIT), (False, None)])
def test_cve_and_sbom_what_is_attached(
    of_debs: bool, licences: list[object] | None, tmp_path: Path
) -> None:
    """C70: tied to the digest; a second time nothing is added; other bases give no licences."""
    base = base_tar(tmp_path) if of_debs else BaseFiles(digest="sha256:1", size=1, links={})
    places = Places(config=tmp_path, cache=tmp_path, state=tmp_path, run=tmp_path)
    context = Context(project=tmp_path, places=places, settings=Settings(), output=Output())
    place, lock = ImageRef.parse(f"{HOST}/{REPOSITORY}"), small_lock()
    built = Built(
        name=place.name,
        digest=IMAGE.digest,
        platform=AMD64,
        build_id="sha256:" + "b" * 64,
        base=base.digest,
        files={},
        buildkit="v0.12.5",
        nightlock="0.1.0",
    )
    fake = ReferrersRegistry()
    fake.add(REPOSITORY, "candidate", IMAGE)
    manifest = Manifest.parse(IMAGE.manifest, OCI_MANIFEST, "image")
    transport = httpx.MockTransport(fake.handle)
    with Registry(HOST, transport=transport, pause=lambda _: None) as registry:
        first, second = (
            attach_documents(context, registry, place, manifest, lock, built, base)
            for _ in range(2)
        )
        found = {one.artifact_type: one for one in referrers(registry, place, IMAGE.digest)}
        bill = json.loads(content(registry, place, found[CYCLONEDX]))
    assert first == second
    assert {"sbom": found[CYCLONEDX].digest, "provenance": found[IN_TOTO].digest} == first
    (tini,) = (row for row in bill["components"] if row["name"] == "tini")
    assert licences == tini.get("licenses")
