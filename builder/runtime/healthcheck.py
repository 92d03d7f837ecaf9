"""HEALTHCHECK: does the server of this container answer GET /health? Exit 0 yes, 1 no, in 5 s.

Where it listens is read from the arguments the container was started with, as vLLM reads them:
`--port`, `--host`, `--uds`, `--ssl-certfile`, or the same keys of a `--config` file.
"""

from __future__ import annotations

import os
import socket
import sys
import time

# It runs every few seconds, and Python's own modules have no byte code in an image: with
# `http.client`, `pathlib` and `typing` a probe takes 0.5 s of a core instead of 0.05 s.
# Type checkers read this name as true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SECONDS = 4.5
"""For everything: the engine kills the probe after 6."""

ENTRYPOINT = f"{os.path.dirname(os.path.abspath(__file__))}/entrypoint.py"

_OPTIONS = ("port", "host", "uds", "ssl-certfile")
_EVERY_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound
_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Listener:
    """Where the server listens."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        uds: str = "",
        *,
        tls: bool = False,
        headless: bool = False,
    ) -> None:
        self.host = host
        self.port = port
        self.uds = uds
        self.tls = tls
        self.headless = headless
        """A node without HTTP server, one of several that serve one model."""

    def __str__(self) -> str:
        return self.uds or f"{self.host}:{self.port}"


def listener(arguments: Sequence[str], config: str = "") -> Listener:
    """Read where the server listens; of two options the last counts, options beat `config`."""
    found = {
        name: value
        for name, value in (*_yaml_pairs(config), *_pairs(arguments))
        if name in _OPTIONS
    }
    port = found.get("port", "")
    return Listener(
        host=_EVERY_ADDRESS.get(found.get("host", ""), found.get("host", "")),
        port=int(port) if port.isdigit() else 8000,
        uds=found.get("uds", ""),
        tls=bool(found.get("ssl-certfile")),
        headless="--headless" in arguments,
    )


def config_file(arguments: Sequence[str]) -> str:
    """Return the file that `--config` names, or nothing."""
    return dict(_pairs(arguments)).get("config", "")


def arguments_of(command_lines: Sequence[bytes], entrypoint: str) -> list[str]:
    """Pick what follows the entrypoint in a command line of /proc; tini keeps it to the end."""
    for line in command_lines:
        words = line.decode(errors="replace").rstrip("\0").split("\0")
        if entrypoint in words:
            return words[words.index(entrypoint) + 1 :]
    # Started past the entrypoint: by `--entrypoint vllm`, say.
    served = (line for line in command_lines if b"serve" in line or b"api_server" in line)
    return next(served, b"").decode(errors="replace").rstrip("\0").split("\0")[1:]


def answers(where: Listener) -> bool:
    """Ask for /health; raises OSError when nobody answers in time."""
    deadline = time.monotonic() + SECONDS
    with _connect(where) as connection:
        connection.sendall(_REQUEST)
        said = b""
        while b"\n" not in said:
            # A timeout counts from the last byte; a server that trickles would outlast it.
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            piece = connection.recv(4096)
            if not piece:
                break
            said += piece
    return said.split(b" ")[1:2] == [b"200"]


def main() -> int:
    """Print one line for `docker inspect` and return the exit status."""
    arguments = arguments_of(list(_command_lines()), ENTRYPOINT)
    where = listener(arguments, _read(config_file(arguments)))
    if where.headless:
        print("headless: no HTTP server on this node")
        return 0
    try:
        healthy = answers(where)
    except OSError as error:
        print(f"{where}: {error}")
        return 1
    print(f"{where}: {'ok' if healthy else 'not healthy'}")
    return 0 if healthy else 1


def _connect(where: Listener) -> socket.socket:
    if where.uds:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)
        try:
            connection.connect(where.uds)
        except OSError:
            connection.close()
            raise
        return connection
    connection = socket.create_connection((where.host, where.port), timeout=SECONDS)
    if not where.tls:
        return connection
    import ssl  # noqa: PLC0415 - as above

    # It asks itself over loopback, and the certificate names the outside.
    context = ssl._create_unverified_context()  # noqa: S323, SLF001
    return context.wrap_socket(connection)


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield option and value; vLLM takes `_` for `-` in the names of options."""
    for place, word in enumerate(arguments):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        yield name.replace("_", "-"), value if equals else following


def _yaml_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield top-level keys with plain values, the only ones that options have."""
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() == name:
            yield name.replace("_", "-"), value.partition(" #")[0].strip().strip("\"'")


def _command_lines() -> Iterator[bytes]:
    for process in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                yield file.read()
        except OSError:
            continue


def _read(name: str) -> str:
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
