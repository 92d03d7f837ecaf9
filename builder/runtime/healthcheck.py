"""HEALTHCHECK: does the server of this container answer GET /health? Exit 0 yes, 1 no, in 5 s.

Where it listens is read from the arguments the container was started with, as vLLM reads them:
`--port`, `--host`, `--uds`, `--ssl-certfile`, or the same keys of a `--config` file.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import NamedTuple

SECONDS = 4.5
"""For everything: the engine kills the probe after 6."""

ENTRYPOINT = str(Path(__file__).with_name("entrypoint.py"))

_OPTIONS = ("port", "host", "uds", "ssl-certfile")
_EVERY_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound


class Listener(NamedTuple):
    """Where the server listens."""

    host: str = "127.0.0.1"
    port: int = 8000
    uds: str = ""
    tls: bool = False
    headless: bool = False
    """A node without HTTP server, one of several that serve one model."""


def listener(arguments: Sequence[str], config: str = "") -> Listener:
    """Read where the server listens; of two options the last counts, options beat `config`."""
    found = {
        name: match[1].strip("\"'")
        for name in _OPTIONS
        # Top-level keys of YAML, as vLLM's own writer and its documentation spell them.
        if (match := re.search(rf"(?m)^{name.replace('-', '[-_]')}:\s*(\S+)\s*(?:#.*)?$", config))
    }
    found.update(_options(arguments))
    port = found.get("port", "8000")
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
    """Ask for /health; raises OSError or HTTPException when nobody answers."""
    with closing(_connect(where)) as connection:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK


def main() -> int:
    """Print one line for `docker inspect` and return the exit status."""
    arguments = arguments_of(list(_command_lines()), ENTRYPOINT)
    where = listener(arguments, _read(config_file(arguments)))
    if where.headless:
        print("headless: no HTTP server on this node")
        return 0
    place = where.uds or f"{where.host}:{where.port}"
    # Socket timeouts count from the last byte; a server that trickles would outlast them.
    signal.signal(signal.SIGALRM, _too_late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        healthy = answers(where)
    except (OSError, http.client.HTTPException) as error:
        print(f"{place}: {str(error) or type(error).__name__}")
        return 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    print(f"{place}: {'ok' if healthy else 'not healthy'}")
    return 0 if healthy else 1


def _connect(where: Listener) -> http.client.HTTPConnection:
    if where.uds:
        connection = http.client.HTTPConnection("localhost", timeout=SECONDS)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(where.uds)
        return connection
    if where.tls:
        import ssl  # noqa: PLC0415 - 20 ms that plain HTTP does not pay

        # It asks itself over loopback, and the certificate names the outside.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
        return http.client.HTTPSConnection(where.host, where.port, timeout=SECONDS, context=context)
    return http.client.HTTPConnection(where.host, where.port, timeout=SECONDS)


def _options(arguments: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in _pairs(arguments) if name in _OPTIONS}


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield option and value; vLLM takes `_` for `-` in the names of options."""
    for place, word in enumerate(arguments):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        yield name.replace("_", "-"), value if equals else following


def _command_lines() -> Iterator[bytes]:
    for process in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208
        try:
            yield Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            continue


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace") if name else ""
    except OSError:
        return ""


def _too_late(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"no answer within {SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
