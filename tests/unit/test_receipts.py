"""Receipts beside the image: pushed by one host, found by another; a registry that says no."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from builder.commands.context import Context
from builder.commands.smoke_receipt import Post
from builder.core.artifact import IN_TOTO, Artifact
from builder.core.candidate import Candidate
from builder.core.manifest import OCI_MANIFEST, Manifest
from builder.core.places import Places
from builder.core.receipt import Receipt, newest_first
from builder.core.reference import ImageRef
from builder.core.settings import Settings
from builder.core.smoke import receipt_of
from builder.edge.receipts import attach_receipt, attached_receipts
from builder.edge.referrers import attach
from builder.edge.registry import Registry
from builder.output import Output
from tests.support.registry import FakeRegistry, served, small_image
from tests.support.report import BUILD, LOCK, check_result, make_report

HOST = "registry.example"
PLACE = ImageRef.parse(f"{HOST}/team/cpu")
IMAGE = small_image({"org.nightlock.image": "cpu"})
SUBJECT = Manifest.parse(IMAGE.manifest, OCI_MANIFEST, "image")
PROOF = receipt_of(make_report(digest=IMAGE.digest))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Return a context with places of its own."""
    places = Places(config=tmp_path, cache=tmp_path, state=tmp_path, run=tmp_path)
    return Context(
        project=tmp_path,
        places=places,
        settings=Settings(),
        output=Output(out=io.StringIO(), err=io.StringIO()),
    )


@pytest.fixture
def fake() -> FakeRegistry:
    """Hold the image."""
    made = FakeRegistry()
    made.add("team/cpu", "candidate", IMAGE)
    return made


@pytest.fixture
def registry(fake: FakeRegistry) -> Iterator[Registry]:
    """Open it."""
    with Registry(HOST, transport=httpx.MockTransport(fake.handle)) as opened:
        yield opened


def candidate(host: str, **labels: str) -> Candidate:
    """Describe the image as its labels do."""
    known = {"lock": LOCK, "build": BUILD} | labels
    ref = ImageRef.parse(f"{host}/team/cpu:candidate").with_digest(IMAGE.digest)
    return Candidate(
        ref=ref, platform="linux/amd64", image="cpu", vllm="0.32.0", targets=("cpu",), **known
    )


def later(receipt: Receipt, finished: str, verdict: str = "pass") -> Receipt:
    """Return the same proof at another time."""
    changes = {"finished": finished, "verdict": verdict}
    return receipt.model_copy(update={"predicate": receipt.predicate.model_copy(update=changes)})


def test_a_receipt_is_a_statement_about_the_digest() -> None:
    """in-toto Statement v1, canonical; it names lock, build, profile, checks, times, machine."""
    statement = json.loads(PROOF.data())
    assert "https://in-toto.io/Statement/v1" == statement["_type"]
    assert IMAGE.digest == "sha256:" + statement["subject"][0]["digest"]["sha256"]
    predicate = statement["predicate"]
    assert ("cpu", LOCK, BUILD) == (predicate["kind"], predicate["lock"], predicate["build"])
    assert {"name": "capital", "status": "pass"} == predicate["checks"][0]
    assert {"health": 30.5} == predicate["timeline"]
    assert ("x86_64", "0.1") == (predicate["machine"]["architecture"], predicate["nightlock"])
    assert PROOF == Receipt.parse(PROOF.data())


def test_an_attached_receipt_comes_back(registry: Registry, context: Context) -> None:
    """To the byte."""
    digest = attach_receipt(registry, PLACE, SUBJECT, PROOF, context.places, lambda _: None)
    assert [(digest, PROOF)] == list(attached_receipts(registry, PLACE, IMAGE.digest))


@pytest.mark.parametrize(
    "data",
    [
        b"no statement",
        receipt_of(make_report(digest="sha256:" + "e" * 64)).data(),
        json.dumps(json.loads(PROOF.data()) | {"predicateType": "https://other"}).encode(),
    ],
    ids=["damaged", "of another image", "another predicate"],
)
def test_what_is_no_receipt_of_this_image_is_left_out(
    registry: Registry, context: Context, data: bytes
) -> None:
    """Anybody may attach statements; only ours about this digest counts."""
    stranger = Artifact(type=IN_TOTO, file="x", data=data)
    attach(registry, PLACE, SUBJECT, stranger, context.places, lambda _: None)
    assert [] == list(attached_receipts(registry, PLACE, IMAGE.digest))


def test_the_newest_counts_wherever_it_lies() -> None:
    """A record here and its copy in the registry are one; a later fail comes before a pass."""
    old, new = later(PROOF, "2026-11-01T00:00:00Z"), later(PROOF, "2026-11-02T00:00:00Z", "fail")
    assert [new, old] == newest_first([old, new, old])
    assert [new, old] == newest_first(iter([new, old]))


@pytest.mark.loopback
def test_smoke_hands_its_receipt_on(fake: FakeRegistry, context: Context) -> None:
    """Whoever looks at the image finds it; what never answered and what is not ours has none."""
    report = make_report(digest=IMAGE.digest)
    with served(fake) as host:
        post = Post(context=context, candidate=candidate(host), signer=None)
        post.take(report)
        assert [] == post.findings
        with Registry(host) as registry:
            found = list(
                attached_receipts(registry, ImageRef.parse(f"{host}/team/cpu"), IMAGE.digest)
            )
        before = dict(fake.manifests)
        strange = Post(context=context, candidate=candidate(host, lock=""), signer=None)
        strange.take(report)
        post.take(make_report(digest=IMAGE.digest, failure="it never answered"))
        assert [] == strange.digests
    assert [(post.digests[0], receipt_of(report))] == found
    assert before == fake.manifests


@pytest.mark.loopback
def test_receipt_not_attached(fake: FakeRegistry, context: Context) -> None:
    """An account that may read and not push: the verdict stands, and a finding says where it is."""

    class ReadOnly(FakeRegistry):
        def handle(self, request: httpx.Request) -> httpx.Response:
            """Refuse whatever writes."""
            reads = request.method in ("GET", "HEAD")
            return fake.handle(request) if reads else httpx.Response(403)

    report = make_report(check_result("a", "fail"), digest=IMAGE.digest)
    with served(ReadOnly()) as host:
        post = Post(context=context, candidate=candidate(host), signer=None)
        post.take(report)
    assert [] == post.digests
    (found,) = post.findings
    assert ("receipt-not-attached", "warning") == (found.key, found.severity)
    assert "403" in found.evidence
