"""`nightlock diagnose`: inputs, exit codes, the text, the document."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from builder.commands import diagnose
from builder.commands.context import Context
from builder.core.places import Places
from builder.core.settings import Settings
from builder.errors import BadInput, SpecError
from builder.output import Output

FAILED = """\
(APIServer pid=7) INFO 11-30 19:58:36 [utils.py:238] non-default args: {'api_key': ['sesame-1234']}
(Worker_TP3 pid=97) ERROR 11-30 19:59:33 [x.py:1] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 9637888)
(Worker_TP1 pid=95) ERROR 11-30 19:59:33 [x.py:1] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-y (size 9637888)
(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
UNKNOWN = """\
(EngineCore pid=51) Traceback (most recent call last):
(EngineCore pid=51)   File "/opt/venv/lib/python3.13/site-packages/vllm/x.py", line 9, in f
(EngineCore pid=51) ValueError: of a kind that nobody knows
(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
HEALTHY = "INFO:     Application startup complete.\n"


def nightlock(
    *arguments: str, stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "builder", "diagnose", *arguments],
        capture_output=True, text=True, check=False, timeout=60, input=stdin, cwd=cwd,
    )  # fmt: skip


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Make a run that touches nothing."""
    return Context(
        project=tmp_path,
        places=Places.from_environment({"HOME": str(tmp_path)}),
        settings=Settings(),
        output=Output(),
    )


def test_a_failed_start_on_one_screen(context: Context, tmp_path: Path) -> None:
    """The root cause first: where, what, why, what to do; then the rest; no secret."""
    path = tmp_path / "server.log"
    path.write_text(FAILED)
    outcome = diagnose.run(context, str(path))
    lines = outcome.text.splitlines()
    assert not outcome.ok
    assert lines[0].startswith("root cause: shm-too-small: ")
    assert "  line 2, Worker_TP3 (pid 97), first of 2 such lines, also in Worker_TP1" == lines[1]
    assert lines[2].startswith("  | NCCL WARN Error while creating shared memory segment")
    assert any(line.startswith("  do: Run with --shm-size") for line in lines)
    assert any("secrets-in-argv" in line for line in lines)
    assert 24 >= len(lines)
    assert 96 >= max(len(line) for line in lines)
    assert "sesame" not in outcome.text
    assert ["shm-too-small", "secrets-in-argv"] == [finding.key for finding in outcome.findings]


def test_an_unknown_failure_is_not_guessed(context: Context, tmp_path: Path) -> None:
    """The first specific error stands there instead of a cause."""
    path = tmp_path / "server.log"
    path.write_text(UNKNOWN)
    outcome = diagnose.run(context, str(path))
    assert (False, None, "failed") == (outcome.ok, outcome.result.root_cause, outcome.result.status)
    assert outcome.text.startswith("root cause: not known")
    assert "ValueError: of a kind that nobody knows" in outcome.text
    assert outcome.result.first_error is not None
    assert (3, "EngineCore (pid 51)") == (
        outcome.result.first_error.number,
        outcome.result.first_error.process,
    )


@pytest.mark.parametrize(
    ("log", "status", "words"),
    [
        (HEALTHY, "up", "no error found: the server came up"),
        (
            "INFO 11-30 19:58:36 [x.py:1] Starting to load model /m...\n",
            "unfinished",
            "the last phase is `load`",
        ),
        ("hello\n", "unfinished", "no line that says the server is up"),
        ("", "empty", "the log is empty"),
    ],
)
def test_a_log_without_an_error(
    context: Context, tmp_path: Path, log: str, status: str, words: str
) -> None:
    """Each says how far it came."""
    path = tmp_path / "server.log"
    path.write_text(log)
    outcome = diagnose.run(context, str(path))
    assert (True, None, status) == (outcome.ok, outcome.result.root_cause, outcome.result.status)
    assert words in outcome.text


def test_a_loop_is_told_once(context: Context, tmp_path: Path) -> None:
    """Four starts that end alike."""
    banner = "(APIServer pid=7) INFO 11-30 19:58:36 [x.py:1] vLLM API server version 0.31.0\n"
    path = tmp_path / "server.log"
    path.write_text((banner + FAILED) * 4)
    outcome = diagnose.run(context, str(path))
    assert (4, 4) == (outcome.result.starts, outcome.result.same_end)
    assert "again: 4 starts in this log ended like this" in outcome.text


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "words"),
    [
        (["-"], FAILED, 1, "root cause: shm-too-small"),
        (["-"], UNKNOWN, 1, "not known"),
        (["-"], HEALTHY, 0, "no error found"),
        (["-"], "", 0, "empty"),
        ([], "", 2, "one log is wanted"),
        (["container:"], "", 2, "one log is wanted"),
        (["x.log", "--container", "y"], "", 2, "one log is wanted"),
        (["/no/such/file.log"], "", 2, "No such file"),
        (["."], "", 2, "Is a directory"),
        (["-", "--signatures", "/no/such/file.toml"], "", 2, "not there"),
    ],
)  # fmt: skip
def test_exit_codes(
    arguments: list[str], stdin: str, code: int, words: str, tmp_path: Path
) -> None:
    """0 no error, 1 a cause or an unknown failure, 2 bad input; nothing is said twice."""
    ran = nightlock(*arguments, stdin=stdin, cwd=tmp_path)
    assert (code, True) == (ran.returncode, words in ran.stdout + ran.stderr), ran
    assert 1 == (ran.stdout + ran.stderr).count(words)


def test_the_document(tmp_path: Path) -> None:
    """One on stdout, with `root_cause`; null where it is not known."""
    known = nightlock("--json", "-", stdin=FAILED, cwd=tmp_path)
    document = json.loads(known.stdout)
    assert ("nightlock/diagnose/1", False, "shm-too-small") == (
        document["schema"], document["ok"], document["result"]["root_cause"],
    )  # fmt: skip
    (first, _) = document["result"]["causes"]
    assert (2, 2, ["Worker_TP1", "Worker_TP3"]) == (
        first["line"]["number"],
        first["count"],
        first["processes"],
    )
    assert ["error", "warning"] == [finding["severity"] for finding in document["findings"]]
    assert "sesame" not in known.stdout + known.stderr
    unknown = json.loads(nightlock("--json", "-", stdin=UNKNOWN, cwd=tmp_path).stdout)
    assert (False, None, []) == (
        unknown["ok"],
        unknown["result"]["root_cause"],
        unknown["findings"],
    )
    absent = json.loads(nightlock("--json", "/no/such.log", cwd=tmp_path).stdout)
    assert (None, "bad-input", 2) == (
        absent["result"],
        absent["error"]["kind"],
        absent["error"]["exit"],
    )


def test_signatures_of_the_settings_count(context: Context, tmp_path: Path) -> None:
    """Relative to the project; a file that is wrong is named."""
    (tmp_path / "own.toml").write_text(
        'version = 1\n[[signature]]\nkey = "our-own"\nany = ["nobody knows"]\ncause = "C."\naction = "A."\n'
    )
    own = Context(
        project=tmp_path, places=context.places, settings=Settings(signatures=["own.toml"]), output=Output()
    )  # fmt: skip
    path = tmp_path / "server.log"
    path.write_text(UNKNOWN)
    assert "our-own" == diagnose.run(own, str(path)).result.root_cause
    assert ["our-own"] == [finding.key for finding in diagnose.causes_in(own, path, "image", "")]
    (tmp_path / "own.toml").write_text("version = 3")
    with pytest.raises(SpecError) as caught:
        diagnose.run(own, str(path))
    assert str(tmp_path / "own.toml") == caught.value.subject


def test_the_errors_of_a_boot_that_failed(context: Context, tmp_path: Path) -> None:
    """What smoke takes: the root cause first, no warnings; nothing where nothing is known."""
    path = tmp_path / "server.log"
    for text, expected in ((FAILED, ["shm-too-small"]), (UNKNOWN, []), (HEALTHY, [])):
        path.write_text(text)
        assert expected == [
            finding.key for finding in diagnose.causes_in(context, path, "image", "")
        ]
    refused = 'the container did not start: exec: "vllm-openai": executable file not found in $PATH'
    absent = tmp_path / "none.log"
    (finding,) = diagnose.causes_in(context, absent, "image", refused)
    assert ("entrypoint-form", f"engine: {refused}") == (finding.key, finding.evidence)
    assert () == diagnose.causes_in(context, absent, "image", "the container ended with status 1")


def test_a_file_that_may_not_be_read(context: Context, tmp_path: Path) -> None:
    """A folder on the way that is none."""
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="Not a directory"):
        diagnose.run(context, str(tmp_path / "file" / "server.log"))
