"""The policy: which proofs a tag asks for, and every condition that does not hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder.core.candidate import Candidate
from builder.core.manifest import OCI_MANIFEST, ImageConfig, Manifest
from builder.core.receipt import Receipt
from builder.core.reference import ImageRef
from builder.core.release import parse_policy, unmet
from builder.core.smoke import receipt_of
from builder.edge.profiles import read_policy
from builder.errors import SpecError
from tests.support.registry import small_image
from tests.support.report import BUILD, DIGEST, LOCK, check_result, make_report

POLICY = parse_policy(
    """
    [[rule]]
    images = ["cpu"]
    tags = ["nightly", "stable"]
    receipts = ["cpu"]
    [[rule]]
    images = ["cuda*"]
    tags = ["nightly"]
    receipts = ["structural", "gpu:sm_120"]
    """,
    "policy.toml",
)
CPU = Candidate(
    ref=ImageRef.parse(f"localhost:5000/x@{DIGEST}"),
    platform="linux/amd64",
    image="cpu",
    lock=LOCK,
    build=BUILD,
    targets=("cpu",),
    vllm="0.32.0",
)
PASS = receipt_of(make_report())


def whats(candidate: Candidate, tags: dict[str, str], receipts: list[Receipt]) -> list[str]:
    """List what does not hold; each has advice."""
    found = unmet(candidate, tags, receipts, POLICY)
    assert all(condition.action for condition in found)
    return [condition.what for condition in found]


def test_a_passing_receipt_is_enough() -> None:
    """For every tag that asks for its kind, wherever the tags are now."""
    assert [] == whats(CPU, {"nightly": "", "stable": "sha256:" + "0" * 64}, [PASS])


def test_no_receipt_for_this_digest() -> None:
    """One of another digest or another kind does not count."""
    other = receipt_of(make_report(digest="sha256:" + "e" * 64))
    gpu = receipt_of(make_report(kind="gpu:sm_120"))
    expected = ["nightly, stable: there is no cpu receipt for this digest"]
    for receipts in ([], [other], [gpu]):
        assert expected == whats(CPU, {"nightly": "", "stable": ""}, receipts)


def test_the_last_run_counts() -> None:
    """A later fail is not excused by an earlier pass; a later pass heals."""
    bad = receipt_of(make_report(check_result("a", "fail")))
    unsure = receipt_of(make_report(check_result("a", "inconclusive")))
    assert ["nightly: the last cpu receipt of this digest says fail"] == whats(
        CPU, {"nightly": ""}, [bad, PASS]
    )
    assert ["nightly: the last cpu receipt of this digest says inconclusive"] == whats(
        CPU, {"nightly": ""}, [unsure]
    )
    assert [] == whats(CPU, {"nightly": ""}, [PASS, bad])


def test_a_broken_chain_stops() -> None:
    """The receipt's lock and build must be those of the image's labels."""
    for candidate in (
        replace(CPU, lock="sha256:" + "9" * 64),
        replace(CPU, build="sha256:" + "9" * 64),
    ):
        (what,) = whats(candidate, {"nightly": ""}, [PASS])
        assert "the cpu receipt is for lock" in what
    rows = whats(replace(CPU, lock="", build=""), {"nightly": ""}, [PASS])
    assert "the image's labels name no lock digest and build id" == rows[0]
    assert 2 == len(rows)


def test_every_kind_a_rule_names_is_asked_for() -> None:
    """And all that is missing is told at once."""
    cuda = replace(CPU, image="cuda13-sm120")
    rows = whats(cuda, {"nightly": "", "stable": ""}, [PASS])
    assert [
        "the policy names no tag 'stable' for image 'cuda13-sm120'",
        "nightly: there is no structural receipt for this digest",
        "nightly: there is no gpu:sm_120 receipt for this digest",
    ] == rows
    structural = receipt_of(make_report(kind="structural"))
    gpu = receipt_of(make_report(kind="gpu:sm_120"))
    assert [] == whats(cuda, {"nightly": ""}, [structural, gpu])


def test_a_tag_the_policy_does_not_know_names_those_it_does() -> None:
    """A spelling mistake makes no new tag."""
    (condition,) = unmet(CPU, {"nigthly": ""}, [PASS], POLICY)
    assert "(nightly, stable)" in condition.action


def test_an_immutable_tag_never_moves() -> None:
    """It asks for no receipt, and may only name the build it is called after."""
    own = "0.32.0-cpu-" + "2" * 12
    assert [] == whats(CPU, {own: ""}, [])
    assert [] == whats(CPU, {own: DIGEST}, [])
    other = "sha256:" + "0" * 64
    assert [f"{own} is immutable and names {other} already"] == whats(CPU, {own: other}, [PASS])
    (what,) = whats(CPU, {"0.32.0-cpu-" + "3" * 12: ""}, [PASS])
    assert "another build id" in what


def test_a_candidate_is_what_its_labels_say() -> None:
    """Missing labels are empty, the digest is that of the bytes."""
    image = small_image(
        {
            "org.nightlock.image": "cpu",
            "org.nightlock.lock.digest": LOCK,
            "org.nightlock.build.id": BUILD,
            "org.nightlock.vllm.version": "0.32.0",
        }
    )
    ref = ImageRef.parse("localhost:5000/x:nightly")
    manifest = Manifest.parse(image.manifest, OCI_MANIFEST, "x")
    found = Candidate.of(ref, manifest, ImageConfig.parse(image.config, "x"))
    assert (image.digest, "nightly", "cpu", LOCK, BUILD, "0.32.0", "linux/amd64") == (
        found.digest,
        found.ref.tag,
        found.image,
        found.lock,
        found.build,
        found.vllm,
        found.platform,
    )
    bare = Candidate.of(ref, manifest, ImageConfig.parse(small_image({}).config, "x"))
    assert ("", "", "") == (bare.image, bare.lock, bare.build)


def test_the_projects_policy(project_root: Path) -> None:
    """The first rule that fits decides: cpu images need no GPU, all others do."""
    policy = read_policy(project_root)
    asked = {
        (image, tag): rule.receipts if (rule := policy.rule_for(image, tag)) else None
        for image in ("cpu", "cuda13-sm120")
        for tag in ("candidate", "nightly", "stable", "latest")
    }
    assert {
        ("cpu", "candidate"): ["cpu"],
        ("cpu", "nightly"): ["cpu"],
        ("cpu", "stable"): ["cpu"],
        ("cpu", "latest"): None,
        ("cuda13-sm120", "candidate"): ["structural"],
        ("cuda13-sm120", "nightly"): ["gpu:sm_120"],
        ("cuda13-sm120", "stable"): ["gpu:sm_120"],
        ("cuda13-sm120", "latest"): None,
    } == asked


def test_a_bad_policy_is_told() -> None:
    """With its key path."""
    with pytest.raises(SpecError, match=r"rule.0.receipts: \[\]"):
        parse_policy('[[rule]]\nimages=["x"]\ntags=["y"]\nreceipts=[]', "policy.toml")
