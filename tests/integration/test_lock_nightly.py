"""`lock --channel nightly` of a set, against upstream's bucket on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from builder.commands import fetch, lock, lock_sources
from builder.edge import debs
from builder.edge.project import read_lock
from builder.errors import Refused
from tests.support.cuda_project import CudaProject, clean, cuda_project, versions
from tests.support.nightly_index import (
    NIGHT,
    Bucket,
    NightlyServer,
    both,
    nightly,
    nightly_server,
    sha,
)

OLD, NEW = sha("aaaaaaaaa"), sha("bbbbbbbbb")
V313, V344 = "0.33.0rc1.dev313+gaaaaaaaaa", "0.33.0rc1.dev344+gbbbbbbbbb"


def today(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    """Let `lock` believe that this is now."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(moment.timestamp(), tz)

    monkeypatch.setattr(lock, "datetime", Clock)
    monkeypatch.setattr(lock_sources, "datetime", Clock)


@pytest.fixture
def bucket() -> Bucket:
    """Publish one commit whole; the stable 0.33.0 on the general index outranks it."""
    made = Bucket()
    made.publish(OLD, *both(V313))
    return made


@pytest.fixture
def server(bucket: Bucket) -> Iterator[NightlyServer]:
    """Serve the bucket."""
    with nightly_server(bucket) as running:
        yield running


@pytest.fixture
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: NightlyServer
) -> Iterator[CudaProject]:
    """Make the two images and their set; nobody can be asked for commits."""
    clean(monkeypatch, tmp_path / "home")
    today(monkeypatch, NIGHT)
    with cuda_project(tmp_path) as made:
        made.spec(name="spark", arm=True)
        (tmp_path / "images" / "sets.toml").write_text(
            '[pair]\n"linux/amd64" = "gpu"\n"linux/arm64" = "spark"\n'
        )
        made.tiny.settings.indexes["vllm"] = f"{server.url}/nightly"
        made.tiny.settings.forges["vllm"] = "none"
        yield made


def test_stable_outranks_nightly(project: CudaProject, tmp_path: Path) -> None:
    """The nightly is locked by its full commit, from its own index, hashed here."""
    project.lock("pair", channel="nightly")
    for name, platform in (("gpu", "linux/amd64"), ("spark", "linux/arm64")):
        locked = read_lock(tmp_path, name)
        pin = locked.platforms[platform].wheel("vllm")
        assert pin is not None
        assert (V313, "vllm") == (pin.version, pin.index)
        assert ("nightly", OLD) == (locked.header.channel, locked.header.vllm.commit)
        row = locked.platforms[platform].meta["vllm"]
        assert isinstance(row, dict)
        assert "computed here" == row["hash_from"]
    assert project.run("pair", check=True).ok


def test_nightly_missing_for_platform(project: CudaProject, bucket: Bucket) -> None:
    """The newest commit lacks a machine: the one before is locked, and it is said."""
    project.lock("pair", channel="nightly")
    bucket.publish(NEW, nightly(V344))
    outcome = project.run("pair", channel="nightly")
    assert {OLD} == {row.commit for row in outcome.result.locks}
    assert {"unchanged"} == {row.change for row in outcome.result.locks}
    assert ["nightly-missing-for-platform"] == [row.key for row in outcome.findings]
    bucket.publish(NEW, *both(V344))
    outcome = project.run("pair", channel="nightly")
    assert {(NEW, "updated")} == {(row.commit, row.change) for row in outcome.result.locks}


def test_when_nothing_is_complete_the_lock_stays(project: CudaProject, bucket: Bucket) -> None:
    """Half-published and no earlier commit known: refused, with what is missing."""
    bucket.objects.clear()
    bucket.publish(NEW, nightly(V344))
    with pytest.raises(Refused, match="linux/arm64"):
        project.run("pair", channel="nightly")
    assert not (project.tiny.root / "lock").exists()


def test_the_lock_does_not_move_back(project: CudaProject, bucket: Bucket) -> None:
    """A late job of an older commit wrote the rolling pages last: what is locked is newer."""
    bucket.publish(NEW, *both(V344))
    project.lock("pair", channel="nightly")
    bucket.publish(OLD, *both(V313))
    outcome = project.run("pair", channel="nightly")
    assert {(NEW, "unchanged")} == {(row.commit, row.change) for row in outcome.result.locks}


def test_find_links_that_are_down_do_not_stop_a_nightly(
    project: CudaProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index has the wheel; where else a copy may be is told and left aside."""
    monkeypatch.setenv("PIP_FIND_LINKS", "http://127.0.0.1:9/links/")
    assert V313 == versions(project.lock("pair", channel="nightly"))["vllm"]
    assert "find-links of PIP_FIND_LINKS" in project.said
    assert "is out of reach, left aside" in project.said


def test_a_nightly_is_hashed_once(project: CudaProject, server: NightlyServer) -> None:
    """The second lock of the same commit reads pages and ends, not one whole wheel."""
    large = [nightly(V344, arch=arch, padding=3_000_000) for arch in ("x86_64", "aarch64")]
    server.bucket.publish(NEW, *large)
    project.lock("pair", channel="nightly")
    assert server.sent > 6_000_000
    server.sent = 0
    assert "unchanged" == project.run("pair", channel="nightly").result.of("gpu").change
    assert server.sent < 2_000_000


def test_a_commit_is_locked_by_its_digits(project: CudaProject, bucket: Bucket) -> None:
    """`--commit` alone chooses the nightly channel, and an older commit."""
    bucket.publish(NEW, *both(V344))
    made = project.lock("pair", commit=OLD)
    assert V313 == versions(made)["vllm"]
    assert ("nightly", OLD) == (made.header.channel, made.header.vllm.commit)


def test_rolling_index_version_gone(
    project: CudaProject, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rolling page moves on: the commit's folder is asked and fetched from; then it goes."""
    project.lock("pair", channel="nightly")
    bucket.publish(NEW, *both(V344))
    assert project.run("pair", check=True).ok
    project.tiny.cache = "empty"
    monkeypatch.setattr(debs, "fetch_debs", lambda *_, **__: None)
    assert 1 == fetch.run(project.tiny.context, "gpu").result.indexes["vllm"]
    for name in [name for name in bucket.objects if OLD in name]:
        del bucket.objects[name]
    outcome = project.run("pair", check=True)
    assert not outcome.ok
    assert ["rolling-index-version-gone"] * 2 == [row.key for row in outcome.findings]


def test_channel_stalled(
    project: CudaProject, server: NightlyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--check` tells the age once for a set; nothing is downloaded."""
    project.lock("pair", channel="nightly")

    def check(days: int) -> list[tuple[str, str, str]]:
        today(monkeypatch, NIGHT + timedelta(days=days))
        rows = project.run("pair", check=True).findings
        return [(row.key, row.severity, row.evidence) for row in rows]

    assert [] == check(3)
    server.requests.clear()
    stall = f"channel stalled 6 d: nightly/ shows commit {OLD} of {NIGHT:%Y-%m-%d}"
    assert [("channel-stalled", "warning", stall)] == check(6)
    assert not [path for path, _ in server.requests if path.endswith(".whl")]
    server.bucket.publish(NEW, *both(V344), when=NIGHT + timedelta(days=5))
    assert [] == check(6)
