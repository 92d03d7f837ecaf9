"""The health probe: where it asks, as read from the container's arguments."""

from __future__ import annotations

import pytest

from builder.runtime.healthcheck import Listener, arguments_of, config_file, listener

ENTRYPOINT = "/opt/nightlock/entrypoint.py"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", Listener()),
        ("org/name --port 9000", Listener(port=9000)),
        ("--port=9000 --host 0.0.0.0", Listener(port=9000)),
        ("--port 1 --port 2", Listener(port=2)),
        ("--host :: --port 9000", Listener(host="::1", port=9000)),
        ("--host=10.0.0.7", Listener(host="10.0.0.7")),
        ("--uds /run/vllm.sock", Listener(uds="/run/vllm.sock")),
        ("--ssl_certfile /c.pem --ssl-keyfile /k.pem", Listener(tls=True)),
        ("--headless", Listener(headless=True)),
        ("--port", Listener()),
        ("--port nonsense", Listener()),
    ],
)
def test_listener(words: str, expected: Listener) -> None:
    """Options as vLLM takes them: either spelling, the last one counts."""
    assert vars(expected) == vars(listener(words.split()))


def test_options_beat_the_config_file() -> None:
    """The file of `--config` is read first, then the command line; nested keys are not options."""
    config = 'model: org/name\nport: 7000  # ours\nhost: "0.0.0.0"\nother:\n  port: 1\n'
    assert 7000 == listener([], config).port
    assert 9000 == listener(["--port", "9000"], config).port
    assert "127.0.0.1" == listener([], config).host
    assert "/c.yaml" == config_file(["serve", "--config=/c.yaml"])


@pytest.mark.parametrize(
    "lines",
    [
        [b"/usr/bin/tini\0--\0python\0/opt/nightlock/entrypoint.py\0--port\09000\0"],
        [b"docker-init\0--\0", b"tini\0python\0/opt/nightlock/entrypoint.py\0--port\09000\0"],
        [b"sleep\0infinity\0", b"/opt/venv/bin/vllm\0serve\0m\0--port\09000\0"],
    ],
)
def test_arguments_are_found_in_any_process(lines: list[bytes]) -> None:
    """Under tini, under the engine's own init, or started past the entrypoint."""
    assert ["--port", "9000"] == arguments_of(lines, ENTRYPOINT)[-2:]
