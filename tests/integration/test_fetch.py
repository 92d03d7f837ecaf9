"""`fetch` against an index on loopback: resuming, verifying, and saying what is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.commands import fetch as recipe
from builder.commands import lock as lock_recipe
from builder.core.settings import Settings
from builder.edge import download
from builder.edge.store import Store
from builder.errors import DiskFull, HashMismatch, NetworkError, NotOffered, StaleLock
from tests.support.index import FakeIndex, fake_index
from tests.support.lockable import NO_FORGE, Tiny, clean_machine
from tests.support.wheels import Wheel, make_vllm, make_wheel

ROOT = Path(__file__).parents[2]
VLLM = make_vllm("0.32.0", requires=["torch==2.13.0", "click>=8"])
TORCH = make_wheel(
    "torch", "2.13.0+cpu", tag="cp311-cp311-manylinux_2_28_x86_64", padding=2_000_000
)
CLICK = make_wheel("click", "8.1.0")


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration of this machine reaches a test; there are no .debs; retries are quick."""
    clean_machine(monkeypatch, tmp_path)
    monkeypatch.setattr(download, "BACKOFF", 0.01)


@pytest.fixture
def index() -> Iterator[FakeIndex]:
    """Run an index with all that is needed."""
    with fake_index(VLLM, CLICK, TORCH) as running:
        yield running


@pytest.fixture
def tiny(tmp_path: Path, index: FakeIndex) -> Tiny:
    """Make a locked project with an empty store."""
    project = Tiny(
        tmp_path,
        Settings(forges=NO_FORGE, indexes={"general": index.url, "pytorch-cpu": index.url}),
    )
    project.spec("vllm==0.32.0", "torch==2.13.0", torch="pytorch-cpu")
    assert lock_recipe.run(project.context, "tiny").ok
    project.cache = "fresh"
    index.requests.clear()
    return project


def store(tiny: Tiny) -> Store:
    """Return the store that is filled."""
    return Store(tiny.context.places.store)


def has(tiny: Tiny, wheel: Wheel) -> bool:
    """Whether a wheel is in the store, to the byte."""
    path = store(tiny).path(wheel.sha256)
    return path.is_file() and path.read_bytes() == wheel.data


def leftovers(tiny: Tiny) -> list[str]:
    """Names of half-made files."""
    return sorted(path.name for path in (store(tiny).root / "partial").iterdir())


def half(tiny: Tiny, wheel: Wheel, data: bytes) -> None:
    """Put a half-made file where an earlier fetch would have left it."""
    path = store(tiny).root / "partial" / wheel.sha256
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


def test_fetch_fills_the_store_and_the_next_one_asks_nobody(tiny: Tiny, index: FakeIndex) -> None:
    """Every file once, verified, by index; then nothing goes over the network."""
    result = recipe.run(tiny.context, "tiny").result
    assert [True] * 3 == [has(tiny, wheel) for wheel in (VLLM, CLICK, TORCH)]
    assert {"general": 2, "pytorch-cpu": 1} == result.indexes
    size = sum(len(wheel.data) for wheel in (VLLM, CLICK, TORCH))
    assert (3, size, 0) == (result.files, result.bytes_fetched, result.bytes_present)
    assert [] == leftovers(tiny)
    index.requests.clear()
    again = recipe.run(tiny.context, "tiny").result
    assert (0, size) == (again.bytes_fetched, again.bytes_present)
    assert [] == index.requests


def test_a_half_made_file_is_gone_on_with(tiny: Tiny, index: FakeIndex) -> None:
    """Only the missing bytes are asked for."""
    half(tiny, TORCH, TORCH.data[:1_500_000])
    recipe.run(tiny.context, "tiny")
    assert has(tiny, TORCH)
    assert ["bytes=1500000-"] == [row[2] for row in index.asked(f"files/{TORCH.file}")]


def test_a_half_made_file_of_other_bytes_is_begun_again(tiny: Tiny) -> None:
    """What lay there came from elsewhere; the second try starts from nothing."""
    half(tiny, TORCH, b"x" * 1_500_000)
    recipe.run(tiny.context, "tiny")
    assert has(tiny, TORCH)


def test_a_server_without_ranges_sends_the_whole_again(tiny: Tiny, index: FakeIndex) -> None:
    """The answer 200 to a range replaces what is there."""
    index.ranges = False
    half(tiny, TORCH, TORCH.data[:1_500_000])
    recipe.run(tiny.context, "tiny")
    assert has(tiny, TORCH)


def test_a_broken_connection_is_taken_up_again(tiny: Tiny, index: FakeIndex) -> None:
    """Three breaks in the middle; each answer goes on where the last one ended."""
    index.cut[TORCH.file] = 3
    recipe.run(tiny.context, "tiny")
    assert has(tiny, TORCH)
    starts = [row[2] for row in index.asked(f"files/{TORCH.file}")]
    assert (4, "", True) == (len(starts), starts[0], all(starts[1:]))


@pytest.mark.parametrize("statuses", [[500], [503, 502], [429, 429]])
def test_a_busy_server_is_asked_again(tiny: Tiny, index: FakeIndex, statuses: list[int]) -> None:
    """Pages and files; a server error or `Retry-After` is no answer."""
    index.statuses["/simple/click/"] = list(statuses)
    index.statuses[f"/files/{CLICK.file}"] = list(statuses)
    recipe.run(tiny.context, "tiny")
    assert has(tiny, CLICK)
    assert len(statuses) + 1 == len(index.asked("/simple/click/"))


def test_a_server_that_stays_busy_is_a_network_error(tiny: Tiny, index: FakeIndex) -> None:
    """After some tries it is said; what has come by then stays."""
    index.statuses["/simple/click/"] = [500] * 50
    with pytest.raises(NetworkError, match="keeps answering 500") as caught:
        recipe.run(tiny.context, "tiny")
    assert 4 == caught.value.exit_code
    assert f"{index.url}/click/" == caught.value.subject


def test_a_definite_no_is_asked_once(tiny: Tiny, index: FakeIndex) -> None:
    """404 for the file: not again, and no place else has it."""
    index.statuses[f"/files/{CLICK.file}"] = [404] * 50
    with pytest.raises(NotOffered, match="no place has click-8"):
        recipe.run(tiny.context, "tiny")
    assert 1 == len(index.asked(f"/files/{CLICK.file}"))


@pytest.mark.parametrize(
    ("served", "words"),
    [
        (TORCH.data[:-1] + b"?", "other bytes of the same length, last modified Mon, 30 Nov"),
        # All that was announced came.
        (TORCH.data[:1000], f"the file was replaced: 1000 bytes instead of {len(TORCH.data)}"),
        (TORCH.data + b"more", f"the file was replaced: {len(TORCH.data) + 4} bytes instead of"),
        (b"<!DOCTYPE html><title>Sign in</title>", "a web page came instead of the file"),
    ],
)
def test_wrong_bytes_never_reach_the_store(
    tiny: Tiny, index: FakeIndex, served: bytes, words: str
) -> None:
    """hash-mismatch: refused, classified, and nothing of it stays."""
    index.served[TORCH.file] = served
    index.modified = "Mon, 30 Nov 2026 03:20:11 GMT"
    with pytest.raises(HashMismatch) as caught:
        recipe.run(tiny.context, "tiny")
    assert words in caught.value.what
    assert [("hash-mismatch", TORCH.file)] == [
        (row.key, row.subject) for row in caught.value.findings
    ]
    deliberate = "nightlock lock tiny --upgrade-package torch" in caught.value.action
    assert deliberate == ("replaced" in words or "other bytes" in words)
    assert not store(tiny).path(TORCH.sha256).exists()
    assert TORCH.sha256 not in leftovers(tiny)
    del index.served[TORCH.file]
    recipe.run(tiny.context, "tiny")
    assert has(tiny, TORCH)


@pytest.mark.parametrize(("times", "words"), [(1, ""), (9, "the file is cut short")])
def test_hash_mismatch_of_a_file_that_stops_early(
    tiny: Tiny, index: FakeIndex, times: int, words: str
) -> None:
    """No length was announced, so only the lock knows: once more, then it is said."""
    index.stopped[TORCH.file] = times
    if not words:
        recipe.run(tiny.context, "tiny")
        assert has(tiny, TORCH)
        return
    with pytest.raises(HashMismatch, match=words) as caught:
        recipe.run(tiny.context, "tiny")
    assert ["hash-mismatch"] == [row.key for row in caught.value.findings]
    assert 2 == len(index.asked(f"files/{TORCH.file}"))


def test_hash_mismatch_of_a_lock_with_the_hash_of_metadata(tiny: Tiny, index: FakeIndex) -> None:
    """The page tells the two hashes apart."""
    index.listed[TORCH.file] = "f" * 64
    index.metadata_hashes[TORCH.file] = TORCH.sha256
    with pytest.raises(HashMismatch) as caught:
        recipe.run(tiny.context, "tiny")
    (row,) = caught.value.findings
    assert "the lock holds the hash of the file's METADATA" in row.evidence


def test_hash_mismatch_of_a_copy_elsewhere(
    tiny: Tiny, index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index lost the file, and find-links has another one of that name."""
    del index.wheels[TORCH.file]
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / TORCH.file).write_bytes(TORCH.data[:-1] + b"?")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    with pytest.raises(HashMismatch) as caught:
        recipe.run(tiny.context, "tiny")
    (row,) = caught.value.findings
    assert "find-links of PIP_FIND_LINKS" in row.evidence
    assert "not at its own index pytorch-cpu" in row.evidence


def test_wrong_bytes_here_and_silence_there_is_the_outside_world(
    tiny: Tiny, index: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place that is down may have the right ones: exit code 4, and both are told."""
    index.served[TORCH.file] = TORCH.data[:-1] + b"?"
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(NetworkError) as caught:
        recipe.run(tiny.context, "tiny")
    assert "http://127.0.0.1:9/simple/torch/" == caught.value.subject
    assert "other bytes of the same length" in caught.value.what


def test_an_index_that_lists_another_hash_is_refused(tiny: Tiny, index: FakeIndex) -> None:
    """Both sources are named and the way out; the file is not downloaded."""
    index.listed[TORCH.file] = "f" * 64
    with pytest.raises(HashMismatch) as caught:
        recipe.run(tiny.context, "tiny")
    assert (
        f"two sources disagree about {TORCH.file}: the lock names sha256 {TORCH.sha256}, "
        f"pytorch-cpu at {index.url} has sha256 {'f' * 64}" == caught.value.what
    )
    assert "nightlock lock tiny --upgrade-package torch" in caught.value.action
    assert [] == index.asked(f"files/{TORCH.file}")


def test_a_find_links_folder_comes_before_the_index(
    tiny: Tiny, index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By file name and sha256; a copy with other bytes is passed over."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / TORCH.file).write_bytes(TORCH.data)
    (folder / CLICK.file).write_bytes(CLICK.data[:-1] + b"?")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    recipe.run(tiny.context, "tiny")
    assert [True] * 2 == [has(tiny, wheel) for wheel in (CLICK, TORCH)]
    assert [] == index.asked("torch")
    assert (folder / TORCH.file).read_bytes() == TORCH.data


@pytest.mark.parametrize("kind", ["extra index", "find-links page", "folder tree"])
def test_any_configured_place_may_have_the_file(
    tiny: Tiny, index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A file is what its sha256 says, wherever it comes from."""
    del index.wheels[TORCH.file]
    with fake_index(TORCH) as other:
        other.hashes = False
        other.links = "relative"
        if kind == "extra index":
            monkeypatch.setenv("PIP_EXTRA_INDEX_URL", other.url)
        elif kind == "find-links page":
            monkeypatch.setenv("PIP_FIND_LINKS", other.flat)
        else:
            page = tmp_path / "tree" / "simple" / "torch" / "index.html"
            page.parent.mkdir(parents=True)
            (tmp_path / "tree" / TORCH.file).write_bytes(TORCH.data)
            name = TORCH.file.replace("+", "%2B")
            page.write_text(f'<a href="../../{name}#sha256={TORCH.sha256}">torch</a>')
            monkeypatch.setenv("PIP_EXTRA_INDEX_URL", (tmp_path / "tree" / "simple").as_uri())
        recipe.run(tiny.context, "tiny")
    assert has(tiny, TORCH)


def test_links_are_followed_relative_to_where_redirects_end(tiny: Tiny, index: FakeIndex) -> None:
    """plus-and-relative-href: `%2B` and `../` in links, after a redirect to another depth."""
    index.redirect = True
    index.links = "relative"
    recipe.run(tiny.context, "tiny")
    assert has(tiny, TORCH)
    assert ["/moved/files/" + TORCH.file.replace("+", "%2B")] == [
        row[1] for row in index.asked(f"files/{TORCH.file}")
    ]


def test_a_link_that_leaves_its_folder_is_no_candidate(tiny: Tiny, index: FakeIndex) -> None:
    """A file name with a path in it, plain or escaped, is not even looked at."""
    evil = "..%2F..%2Fevil-1-py3-none-any.whl"
    index.extra_rows = [f'<a href="/files/{evil}#sha256={"0" * 64}">click</a>']
    recipe.run(tiny.context, "tiny")
    assert [] == index.asked("evil")


def test_an_index_that_is_down_is_named(tiny: Tiny) -> None:
    """What failed, on which address, and what to set."""
    tiny.settings.indexes["pytorch-cpu"] = "http://127.0.0.1:9/simple"
    with pytest.raises(NetworkError) as caught:
        recipe.run(tiny.context, "tiny")
    assert TORCH.file in caught.value.what
    assert "http://127.0.0.1:9/simple/torch/" == caught.value.subject
    assert "NIGHTLOCK_INDEX_PYTORCH_CPU" in caught.value.action


def test_a_lock_of_another_spec_is_refused(tiny: Tiny) -> None:
    """Nothing is fetched for a lock that is stale."""
    tiny.spec("vllm==0.32.0", "torch", torch="pytorch-cpu")
    with pytest.raises(StaleLock) as caught:
        recipe.run(tiny.context, "tiny")
    assert "`nightlock lock tiny`" in caught.value.action
    assert ["not-locked"] == [row.key for row in caught.value.findings]


def test_room_is_checked_before_anything_is_fetched(
    tiny: Tiny, index: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The need is computed from the lock."""
    monkeypatch.setattr("builder.edge.files.free_bytes", lambda _: 1_000_000)
    with pytest.raises(DiskFull, match="fetching tiny needs"):
        recipe.run(tiny.context, "tiny")
    assert [] == index.requests


def _start(tiny: Tiny, index: FakeIndex) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "builder", "fetch", "tiny", "--project", str(tiny.root)],
        cwd=ROOT,
        env={
            **os.environ,
            "XDG_CACHE_HOME": str(tiny.root / tiny.cache),
            "XDG_STATE_HOME": str(tiny.root / "state"),
            "NIGHTLOCK_INDEX_GENERAL": index.url,
            "NIGHTLOCK_INDEX_PYTORCH_CPU": index.url,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_fetch_can_be_gone_on_with(
    tiny: Tiny, index: FakeIndex, number: signal.Signals
) -> None:
    """Ctrl-C in the middle of a file: exit code 130, the half file stays, the next run ends it."""
    index.half_sent = threading.Event()
    process = _start(tiny, index)
    assert index.half_sent.wait(60)
    process.send_signal(number)
    index.go_on.set()
    _, said = process.communicate(timeout=60)
    assert 130 == process.returncode, said
    assert "Traceback" not in said
    kept = {name.removesuffix(".lock") for name in leftovers(tiny)}
    assert kept <= {wheel.sha256 for wheel in (VLLM, CLICK, TORCH)}
    index.half_sent = None
    recipe.run(tiny.context, "tiny")
    assert [True] * 3 == [has(tiny, wheel) for wheel in (VLLM, CLICK, TORCH)]
    assert [] == leftovers(tiny)


def test_two_fetches_at_once_share_the_work(tiny: Tiny, index: FakeIndex) -> None:
    """Each file is brought once; both end well."""
    processes = [_start(tiny, index) for _ in range(2)]
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [0, 0] == [process.returncode for process in processes], said
    assert 1 == len(index.asked(f"files/{TORCH.file}"))
    assert [] == leftovers(tiny)
