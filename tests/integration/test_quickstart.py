"""The README's first command as a process: a real vLLM answers, also without nightlock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builder.core.reference import ImageRef
from builder.edge.engine import Engine
from builder.edge.profiles import read_profile
from tests.support.engine_client import ask_client, forget, tags_of
from tests.support.image_handle import ImageHandle
from tests.support.schemas import breaches

pytestmark = [pytest.mark.docker, pytest.mark.network]

ROOT = Path(__file__).parents[2]
DEADLINE = 1800.0
"""Seconds within which a server must have got somewhere, on a machine however busy."""


def quickstart(environment: dict[str, str]) -> dict[str, Any]:
    """Run the command and return its document, which fits its schema."""
    ran = subprocess.run(
        [sys.executable, "-m", "builder", "quickstart", "--json"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    assert [] == breaches("quickstart", document)
    assert (True, [], None) == (document["ok"], document["findings"], document["error"])
    return document


@pytest.fixture(scope="module")
def shown(
    engine: Engine, cpu_image: ImageHandle, state_environment: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Run it once; its build is the shared one's, out of BuildKit's cache.

    What a person's own quickstart had pushed before stays.
    """
    repository = ImageRef.parse(f"{engine.registry}/nightlock/cpu")
    before = tags_of(repository)
    try:
        yield quickstart(state_environment)["result"]
    finally:
        if not before:
            forget(engine, repository)


def test_a_real_vllm_answers(shown: dict[str, Any], engine: Engine, cpu_image: ImageHandle) -> None:
    """Paris, every check passed, both tags name the image that the other build gave too."""
    released = shown["release"]
    assert "Paris" == released["answer"]
    assert {"pass"} == set(released["checks"].values())
    assert cpu_image.digest == released["digest"]
    tag = ImageRef.parse(cpu_image.reference).tag
    assert [tag, "stable"] == released["tags"]
    repository = ImageRef.parse(f"{engine.registry}/nightlock/cpu")
    assert {tag, "stable"} <= tags_of(repository)
    assert f"{repository.name}@{cpu_image.digest}" == released["reference"]
    steps = ["engine", "fetch", "build", "audit", "smoke", "promote"]
    assert steps == list(released["phases"])
    assert (engine.version, engine.private) == (shown["engine"], shown["engine_private"])


def test_the_report_is_a_file(shown: dict[str, Any]) -> None:
    """It holds the result, and the evidence it points to is there."""
    assert shown == json.loads(Path(shown["report"]).read_text())
    evidence = {path.name for path in Path(shown["release"]["folder"]).iterdir()}
    assert {"report.json", "report.html", "receipt.json", "junit.xml", "server.log"} == evidence


def test_a_second_run_recognises_every_step(
    shown: dict[str, Any], state_environment: dict[str, str]
) -> None:
    """Nothing is fetched, built, booted or moved, and the answer is the same."""
    again = quickstart(state_environment)["result"]["release"]
    assert ["fetch", "build", "audit", "smoke", "promote"] == again["reused"]
    assert 0 == again["fetched_bytes"]
    same = ("reference", "tags", "answer", "checks", "folder", "lock_digest", "boot", "relocked")
    assert [shown["release"][name] for name in same] == [again[name] for name in same]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A container that the printed line started."""

    name: str
    engine: Engine
    since: str
    """The engine's clock before it."""

    def events(self, *last: str) -> list[str]:
        """Wait for one of the `last` events, by the engine's word; return what happened till then.

        A health check's event is `health_status: healthy`, the end's is `die` and its exit code.
        """
        wanted = ("health_status", "die", "destroy")
        with subprocess.Popen(
            [
                *(self.engine.docker, "events", "--since", self.since),
                *("--filter", f"container={self.name}"),
                *(word for name in wanted for word in ("--filter", f"event={name}")),
                *("--format", '{{.Action}} {{index .Actor.Attributes "exitCode"}}'),
            ],
            env={**os.environ, **self.engine.environment},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            limit = threading.Timer(DEADLINE, process.kill)
            limit.start()
            assert process.stdout is not None
            said: list[str] = []
            for line in process.stdout:
                said.append(line.replace("<no value>", "").strip())
                if said[-1].startswith(last):
                    break
            limit.cancel()
            process.kill()
        return said

    def log(self) -> str:
        """Last lines of the server."""
        ran = ask_client(self.engine, "logs", "--tail", "40", self.name)
        return ran.stdout + ran.stderr


@pytest.fixture
def served(engine: Engine) -> Iterator[Served]:
    """Name a container; it is gone afterwards, come what may."""
    now = ask_client(engine, "system", "info", "--format", "{{.SystemTime}}").stdout.strip()
    made = Served(name=f"nightlock-test-{uuid.uuid4().hex[:12]}", engine=engine, since=now)
    yield made
    ask_client(engine, "rm", "--force", "--volumes", made.name)


def test_the_image_serves_without_nightlock(
    shown: dict[str, Any], engine: Engine, served: Served
) -> None:
    """Both printed lines, typed as they are but for the port and a name; SIGTERM ends it well."""
    port, there = "127.0.0.1:8000:8000", "http://127.0.0.1:8000/"
    assert (1, 1) == (shown["run_command"].count(port), shown["ask_command"].count(there))
    line = shown["run_command"].replace(port, "127.0.0.1::8000")
    line = line.replace(" run ", f" run -d --name {served.name} ", 1)
    environment = {**os.environ, **engine.environment}
    started = subprocess.run(
        ["sh", "-c", line], env=environment, capture_output=True, text=True, check=False
    )
    assert 0 == started.returncode, started.stderr
    begun = served.events("health_status", "die")
    assert ["health_status: healthy"] == begun, served.log()
    address = ask_client(engine, "port", served.name, "8000/tcp").stdout.split()[0]
    asked = subprocess.run(
        ["sh", "-c", shown["ask_command"].replace(there, f"http://{address}/")],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert 0 == asked.returncode, asked.stderr
    answer = json.loads(asked.stdout)
    assert "Paris" == answer["choices"][0]["message"]["content"], answer
    grace = read_profile(ROOT, "smoke-cpu").profile.deadlines.stop
    stopped = ask_client(engine, "stop", "--time", str(round(grace)), served.name)
    assert 0 == stopped.returncode, stopped.stderr
    # SIGKILL after the grace would be 137; --rm takes the container away.
    assert [*begun, "die 0", "destroy"] == served.events("destroy")
    left = ask_client(engine, "ps", "--all", "--quiet", "--filter", f"name={served.name}")
    assert "" == left.stdout.strip()
