"""The health probe against real sockets."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from builder.runtime import healthcheck
from builder.runtime.healthcheck import Listener


class _Health(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        """Answer /health with the class's status, all else with 404."""
        self.send_response(self.status if self.path == "/health" else 404)
        self.end_headers()

    def address_string(self) -> str:
        """Name the peer, which on a UNIX socket has no address."""
        return "peer"

    def log_message(self, *_arguments: object) -> None:
        """Stay silent."""


class _Sick(_Health):
    status = 503


class _UnixServer(socketserver.UnixStreamServer):
    pass


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    """Run a server in a thread."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("handler", "expected"), [(_Health, True), (_Sick, False)])
def test_http(handler: type[_Health], expected: bool) -> None:
    """Only 200 is healthy."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    with serving(server):
        assert expected == healthcheck.answers(Listener(port=server.server_port))


def test_unix_socket(tmp_path: Path) -> None:
    """`--uds` is asked through its socket."""
    path = str(tmp_path / "s")
    with serving(_UnixServer(path, _Health)):
        assert healthcheck.answers(Listener(uds=path))


def test_nobody_and_silence_are_unhealthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A closed port is exit 1 at once, a server that never answers when the time is over."""
    monkeypatch.setattr(healthcheck, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        line = f"tini\0{healthcheck.ENTRYPOINT}\0--port\0{port}\0".encode()
        monkeypatch.setattr(healthcheck, "_command_lines", lambda: iter([line]))
        assert 1 == healthcheck.main()
    assert 1 == healthcheck.main()
    said = capsys.readouterr().out.splitlines()
    assert [f"127.0.0.1:{port}: "] * 2 == [line[: len(f"127.0.0.1:{port}: ")] for line in said]
