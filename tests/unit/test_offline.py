"""The guard that keeps unit tests off the network."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest


def test_a_connection_is_refused() -> None:
    """Before a packet leaves, whatever library tries; 192.0.2.0/24 is for documentation."""
    with pytest.raises(BaseException, match=r"asks \('192\.0\.2\.1', 80\)"):
        httpx.get("http://192.0.2.1/", trust_env=False)
    with socket.socket() as plain, pytest.raises(BaseException, match="asks"):
        plain.connect_ex(("127.0.0.1", 9))


@pytest.mark.loopback
def test_loopback_is_open_where_it_is_asked_for() -> None:
    """To this machine and no further."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
    with socket.socket() as client, pytest.raises(BaseException, match="asks"):
        client.connect(("192.0.2.1", 80))


def test_sockets_in_the_file_system_are_open(tmp_path: Path) -> None:
    """An engine's socket may be looked for."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)
