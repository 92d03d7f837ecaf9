"""inspect: what an image is, from a registry on loopback; nothing is pulled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builder import cli
from builder.core.artifact import CYCLONEDX, IN_TOTO, PREDICATE_TYPE, Artifact, signature_tag
from builder.core.labels import image_labels
from builder.core.lock import digest_of
from builder.core.manifest import OCI_INDEX, OCI_MANIFEST, Manifest
from builder.core.places import Places
from builder.core.provenance import PROVENANCE
from builder.core.reference import ImageRef
from builder.core.smoke import receipt_of
from builder.edge.receipts import attach_receipt
from builder.edge.referrers import attach
from builder.edge.registry import Registry
from tests.support.referrers_registry import ReferrersRegistry
from tests.support.registry import (
    FakeRegistry,
    SmallImage,
    methods,
    served,
    small_image,
    small_index,
)
from tests.support.report import check_result, make_report
from tests.support.schemas import breaches
from tests.support.small_lock import AMD64, small_lock, small_spec

pytestmark = pytest.mark.loopback

LOCK = small_lock()
OURS = image_labels(small_spec(), LOCK, AMD64) | {
    "org.nightlock.build.id": "sha256:" + "b" * 64,
    "org.nightlock.base.digest": "sha256:" + "c" * 64,
}
IMAGE = small_image(OURS)
ARM = small_image(OURS, architecture="arm64")


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credential or setting of this machine is seen."""
    for name in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def stocked(fake: FakeRegistry | None = None) -> FakeRegistry:
    """Hold our image, by itself and in an index."""
    fake = fake or FakeRegistry()
    fake.add("cpu", "one", IMAGE)
    fake.add("cpu", "arm", ARM)
    index = small_index({"linux/arm64": ARM, "linux/amd64": IMAGE})
    fake.put("cpu", "both", index, OCI_INDEX)
    return fake


def said(
    capsys: pytest.CaptureFixture[str], *words: str, as_json: bool = False
) -> tuple[int, str, str]:
    """Run the command line; return exit code, stdout and stderr."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        cli.main(["inspect", *words, *(["--json"] if as_json else [])])
    shown = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, shown.out, shown.err


def result(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return the result of a document that fits its schema."""
    code, out, _ = said(capsys, *words, as_json=True)
    document = json.loads(out)
    assert (0, []) == (code, breaches("inspect", document))
    found: dict[str, Any] = document["result"]
    return found


def put_beside(host: str, image: SmallImage, folder: Path) -> None:
    """Attach an SBOM, provenance and two receipts, as build and smoke do."""
    place = ImageRef.parse(f"{host}/cpu")
    places = Places(config=folder, cache=folder, state=folder, run=folder)
    subject = Manifest.parse(image.manifest, OCI_MANIFEST, "image")
    failed = make_report(check_result("a", "fail"), digest=image.digest)
    with Registry(host) as registry:
        for artifact in (
            Artifact(type=CYCLONEDX, file="s", data=b"{}"),
            Artifact(type=IN_TOTO, file="p", data=b"{}", annotations={PREDICATE_TYPE: PROVENANCE}),
        ):
            attach(registry, place, subject, artifact, places, lambda _: None)
        late = failed.model_copy(update={"finished": "2026-12-01T00:00:00Z"})
        for report in (make_report(digest=image.digest), late):
            attach_receipt(registry, place, subject, receipt_of(report), places, lambda _: None)


def signature(count: int) -> SmallImage:
    """Spell what cosign 2 puts under the `.sig` tag; only the number of layers counts here."""
    base = json.loads(small_image({}).manifest)
    layer = {
        "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
        "digest": "sha256:" + "0" * 64,
        "size": 1,
    }
    return SmallImage(
        manifest=json.dumps(base | {"layers": [layer] * count}).encode(), config=b"{}"
    )


def test_ours_is_described_by_its_labels(capsys: pytest.CaptureFixture[str]) -> None:
    """Versions, commit, companions, target, base, lock, build id; two small requests do."""
    fake = stocked()
    with served(fake) as host:
        found = result(capsys, f"{host}/cpu:one")
        _, out, _ = said(capsys, f"{host}/cpu:one")
    known = found["identity"]
    assert (True, "cpu", "0.32.0", "a" * 40) == (
        known["ours"],
        known["image"],
        known["vllm_version"],
        known["vllm_commit"],
    )
    assert ({"torch": "2.13.0+cpu"}, ["cpu"]) == (known["companions"], known["targets"])
    assert (LOCK.digest, OURS["org.nightlock.build.id"]) == (known["lock"], known["build"])
    assert (IMAGE.digest, AMD64, len(IMAGE.config)) == (
        found["digest"],
        found["platform"],
        found["size"],
    )
    for part in (IMAGE.digest, LOCK.digest, "vLLM 0.32.0", "torch 2.13.0+cpu", "bookworm"):
        assert part in out
    blobs = [line for line in methods(fake.requests) if "/blobs/" in line]
    assert {f"GET /v2/cpu/blobs/{digest_of(IMAGE.config)}"} == set(blobs)


@pytest.mark.parametrize("api", [False, True])
def test_what_is_attached_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, api: bool
) -> None:
    """SBOM, provenance, receipts with their verdicts, newest first, and signatures."""
    fake = stocked(ReferrersRegistry() if api else None)
    with served(fake) as host:
        put_beside(host, IMAGE, tmp_path)
        fake.add("cpu", signature_tag(IMAGE.digest), signature(2))
        found = result(capsys, f"{host}/cpu:one")
        (sbom,) = (row["digest"] for row in found["attached"] if row["kind"] == "sbom")
        fake.add("cpu", signature_tag(sbom), signature(1))
        _, out, _ = said(capsys, f"{host}/cpu:one")
    kinds = sorted(row["kind"] for row in found["attached"])
    assert ["provenance", "receipt", "receipt", "sbom"] == kinds
    assert [("cpu", "fail"), ("cpu", "pass")] == [
        (row["kind"], row["verdict"]) for row in found["receipts"]
    ]
    assert 2 == found["signatures"]
    assert f"{sbom}, 1 signature\n" in out
    assert "cpu fail, 2026-12-01T00:00:00Z" in out
    verify = "cosign verify --key cosign.pub --insecure-ignore-tlog=true"
    assert f"{verify} {host}/cpu@{IMAGE.digest}\n" in out


def test_an_index_shows_all_and_describes_one(capsys: pytest.CaptureFixture[str]) -> None:
    """`--platform` chooses; what is attached to the index or to that image counts."""
    with served(stocked()) as host:
        found = result(capsys, f"{host}/cpu:both", "--platform", "linux/arm64")
        _, out, _ = said(capsys, f"{host}/cpu:both", "--platform", "linux/arm64")
        plain = result(capsys, f"{host}/cpu:both")
        code, _, err = said(capsys, f"{host}/cpu:both", "--platform", "linux/s390x")
    rows = [(row["platform"], row["digest"]) for row in found["platforms"]]
    assert [("linux/arm64", ARM.digest), (AMD64, IMAGE.digest)] == rows
    assert ("linux/arm64", len(ARM.config)) == (found["platform"], found["size"])
    assert plain["platform"] in {"linux/arm64", AMD64}
    assert f"{AMD64} {IMAGE.digest}" in out
    assert (2, True) == (code, "it has: linux/arm64, linux/amd64" in err)


def test_an_image_of_others_says_what_it_can(capsys: pytest.CaptureFixture[str]) -> None:
    """VLLM's own names its commit; nothing is guessed from the labels its base set."""
    labels = {
        "ai.vllm.build.commit": "4" * 40,
        "org.opencontainers.image.version": "22.04",
        "org.nightlock.companions": "{broken",
    }
    fake = FakeRegistry()
    fake.add("vllm", "nightly", small_image(labels))
    with served(fake) as host:
        found = result(capsys, f"{host}/vllm:nightly")
        _, out, _ = said(capsys, f"{host}/vllm:nightly")
    known = found["identity"]
    assert (False, "", "4" * 40, {}) == (
        known["ours"],
        known["vllm_version"],
        known["vllm_commit"],
        known["companions"],
    )
    assert labels == found["labels"]
    assert "nightlock did not build it" in out
    assert "22.04" in out


def test_an_artifact_is_no_image(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An SBOM by its own digest; an index without images."""
    fake = stocked()
    empty = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}).encode()
    fake.put("cpu", "empty", empty, OCI_INDEX)
    with served(fake) as host:
        put_beside(host, IMAGE, tmp_path)
        (sbom,) = (
            row["digest"]
            for row in result(capsys, f"{host}/cpu:one")["attached"]
            if row["kind"] == "sbom"
        )
        found = result(capsys, f"{host}/cpu@{sbom}")
        _, out, _ = said(capsys, f"{host}/cpu@{sbom}")
        _, nothing, _ = said(capsys, f"{host}/cpu:empty")
    assert (CYCLONEDX, "", []) == (found["artifact_type"], found["platform"], found["platforms"])
    assert "this is no image" in out
    assert "an index without images" in nothing


def test_what_is_not_there_is_told_with_what_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Tags of the repository, without those that belong to digests; no repository; no registry."""
    fake = stocked()
    with served(fake) as host:
        put_beside(host, IMAGE, tmp_path)
        code, _, err = said(capsys, f"{host}/cpu:two")
        assert (2, True) == (code, "it has: arm, both, one\n" in err)
        assert "no tag 'two'" in err
        for number in range(20):
            fake.add("cpu", f"x{number:02}", IMAGE)
        _, _, err = said(capsys, f"{host}/cpu:two")
        assert "x06 and more" in err
        code, _, err = said(capsys, f"{host}/nobody:x")
        assert (2, True) == (code, "no such repository" in err)
    code, _, err = said(capsys, f"{host}/cpu:one")
    assert (4, True) == (code, "does not answer" in err)
    code, _, err = said(capsys, "not a reference")
    assert 2 == code
