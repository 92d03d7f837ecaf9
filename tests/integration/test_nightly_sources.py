"""Where candidate commits come from beside the pages: the lock, a forge, a clone; and mirrors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from builder.edge.history import Forge
from builder.edge.nightly import Before, discover
from builder.edge.store import Store
from builder.edge.wheels import WheelReader
from builder.errors import BadInput, Refused
from tests.support.discovering import (
    LANDED,
    LATER,
    NEW,
    NOW,
    OLD,
    V344,
    V351,
    everywhere,
    index_at,
    no_forge,
    quick_client,
    three_nights,
    want,
)
from tests.support.nightly_index import (
    NIGHT,
    Bucket,
    NightlyServer,
    both,
    fake_forge,
    nightly,
    nightly_server,
    sha,
)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[httpx.Client]:
    """Open a client that knows nothing of this machine."""
    with quick_client(monkeypatch, str(tmp_path)) as opened:
        yield opened


@pytest.fixture
def reader(client: httpx.Client, tmp_path: Path) -> WheelReader:
    """Read wheels, with a store of its own."""
    return WheelReader(client, Store(tmp_path / "store"), tmp_path / "facts")


@pytest.fixture
def server() -> Iterator[NightlyServer]:
    """Serve three nights."""
    with nightly_server(three_nights()) as running:
        yield running


def test_a_commit_by_its_first_digits(client: httpx.Client, server: NightlyServer) -> None:
    """From the pages, the lock, or the forge; unknown and ambiguous ones are said in words."""
    index = index_at(client, server.url)
    wants = (want("", "linux/arm64"),)

    def commit(text: str, place: str = "none", before: str = "") -> str:
        forge = Forge(place=place, client=client)
        lock = Before(commit=before)
        return discover(index, wants, forge=forge, now=NOW, before=lock, commit=text).commit

    assert LATER == commit("77aa88b")
    assert NEW == commit("gEA5F903F8", before=NEW)
    with pytest.raises(BadInput, match="no known commit begins with these digits"):
        commit("4080263b")
    far = [(sha("5555555"), NIGHT)] * 100 + [(OLD, NIGHT), (OLD[:-1] + "1", NIGHT)]
    with fake_forge(far[:-1]) as place:
        assert OLD == commit("4080263bb", place)
    with (
        fake_forge([*LANDED, (OLD[:-1] + "1", NIGHT)]) as place,
        pytest.raises(BadInput, match="2 commits begin with these digits"),
    ):
        commit("4080263bb", place)


def test_a_full_commit_asks_for_nothing_else(client: httpx.Client, server: NightlyServer) -> None:
    """Neither the rolling pages nor the forge."""
    forge = Forge(place="http://127.0.0.1:9/repos/o/n", client=client)
    index = index_at(client, server.url)
    assert OLD == discover(index, everywhere("cu130"), forge=forge, now=NOW, commit=OLD).commit
    assert [f"/{OLD}/cu130/", f"/{OLD}/cu130/vllm/"] == server.pages


def test_a_forge_out_of_reach_is_done_without(client: httpx.Client, server: NightlyServer) -> None:
    """It is asked once, and nothing is said of it."""
    forge = Forge(place="http://127.0.0.1:9/repos/o/n", client=client)
    found = discover(index_at(client, server.url), (want("", "linux/arm64"),), forge=forge, now=NOW)
    assert (LATER, ()) == (found.commit, found.findings)


def commit_to(clone: Path, title: str, when: datetime) -> str:
    """Make an empty commit; its full name."""
    identity = ["-c", "user.name=x", "-c", "user.email=x@x.example"]
    subprocess.run(
        ["git", "-C", str(clone), *identity, "commit", "-q", "--allow-empty", "-m", title],
        check=True,
        env={"GIT_COMMITTER_DATE": when.isoformat(), "PATH": "/usr/bin:/bin", "HOME": str(clone)},
    )
    return subprocess.run(
        ["git", "-C", str(clone), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_clone_serves_as_well(client: httpx.Client, tmp_path: Path) -> None:
    """Its order beats a stray tag's version, its commits complete short ones."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", str(clone)], check=True)
    first = commit_to(clone, "first", NIGHT - timedelta(days=2))
    second = commit_to(clone, "second", NIGHT - timedelta(days=1))
    made = Bucket()
    made.publish(first, nightly(f"7.0.1.dev3+g{first[:9]}"))
    made.publish(second, nightly(f"0.33.1rc1.dev344+g{second[:9]}"))
    forge = Forge(place=str(clone), client=client)
    with nightly_server(made) as server:
        index = index_at(client, server.url)
        before = Before(commit=first, version=f"7.0.1.dev3+g{first[:9]}")
        assert second == discover(index, (want(),), forge=forge, now=NOW, before=before).commit
        found = discover(index, (want(),), forge=forge, now=NOW, commit=first[:8])
        assert (first, "7.0.1.dev3") == (found.commit, str(found.public))
        nowhere = replace(forge, place="none")
        assert first == discover(index, (want(),), forge=nowhere, now=NOW, before=before).commit


def test_a_folder_mirrors_the_index(
    client: httpx.Client, reader: WheelReader, server: NightlyServer, tmp_path: Path
) -> None:
    """The bucket copied to a disk, or its wheels alone beside each other."""
    tree, flat = tmp_path / "tree", tmp_path / "flat"
    for key, data in server.bucket.objects.items():
        file = tree / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    options = {"forge": no_forge(client), "now": NOW, "reader": reader}
    for where in (str(tree), f"{tree.as_uri()}/nightly"):
        index = index_at(client, where)
        found = discover(index, everywhere("cu129"), **options)  # type: ignore[arg-type]
        assert OLD == found.commit
        wheel = found.wheel("linux/arm64", "cu129").candidate
        assert (tree / OLD / wheel.file).as_uri().replace("+", "%2B") == wheel.url
    flat.mkdir()
    for one in both(V344):
        (flat / one.file).write_bytes(one.data)
    index = index_at(client, str(flat))
    found = discover(index, everywhere("cu130"), commit=NEW, **options)  # type: ignore[arg-type]
    assert NEW == found.commit
    assert {len(one.data) for one in both(V344)} == {
        wheel.candidate.size for wheel in found.wheels.values()
    }
    with pytest.raises(Refused, match="nothing says its full commit"):
        discover(index, everywhere("cu130"), **options)  # type: ignore[arg-type]


def test_the_lock_stays_when_the_only_other_commit_is_half_published(
    client: httpx.Client, server: NightlyServer
) -> None:
    """Without a forge the lock's own commit is the way back; without a lock it is refused."""
    index = index_at(client, server.url)
    before = Before(commit=NEW, version=V344, files=frozenset({both(V344)[0].file}))
    options = {"forge": no_forge(client), "now": NOW}
    found = discover(index, everywhere("cu130"), before=before, **options)  # type: ignore[arg-type]
    assert NEW == found.commit
    with pytest.raises(Refused) as caught:
        discover(index, everywhere("cu130"), **options)  # type: ignore[arg-type]
    assert (
        "no nightly is complete: 0.33.1rc1.dev351 (77aa88bb9) has no wheel of cu130 for "
        f"linux/amd64; it has {nightly(V351, arch='aarch64').file}; the lock stays as it is"
    ) == caught.value.what
    assert ["nightly-missing-for-platform"] == [row.key for row in caught.value.findings]
