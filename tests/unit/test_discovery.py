"""The newest complete nightly, and a reason for everything that was passed over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.core.nightly import flat_page
from builder.core.nightly_set import check_taken
from builder.core.pins import WheelPin
from builder.core.simple import Candidate
from builder.errors import NotOffered, Refused
from tests.support.discovering import Survey, everywhere, find, history, want
from tests.support.nightly_index import Bucket, both, nightly, sha

OLD, NEW, NEWEST = sha("4080263bb"), sha("ea5f903f8"), sha("77aa88bb9")
V313, V344, V351 = (
    f"0.33.1rc1.dev{number}+g{commit[:9]}"
    for number, commit in ((313, OLD), (344, NEW), (351, NEWEST))
)


def two_nights() -> Bucket:
    """Publish a whole night, then one with its aarch64 wheel alone."""
    made = Bucket()
    made.publish(OLD, *both(V313))
    made.publish(NEW, nightly(V344, arch="aarch64"))
    return made


def test_the_newest_whole_night_takes_four_pages() -> None:
    """Nothing more is read than the lists and the one page of wheels."""
    made = Bucket()
    made.publish(OLD, *both(V313))
    made.publish(NEW, *both(V344))
    survey = Survey(made, everywhere("cu130"))
    found = survey.find()
    assert (NEW, "0.33.1rc1.dev344") == (found.commit, str(found.public))
    assert [["nightly/", "nightly/cu130/"], ["nightly/cu130/vllm/"]] == survey.rounds
    assert f"vllm-{V344}-cp38-abi3-manylinux_2_28_aarch64.whl" == (
        found.wheel("linux/arm64", "cu130").file
    )
    assert ((), ()) == (found.skipped, found.findings)
    with pytest.raises(KeyError):
        found.wheel("linux/arm64", "cpu")


def test_many_unpublished_commits_are_asked_for_in_batches() -> None:
    """Eight pages at once, the newest first, and no further than twenty commits back."""
    made = Bucket()
    made.publish(OLD, nightly(V313, arch="aarch64"))
    later = [sha(f"{number:07x}") for number in range(30, 0, -1)]
    survey = Survey(made, everywhere(), history=history(*later, OLD))
    with pytest.raises(Refused):
        survey.find()
    probed = [path for path in survey.asked if path.removesuffix("/") in later]
    assert [f"{one}/" for one in later[10:]] == probed
    assert 8 == max(map(len, survey.rounds))


def test_nightly_missing_for_platform() -> None:
    """C07: the newest commit has aarch64 alone, so the one before it is taken, and why is said."""
    survey = Survey(two_nights(), everywhere(), history=history(NEW, OLD))
    found = survey.find()
    assert OLD == found.commit
    (skip,) = found.skipped
    assert (
        "0.33.1rc1.dev344 (ea5f903f8) has no wheel of the default variant for linux/amd64; it has "
        f"vllm-{V344}-cp38-abi3-manylinux_2_28_aarch64.whl"
    ) == str(skip)
    assert [("nightly-missing-for-platform", "warning")] == [
        (row.key, row.severity) for row in found.findings
    ]


def test_one_platform_alone_takes_the_newest() -> None:
    """What is not wanted is not missed."""
    found = find(two_nights(), want(platform="linux/arm64"))
    assert (NEW, ()) == (found.commit, found.skipped)


def test_nightly_missing_for_platform_is_refused_when_nothing_else_is_known() -> None:
    """C07: no history, no lock: the refusal lists what is missing and what there is."""
    with pytest.raises(Refused) as caught:
        find(two_nights(), *everywhere("cu130"))
    assert "has no wheel of cu130 for linux/amd64" in caught.value.what
    assert f"it has vllm-{V344}-cp38-abi3-manylinux_2_28_aarch64.whl" in caught.value.what
    assert "the lock stays as it is" in caught.value.what
    assert [("nightly-missing-for-platform", "error")] == [
        (row.key, row.severity) for row in caught.value.findings
    ]


def test_the_lock_is_a_candidate_too() -> None:
    """The commit it has is complete in its own folder, so nothing moves back or breaks."""
    found = find(two_nights(), *everywhere("cu130"), previous=OLD)
    assert (OLD, [NEW]) == (found.commit, [skip.commit for skip in found.skipped])


def test_the_lock_does_not_move_back() -> None:
    """A late job of an older commit wrote the rolling pages last; the lock's commit is newer."""
    made = Bucket()
    made.publish(NEW, *both(V344))
    made.publish(OLD, *both(V313))
    assert NEW == find(made, *everywhere(), previous=NEW, version=V344).commit
    assert NEW == find(made, *everywhere(), history=history(NEWEST, NEW, OLD)).commit
    assert OLD == find(made, *everywhere()).commit


def test_commits_that_were_never_published_are_no_findings() -> None:
    """Publication lags main by some commits: they are listed, and nothing is wrong."""
    made = two_nights()
    made.publish(NEW, *both(V344))
    found = find(made, *everywhere(), history=history(NEWEST, sha("1234567"), NEW, OLD))
    assert NEW == found.commit
    assert [
        "77aa88bb9 has no page in the index: not published (yet)",
        "123456700 has no page in the index: not published (yet)",
    ] == [str(skip) for skip in found.skipped]
    assert () == found.findings


def test_an_upload_that_arrived_after_the_rolling_page_counts() -> None:
    """The commit's own folder is looked at before the commit is given up."""
    made = two_nights()
    made.publish(NEW, *both(V344), rolling=False)
    survey = Survey(made, everywhere())
    assert NEW == survey.find().commit
    assert [f"{NEW}/", f"{NEW}/vllm/"] == survey.asked[-2:]


def test_all_wants_are_of_one_commit() -> None:
    """12.9 stands at the old commit, 13.0 moved on: the old one has both."""
    made = Bucket()
    made.publish(OLD, *both(V313), *both(f"{V313}.cu129"))
    made.publish(NEW, *both(V344))
    found = find(made, want("cu129"), want("cu130", "linux/arm64"))
    assert OLD == found.commit
    assert {f"{V313}.cu129", V313} == {str(wheel.version) for wheel in found.wheels.values()}


def test_stable_outranks_nightly() -> None:
    """C09: whatever release there is elsewhere, the chosen file is the nightly's, and only that."""
    made = Bucket()
    version = "0.20.2rc1.dev233+gea5f903f8.cu129"
    made.publish(NEW, nightly(version))
    wheel = find(made, want("cu129")).wheel("linux/amd64", "cu129")
    assert version == str(wheel.version)
    pin = WheelPin(
        name="vllm", version=version, sha256="0" * 64, file=wheel.file, size=1, index="vllm"
    )
    assert [] == check_taken(wheel.file, "vllm", pin)
    stable = "vllm-0.20.2-cp38-abi3-manylinux_2_28_x86_64.whl"
    for other in (replace(pin, file=stable, version="0.20.2"), replace(pin, index="general")):
        (finding,) = check_taken(wheel.file, "vllm", other)
        assert ("stable-outranks-nightly", "error", other.file) == (
            finding.key,
            finding.severity,
            finding.subject,
        )
        assert f"the resolver took it from {other.index}" in finding.evidence


def test_trap_4_without_a_plain_wheel_there_is_no_default() -> None:
    """No `vllm/` and no alias folder is made: cu130 is missing, and what there is is named."""
    made = Bucket()
    made.publish(NEW, *both(f"{V344}.cu129"))
    for variant in ("", "cu130"):
        for commit in ("", NEW):
            with pytest.raises(
                Refused, match=r"ea5f903f8 has no wheel of .*; it has the folders cu129"
            ):
                find(made, *everywhere(variant), commit=commit)


def test_trap_5_several_versions_in_one_folder() -> None:
    """A release and its candidate share a commit: all platforms get one version, the newest."""
    made = Bucket()
    made.publish(NEW, *both("0.33.0rc1"), nightly("0.33.0"))
    assert "0.33.0rc1" == str(find(made, *everywhere()).public)
    made.publish(NEW, *both("0.33.0"))
    assert "0.33.0" == str(find(made, *everywhere()).public)


def test_the_higher_build_number_wins_and_the_locked_file_stays() -> None:
    """PEP 427; a lock that has the first build of this commit keeps it."""
    made = Bucket()
    plain, again = nightly(V344), nightly(V344, build="2")
    made.publish(NEW, plain, again)
    assert again.file == find(made, want()).wheel("linux/amd64", "").file
    kept = find(made, want(), previous=NEW, keep=frozenset({plain.file}))
    assert plain.file == kept.wheel("linux/amd64", "").file


def test_metadata_json_stands_in_for_a_page() -> None:
    """Where a mirror lost the page of wheels, the list beside it serves."""
    made = two_nights()
    made.publish(NEW, *both(V344))
    del made.objects["nightly/vllm/index.html"]
    survey = Survey(made, everywhere())
    assert NEW == survey.find().commit
    assert ["nightly/vllm/", "nightly/vllm/metadata.json"] == survey.asked[-2:]


def test_a_mirror_without_lists_of_folders() -> None:
    """The page of wheels is tried where it has to be."""
    made = two_nights()
    made.publish(NEW, *both(V344))
    for key in ("nightly/index.html", "nightly/cu130/index.html"):
        del made.objects[key]
    assert NEW == find(made, *everywhere("cu130")).commit


def test_a_plain_folder_needs_the_full_commit_from_elsewhere() -> None:
    """File names have nine digits of it; a lock is by forty."""
    file = f"vllm-{V344}-cp38-abi3-manylinux_2_28_x86_64.whl"
    page = flat_page((Candidate(file=file, url=f"file:///w/{file}", place="w"),), "file:///w")
    alone = Survey(Bucket(), (want("cu130"),), pages={"": page})
    with pytest.raises(Refused, match="nothing says its full commit; give it with --commit"):
        alone.find()
    for options in ({"commit": NEW}, {"previous": NEW}, {"history": history(NEW, OLD)}):
        survey = Survey(Bucket(), (want("cu130"),), pages={"": page}, **options)
        assert NEW == survey.find().commit


def test_a_commit_that_was_asked_for() -> None:
    """Its own folder is read and nothing else; older than the rolling page is fine."""
    made = two_nights()
    survey = Survey(made, everywhere("cu130"), commit=OLD)
    assert OLD == survey.find().commit
    assert [f"{OLD}/cu130/", f"{OLD}/cu130/vllm/"] == survey.asked


def test_a_commit_that_was_asked_for_and_is_not_whole() -> None:
    """No other one is taken in its place."""
    with pytest.raises(Refused, match="that commit is not complete"):
        find(two_nights(), *everywhere(), commit=NEW, previous=OLD)
    with pytest.raises(Refused, match=f"no wheel of commit {NEWEST}"):
        find(two_nights(), *everywhere(), commit=NEWEST)


def test_an_index_that_has_nothing() -> None:
    """A wrong address is no refusal of a nightly."""
    with pytest.raises(NotOffered, match="no wheel of vllm"):
        find(Bucket(), *everywhere())
