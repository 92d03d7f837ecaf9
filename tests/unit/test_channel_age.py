"""Channels that stand still, and variant folders that were left over."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from builder.core.discovery import Discovery
from builder.core.history import History
from builder.errors import Refused
from tests.support.discovering import NOW, Survey, everywhere, history, want
from tests.support.nightly_index import NIGHT, Bucket, both, nightly, sha

OLD, NEW = sha("4080263bb"), sha("ea5f903f8")
V313, V344 = "0.33.1rc1.dev313+g4080263bb", "0.33.1rc1.dev344+gea5f903f8"


def left_behind(days: int = 22) -> Bucket:
    """Publish a night with 12.9 builds, then one without: their folder stays as it was."""
    made = Bucket()
    made.publish(OLD, *both(V313), *both(f"{V313}.cu129"), when=NIGHT - timedelta(days=days))
    made.publish(NEW, *both(V344), nightly(f"{V344}.cpu"))
    return made


def search(made: Bucket, variant: str, commits: History | None = None) -> tuple[Discovery, Survey]:
    """Want a variant on both platforms."""
    survey = Survey(made, everywhere(variant), history=commits or History())
    return survey.find(), survey


def test_channel_stalled() -> None:
    """C66: the folder's own newest is taken, its age told, and who is newer and under what name."""
    found, survey = search(left_behind(), "cu129")
    assert OLD == found.commit
    stall, missing = found.findings
    assert ("channel-stalled", "warning", "nightly/cu129/") == (
        stall.key,
        stall.severity,
        stall.subject,
    )
    assert (
        f"channel stalled 22 d: nightly/cu129/ shows commit {OLD} of 2026-11-08; newer: "
        "nightly/ of 2026-11-30, the commit of nightly/cpu/, nightly/cu130/ too; "
        "nightly/cpu/ of 2026-11-30; nightly/cu130/ of 2026-11-30"
    ) == stall.evidence
    assert "nightly-missing-for-platform" == missing.key
    # Siblings are asked for only now.
    assert ["nightly/cpu/", "nightly/cu130/"] == survey.rounds[-1]


def test_a_left_over_folder_is_named_with_its_age() -> None:
    """The newest commit was passed over because the folder shows another one."""
    found, _ = search(left_behind(), "cu129")
    lacks = (
        "ea5f903f8 has no wheel of cu129 for linux/amd64, cu129 for linux/arm64; it has the "
        "folders cpu, cu130, vllm"
    )
    old = f"nightly/cu129/ shows commit {OLD}, nightly/ itself {NEW}; it is 22 d older"
    assert [lacks, old] == [str(skip) for skip in found.skipped]


def test_a_half_filled_left_over_folder() -> None:
    """Only aarch64 is in it (vllm#49683): neither commit will do."""
    made = Bucket()
    made.publish(OLD, *both(V313), nightly(f"{V313}.cu129", arch="aarch64"))
    made.publish(NEW, *both(V344))
    assert OLD == Survey(made, (want("cu129", "linux/arm64"),)).find().commit
    with pytest.raises(Refused) as caught:
        Survey(made, everywhere("cu129")).find()
    assert "0.33.1rc1.dev313 (4080263bb) has no wheel of cu129 for linux/amd64" in caught.value.what
    assert "ea5f903f8 has no wheel of cu129" in caught.value.what


def test_a_fresh_channel_says_nothing() -> None:
    """Three days is no stall, and no sibling is asked."""
    found, survey = search(left_behind(days=3), "cu129")
    assert ["nightly-missing-for-platform"] == [row.key for row in found.findings]
    assert "nightly/cpu/" not in survey.asked


def test_channel_stalled_as_a_whole() -> None:
    """C66: the root page itself is old; the lag behind main is told in commits."""
    made = Bucket()
    made.publish(OLD, *both(V313), when=NIGHT - timedelta(days=9))
    commits = history(*(sha(f"{number:07x}") for number in range(9)), OLD, hours=24)
    found, _ = search(made, "", commits)
    (stall,) = found.findings
    assert (
        f"channel stalled 9 d: nightly/ shows commit {OLD} of 2026-11-21, 9 commits behind the "
        "newest of 2026-11-30"
    ) == stall.evidence


def test_the_forge_dates_pages_that_do_not() -> None:
    """An older generator wrote no time; a commit that is not in the history lags by all of it."""
    made = Bucket()
    made.publish(OLD, *both(V313))
    for key in ("nightly/index.html", "nightly/cu130/index.html"):
        made.objects[key] = made.objects[key].replace(b"Generated on", b"Made on")
    assert () == search(made, "")[0].findings
    commits = history(NEW, OLD, hours=24 * 6)
    key = "nightly/index.html"
    made.objects[key] = made.objects[key].replace(
        f"Made on {NIGHT.isoformat()} (commit {OLD})".encode(), f"commit {OLD}".encode()
    )
    (stall,) = search(made, "", commits)[0].findings
    assert "channel stalled 6 d" in stall.evidence
    assert "1 commits behind the newest of 2026-11-30" in stall.evidence


def test_a_commit_that_was_asked_for_has_no_age() -> None:
    """Whoever names a commit knows that it is old."""
    found = Survey(left_behind(), everywhere("cu129"), commit=OLD).find()
    assert ((), ()) == (found.skipped, found.findings)
    assert NIGHT - timedelta(days=22) == found.dated


def test_now_is_an_argument() -> None:
    """The same pages are fresh to one and old to another."""
    made = Bucket()
    made.publish(OLD, *both(V313))
    for days, keys in ((0, []), (5, ["channel-stalled"])):
        found = Survey(made, everywhere(), now=NOW + timedelta(days=days)).find()
        assert keys == [row.key for row in found.findings]


def test_a_mirror_without_the_root_page() -> None:
    """The variant's own page has a date; nobody can be named who is newer."""
    made = left_behind()
    del made.objects["nightly/index.html"]
    found, _ = search(made, "cu129")
    assert [f"channel stalled 22 d: nightly/cu129/ shows commit {OLD} of 2026-11-08"] == [
        row.evidence for row in found.findings
    ]


def test_a_left_over_folder_without_a_date() -> None:
    """Its age is unknown, so that it is left over is the warning."""
    made = left_behind()
    key = "nightly/cu129/index.html"
    made.objects[key] = re.sub(rb"Generated on .* \((commit \w+)\)", rb"\1", made.objects[key])
    found, _ = search(made, "cu129")
    old = found.findings[-1]
    assert ("channel-stalled", "warning") == (old.key, old.severity)
    assert f"nightly/cu129/ shows commit {OLD}, nightly/ itself {NEW}" == old.evidence


def test_a_folder_may_be_ahead() -> None:
    """A late job wrote the root page of an older commit."""
    made = left_behind()
    made.publish(NEW, *both(f"{V344}.cu129"))
    made.write_pages("nightly", OLD, NIGHT - timedelta(days=2), "cu130")
    made.write_pages("nightly/cu129", NEW, NIGHT, "cu130")
    key = "nightly/cu129/index.html"
    made.objects[key] = made.objects[f"{NEW}/cu129/index.html"]
    found, _ = search(made, "cu129")
    assert f"nightly/cu129/ shows commit {NEW}, nightly/ itself {OLD}; it is 2 d newer" in {
        str(skip) for skip in found.skipped
    }
