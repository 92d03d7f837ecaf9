"""A wheel index on loopback, with a switch for everything that real ones do wrong."""

from __future__ import annotations

import base64
import html
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import quote, unquote

from packaging.utils import canonicalize_name, parse_wheel_filename

from tests.support.wheels import Wheel


@dataclass(slots=True)
class FakeIndex:
    """What the server has, how it misbehaves, and what it was asked.

    Pages: `/simple/NAME/` (HTML, or JSON where `json`), also below `nightly/` and `cu130/`, and
    `/flat/` (find-links).
    """

    host: str = ""
    wheels: dict[str, bytes] = field(default_factory=dict)
    """File name → bytes."""
    json: bool = False
    hashes: bool = True
    ranges: bool = True
    metadata: bool = False
    """Serve `.metadata` files (PEP 658)."""
    links: Literal["absolute", "relative"] = "absolute"
    redirect: bool = False
    """`/simple/…` answers with a redirect to `/moved/simple/…`."""
    listed: dict[str, str] = field(default_factory=dict)
    """File → sha256 that the page claims, instead of the right one."""
    sizes: dict[str, int] = field(default_factory=dict)
    """File → size that the JSON page claims."""
    served: dict[str, bytes] = field(default_factory=dict)
    """File → bytes that come instead of the right ones."""
    cut: dict[str, int] = field(default_factory=dict)
    """File → how many more answers break off in the middle."""
    stopped: dict[str, int] = field(default_factory=dict)
    """File → how many more answers stop in the middle without having said how long they are."""
    modified: str = ""
    """Last-Modified of files."""
    metadata_hashes: dict[str, str] = field(default_factory=dict)
    """File → sha256 of METADATA that the page gives (PEP 714)."""
    statuses: dict[str, list[int]] = field(default_factory=dict)
    """Path → statuses to answer before the right answer."""
    user: str = ""
    """`name:password` that is asked for."""
    extra_rows: list[str] = field(default_factory=list)
    """HTML added to every page."""
    half_sent: threading.Event | None = None
    """Set when half of a file has gone out; the rest waits for `go_on`."""
    go_on: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path, Range header."""

    @property
    def url(self) -> str:
        """Address of the simple index."""
        return f"http://{self.host}/simple"

    @property
    def flat(self) -> str:
        """Address of the find-links page."""
        return f"http://{self.host}/flat/"

    def add(self, *wheels: Wheel) -> None:
        """Offer wheels."""
        self.wheels.update({wheel.file: wheel.data for wheel in wheels})

    def asked(self, part: str) -> list[tuple[str, str, str]]:
        """Return the requests whose path has `part` in it."""
        return [row for row in self.requests if part in unquote(row[1])]

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        path = handler.path.partition("?")[0]
        self.requests.append((handler.command, path, handler.headers.get("Range", "")))
        wanted = "Basic " + base64.b64encode(self.user.encode()).decode()
        if self.user and handler.headers.get("Authorization") != wanted:
            _send(handler, 401, b"who are you?")
        elif self.statuses.get(path):
            status = self.statuses[path].pop(0)
            _send(handler, status, b"no", [("Retry-After", "0")] if status == 429 else [])
        elif self.redirect and path.startswith("/simple/"):
            _send(handler, 302, b"", [("Location", "/moved" + path)])
        elif match := re.fullmatch(r"(?:/moved)?/simple/(?:nightly/)?(?:(cu\d+)/)?([^/]+)/", path):
            self._page(handler, path, match[2], match[1] or "")
        elif path == "/flat/":
            self._page(handler, path, None)
        elif "/files/" in path:
            self._file(handler, unquote(path.rpartition("/")[2]))
        else:
            _send(handler, 404, b"not here")

    def _page(
        self, handler: BaseHTTPRequestHandler, path: str, package: str | None, label: str = ""
    ) -> None:
        names = [
            name
            for name in sorted(self.wheels)
            if package in (None, canonicalize_name(parse_wheel_filename(name)[0]))
            # As flashinfer.ai has it: what carries a CUDA label lies in the label's folder alone.
            and (path == "/flat/" or label == _label(name))
        ]
        if not names:
            _send(handler, 404, b"no such project")
        elif self.json and "json" in handler.headers.get("Accept", ""):
            body = json.dumps(self._json(names, path, package or "")).encode()
            _send(handler, 200, body, [("Content-Type", "application/vnd.pypi.simple.v1+json")])
        else:
            rows = [self._row(name, path) for name in names] + self.extra_rows
            body = f"<!DOCTYPE html><html><body>{''.join(rows)}</body></html>".encode()
            _send(handler, 200, body, [("Content-Type", "text/html")])

    def _href(self, name: str, path: str) -> str:
        if self.links == "relative":
            up = "../" if path == "/flat/" else "../../"
            return f"{up}files/{quote(name, safe='')}"
        return f"http://{self.host}/files/{quote(name, safe='')}"

    def _sha256(self, name: str) -> str:
        return self.listed.get(name, Wheel(name, self.wheels[name]).sha256)

    def _row(self, name: str, path: str) -> str:
        fragment = f"#sha256={self._sha256(name)}" if self.hashes else ""
        inside = self.metadata_hashes.get(name, "")
        inside = f' data-core-metadata="sha256={inside}"' if inside else ""
        return f'<a href="{self._href(name, path)}{fragment}"{inside}>{html.escape(name)}</a><br>\n'

    def _json(self, names: Iterable[str], path: str, package: str) -> dict[str, object]:
        return {
            "meta": {"api-version": "1.1"},
            "name": package,
            "versions": sorted({str(parse_wheel_filename(name)[1]) for name in names}),
            "files": [
                {
                    "filename": name,
                    "url": self._href(name, path),
                    "hashes": {"sha256": self._sha256(name)} if self.hashes else {},
                    "size": self.sizes.get(name, len(self.wheels[name])),
                    "core-metadata": {"sha256": self.metadata_hashes[name]}
                    if name in self.metadata_hashes
                    else False,
                }
                for name in names
            ],
        }

    def _file(self, handler: BaseHTTPRequestHandler, name: str) -> None:
        if name.endswith(".metadata") and self.metadata:
            data = _metadata_of(self.wheels[name.removesuffix(".metadata")])
        elif name in self.wheels:
            data = self.served.get(name, self.wheels[name])
        else:
            _send(handler, 404, b"no such file")
            return
        start, end = 0, len(data)
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", handler.headers.get("Range", ""))
        status = 200
        headers = [("Accept-Ranges", "bytes")] if self.ranges else []
        if match and self.ranges:
            if match[1]:
                start = int(match[1])
                end = min(int(match[2]) + 1, end) if match[2] else end
            else:
                start = max(0, end - int(match[2]))
            if start >= len(data):
                _send(handler, 416, b"", [("Content-Range", f"bytes */{len(data)}")])
                return
            status = 206
            headers.append(("Content-Range", f"bytes {start}-{end - 1}/{len(data)}"))
        self._body(handler, name, status, data[start:end], headers)

    def _body(
        self,
        handler: BaseHTTPRequestHandler,
        name: str,
        status: int,
        data: bytes,
        headers: list[tuple[str, str]],
    ) -> None:
        half = len(data) // 2
        if self.modified:
            headers = [*headers, ("Last-Modified", self.modified)]
        if handler.command == "GET" and self.stopped.get(name, 0) > 0:
            self.stopped[name] -= 1
            handler.send_response(status)
            for key, value in [*headers, ("Connection", "close")]:
                handler.send_header(key, value)
            handler.end_headers()
            handler.wfile.write(data[:half])
            handler.close_connection = True
            return
        if handler.command == "GET" and self.cut.get(name, 0) > 0:
            self.cut[name] -= 1
            _send(handler, status, data, headers, only=half)
            handler.close_connection = True
        elif handler.command == "GET" and self.half_sent is not None and len(data) > 100_000:
            _send(handler, status, data, headers, only=half)
            self.half_sent.set()
            self.go_on.wait(60)
            handler.wfile.write(data[half:])
        else:
            _send(handler, status, data, headers)


def _label(name: str) -> str:
    local = parse_wheel_filename(name)[1].local or ""
    return local if re.fullmatch(r"cu\d+", local) else ""


def _metadata_of(data: bytes) -> bytes:
    import io  # noqa: PLC0415
    import zipfile  # noqa: PLC0415

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        return archive.read(name)


def _send(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    headers: Iterable[tuple[str, str]] = (),
    *,
    only: int | None = None,
) -> None:
    handler.send_response(status)
    for name, value in headers:
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body[:only])
        handler.wfile.flush()


@contextmanager
def serve(
    respond: Callable[[BaseHTTPRequestHandler], None], *, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Run a server on a free port of loopback; yields its `host:port`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                respond(self)
            except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                self.close_connection = True

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing: clients that go away are part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def fake_index(*wheels: Wheel) -> Iterator[FakeIndex]:
    """Run a fake index that offers `wheels`."""
    index = FakeIndex()
    index.add(*wheels)
    with serve(index.respond) as host:
        index.host = host
        try:
            yield index
        finally:
            index.go_on.set()
