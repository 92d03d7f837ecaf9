"""smoke on a real engine: a small server that misbehaves in every way, then the real vLLM."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import httpx
import pytest
from testcontainers.core.config import testcontainers_config

from builder.commands import smoke
from builder.commands.smoke import SmokeResult
from builder.core.boot import RUN_LABEL, BootPlan
from builder.core.receipt import Receipt
from builder.core.reference import ImageRef
from builder.edge import container, profiles, records
from builder.edge.engine import Engine
from builder.edge.receipts import attached_receipts
from builder.edge.registry import Registry
from builder.errors import BadInput, BootFailed, PortTaken
from tests.support.engine_client import forget
from tests.support.image_handle import ImageHandle
from tests.support.smoke_project import ROOT, smoke_context
from tests.support.tiny_image import push_tiny_image

pytestmark = pytest.mark.docker

# No lock is named: it has none, and is booted without a look inside.
LABELS = {
    "org.nightlock.image": "cpu",
    "org.nightlock.vllm.version": "0.32.0+cpu",
    "org.nightlock.build.id": "sha256:" + "2" * 64,
}
NO_WAIT = {"health": 3600, "first_answer": 3600, "stop": 2}


@pytest.fixture(scope="module")
def client(engine: Engine) -> Iterator[docker.DockerClient]:
    """Speak to the engine past our own code."""
    opened = docker.from_env(environment=dict(engine.environment))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def tiny(engine: Engine, client: docker.DockerClient) -> Iterator[str]:
    """Push the small server as an image; take it from engine and registry afterwards."""
    repository = f"nightlock-test/{uuid.uuid4().hex[:12]}"
    reference = push_tiny_image(client, engine.registry, repository, LABELS)
    yield reference
    ref = ImageRef.parse(reference)
    for image in client.images.list(name=ref.name):
        client.images.remove(str(image.id), force=True)
    forget(engine, ref)


@pytest.fixture(autouse=True)
def nothing_left(engine: Engine, client: docker.DockerClient) -> Iterator[None]:
    """After every test no container of ours is there, and the process is as it was."""
    before = (os.environ.get("DOCKER_HOST"), testcontainers_config.ryuk_disabled)
    yield
    assert [] == client.containers.list(all=True, filters={"label": RUN_LABEL})
    assert before == (os.environ.get("DOCKER_HOST"), testcontainers_config.ryuk_disabled)


def misbehaving(how: str, **environment: str) -> dict[str, dict[str, dict[str, str]]]:
    """Change the profile's server so that it does something wrong."""
    return {"server": {"environment": {"MISBEHAVE": how, **environment}}}


def evidence(result: SmokeResult) -> dict[str, str]:
    """Read the files a smoke left."""
    files = (path for path in Path(result.folder).iterdir() if path.is_file())
    return {path.name: path.read_text() for path in files}


def test_a_server_that_answers_passes(engine: Engine, tiny: str, tmp_path: Path) -> None:
    """Report, receipt, JUnit file and log are written and fit together."""
    context = smoke_context(tmp_path, engine)
    outcome = smoke.run(context, tiny, out=tmp_path / "out", junit_file=tmp_path / "j.xml")
    result = outcome.result
    assert (True, "pass", "cpu", "Paris") == (
        outcome.ok,
        result.verdict,
        result.kind,
        result.answer,
    ), outcome.text
    assert {"pass"} == {check.status for check in result.checks}
    phases = ["start", "health", "models", "first-answer", "second-answer", "stop"]
    assert phases == list(result.phases)
    seen = {"container-start", "imports", "engine-init", "first-answer", "second-answer"}
    assert seen <= set(result.timeline.longest), result.timeline
    files = evidence(result)
    assert {"report.json", "receipt.json", "junit.xml", "server.log", "report.html"} == set(files)
    assert "'config.json'" in files["server.log"]
    assert "Shutting down" in files["server.log"]
    receipt = Receipt.parse(files["receipt.json"].encode())
    assert receipt is not None
    assert receipt.proves(result.digest)
    assert result.timeline == receipt.predicate.startup
    assert ("pass", LABELS["org.nightlock.build.id"]) == (
        receipt.predicate.verdict,
        receipt.predicate.build,
    )
    assert ("skip", []) == (result.structural.verdict, result.structural.checks)
    # It names no lock, so nothing is pushed beside it.
    assert [] == result.receipts
    assert files["report.json"] == (tmp_path / "out" / "report.json").read_text()
    assert files["junit.xml"] == (tmp_path / "j.xml").read_text()
    suite = ET.fromstring(files["junit.xml"])[0]  # noqa: S314 - our own
    assert "0" == suite.get("failures")
    bound = profiles.read_profile(context.project, "smoke-cpu")
    found = records.find_report(context.places, result.digest, bound.digest)
    assert found is not None
    assert files["report.json"] == found.text()
    assert records.find_report(context.places, result.digest, "sha256:other") is None


@pytest.mark.parametrize(
    ("line", "code", "key"),
    [
        ("RuntimeError: Insufficient space in /dev/shm", "1", "shm-too-small"),
        ("OfflineModeIsEnabled: Cannot reach the hub: offline mode is enabled.", "1", "hf-offline"),
        ("api_server.py: error: unrecognized arguments: --no-such-flag", "2", "flag-and-env-drift"),
        ("Segmentation fault", "139", ""),
    ],
)
def test_an_exit_is_noticed_at_once(
    engine: Engine, tiny: str, tmp_path: Path, line: str, code: str, key: str
) -> None:
    """Long before the deadline of an hour; with status, last lines and the cause, if known."""
    how = misbehaving("exit", EXIT_LINE=line, EXIT_CODE=code)
    context = smoke_context(tmp_path, engine, deadlines=NO_WAIT, **how)
    with pytest.raises(BootFailed, match=f"ended with status {code}") as caught:
        smoke.run(context, tiny)
    assert (int(code), True) == (caught.value.status, line in caught.value.tail)
    assert ([key] if key else []) == [finding.key for finding in caught.value.findings]
    folder = Path(caught.value.action.removeprefix("read ")).parent
    left = {path.name for path in folder.iterdir()}
    assert {"report.json", "junit.xml", "server.log", "report.html", "evidence"} == left
    bundle = {path.name: path.read_text() for path in (folder / "evidence").iterdir()}
    assert line in bundle["server.log"]
    assert int(code) == json.loads(bundle["inspect.json"])["State"]["ExitCode"]
    assert caught.value.what == json.loads(bundle["diagnosis.json"])["failure"]
    report = json.loads((folder / "report.json").read_text())
    assert ("fail", caught.value.what) == (report["verdict"], report["failure"])


@pytest.mark.parametrize(
    ("how", "deadline", "key"),
    [
        ("never-healthy", "health", "engine-ready-timeout"),
        ("hang", "first_answer", "health-is-not-ready"),
        ("dead", "models", "model-name-404"),
    ],
)
def test_a_server_that_never_answers_fails(
    engine: Engine, tiny: str, tmp_path: Path, how: str, deadline: str, key: str
) -> None:
    """Each phase has its own deadline; /health alone proves nothing."""
    limits = NO_WAIT | {deadline: 1}
    context = smoke_context(tmp_path, engine, deadlines=limits, **misbehaving(how))
    with pytest.raises(BootFailed) as caught:
        smoke.run(context, tiny)
    assert [key] == [finding.key for finding in caught.value.findings]


def test_a_slow_first_answer_is_a_cold_start(engine: Engine, tiny: str, tmp_path: Path) -> None:
    """C60: first slow, second fast passes, with a note."""
    limits = {"first_answer": 60, "second_answer": 1}
    context = smoke_context(tmp_path, engine, deadlines=limits, **misbehaving("slow-first"))
    outcome = smoke.run(context, tiny)
    assert outcome.ok, outcome.text
    report = json.loads(evidence(outcome.result)["report.json"])
    notes = {phase["name"]: phase["note"] for phase in report["phases"]}
    assert ("", True) == (notes["second-answer"], "cold" in notes["first-answer"])


@pytest.mark.parametrize(
    ("how", "failed", "key"),
    [
        ("wrong", {"capital-plain", "capital-reasoning"}, "garbage-output"),
        ("no-tools", {"tool-call", "tool-call-streamed"}, "tool-calls"),
        ("old-version", {"version"}, "tag-vs-content"),
        (
            "cut",
            {"capital-reasoning-streamed", "tool-call-streamed", "long-text-streamed"}
            | {"many-bytes-a-letter"},
            "streaming-usage",
        ),
    ],
)
def test_a_wrong_answer_fails(
    engine: Engine, tiny: str, tmp_path: Path, how: str, failed: set[str], key: str
) -> None:
    """The checks that see it fail with one key, all others pass, and the receipt says fail."""
    outcome = smoke.run(smoke_context(tmp_path, engine, **misbehaving(how)), tiny)
    assert not outcome.ok
    assert failed == {check.name for check in outcome.result.checks if check.status != "pass"}
    assert {key} == {finding.key for finding in outcome.findings}
    assert "fail" == json.loads(evidence(outcome.result)["receipt.json"])["predicate"]["verdict"]


def test_probabilities_are_compared_with_the_last_smoke_that_passed(
    engine: Engine, tiny: str, tmp_path: Path
) -> None:
    """C61: the first has nothing to compare with; the second finds the same words less likely."""
    check = {
        "name": "completion",
        "request": "completion",
        "prompt": "The capital of France is",
        "expect": {"content": " Paris", "max_drift": 0.5},
    }
    first = smoke_context(tmp_path / "1", engine, check=[check])
    found = smoke.run(first, tiny).result.checks[0]
    assert ("pass", True) == (found.status, "no earlier probabilities" in found.reason)
    second = smoke_context(tmp_path / "2", engine, check=[check], **misbehaving("drifts"))
    outcome = smoke.run(replace(second, places=first.places), tiny)
    assert ["logprob-drift"] == [finding.key for finding in outcome.findings]


def test_an_end_in_the_middle_of_the_checks(engine: Engine, tiny: str, tmp_path: Path) -> None:
    """What had passed stays in the report; the end is told with its signal."""
    context = smoke_context(tmp_path, engine, **misbehaving("die-in-check"))
    with pytest.raises(BootFailed, match=r"139 \(SIGSEGV\)") as caught:
        smoke.run(context, tiny)
    folder = Path(caught.value.action.removeprefix("read ")).parent
    report = json.loads((folder / "report.json").read_text())
    assert ["models", "version"] == [check["name"] for check in report["checks"]]


def test_a_server_that_ignores_sigterm_is_killed(engine: Engine, tiny: str, tmp_path: Path) -> None:
    """After its grace, and the smoke still counts."""
    context = smoke_context(tmp_path, engine, deadlines={"stop": 1}, **misbehaving("stubborn"))
    assert smoke.run(context, tiny).ok


def test_a_taken_port_is_told(engine: Engine, tiny: str, tmp_path: Path) -> None:
    """It is the machine's fault, and nothing is left."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        context = smoke_context(tmp_path, engine, server={"host_port": port})
        with pytest.raises(PortTaken, match=str(port)):
            smoke.run(context, tiny)


def test_a_model_only_we_may_read_is_sent_in(engine: Engine, tiny: str, tmp_path: Path) -> None:
    """A clone under umask 077: the container's user is another one."""
    model = tmp_path / "model"
    shutil.copytree(ROOT / "images" / "cpu" / "model", model)
    (model / "config.json").chmod(0o600)
    model.chmod(0o700)
    context = smoke_context(tmp_path, engine, model={"folder": str(model)})
    outcome = smoke.run(context, tiny)
    assert outcome.ok
    assert "'config.json'" in evidence(outcome.result)["server.log"]


def test_an_engine_that_does_not_see_our_files(engine: Engine, tiny: str, tmp_path: Path) -> None:
    """As a remote one: the model is sent in, the port is reached by another address."""
    far = Engine(
        host=engine.host,
        private=False,
        registry=engine.registry,
        docker=engine.docker,
        environment=engine.environment,
        version=engine.version,
    )
    with (
        container.boot(far, plan(far, tiny), tmp_path / "log", 60) as server,
        httpx.Client(trust_env=False, base_url=server.address) as web,
    ):
        while server.exit is None and "vLLM API" not in "".join(server.log.tail(9)):
            server.wait(0.1)
        answer = server.call(lambda: web.get("/version").json(), 10)
    assert {"version": "0.32.0"} == answer
    assert "'config.json'" in (tmp_path / "log").read_text()


def plan(engine: Engine, reference: str, **environment: str) -> BootPlan:
    """Plan a boot of the small server; makes the engine hold it."""
    ref = ImageRef.parse(reference)
    with Registry.open(ref.registry, os.environ) as registry:
        pinned = ref.with_digest(registry.find_digest(ref)).pinned
    container.pull(engine, pinned, lambda _: None)
    return BootPlan(
        image=pinned,
        arguments=(),
        environment=environment,
        port=8000,
        host_port=0,
        shm_bytes=64 << 20,
        folder=str(ROOT / "images" / "cpu" / "model"),
        mount="/model",
        grace=2,
    )


def test_two_at_once(engine: Engine, tiny: str, tmp_path: Path) -> None:
    """The second does not take the first one's container for a leftover."""
    with (
        container.boot(engine, plan(engine, tiny), tmp_path / "1", 60) as first,
        container.boot(engine, plan(engine, tiny), tmp_path / "2", 60) as second,
    ):
        assert first.address != second.address
        assert (None, None) == (first.wait(0), second.wait(0))


def test_an_image_that_cannot_start(
    engine: Engine, client: docker.DockerClient, tiny: str, tmp_path: Path
) -> None:
    """Its entrypoint is not there: told by the engine's own words."""
    made = plan(engine, tiny)
    name = ImageRef.parse(tiny).name
    box = client.containers.create(made.image)
    try:
        box.commit(name, "broken", changes='ENTRYPOINT ["/nowhere"]')
    finally:
        box.remove()
    broken = replace(made, image=f"{name}:broken")
    with (
        pytest.raises(BootFailed, match="/nowhere"),
        container.boot(engine, broken, tmp_path / "log", 60),
    ):
        pass


BOOT_AND_WAIT = """
import sys, json, pathlib
from builder.core.boot import BootPlan
from builder.edge import container
from builder.edge.engine import Engine
engine, plan = (json.loads(text) for text in sys.argv[1:3])
engine["docker"] = pathlib.Path(engine["docker"])
with container.boot(Engine(**engine), BootPlan(**plan), pathlib.Path(sys.argv[3]), 60) as server:
    print("up", flush=True)
    server.wait(3600)
"""


def fields(value: Engine | BootPlan) -> str:
    """Spell it for another process."""
    data = {name: getattr(value, name) for name in value.__dataclass_fields__}
    data["environment"] = dict(value.environment)
    return json.dumps(data, default=str)


def test_what_a_killed_nightlock_left_is_removed(
    engine: Engine, client: docker.DockerClient, tiny: str, tmp_path: Path
) -> None:
    """By the next boot, whoever runs it."""
    made = plan(engine, tiny)
    with subprocess.Popen(
        [sys.executable, "-c", BOOT_AND_WAIT, fields(engine), fields(made), str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as killed:
        assert killed.stdout is not None
        assert "up\n" == killed.stdout.readline()
        killed.kill()
    assert 1 == len(client.containers.list(filters={"label": RUN_LABEL}))
    with container.boot(engine, made, tmp_path / "next", 60):
        assert 1 == len(client.containers.list(filters={"label": RUN_LABEL}))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_smoke_leaves_nothing(
    engine: Engine, client: docker.DockerClient, tiny: str, tmp_path: Path, number: int
) -> None:
    """Exit code 130, no container, no half-made record."""
    context = smoke_context(tmp_path, engine, deadlines=NO_WAIT, **misbehaving("never-healthy"))
    environment = {**os.environ, **engine.environment, "XDG_STATE_HOME": str(tmp_path / "xdg")}
    environment["PYTHONPATH"] = str(ROOT)
    events = client.events(decode=True, filters={"label": RUN_LABEL, "event": "start"})
    with subprocess.Popen(
        [sys.executable, "-m", "builder", "smoke", tiny, "--project", str(context.project)],
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as running:
        assert "start" == next(events)["status"]
        running.send_signal(number)
        assert running.stderr is not None
        said = running.stderr.read()
    events.close()
    assert 130 == running.returncode, said
    assert [] == list((tmp_path / "xdg").rglob("report.json"))


def test_an_unknown_image_or_profile_is_bad_input(
    engine: Engine, tiny: str, tmp_path: Path
) -> None:
    """Before anything is pulled."""
    context = smoke_context(tmp_path, engine)
    ref = ImageRef.parse(tiny)
    with pytest.raises(BadInput, match="no such image"):
        smoke.run(context, str(ref.with_tag("missing")))
    with pytest.raises(BadInput, match="no profile 'other'") as caught:
        smoke.run(context, tiny, profile="other")
    assert "smoke-cpu" in caught.value.action
    with pytest.raises(BadInput, match="no profile is known for image 'other'"):
        smoke.run(context, tiny, image="other")


def test_the_real_image_answers(
    cpu_image: ImageHandle, looked_inside: Path, engine: Engine, tmp_path: Path
) -> None:
    """A real vLLM with its own parsers: Paris, reasoning, a tool call, a stream."""
    outcome = smoke.run(smoke_context(tmp_path, engine, looked_inside), cpu_image.reference)
    assert outcome.ok, outcome.text
    assert ("pass", True) == (outcome.result.structural.verdict, outcome.result.structural.reused)
    assert ("Paris", cpu_image.digest) == (outcome.result.answer, outcome.result.digest)
    timeline = outcome.result.timeline
    assert [
        *("container-start", "imports", "engine-init", "weights", "kernels", "kv-cache"),
        *("warm-up", "server-up", "first-answer", "second-answer"),
    ] == list(timeline.longest)
    assert {"APIServer", "EngineCore", "container", "client"} < {s.process for s in timeline.spans}
    assert timeline.startup <= sum(outcome.result.phases.values())
    ref = ImageRef.parse(outcome.result.reference)
    with Registry.open(ref.registry, os.environ) as registry:
        attached = dict(attached_receipts(registry, ref, cpu_image.digest))
    receipts = [attached[digest].predicate for digest in outcome.result.receipts]
    assert [("structural", "pass"), ("cpu", "pass")] == [(r.kind, r.verdict) for r in receipts]
    answers = {check.name: check.answered for check in outcome.result.checks}
    assert 'get_weather({"city": "Paris"})' == answers["tool-call"] == answers["tool-call-streamed"]
    reasons = {check.name: check.reason for check in outcome.result.checks}
    assert "reasoning in field `reasoning`" in reasons["capital-reasoning-streamed"]


def test_the_real_image_with_a_wrong_expectation(
    cpu_image: ImageHandle, looked_inside: Path, engine: Engine, tmp_path: Path
) -> None:
    """One check fails with what was expected and what came."""
    question = {"role": "user", "content": "What is the capital of France? Answer briefly."}
    wrong = {"name": "wrong", "messages": [question], "expect": {"content": "Lyon"}}
    right = wrong | {"name": "right", "expect": {"content": "Paris"}}
    context = smoke_context(tmp_path, engine, looked_inside, check=[wrong, right])
    outcome = smoke.run(context, cpu_image.reference)
    assert not outcome.ok
    assert ["fail", "pass"] == [check.status for check in outcome.result.checks]
    assert [("garbage-output", 'expected "Lyon", got "Paris"')] == [
        (finding.key, finding.evidence) for finding in outcome.findings
    ]


@pytest.mark.parametrize(
    ("table", "changes", "key"),
    [
        ("server", {"shm_mib": 64}, "shm-too-small"),
        ("server", {"arguments": ["/nowhere"]}, "model-incomplete"),
        ("deadlines", {"health": 1}, "engine-ready-timeout"),
    ],
)
def test_the_real_image_started_wrongly(
    cpu_image: ImageHandle,
    looked_inside: Path,
    engine: Engine,
    tmp_path: Path,
    table: str,
    changes: dict[str, object],
    key: str,
) -> None:
    """Docker's own 64 MiB of shared memory, a model that is not there, too short a deadline."""
    limits = {"deadlines": NO_WAIT} | {table: changes}
    with pytest.raises(BootFailed) as caught:
        smoke.run(smoke_context(tmp_path, engine, looked_inside, **limits), cpu_image.reference)
    assert [key] == [finding.key for finding in caught.value.findings], caught.value
