"""Discovery over HTTP against upstream's bucket on loopback, a forge and a clone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from builder.core.finding import Finding
from builder.core.indexes import Place
from builder.core.lock import VllmTable, WheelPin
from builder.core.nightly import commit_index
from builder.core.nightly_set import check_wheel
from builder.core.settings import Settings
from builder.core.sources import judge
from builder.edge.history import Forge
from builder.edge.index import Indexes
from builder.edge.locate import look_up
from builder.edge.nightly import channel_findings, discover
from builder.edge.store import Store
from builder.edge.wheels import WheelReader
from builder.errors import NetworkError, NotOffered, Refused
from tests.support.discovering import (
    LANDED,
    LATER,
    NEW,
    NOBODY,
    NOW,
    OLD,
    V313,
    V344,
    V351,
    everywhere,
    index_at,
    no_forge,
    quick_client,
    three_nights,
    want,
)
from tests.support.index import fake_index
from tests.support.nightly_index import (
    NIGHT,
    NightlyServer,
    both,
    fake_forge,
    nightly,
    nightly_server,
    sha,
)
from tests.support.wheels import make_vllm


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


@pytest.mark.parametrize("suffix", ["", "/", "/nightly", "/nightly/cu130/", "/nightly/cu129"])
def test_the_newest_whole_night_of_both_machines(
    client: httpx.Client, reader: WheelReader, server: NightlyServer, suffix: str
) -> None:
    """nightly-missing-for-platform: the half-published newest is passed over, with its reason."""
    with fake_forge(LANDED) as place:
        forge = Forge(place=place, client=client)
        index = index_at(client, server.url + suffix)
        found = discover(index, everywhere("cu130"), forge=forge, now=NOW, reader=reader)
    assert (NEW, "0.33.1rc1.dev344") == (found.commit, str(found.public))
    assert [LATER, sha("5555555")] == sorted(
        (skip.commit for skip in found.skipped if skip.key == "nightly-missing-for-platform"),
        reverse=True,
    )
    for platform in ("linux/amd64", "linux/arm64"):
        wheel = found.wheel(platform, "cu130")
        plus = wheel.file.replace("+", "%2B")
        assert f"{server.url}/{NEW}/{plus}" == wheel.candidate.url
    assert NIGHT - timedelta(hours=6) == found.dated


def test_few_requests_when_all_is_well(client: httpx.Client, server: NightlyServer) -> None:
    """Three pages for one variant, without a forge."""
    server.bucket.publish(LATER, *both(V351))
    index = index_at(client, server.url)
    found = discover(index, everywhere("cu130"), forge=no_forge(client), now=NOW)
    assert LATER == found.commit
    assert ["/nightly/", "/nightly/cu130/", "/nightly/cu130/vllm/"] == sorted(server.pages)
    assert () == found.findings


def test_channel_stalled(client: httpx.Client, server: NightlyServer) -> None:
    """C66, C09: the left-over 12.9 folder gives its own newest and its age, never a release."""
    index = index_at(client, server.url)
    found = discover(index, everywhere("cu129"), forge=no_forge(client), now=NOW)
    assert {f"{V313}.cu129"} == {str(wheel.version) for wheel in found.wheels.values()}
    stall = next(row for row in found.findings if row.key == "channel-stalled")
    assert "channel stalled 22 d: nightly/cu129/ shows commit 4080263bb" in stall.evidence
    assert "newer: nightly/ of 2026-11-30" in stall.evidence


def test_stable_outranks_nightly(client: httpx.Client, server: NightlyServer) -> None:
    """C09: a newer release on the general index is not even looked at."""
    with fake_index(make_vllm("0.99.0")) as general:
        index = index_at(client, server.url)
        found = discover(index, everywhere("cu129"), forge=no_forge(client), now=NOW)
        assert [] == general.requests
    assert OLD == found.commit


def test_plus_and_relative_href_through_redirects(
    client: httpx.Client, reader: WheelReader, server: NightlyServer
) -> None:
    """C11: links are joined to where the answer came from, which is another path here."""
    server.moved = True
    index = index_at(client, f"{server.url}/old/nightly")
    options = {"forge": no_forge(client), "now": NOW, "reader": reader}
    found = discover(index, (want("", "linux/arm64"),), **options)  # type: ignore[arg-type]
    wheel = found.wheel("linux/arm64", "").candidate
    assert f"{server.url}/{LATER}/{wheel.file.replace('+', '%2B')}" == wheel.url
    assert wheel.url.removeprefix(server.url) in {path for path, _ in server.requests}


def test_plus_and_relative_href_without_the_slash(
    client: httpx.Client, server: NightlyServer
) -> None:
    """C11: CloudFront answers `…/vllm` as if it were `…/vllm/`, without a redirect."""
    page = index_at(client, server.url).read("nightly/vllm")
    slashed = index_at(client, server.url).read("nightly/vllm/")
    assert page is not None
    assert slashed is not None
    assert [one.candidate.url for one in slashed.wheels] == [
        one.candidate.url for one in page.wheels
    ]
    assert client.get(page.wheels[0].candidate.url).is_success


def test_plus_and_relative_href_with_a_bare_plus(
    client: httpx.Client, reader: WheelReader, server: NightlyServer
) -> None:
    """C11: a mirror's page did not quote it; S3 takes it for a space, so it is tried again."""
    for key in ("nightly/vllm/index.html", f"{LATER}/vllm/index.html"):
        server.bucket.objects[key] = server.bucket.objects[key].replace(b"%2B", b"+")
    index = index_at(client, server.url)
    options = {"forge": no_forge(client), "now": NOW, "reader": reader}
    found = discover(index, (want("", "linux/arm64"),), **options)  # type: ignore[arg-type]
    assert LATER == found.commit
    paths = [path for path, span in server.requests if span]
    assert any("+" in path for path in paths)
    assert any("%2B" in path for path in paths)


@pytest.mark.parametrize("status", [403, 404])
def test_what_is_not_there(client: httpx.Client, server: NightlyServer, status: int) -> None:
    """S3 says 403 to whoever may not list, CloudFront's error page may say 404."""
    server.missing = status
    with pytest.raises(Refused, match="the index has no wheel of commit"):
        discover(
            index_at(client, server.url),
            everywhere(),
            forge=no_forge(client),
            now=NOW,
            commit=sha("9999999"),
        )


def test_credentials_are_asked_for(client: httpx.Client, server: NightlyServer) -> None:
    """401 is not a missing page."""
    server.missing = 401
    with pytest.raises(NotOffered, match="401"):
        discover(
            index_at(client, f"{server.url}/private"),
            everywhere(),
            forge=no_forge(client),
            now=NOW,
        )


def test_an_index_out_of_reach(client: httpx.Client) -> None:
    """It is the network's fault, and may help to try again."""
    with pytest.raises(NetworkError, match="cannot be reached"):
        discover(
            index_at(client, "http://127.0.0.1:9"), everywhere(), forge=no_forge(client), now=NOW
        )


def test_filename_metadata_version_differ(
    client: httpx.Client, reader: WheelReader, server: NightlyServer
) -> None:
    """C14: a renamed wheel is found out by range, its commit passed over, the next one taken."""
    renamed = nightly(V351, metadata_version="1.0.0.dev0", padding=3_000_000)
    server.bucket.publish(LATER, renamed, nightly(V351, arch="aarch64"))
    index = index_at(client, server.url)
    with fake_forge(LANDED) as place:
        forge = Forge(place=place, client=client)
        found = discover(index, everywhere(), forge=forge, now=NOW, reader=reader)
    assert NEW == found.commit
    reason = next(skip for skip in found.skipped if skip.subject == renamed.file)
    assert "filename-metadata-version-differ" == reason.key
    assert f"the file is {V351}, METADATA says 1.0.0.dev0" in str(reason)
    # 3 MB were looked into, and not fetched.
    assert server.sent < 600_000


def test_commit_identity(client: httpx.Client, reader: WheelReader, server: NightlyServer) -> None:
    """C19: `_version.py` inside names another commit than the file's name."""
    server.bucket.publish(LATER, nightly(V351, commit="b22b798aa"))
    index = index_at(client, server.url)
    with pytest.raises(Refused, match="its files say b22b798aa"):
        discover(index, (want(),), forge=no_forge(client), now=NOW, reader=reader)


def test_a_server_without_ranges(
    client: httpx.Client, reader: WheelReader, server: NightlyServer
) -> None:
    """The choice stands; METADATA is compared when the whole file has come."""
    server.ranges = False
    server.bucket.publish(LATER, nightly(V351, metadata_version="1.0.0.dev0", padding=400_000))
    index = index_at(client, server.url)
    found = discover(index, (want(),), forge=no_forge(client), now=NOW, reader=reader)
    wheel = found.wheel("linux/amd64", "").candidate
    sha256 = reader.hash_whole(wheel, lambda _: None)
    facts = reader.facts(wheel, sha256)
    (finding,) = check_wheel(found.wheel("linux/amd64", ""), want(), facts, "vllm")
    assert "filename-metadata-version-differ" == finding.key


def test_index_without_hashes(
    client: httpx.Client, reader: WheelReader, server: NightlyServer
) -> None:
    """C12: upstream gives none, so the file is streamed once, hashed, and kept."""
    made = nightly(V351, padding=200_000)
    server.bucket.publish(LATER, made)
    found = discover(
        index_at(client, server.url), (want(),), forge=no_forge(client), now=NOW, reader=reader
    )
    wheel = found.wheel("linux/amd64", "").candidate
    assert "" == wheel.sha256
    assert made.sha256 == reader.hash_whole(wheel, lambda _: None)


def test_a_listed_file_that_is_not_there(
    client: httpx.Client, reader: WheelReader, server: NightlyServer
) -> None:
    """The page came before the upload, or the file was deleted: half-published all the same."""
    gone = nightly(V351)
    server.bucket.publish(LATER, *both(V351))
    del server.bucket.objects[f"{LATER}/{gone.file}"]
    index = index_at(client, server.url)
    with fake_forge(LANDED) as place:
        forge = Forge(place=place, client=client)
        found = discover(index, everywhere(), forge=forge, now=NOW, reader=reader)
    assert NEW == found.commit
    assert f"{gone.file} is listed and cannot be read: the server answers 403 Forbidden" in {
        str(skip) for skip in found.skipped
    }


def test_rolling_index_version_gone(client: httpx.Client, server: NightlyServer) -> None:
    """C08: after the roll the locked file is found by its commit; when it is gone that is said."""
    settings = Settings(indexes={"vllm": f"{server.url}/nightly"})
    table = VllmTable(package="vllm", version=V344, commit=NEW, variant="cu130")
    indexes = Indexes(client, NOBODY, settings, [table])
    file = both(V344)[0].file
    pin = WheelPin(name="vllm", version=V344, sha256="0" * 64, file=file, size=1, index="vllm")

    def look() -> Finding | None:
        (sighting,) = look_up([pin], indexes, threads=1)
        return judge(sighting, image="gpu", package="vllm")

    assert look() is None
    for key in [key for key in server.bucket.objects if key.startswith(NEW)]:
        del server.bucket.objects[key]
    finding = look()
    assert finding is not None
    assert ("rolling-index-version-gone", file) == (finding.key, finding.subject)


def test_channel_stalled_is_asked_of_lists_alone(
    client: httpx.Client, server: NightlyServer
) -> None:
    """C66: what `--check` reads of a fresh channel, of a left-over folder, of one that went."""
    index = index_at(client, f"{server.url}/nightly")

    def ask(variant: str) -> list[str]:
        server.requests.clear()
        rows = channel_findings(index, everywhere(variant), forge=no_forge(client), now=NOW)
        assert {"channel-stalled"} >= {row.key for row in rows}
        return [row.evidence for row in rows]

    assert [] == ask("cu130")
    assert ["/nightly/", "/nightly/cu130/"] == sorted(server.pages)
    (stall,) = ask("cu129")
    assert "channel stalled 22 d: nightly/cu129/ shows commit 4080263bb" in stall
    assert [] == [path for path in server.pages if "vllm" in path]
    assert ["nightly/cu126/ is not there; the channel has nightly/, nightly/cu130/"] == ask("cu126")


def test_a_folder_of_wheels_has_no_age(client: httpx.Client, tmp_path: Path) -> None:
    """Whoever filled it decides when."""
    made = both(V344)[0]
    (tmp_path / made.file).write_bytes(made.data)
    index = index_at(client, str(tmp_path))
    assert () == channel_findings(index, everywhere(), forge=no_forge(client), now=NOW)


def test_a_build_tagged_wheel_is_found_where_upstream_lost_it(
    client: httpx.Client, reader: WheelReader, server: NightlyServer
) -> None:
    """Its folder's name holds a plus; it wins over the plain one, by its build number."""
    server.bucket.publish(LATER, *both(V351), nightly(V351, build="2"))
    index = index_at(client, server.url)
    found = discover(index, (want("cu130"),), forge=no_forge(client), now=NOW, reader=reader)
    assert (2, "") == found.wheel("linux/amd64", "cu130").build
    wheel = found.wheel("linux/amd64", "cu130").candidate
    assert client.get(wheel.url).is_success


def test_fetching_by_the_commit_index(client: httpx.Client, server: NightlyServer) -> None:
    """The address that follows from a lock is a simple index: `fetch` reads it like any other."""
    indexes = Indexes(client, NOBODY, Settings())
    place = Place(name="vllm", where=commit_index(f"{server.url}/nightly", NEW, "cu130"))
    assert {one.file for one in both(V344)} == {row.file for row in indexes.offers(place, "vllm")}
