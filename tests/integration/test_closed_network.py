"""Locking and fetching where the indexes are behind a proxy, or under a CA of the company's own."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from builder.commands import fetch, lock
from builder.core.settings import Settings
from builder.edge import debs
from builder.errors import NetworkError
from tests.support.index import serve
from tests.support.lockable import NO_FORGE
from tests.support.tiny_lock import TinyLock, clean, tiny_lock

INSIDE = {"general": "general.example", "pytorch-cpu": "pytorch.example"}
"""Names that nobody resolves."""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyLock]:
    """Yield a project whose indexes link to where they are asked for."""
    clean(monkeypatch, tmp_path / "home")
    monkeypatch.setattr(debs, "fetch_debs", lambda *_, **__: None)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for spelling in (name, name.lower()):
            monkeypatch.delenv(spelling, raising=False)
    with tiny_lock(tmp_path) as made:
        made.general.links = made.pytorch.links = "relative"
        yield made


def lock_twice(tiny: TinyLock, direct: dict[str, str], closed: dict[str, str]) -> None:
    """Lock plainly, then from nothing through what is closed: the same bytes; then fetch."""
    project = tiny.project
    project.settings = Settings(forges=NO_FORGE, indexes=direct)
    assert lock.run(project.context, "tiny").ok
    before = project.lock_files()
    for path in project.lock.iterdir():
        path.unlink()
    project.cache = "closed"
    project.settings = Settings(forges=NO_FORGE, indexes=closed)
    assert lock.run(project.context, "tiny").ok
    assert before == project.lock_files()
    assert lock.run(project.context, "tiny", check=True).ok
    # torch was hashed here, and so is in the store already.
    assert {"debian": 1, "general": 2} == fetch.run(project.context, "tiny").result.indexes


def test_all_of_it_goes_through_the_proxy(tiny: TinyLock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uv's requests and ours: names that only the proxy knows."""
    direct = {"general": tiny.general.url, "pytorch-cpu": tiny.pytorch.url}
    indexes = {"general.example": tiny.general, "pytorch.example": tiny.pytorch}
    seen: set[str] = set()

    def forward(handler: BaseHTTPRequestHandler) -> None:
        target = urlsplit(handler.path)
        seen.add(f"{target.hostname} {handler.headers.get('User-Agent', '').partition('/')[0]}")
        handler.path = target.path
        indexes[target.hostname or ""].respond(handler)

    closed = {name: f"http://{host}/simple" for name, host in INSIDE.items()}
    with serve(forward) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy}")
        lock_twice(tiny, direct, closed)
    assert {f"{host} {who}" for host in indexes for who in ("uv", "nightlock")} == seen


def make_authority(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a CA, and what a server of 127.0.0.1 under it needs."""
    ca, certificate = folder / "ca.pem", folder / "server.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    for argv in (
        [*request, "-subj", "/CN=The company", "-keyout", folder / "ca.key", "-out", ca],
        [*request, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-addext", "basicConstraints=critical,CA:FALSE", "-CA", ca, "-CAkey", folder / "ca.key",
         "-keyout", folder / "server.key", "-out", certificate],
    ):  # fmt: skip
        subprocess.run([str(word) for word in argv], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, folder / "server.key")
    return ca, context


def test_a_ca_of_ones_own_is_believed(
    tiny: TinyLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From pip's setting: by uv and by us; without it the refusal says what to set."""
    ca, context = make_authority(tmp_path)
    direct = {"general": tiny.general.url, "pytorch-cpu": tiny.pytorch.url}
    with (
        serve(tiny.general.respond, tls=context) as general,
        serve(tiny.pytorch.respond, tls=context) as pytorch,
    ):
        closed = {
            "general": f"https://{general}/simple",
            "pytorch-cpu": f"https://{pytorch}/simple",
        }
        tiny.project.settings = Settings(forges=NO_FORGE, indexes=closed)
        with pytest.raises(NetworkError) as caught:
            lock.run(tiny.project.context, "tiny")
        assert "SSL_CERT_FILE" in caught.value.action
        monkeypatch.setenv("PIP_CERT", str(ca))
        lock_twice(tiny, direct, closed)
    for data in tiny.project.lock_files().values():
        assert b"BEGIN CERTIFICATE" not in data
