"""The registry client against Debian's registry: what it really answers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builder.core.artifact import CYCLONEDX, IN_TOTO, Artifact, fallback_tag
from builder.core.lock import digest_of
from builder.core.manifest import OCI_INDEX
from builder.core.places import Places
from builder.core.reference import ImageRef
from builder.edge.engine import Engine
from builder.edge.referrers import attach, content, referrers
from builder.edge.registry import Registry
from builder.errors import BadInput, NetworkError, RegistryError
from tests.support.registry import push, put_manifest, small_image, small_index

pytestmark = pytest.mark.docker

IMAGE = small_image({"org.nightlock.image": "cpu"})


@pytest.fixture
def ref(engine: Engine) -> Iterator[ImageRef]:
    """Yield a repository with one image under `candidate`; what it holds later is removed."""
    name = f"nightlock-test/{uuid.uuid4().hex[:12]}"
    push(engine.registry, name, "candidate", IMAGE)
    made = ImageRef.parse(f"{engine.registry}/{name}:candidate")
    yield made
    with Registry.open(made.registry, os.environ) as registry:
        for tag in list(registry.tags(made)):
            digest = registry.find_digest(made.with_tag(tag))
            if digest:
                registry.delete(made, digest)


@pytest.fixture
def registry(engine: Engine) -> Iterator[Registry]:
    """Open the real one."""
    with Registry.open(engine.registry, os.environ) as opened:
        yield opened


def test_bytes_survive_a_round_trip(registry: Registry, ref: ImageRef) -> None:
    """By tag and by digest, and under a second tag."""
    manifest = registry.manifest(ref)
    assert (IMAGE.manifest, IMAGE.digest) == (manifest.data, manifest.digest)
    assert IMAGE.digest == registry.find_digest(ref)
    assert manifest == registry.manifest(ref.with_digest(IMAGE.digest))
    registry.put_manifest(ref.with_tag("nightly"), manifest)
    assert manifest == registry.manifest(ref.with_tag("nightly"))
    assert "cpu" == registry.config(ref, manifest).labels["org.nightlock.image"]
    assert registry.has_blob(ref, digest_of(IMAGE.config))
    assert not registry.has_blob(ref, "sha256:" + "0" * 64)


def test_what_is_not_there(registry: Registry, ref: ImageRef) -> None:
    """A tag, a repository, a blob."""
    assert "" == registry.find_digest(ref.with_tag("missing"))
    nobody = ImageRef.parse(f"{ref.registry}/nightlock-test/nobody:x")
    assert registry.find_manifest(nobody) is None
    assert [] == list(registry.tags(nobody))
    with pytest.raises(BadInput):
        registry.manifest(nobody)
    with pytest.raises(RegistryError, match="BLOB_UNKNOWN"):
        registry.blob(ref, "sha256:" + "0" * 64)


def test_a_manifest_without_its_parts_is_refused(registry: Registry, ref: ImageRef) -> None:
    """The registry's own code and message are told."""
    absent = small_image({"not": "pushed"})
    manifest = registry.manifest(ref)
    broken = type(manifest).parse(absent.manifest, manifest.media_type, "x")
    with pytest.raises(RegistryError, match="MANIFEST_BLOB_UNKNOWN"):
        registry.put_manifest(ref.with_tag("broken"), broken)
    assert "" == registry.find_digest(ref.with_tag("broken"))


def test_deleting_is_by_digest_and_takes_every_tag(registry: Registry, ref: ImageRef) -> None:
    """As the contract's notes on Debian's registry say."""
    registry.put_manifest(ref.with_tag("second"), registry.manifest(ref))
    assert ["candidate", "second"] == sorted(registry.tags(ref))
    assert registry.delete(ref, IMAGE.digest)
    assert ("", "") == (registry.find_digest(ref), registry.find_digest(ref.with_tag("second")))
    assert not registry.delete(ref, IMAGE.digest)


def test_an_index_keeps_its_bytes_too(registry: Registry, ref: ImageRef) -> None:
    """And its only platform is found without being named."""
    data = small_index({"linux/amd64": IMAGE})
    put_manifest(ref.registry, ref.repository, "index", data, OCI_INDEX)
    index = registry.manifest(ref.with_tag("index"))
    assert (data, OCI_INDEX, True) == (index.data, index.media_type, index.is_index)
    assert "linux/amd64" == registry.config(ref, index).platform


def test_a_port_where_nobody_listens(engine: Engine) -> None:
    """One message, no traceback of a library."""
    silent = Registry("127.0.0.1:9", pause=lambda _: None)
    with silent, pytest.raises(NetworkError, match=r"127.0.0.1:9 does not answer"):
        silent.find_digest(ImageRef.parse("127.0.0.1:9/x:t"))


def test_what_is_attached_is_listed_by_a_tag(
    registry: Registry, ref: ImageRef, tmp_path: Path
) -> None:
    """Debian's registry has no referrers API; its own answers are what the fallback stands on."""
    places = Places(config=tmp_path, cache=tmp_path, state=tmp_path, run=tmp_path)
    image = registry.manifest(ref)
    assert () == referrers(registry, ref, image.digest)
    sbom = Artifact(type=CYCLONEDX, file="sbom.cdx.json", data=b'{"bomFormat":"CycloneDX"}')
    proofs = [Artifact(type=IN_TOTO, file="r.json", data=b"%d" % number) for number in range(8)]

    def put(artifact: Artifact) -> str:
        with Registry.open(ref.registry, os.environ) as own:
            return attach(own, ref, image, artifact, places, lambda _: None)

    with ThreadPoolExecutor(4) as pool:
        digests = list(pool.map(put, [sbom, *proofs, sbom]))
    found = referrers(registry, ref, image.digest)
    assert (9, set(digests)) == (len(found), {one.digest for one in found})
    (one,) = referrers(registry, ref, image.digest, CYCLONEDX)
    assert sbom.data == content(registry, ref, one)
    assert image == registry.manifest(ref)
    assert {"candidate", fallback_tag(image.digest)} == set(registry.tags(ref))
