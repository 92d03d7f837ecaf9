"""The registry client against a registry in memory: bytes, digests, retries, paging, errors."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.core.lock import digest_of
from builder.core.manifest import DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, ImageConfig
from builder.core.reference import ImageRef
from builder.edge.registry import Registry
from builder.edge.registry_answer import LONGEST_WAIT, quoted
from builder.edge.registry_connection import ATTEMPTS, REFUSALS
from builder.errors import BadInput, HashMismatch, NetworkError, NightlockError, RegistryError
from tests.support.registry import FakeRegistry, methods, small_image, small_index

HOST = "registry.example"
REF = ImageRef.parse(f"{HOST}/team/cpu:candidate")
IMAGE = small_image({"org.nightlock.image": "cpu"})


def client(fake: FakeRegistry, pause: Callable[[float], None] = lambda _: None) -> Registry:
    """Open the fake one."""
    return Registry(HOST, transport=httpx.MockTransport(fake.handle), pause=pause)


def stocked() -> FakeRegistry:
    """Make a registry that holds one image."""
    fake = FakeRegistry()
    fake.add("team/cpu", "candidate", IMAGE)
    return fake


def test_a_manifest_keeps_its_bytes() -> None:
    """What was pushed comes back to the byte, with its media type; digests are of the bytes."""
    with client(stocked()) as registry:
        registry.find_digest(REF)
        manifest = registry.manifest(REF)
        assert IMAGE.manifest == manifest.data
        assert (OCI_MANIFEST, IMAGE.digest) == (manifest.media_type, manifest.digest)
        assert IMAGE.digest == registry.find_digest(REF)
        assert manifest == registry.manifest(REF.with_digest(IMAGE.digest))


def test_another_tag_gets_the_same_bytes() -> None:
    """Putting does not spell anew."""
    fake = stocked()
    with client(fake) as registry:
        registry.put_manifest(REF.with_tag("nightly"), registry.manifest(REF))
    assert (IMAGE.manifest, OCI_MANIFEST) == fake.manifests["team/cpu", "nightly"]


def test_an_absent_manifest_is_an_answer() -> None:
    """Asked for it is None and empty; needed it is bad input."""
    with client(stocked()) as registry:
        missing = REF.with_tag("missing")
        assert registry.find_manifest(missing) is None
        assert "" == registry.find_digest(missing)
        with pytest.raises(BadInput, match="no such image"):
            registry.manifest(missing)


def test_a_definite_no_is_asked_once() -> None:
    """404 is not tried again."""
    fake = stocked()
    with client(fake) as registry:
        registry.find_manifest(REF.with_tag("missing"))
    assert ["GET /v2/team/cpu/manifests/missing"] == methods(fake.requests)


def test_altered_bytes_are_refused() -> None:
    """By digest and by tag, the bytes must be those the registry names."""
    fake = stocked()
    data, media_type = fake.manifests["team/cpu", IMAGE.digest]
    fake.manifests["team/cpu", IMAGE.digest] = (data + b" ", media_type)
    with client(fake) as registry, pytest.raises(HashMismatch):
        registry.manifest(REF.with_digest(IMAGE.digest))
    lying = httpx.Response(
        200,
        content=IMAGE.manifest[:-9],
        headers={"Docker-Content-Digest": IMAGE.digest, "Content-Type": OCI_MANIFEST},
    )
    with client(FakeRegistry(faults=[lying])) as registry, pytest.raises(HashMismatch) as caught:
        registry.manifest(REF)
    assert ["blob-damaged"] == [row.key for row in caught.value.findings]


def test_promotion_changes_digest_where_a_registry_stores_other_bytes() -> None:
    """The answer to a PUT names what was stored."""
    stored = httpx.Response(201, headers={"Docker-Content-Digest": "sha256:" + "0" * 64})
    with client(stocked()) as registry:
        manifest = registry.manifest(REF)
    with client(FakeRegistry(faults=[stored])) as registry, pytest.raises(HashMismatch) as caught:
        registry.put_manifest(REF, manifest)
    assert ["promotion-changes-digest"] == [row.key for row in caught.value.findings]


def test_the_digest_is_found_without_its_header() -> None:
    """A proxy may drop Docker-Content-Digest; then the bytes are read."""
    fake = stocked()
    fake.drop_headers = True
    with client(fake) as registry:
        assert IMAGE.digest == registry.find_digest(REF)


def test_a_generic_content_type_is_not_believed() -> None:
    """Object stores serve manifests as octet streams; the body says what it is."""
    fake = stocked()
    fake.put("team/cpu", "odd", IMAGE.manifest, "application/octet-stream")
    fake.put("team/cpu", "old", IMAGE.manifest, DOCKER_MANIFEST)
    with client(fake) as registry:
        assert OCI_MANIFEST == registry.manifest(REF.with_tag("odd")).media_type
        assert DOCKER_MANIFEST == registry.manifest(REF.with_tag("old")).media_type


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_reads_are_tried_again(status: int) -> None:
    """After errors that pass, with growing waits."""
    fake = stocked()
    waits: list[float] = []
    fake.faults = [httpx.Response(status), httpx.Response(status), httpx.ConnectError("refused")]
    with client(fake, waits.append) as registry:
        assert IMAGE.digest == registry.manifest(REF).digest
    assert [0.5, 1.0, 2.0] == waits


def test_reads_are_given_up() -> None:
    """After the last try the error names the registry and says what to do."""
    fake = FakeRegistry(faults=[httpx.ReadError("reset")] * ATTEMPTS)
    with client(fake) as registry, pytest.raises(NetworkError, match="reset") as caught:
        registry.manifest(REF)
    assert (str(REF), True) == (caught.value.subject, bool(caught.value.action))
    assert ATTEMPTS == len(fake.requests)
    fake = FakeRegistry(faults=[httpx.Response(503)] * ATTEMPTS)
    with client(fake) as registry, pytest.raises(RegistryError, match="HTTP 503"):
        registry.manifest(REF)


def test_writes_are_never_repeated() -> None:
    """A write whose answer is lost may have been done."""
    with client(stocked()) as registry:
        manifest = registry.manifest(REF)
    fake = FakeRegistry(faults=[httpx.ReadTimeout("lost")])
    with client(fake) as registry, pytest.raises(NetworkError):
        registry.put_manifest(REF, manifest)
    assert 1 == len(fake.requests)
    fake = FakeRegistry(faults=[httpx.Response(503)])
    with client(fake) as registry, pytest.raises(RegistryError):
        registry.put_manifest(REF, manifest)
    assert 1 == len(fake.requests)


def test_retry_after_is_kept() -> None:
    """Seconds or a date; nonsense falls back to our own waits."""
    fake = stocked()
    waits: list[float] = []
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    fake.faults = [
        httpx.Response(429, headers={"Retry-After": "7"}),
        httpx.Response(429, headers={"Retry-After": soon}),
        httpx.Response(429, headers={"Retry-After": "later"}),
    ]
    with client(fake, waits.append) as registry:
        registry.manifest(REF)
    assert 7.0 == waits[0]
    assert 0 < waits[1] <= 30
    assert 2.0 == waits[2]


def test_a_long_retry_after_is_told_and_not_waited_for() -> None:
    """Docker Hub asks for hours."""
    fault = httpx.Response(429, headers={"Retry-After": str(LONGEST_WAIT + 1)})
    with client(FakeRegistry(faults=[fault])) as registry, pytest.raises(RegistryError) as caught:
        registry.manifest(REF)
    assert "61 s" in caught.value.what


def test_an_error_quotes_the_registry() -> None:
    """Code and message of the registry, the reference, and advice."""
    body = {"errors": [{"code": "DENIED", "message": "requested access is denied"}]}
    fake = FakeRegistry(faults=[httpx.Response(403, json=body)])
    with client(fake) as registry, pytest.raises(RegistryError) as caught:
        registry.manifest(REF)
    assert "the registry answered HTTP 403: DENIED requested access is denied" == caught.value.what
    assert str(REF) == caught.value.subject
    assert "docker login" in caught.value.action
    for body_text in (b"<html>", b"[]", b'{"errors": null}'):
        fake = FakeRegistry(faults=[httpx.Response(403, content=body_text)])
        with client(fake) as registry, pytest.raises(RegistryError) as caught:
            registry.manifest(REF)
        assert "the registry answered HTTP 403" == caught.value.what


def test_tags_are_listed_over_pages() -> None:
    """Every page is asked for, in order."""
    fake = stocked()
    names = [f"t{number:03}" for number in range(25)]
    for name in names:
        fake.add("team/cpu", name, IMAGE)
    fake.page = 4
    with client(fake) as registry:
        assert ["candidate", *names] == list(registry.tags(REF))
        assert [] == list(registry.tags(ImageRef.parse(f"{HOST}/nobody/x")))


def test_deleting_takes_every_tag_along() -> None:
    """By digest; what was not there is told, a registry that forbids it is an error."""
    fake = stocked()
    fake.add("team/cpu", "second", IMAGE)
    with client(fake) as registry:
        assert registry.delete(REF, IMAGE.digest)
        assert [] == list(registry.tags(REF))
        assert not registry.delete(REF, IMAGE.digest)
    with (
        client(FakeRegistry(faults=[httpx.Response(405)])) as registry,
        pytest.raises(RegistryError) as caught,
    ):
        registry.delete(REF, IMAGE.digest)
    assert "switch deleting on" in caught.value.action


def test_blobs_are_checked() -> None:
    """Their bytes must have the digest they were asked by."""
    fake, digest = stocked(), digest_of(IMAGE.config)
    with client(fake) as registry:
        assert registry.has_blob(REF, digest)
        assert IMAGE.config == registry.blob(REF, digest)
        fake.blobs[digest] = b"{}"
        with pytest.raises(HashMismatch) as caught:
            registry.blob(REF, digest)
        assert ["blob-damaged"] == [row.key for row in caught.value.findings]
        del fake.blobs[digest]
        assert not registry.has_blob(REF, digest)
        with pytest.raises(RegistryError, match="BLOB_UNKNOWN"):
            registry.blob(REF, digest)


def test_labels_of_an_index_are_those_of_a_platform() -> None:
    """The platform asked for, or the only one; an absent one names those there are."""
    fake = FakeRegistry()
    arm = small_image({"org.nightlock.image": "arm"}, architecture="arm64")
    for image in (IMAGE, arm):
        fake.add("team/cpu", image.digest, image)
    both = small_index({"linux/amd64": IMAGE, "linux/arm64": arm})
    fake.put("team/cpu", "both", both, OCI_INDEX)
    fake.put("team/cpu", "one", small_index({"linux/arm64": arm}), OCI_INDEX)
    with client(fake) as registry:
        index = registry.manifest(REF.with_tag("both"))
        assert (True, ("linux/amd64", "linux/arm64")) == (index.is_index, index.platforms)
        config = registry.config(REF, index, "linux/arm64")
        assert ("linux/arm64", "arm") == (config.platform, config.labels["org.nightlock.image"])
        one = registry.manifest(REF.with_tag("one"))
        assert "arm" == registry.config(REF, one).labels["org.nightlock.image"]
        with pytest.raises(BadInput, match="no platform linux/s390x") as caught:
            registry.config(REF, index, "linux/s390x")
        assert "linux/amd64, linux/arm64" in caught.value.action


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"config": 7}'])
def test_what_is_no_manifest_is_told(data: bytes) -> None:
    """A web page or an empty answer is an error of the registry, not ours."""
    fake = FakeRegistry()
    fake.put("team/cpu", "candidate", data, OCI_MANIFEST)
    with client(fake) as registry, pytest.raises(RegistryError, match="not a manifest"):
        registry.manifest(REF)


def test_what_is_no_image_is_told() -> None:
    """Other artifacts have no image config."""
    fake = stocked()
    fake.put("team/cpu", "artifact", b'{"schemaVersion": 2}', OCI_MANIFEST)
    with client(fake) as registry, pytest.raises(RegistryError, match="no config"):
        registry.config(REF, registry.manifest(REF.with_tag("artifact")))
    for config in (b"[]", b"null", b"{}", b"x"):
        bad = small_image({})
        fake.add("team/cpu", "bad", type(bad)(manifest=bad.manifest, config=bad.config))
        fake.put(
            "team/cpu",
            "bad",
            bad.manifest.replace(digest_of(bad.config).encode(), digest_of(config).encode()),
            OCI_MANIFEST,
        )
        fake.blobs[digest_of(config)] = config
        with client(fake) as registry, pytest.raises(RegistryError, match="not an image config"):
            registry.config(REF, registry.manifest(REF.with_tag("bad")))


def test_a_registry_on_loopback_is_spoken_to_without_tls() -> None:
    """And every other one with it."""
    fake = stocked()
    for host, scheme in (("localhost:5000", "http"), ("127.0.0.1:1", "http"), (HOST, "https")):
        with Registry(host, transport=httpx.MockTransport(fake.handle)) as registry:
            registry.find_digest(REF)
        assert scheme == fake.requests[-1].url.scheme
    with Registry("docker.io", transport=httpx.MockTransport(fake.handle)) as registry:
        registry.find_digest(REF)
    assert "registry-1.docker.io" == fake.requests[-1].url.host


def test_a_silent_local_registry_is_the_private_engines() -> None:
    """Or another one: the advice asks, and names both commands; nobody waits long for it."""
    fake = FakeRegistry(faults=[httpx.ConnectError("refused")] * ATTEMPTS)
    waits: list[float] = []
    registry = Registry(
        "localhost:5000", transport=httpx.MockTransport(fake.handle), pause=waits.append
    )
    with registry, pytest.raises(NetworkError) as caught:
        registry.find_digest(REF)
    assert "nightlock engine start" in caught.value.action
    assert "nightlock engine status" in caught.value.action
    assert (REFUSALS, 1.5) == (len(fake.requests), sum(waits))


def answering(*replies: httpx.Response) -> Registry:
    """Open a registry that gives these answers, the last one again and again."""
    left = list(replies)

    def handle(request: httpx.Request) -> httpx.Response:
        reply = left.pop(0) if len(left) > 1 else left[0]
        # A new response each time: httpx reads one only once.
        return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)

    return Registry(HOST, transport=httpx.MockTransport(handle), pause=lambda _: None)


TLS = ssl.create_default_context()
DEEP = b"[" * 100_000 + b"]" * 100_000


def bearer(realm: str) -> httpx.Response:
    """Ask for a token of that server."""
    return httpx.Response(401, headers={"WWW-Authenticate": f'Bearer realm="{realm}",service="s"'})


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ([httpx.Response(302, headers={"Location": "/v2/again"})], "redirect"),
        ([httpx.Response(302, headers={"Location": "http://a:b"})], "registry.example"),
        ([bearer("http://[bad")], "bad address"),
        ([bearer("http://tokens.example/")], "not https: http://tokens.example"),
        ([bearer("https://t.example/"), httpx.Response(200, content=b"<html>")], "t.example"),
        ([bearer("https://t.example/"), httpx.Response(200, content=b"[]")], "not an object"),
        ([bearer("https://t.example/"), httpx.Response(200, content=DEEP)], "too deep"),
        ([bearer("https://t.example/"), httpx.Response(200, json={"token": 5})], "no token"),
        ([httpx.Response(403, json={"errors": 5})], "HTTP 403"),
        ([httpx.Response(403, json={"errors": [5, {"code": "X"}]})], "HTTP 403: X"),
        ([httpx.Response(403, content=DEEP)], "HTTP 403"),
        ([httpx.Response(200, content=DEEP)], "not a manifest"),
    ],
)
def test_a_broken_answer_is_told_in_words(replies: list[httpx.Response], words: str) -> None:
    """Whatever a registry sends: an error of the outside, on the reference, with an advice."""
    with answering(*replies) as registry, pytest.raises(NightlockError) as caught:
        registry.manifest(REF)
    assert words in caught.value.what
    assert (4, str(REF), True) == (
        caught.value.exit_code,
        caught.value.subject,
        bool(caught.value.action),
    )


def test_bytes_that_are_not_gzip_are_told() -> None:
    """A proxy may say gzip and send something else."""

    def handle(request: httpx.Request) -> httpx.Response:
        stream = httpx.ByteStream(b"not gzip")
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=stream)

    registry = Registry(HOST, transport=httpx.MockTransport(handle), pause=lambda _: None)
    with registry, pytest.raises(RegistryError, match="cannot be used") as caught:
        registry.manifest(REF)
    assert str(REF) == caught.value.subject


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["errors", "token", "config", "layers", "manifests", "tags", "os", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())
BODIES = st.binary(max_size=60) | JSON_LIKE


@settings(max_examples=60, deadline=None)
@given(body=BODIES, status=st.sampled_from([200, 403, 404]), header=st.text(max_size=20))
def test_no_bytes_break_the_client(body: bytes, status: int, header: str) -> None:
    """As manifest, list of tags, blob or error, or token: an answer or one of our errors."""
    named = {"WWW-Authenticate": f'Bearer realm="{header}"', "Link": f'<{header}>; rel="next"'}
    plain = httpx.Response(status, content=body, headers=httpx.Headers(named, encoding="utf-8"))
    token = httpx.Response(200, content=body)
    for replies in ([plain], [bearer("https://t.example/"), token, plain]):
        with pytest.MonkeyPatch.context() as patch:
            # Loading the machine's CAs takes longer than all else here.
            patch.setattr(ssl, "create_default_context", lambda: TLS)
            registry = answering(*replies)
        with registry:
            with suppress(NightlockError):
                registry.manifest(REF)
            with suppress(NightlockError):
                list(registry.tags(REF))


@given(body=BODIES)
def test_no_bytes_break_the_config(body: bytes) -> None:
    """A config is read, or refused in words."""
    with suppress(RegistryError):
        ImageConfig.parse(body, "x")


@pytest.mark.parametrize(
    "config",
    [
        DEEP,
        b'{"os": "linux", "architecture": "x", "config": {"Labels": [1]}}',
        b'{"os": "linux", "architecture": "x", "config": {"Labels": {"a": "\\ud800"}}}',
    ],
)
def test_an_odd_config_is_told(config: bytes) -> None:
    """Nested without end, labels that are a list, half a character."""
    with pytest.raises(RegistryError, match="not an image config"):
        ImageConfig.parse(config, "x")


def test_pages_elsewhere_are_not_asked() -> None:
    """Our token would go there; a page that leads to itself would never end."""
    for link in ("https://other.example/v2/x", "http://[bad", "/v2/team/cpu/tags/list?n=1000"):
        reply = httpx.Response(200, json={"tags": ["a"]}, headers={"Link": f'<{link}>; rel="next"'})
        with answering(reply) as registry, pytest.raises(RegistryError, match="list of tags"):
            list(registry.tags(REF))


def test_errors_hold_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a token server's address, nor of a proxy's, nor of what somebody quotes."""
    said = "at https://me:hunter2@x.example/t?token=hunter2&y=1 and me:hunter2@proxy:3128"
    body = {"errors": [{"code": "DENIED", "message": said}]}
    realm = "http://me:hunter2@t.example/token?key=hunter2"
    long = "https://me:hunter2@t.example/token?key=hunter2"
    cases = (
        [httpx.Response(403, json=body)],
        [bearer(realm)],
        [bearer(long), httpx.Response(500)],
        [bearer(long), httpx.Response(200, json={"token": "hunter2\n"})],
        [httpx.Response(302, headers={"Location": "ftp://me:hunter2@x.example/?t=hunter2"})],
    )
    for replies in cases:
        with answering(*replies) as registry, pytest.raises(NightlockError) as caught:
            registry.manifest(REF)
        assert "hunter2" not in str(caught.value)
    monkeypatch.setenv("HTTPS_PROXY", "odd://me:hunter2@proxy.example:1")
    with pytest.raises(NetworkError, match="proxy settings") as refused:
        Registry(HOST)
    assert "hunter2" not in str(refused.value)
    assert "at https://x.example/t?… and proxy:3128" == quoted(said)


def test_an_address_that_cannot_exist_is_bad_input() -> None:
    """Before anything is sent."""
    with pytest.raises(BadInput, match="not a registry's address"):
        Registry("999.1.1.1")
