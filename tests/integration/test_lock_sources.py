"""`lock --check`: is everything a lock names still there; on loopback, by pages and HEAD alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from builder.commands import lock, lock_sources
from builder.commands.context import Outcome
from builder.commands.lock_result import LockResult
from builder.core.lock import BaseLock
from builder.core.settings import Settings
from builder.core.spec import BaseTable
from builder.edge import debs
from builder.errors import NetworkError
from tests.support.index import serve
from tests.support.lockable import DEB
from tests.support.registry import FakeRegistry, served, small_image, small_index
from tests.support.small_lock import AMD64, small_lock, small_spec
from tests.support.tiny_lock import CLICK, TORCH, VLLM, TinyLock, clean, tiny_lock

find_gone = debs.find_gone


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyLock]:
    """Yield a project that is locked."""
    clean(monkeypatch, tmp_path / "home")
    with tiny_lock(tmp_path) as made:
        assert lock.run(made.project.context, "tiny").ok
        yield made


def check(tiny: TinyLock) -> Outcome[LockResult]:
    """Run `lock tiny --check`."""
    return lock.run(tiny.project.context, "tiny", check=True)


def found(tiny: TinyLock) -> list[tuple[str, str, str]]:
    """Key, severity and subject of what it finds."""
    outcome = check(tiny)
    assert outcome.ok == (not outcome.findings)
    return [(row.key, row.severity, row.subject) for row in outcome.findings]


def test_a_lock_whose_sources_stand(tiny: TinyLock) -> None:
    """Each page once, no file."""
    tiny.general.requests.clear()
    assert [] == found(tiny)
    assert [] == tiny.general.asked("/files/")
    assert "all 4 files are still where they were locked from" in check(tiny).text


def test_source_gone(tiny: TinyLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its index; find-links with the same bytes are as good."""
    tiny.pytorch.wheels.clear()
    assert [("source-gone", "error", TORCH.file)] == found(tiny)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / TORCH.file).write_bytes(TORCH.data)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    assert [] == found(tiny)


def test_hash_mismatch_on_a_page(
    tiny: TinyLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream lists another file of that name: an alarm, also where a good copy is left."""
    tiny.general.listed[CLICK.file] = "0" * 64
    assert [("hash-mismatch", "error", CLICK.file)] == found(tiny)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / CLICK.file).write_bytes(CLICK.data)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    assert [("hash-mismatch", "warning", CLICK.file)] == found(tiny)


def test_an_index_that_is_down_is_no_answer(tiny: TinyLock) -> None:
    """Exit 4 when nothing else is wrong; else the finding is the answer, and the rest is named."""
    tiny.pytorch.statuses["/simple/torch/"] = [503] * 20
    with pytest.raises(NetworkError, match="keeps answering 503"):
        check(tiny)
    del tiny.general.wheels[VLLM.file]
    tiny.pytorch.statuses["/simple/torch/"] = [503] * 20
    outcome = check(tiny)
    assert ["source-gone"] == [row.key for row in outcome.findings]
    assert f"not asked: {tiny.pytorch.url}/torch/" in outcome.text


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (200, []),
        (405, []),
        (404, [("apt-drift", "error", DEB.path)]),
    ],
)
def test_apt_drift(
    tiny: TinyLock,
    monkeypatch: pytest.MonkeyPatch,
    head: int,
    expected: list[tuple[str, str, str]],
) -> None:
    """A .deb that is there, one behind a server without HEAD, one that is gone."""
    methods: list[str] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        methods.append(handler.command)
        handler.send_response(head if handler.command == "HEAD" else 206)
        handler.send_header("Content-Length", "1" if handler.command == "GET" else "0")
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(b"!")

    monkeypatch.setattr(debs, "find_gone", find_gone)
    with serve(respond) as host:
        monkeypatch.setattr(debs, "archives", lambda *_: {"bookworm": (f"http://{host}/debian",)})
        assert expected == found(tiny)
    assert (["HEAD", "GET"] if head == 405 else ["HEAD"]) == methods


def test_base_tag_removed(tmp_path: Path, tiny: TinyLock) -> None:
    """A base by tag: as locked, moved while the old digest stays, and gone."""
    old, new = small_image({"v": "1"}), small_image({"v": "2"})
    fake = FakeRegistry()
    fake.add("base/debian", "old", old)
    fake.add("base/debian", "new", new)
    fake.put(
        "base/debian",
        "trixie",
        small_index({AMD64: old}),
        "application/vnd.oci.image.index.v1+json",
    )
    made = small_lock()
    header = made.header.model_copy(update={"base": BaseLock(images={AMD64: old.digest})})
    content = replace(made.platforms[AMD64], wheels=(), debs=())
    header = header.model_copy(update={"tools": {}})
    locked = replace(made, header=header, platforms={AMD64: content})
    with served(fake) as host:
        spec = small_spec().model_copy(
            update={"base": BaseTable(image=f"{host}/base/debian:trixie")}
        )

        def look() -> list[tuple[str, str]]:
            sources = lock_sources.find_sources(
                tiny.project.context, Settings(forges={"vllm": "none"}), [(spec, locked)]
            )
            return [(row.key, row.severity) for row in sources.findings]

        assert [] == look()
        fake.put(
            "base/debian",
            "trixie",
            small_index({AMD64: new}),
            "application/vnd.oci.image.index.v1+json",
        )
        assert [("base-tag-removed", "warning")] == look()
        fake.manifests = {
            key: value
            for key, value in fake.manifests.items()
            if key[1] not in ("trixie", old.digest)
        }
        assert [("base-tag-removed", "error")] == look()


def test_nightly_tags_purged(tmp_path: Path, tiny: TinyLock) -> None:
    """C63: a base that is one of upstream's nightlies: old by its config, then gone."""
    tag = "nightly-ea5f903f80000000000000000000000000000000"
    image = small_image({"v": "1"}, created="2020-01-01T00:00:00.123456789Z")
    fake = FakeRegistry()
    fake.add("vllm/vllm-openai", tag, image)
    made = small_lock()
    header = made.header.model_copy(
        update={"base": BaseLock(images={AMD64: image.digest}), "tools": {}}
    )
    content = replace(made.platforms[AMD64], wheels=(), debs=())
    locked = replace(made, header=header, platforms={AMD64: content})
    with served(fake) as host:
        base = BaseTable(image=f"{host}/vllm/vllm-openai:{tag}")
        spec = small_spec().model_copy(update={"base": base})

        def look() -> list[tuple[str, str]]:
            settings = Settings(forges={"vllm": "none"})
            sources = lock_sources.find_sources(tiny.project.context, settings, [(spec, locked)])
            return [(row.key, row.severity) for row in sources.findings]

        assert [("nightly-tags-purged", "warning")] == look()
        del fake.manifests["vllm/vllm-openai", tag]
        assert [("base-tag-removed", "warning"), ("nightly-tags-purged", "error")] == look()
