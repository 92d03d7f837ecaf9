"""What is attached to an image: with the referrers API, and by the tag that stands in for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from builder.core.artifact import (
    CYCLONEDX,
    IN_TOTO,
    Artifact,
    fallback_tag,
    is_fallback_tag,
    signature_tag,
)
from builder.core.lock import digest_of
from builder.core.manifest import OCI_INDEX, OCI_MANIFEST, Manifest
from builder.core.places import Places
from builder.core.reference import ImageRef
from builder.edge.referrers import attach, content, referrers
from builder.edge.registry import Registry
from builder.errors import HashMismatch, NetworkError, RegistryError
from tests.support.referrers_registry import ReferrersRegistry
from tests.support.registry import FakeRegistry, methods, small_image

HOST = "registry.example"
REPOSITORY = "team/cpu"
PLACE = ImageRef.parse(f"{HOST}/{REPOSITORY}")
IMAGE = small_image({"org.nightlock.image": "cpu"})
SUBJECT = Manifest.parse(IMAGE.manifest, OCI_MANIFEST, "image")
SBOM = Artifact(type=CYCLONEDX, file="sbom.cdx.json", data=b'{"bomFormat":"CycloneDX"}')
PROOF = Artifact(type=IN_TOTO, file="receipt.json", data=b"{}\n", annotations={"kind": "cpu"})


def stocked(fake: FakeRegistry) -> FakeRegistry:
    """Hold the image."""
    fake.add(REPOSITORY, "candidate", IMAGE)
    return fake


def client(handle: Callable[[httpx.Request], httpx.Response]) -> Registry:
    """Open a registry in memory."""
    return Registry(HOST, transport=httpx.MockTransport(handle), pause=lambda _: None)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Return places of this test alone."""
    return Places(config=tmp_path, cache=tmp_path, state=tmp_path, run=tmp_path)


def put(fake: FakeRegistry, places: Places, *artifacts: Artifact) -> list[str]:
    """Attach and return the digests."""
    with client(fake.handle) as registry:
        return [
            attach(registry, PLACE, SUBJECT, artifact, places, lambda _: None)
            for artifact in artifacts
        ]


@pytest.mark.parametrize("fake", [FakeRegistry(), ReferrersRegistry()], ids=["tag", "api"])
def test_what_was_attached_is_listed_and_read(fake: FakeRegistry, places: Places) -> None:
    """By either way: digest, type, annotations, content; the image is what it was."""
    digests = put(stocked(fake), places, SBOM, PROOF)
    with client(fake.handle) as registry:
        found = referrers(registry, PLACE, IMAGE.digest)
        assert sorted(digests) == sorted(one.digest for one in found)
        (proof,) = referrers(registry, PLACE, IMAGE.digest, IN_TOTO)
        assert (IN_TOTO, {"kind": "cpu"}) == (proof.artifact_type, proof.annotations)
        assert PROOF.data == content(registry, PLACE, proof)
        assert IMAGE.digest == registry.find_digest(PLACE.with_tag("candidate"))


@pytest.mark.parametrize("fake", [FakeRegistry(), ReferrersRegistry()], ids=["tag", "api"])
def test_attaching_again_changes_nothing(fake: FakeRegistry, places: Places) -> None:
    """Two runs, one entry."""
    first = put(stocked(fake), places, SBOM)
    before = dict(fake.manifests)
    assert first == put(fake, places, SBOM)
    assert before == fake.manifests


@pytest.mark.parametrize("fake", [FakeRegistry(), ReferrersRegistry()], ids=["tag", "api"])
def test_nothing_is_attached(fake: FakeRegistry) -> None:
    """An image without referrers, and a repository that is not there."""
    with client(stocked(fake).handle) as registry:
        assert () == referrers(registry, PLACE, IMAGE.digest)
        nowhere = ImageRef.parse(f"{HOST}/no/where")
        assert () == referrers(registry, nowhere, IMAGE.digest)


def test_the_manifest_names_subject_and_type(places: Places) -> None:
    """As image-spec 1.1 spells them."""
    fake = stocked(FakeRegistry())
    (digest,) = put(fake, places, SBOM)
    tables = json.loads(fake.manifests[REPOSITORY, digest][0])
    assert CYCLONEDX == tables["artifactType"]
    assert {
        "mediaType": OCI_MANIFEST,
        "digest": IMAGE.digest,
        "size": len(IMAGE.manifest),
    } == tables["subject"]
    assert "application/vnd.oci.empty.v1+json" == tables["config"]["mediaType"]
    assert b"{}" == fake.blobs[tables["config"]["digest"]]


def test_with_the_api_there_is_no_tag(places: Places) -> None:
    """The registry said that it recorded the subject; nothing shows among the tags."""
    fake = stocked(ReferrersRegistry())
    put(fake, places, SBOM)
    assert (REPOSITORY, fallback_tag(IMAGE.digest)) not in fake.manifests


def test_the_list_under_the_tag_keeps_what_others_wrote(places: Places) -> None:
    """Their entries with fields we do not know, their annotations, their order."""
    fake = stocked(FakeRegistry())
    theirs = {
        "mediaType": OCI_MANIFEST,
        "digest": "sha256:" + "1" * 64,
        "size": 3,
        "artifactType": "application/vnd.theirs",
        "data": "e30=",
    }
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [theirs], "x": 1}
    tag = fallback_tag(IMAGE.digest)
    fake.put(REPOSITORY, tag, json.dumps(index).encode(), OCI_INDEX)
    (digest,) = put(fake, places, PROOF)
    data, media_type = fake.manifests[REPOSITORY, tag]
    found = json.loads(data)
    assert (OCI_INDEX, 1, theirs) == (media_type, found["x"], found["manifests"][0])
    assert {
        "mediaType": OCI_MANIFEST,
        "digest": digest,
        "size": len(fake.manifests[REPOSITORY, digest][0]),
        "artifactType": IN_TOTO,
        "annotations": {"kind": "cpu"},
    } == found["manifests"][1]


def test_a_tag_that_is_no_list_is_refused(places: Places) -> None:
    """The spec: report a failure and leave it alone."""
    fake = stocked(FakeRegistry())
    tag = fallback_tag(IMAGE.digest)
    fake.add(REPOSITORY, tag, IMAGE)
    with pytest.raises(RegistryError, match="no list of referrers"):
        put(fake, places, SBOM)
    assert IMAGE.manifest == fake.manifests[REPOSITORY, tag][0]
    with client(fake.handle) as registry:
        assert () == referrers(registry, PLACE, IMAGE.digest)


class Rival:
    """Another host that writes its own list right after ours, as often as it is told to."""

    def __init__(self, fake: FakeRegistry, times: int) -> None:
        self.fake = fake
        self.times = times
        self.entry = Artifact(type="application/vnd.rival", file="r", data=b"rival")

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer; a list that was just written is written over."""
        answer = self.fake.handle(request)
        tag = fallback_tag(IMAGE.digest)
        if request.method == "PUT" and request.url.path.endswith(tag) and self.times:
            self.times -= 1
            row = {"mediaType": OCI_MANIFEST, "digest": digest_of(b"rival"), "size": 1}
            index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [row]}
            self.fake.put(REPOSITORY, tag, json.dumps(index).encode(), OCI_INDEX)
        return answer


def test_a_list_that_another_host_wrote_over_is_written_again(places: Places) -> None:
    """Read back, found short, added once more; the other's entry stays."""
    fake = stocked(FakeRegistry())
    rival = Rival(fake, times=2)
    with client(rival.handle) as registry:
        digest = attach(registry, PLACE, SUBJECT, SBOM, places, lambda _: None)
        found = {one.digest for one in referrers(registry, PLACE, IMAGE.digest)}
    assert {digest, digest_of(b"rival")} == found


def test_a_list_that_is_always_written_over_is_an_error(places: Places) -> None:
    """It ends, and says why."""
    rival = Rival(stocked(FakeRegistry()), times=100)
    with (
        client(rival.handle) as registry,
        pytest.raises(RegistryError, match="written over 5 times"),
    ):
        attach(registry, PLACE, SUBJECT, SBOM, places, lambda _: None)


def test_pages_are_followed(places: Places) -> None:
    """Five artifacts, two on a page, with and without a type."""
    fake = ReferrersRegistry(referrers_page=2)
    made = [Artifact(type=IN_TOTO, file="r", data=f"{n}".encode()) for n in range(4)]
    digests = put(stocked(fake), places, SBOM, *made)
    with client(fake.handle) as registry:
        assert set(digests) == {one.digest for one in referrers(registry, PLACE, IMAGE.digest)}
        found = referrers(registry, PLACE, IMAGE.digest, IN_TOTO)
    assert set(digests[1:]) == {one.digest for one in found}


def test_a_page_at_another_host_is_refused(places: Places) -> None:
    """Our token would go there."""
    fake = stocked(ReferrersRegistry(referrers_page=1))

    def handle(request: httpx.Request) -> httpx.Response:
        answer = fake.handle(request)
        if "Link" in answer.headers:
            answer.headers["Link"] = '<https://elsewhere.example/v2/>; rel="next"'
        return answer

    put(fake, places, SBOM, PROOF)
    with client(handle) as registry, pytest.raises(RegistryError, match="another host"):
        referrers(registry, PLACE, IMAGE.digest)


def test_a_registry_need_not_filter(places: Places) -> None:
    """Without `OCI-Filters-Applied` the client does."""
    fake = stocked(ReferrersRegistry(filters=False))
    _, proof = put(fake, places, SBOM, PROOF)
    with client(fake.handle) as registry:
        found = referrers(registry, PLACE, IMAGE.digest, IN_TOTO)
    assert [proof] == [one.digest for one in found]


@pytest.mark.parametrize("status", [400, 404, 405, 501])
def test_an_absent_api_is_recognised(places: Places, status: int) -> None:
    """Whatever a registry says that does not know the path."""
    fake = stocked(FakeRegistry())

    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status) if "/referrers/" in request.url.path else fake.handle(request)

    (digest,) = put(fake, places, SBOM)
    with client(handle) as registry:
        assert [digest] == [one.digest for one in referrers(registry, PLACE, IMAGE.digest)]


def test_a_page_for_people_is_no_list(places: Places) -> None:
    """Some front ends answer every unknown path with 200 and HTML."""
    fake = stocked(FakeRegistry())

    def handle(request: httpx.Request) -> httpx.Response:
        if "/referrers/" in request.url.path:
            return httpx.Response(200, html="<p>hello</p>")
        return fake.handle(request)

    put(fake, places, SBOM)
    with client(handle) as registry:
        assert 1 == len(referrers(registry, PLACE, IMAGE.digest))


def test_no_right_to_look_is_an_error() -> None:
    """403 is an answer about us, not about the API."""

    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(403)

    with client(handle) as registry, pytest.raises(RegistryError, match="403"):
        referrers(registry, PLACE, IMAGE.digest)


def test_a_blob_is_uploaded_once(places: Places) -> None:
    """What is there is asked for, not sent again."""
    fake = stocked(FakeRegistry())
    with client(fake.handle) as registry:
        digest = registry.put_blob(PLACE, b"data")
        assert digest == registry.put_blob(PLACE, b"data")
    assert 1 == sum(line.startswith("POST") for line in methods(fake.requests))
    assert b"data" == fake.blobs[digest]


@pytest.mark.parametrize(
    ("location", "goes"),
    [
        ("/v2/team/cpu/blobs/uploads/one?s=1", True),
        ("http://registry.example/v2/team/cpu/blobs/uploads/one", True),
        ("https://elsewhere.example/up", False),
        ("", False),
    ],
)
def test_an_upload_stays_at_its_registry(location: str, goes: bool) -> None:
    """A proxy that ends TLS makes a registry say http; another host must not get our token."""
    seen: list[httpx.URL] = []

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "HEAD":
            return httpx.Response(404)
        if request.method == "POST":
            return httpx.Response(202, headers={"Location": location} if location else {})
        seen.append(request.url)
        return httpx.Response(201)

    with client(handle) as registry:
        if goes:
            registry.put_blob(PLACE, b"data")
        else:
            with pytest.raises(RegistryError, match="no place on itself"):
                registry.put_blob(PLACE, b"data")
    assert [("https", HOST)] * goes == [(url.scheme, url.host) for url in seen]


def test_a_lost_answer_is_told(places: Places) -> None:
    """A write is not tried again by itself; doing the whole again repairs it."""
    fake = stocked(FakeRegistry())
    tag = fallback_tag(IMAGE.digest)

    def handle(request: httpx.Request) -> httpx.Response:
        answer = fake.handle(request)
        if request.method == "PUT" and request.url.path.endswith(tag):
            raise httpx.ReadError("connection reset")
        return answer

    with client(handle) as registry, pytest.raises(NetworkError):
        attach(registry, PLACE, SUBJECT, SBOM, places, lambda _: None)
    (digest,) = put(fake, places, SBOM)
    with client(fake.handle) as registry:
        assert [digest] == [one.digest for one in referrers(registry, PLACE, IMAGE.digest)]


def test_an_altered_file_is_refused(places: Places) -> None:
    """Every blob is checked against its digest."""
    fake = stocked(FakeRegistry())
    put(fake, places, PROOF)
    fake.blobs[digest_of(PROOF.data)] = b"{ }"
    with client(fake.handle) as registry, pytest.raises(HashMismatch):
        content(registry, PLACE, referrers(registry, PLACE, IMAGE.digest)[0])


def test_tags_of_digests_are_told_from_others() -> None:
    """They live as long as their subject."""
    assert is_fallback_tag(fallback_tag(IMAGE.digest))
    assert is_fallback_tag(signature_tag(IMAGE.digest))
    assert not is_fallback_tag("nightly")
    assert not is_fallback_tag("sha256-123")
    assert not is_fallback_tag("0.33.0-cu130-sm120-" + "1" * 12)
