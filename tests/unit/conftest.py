"""Unit tests ask no network: whoever tries is told, instead of being slow or wrong elsewhere."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from builder.edge.apt import AptRoot


def pytest_configure(config: pytest.Config) -> None:
    """Name the one exception."""
    config.addinivalue_line("markers", "loopback: speaks to a server of its own on this machine")


class NetworkAskedError(BaseException):
    """A unit test reached out; no `except Exception` takes it for a network that is down."""


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection but to sockets in the file system, and apt, which is a program."""
    loopback = request.node.get_closest_marker("loopback") is not None

    def refuse_unless_allowed(asking: socket.socket, address: object) -> None:
        if asking.family == socket.AF_UNIX or (loopback and _is_loopback(address)):
            return
        # Whoever asked does not expect this error, and would leave it open.
        asking.close()
        raise NetworkAskedError(f"{request.node.nodeid} asks {address}")

    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def checked_connect(self: socket.socket, address: object) -> None:
        refuse_unless_allowed(self, address)
        connect(self, address)  # type: ignore[arg-type]  # as it was given

    def checked_connect_ex(self: socket.socket, address: object) -> int:
        refuse_unless_allowed(self, address)
        return connect_ex(self, address)  # type: ignore[arg-type]  # as it was given

    def update(self: AptRoot) -> None:
        raise NetworkAskedError(f"{request.node.nodeid} asks {self.sources} by apt")

    monkeypatch.setattr(socket.socket, "connect", checked_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", checked_connect_ex)
    monkeypatch.setattr(AptRoot, "update", update)


def _is_loopback(address: object) -> bool:
    host = address[0] if isinstance(address, tuple) and address else ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
