"""The command line: help, usage errors, exit codes, the one JSON document, start-up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from builder import cli, errors, invoke
from builder.cli.app import app, groups
from builder.commands.context import Context, Outcome
from builder.core.document import Result


def nightlock(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "builder", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=60,
    )


def verbs() -> dict[str, str]:
    """Every verb the parser knows, with its help text."""
    group = typer.main.get_command(app)
    commands: dict[str, object] = dict(getattr(group, "commands", {}))
    for group_name in groups():
        inner = getattr(commands.pop(group_name), "commands", {})
        commands |= {f"{group_name} {name}": sub for name, sub in inner.items()}
    return {name: str(getattr(command, "help", "")) for name, command in sorted(commands.items())}


def test_help_names_every_verb() -> None:
    """`--help` exits 0 and lists each verb."""
    ran = nightlock("--help")
    assert 0 == ran.returncode
    assert "" == ran.stderr
    assert [] == [name for name in verbs() if name.split()[0] not in ran.stdout]


def test_every_verb_has_help_and_json() -> None:
    """Each verb says in one line what it does, and takes the options all verbs take."""
    group = typer.main.get_command(app)
    assert [] == [name for name, text in verbs().items() if not text.strip()]
    for name, command in getattr(group, "commands", {}).items():
        for sub in getattr(command, "commands", {name: command}).values():
            options = {option for parameter in sub.params for option in parameter.opts}
            assert {"--json", "--verbose", "-v", "--project"} <= options, name


def test_help_imports_nothing_heavy() -> None:
    """Start-up stays instant: no validation, HTTP, terminal or container library is loaded."""
    code = (
        "import sys\nfrom builder.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pydantic', 'httpx', 'rich', 'docker', 'testcontainers', 'jinja2', 'requests',"
        " 'asyncio', 'packaging', 'yaml', 'uv'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "[]" == ran.stderr.strip()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "No such command"),
        (["lock"], "Missing argument"),
        (["lock", "cpu", "--nosuch"], "No such option"),
        (["fetch", "nosuch"], "there is no image 'nosuch'"),
        (["fetch", "../cpu"], "there is no image"),
    ],
)
def test_usage_errors_are_exit_2_with_advice(
    arguments: list[str], words: str, project_root: Path
) -> None:
    """What was typed wrong is said in words, and what to do."""
    ran = nightlock(*arguments, cwd=project_root)
    assert 2 == ran.returncode
    assert words in ran.stderr
    assert "  do: " in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "" == ran.stdout


def test_json_holds_one_document_also_on_usage_errors(project_root: Path) -> None:
    """A script can always parse stdout."""
    ran = nightlock("lock", "--json", cwd=project_root)
    document = json.loads(ran.stdout)
    assert 2 == ran.returncode
    assert ("nightlock/lock/1", False, None, []) == tuple(
        document[key] for key in ("schema", "ok", "result", "findings")
    )
    assert {"kind", "what", "input", "action", "exit"} == set(document["error"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["lock", "cpu"], None),
        (["lock", "cpu", "--cross-check"], "pip-tools"),
        (["lock", "--cross-check", "cpu"], "pip-tools"),
        (["lock", "cpu", "--cross-check=pip-tools"], "pip-tools"),
        (["lock", "cpu", "--cross-check=pip-lock"], "pip-lock"),
    ],
)
def test_cross_check_may_leave_its_value_out(
    arguments: list[str], expected: str | None, monkeypatch: pytest.MonkeyPatch, project_root: Path
) -> None:
    """Both spellings are valid; what follows after a space is an image."""
    seen: list[tuple[tuple[str, ...], object]] = []

    def recipe(_context: Context, *names: str, **options: object) -> Outcome[Result]:
        seen.append((names, options["cross_check"]))
        return Outcome(result=Result())

    monkeypatch.setattr("builder.commands.lock.run", recipe)
    monkeypatch.chdir(project_root)
    with pytest.raises(SystemExit):
        cli.main(arguments)
    assert [(("cpu",), expected)] == seen


def test_cross_check_knows_its_values(project_root: Path) -> None:
    """Another one is a usage error; after `--` it is a name."""
    ran = nightlock("lock", "cpu", "--cross-check=poetry", cwd=project_root)
    assert 2 == ran.returncode
    assert "pip-lock" in ran.stderr
    ran = nightlock("lock", "--", "--cross-check", cwd=project_root)
    assert "--cross-check=pip-tools" not in ran.stderr
    assert 2 == ran.returncode


def test_outside_a_project_the_refusal_says_so(tmp_path: Path) -> None:
    """There is advice where no images/ folder is found."""
    ran = nightlock("fetch", "cpu", cwd=tmp_path)
    assert 2 == ran.returncode
    assert "--project" in ran.stderr


@pytest.mark.parametrize(
    ("raised", "status", "kind"),
    [
        (errors.Refused("no"), 1, "refused"),
        (errors.SpecError("bad"), 2, "spec"),
        (errors.NetworkError("down"), 4, "network"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("oops"), 3, "bug"),
    ],
)
def test_exit_codes(
    raised: BaseException,
    status: int,
    kind: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each kind of failure has its code, and its document."""

    def recipe(_context: Context, **_options: object) -> Outcome[Result]:
        raise raised

    monkeypatch.setattr("builder.commands.doctor.run", recipe)
    with pytest.raises(SystemExit) as left:
        cli.main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (status, kind) == (left.value.code, document["error"]["kind"])
    assert status == document["error"]["exit"]


def test_a_no_is_exit_1_with_a_result(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A negative answer is an answer, not an error."""

    def recipe(_context: Context) -> Outcome[Result]:
        return Outcome(result=Result(), text="no", ok=False)

    monkeypatch.setattr("builder.commands.doctor.run", recipe)
    with pytest.raises(SystemExit) as left:
        cli.main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (1, False, None) == (left.value.code, document["ok"], document["error"])


def test_exit_codes_are_unique_and_in_the_readme(project_root: Path) -> None:
    """The README lists each exit code once."""
    codes = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.NightlockError)
    }
    readme = (project_root / "README.md").read_text()
    listed = {int(code) for code in re.findall(r"^\| `(\d+)` \|", readme, re.MULTILINE)}
    assert codes | {0} == listed


def test_readme_and_help_agree(project_root: Path, update_golden: bool) -> None:
    """The README's table of verbs is written from the parser."""
    path = project_root / "README.md"
    text = path.read_text()
    begin, end = "<!-- verbs: generated -->\n", "<!-- /verbs -->"
    rows = "".join(f"| `{name}` | {help_.splitlines()[0]} |\n" for name, help_ in verbs().items())
    table = f"| verb | does |\n|---|---|\n{rows}"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    expected = before + begin + table + end + after
    if update_golden:
        path.write_text(expected)
        text = expected
    assert expected == text


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_closed_stream_changes_no_answer(closed: str, project_root: Path) -> None:
    """`>&-` and a reader that left stop no work, and the exit code stays true."""
    command = f'"{sys.executable}" -m builder explain C35'
    for shell in (f"{command} {closed}>&-", f"{command} {closed}> >(true)"):
        ran = subprocess.run(
            ["bash", "-c", shell],
            cwd=project_root,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert 0 == ran.returncode
        assert "Traceback" not in ran.stderr
        assert "Exception ignored" not in ran.stderr


def test_ctrl_c_is_answered_in_words_and_as_a_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it comes while the command line is still being read."""

    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(typer.main, "get_command", interrupted)
    with pytest.raises(SystemExit) as left:
        cli.main(["doctor", "--json"])
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (130, "nightlock/doctor/1") == (left.value.code, document["schema"])
    assert document["error"]["action"]
    assert "interrupted" in said.err


def test_an_unknown_verb_has_a_document_of_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No schema is made up for what does not exist."""
    with pytest.raises(SystemExit):
        cli.main(["nosuch", "--json"])
    assert "nightlock/nightlock/1" == json.loads(capsys.readouterr().out)["schema"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["render", "cpu", "--no-base", "--out", "{file}"], 2),
        (["render", "cpu", "--no-base", "--out", "{file}/below"], 2),
        (["fetch", "cpu", "--events", "{folder}/no/such/file"], 2),
    ],
)
def test_what_the_file_system_refuses_is_no_bug(
    arguments: list[str], status: int, tmp_path: Path, project_root: Path
) -> None:
    """A path that was typed and cannot be used is bad input, in words."""
    file = tmp_path / "file"
    file.write_text("here already")
    ran = nightlock(
        *(word.format(file=file, folder=tmp_path) for word in arguments), cwd=project_root
    )
    assert (status, "here already") == (ran.returncode, file.read_text())
    assert "Traceback" not in ran.stderr
    assert "  do: " in ran.stderr


def test_a_state_folder_of_somebody_else_is_the_outside(tmp_path: Path) -> None:
    """The person is told which path, and no traceback."""
    error = PermissionError(13, "Permission denied", str(tmp_path / "state"))
    known = invoke.of_os_error(error, [])
    assert known is not None
    assert (4, str(tmp_path / "state")) == (known.exit_code, known.subject)
    assert invoke.of_os_error(OSError(5, "Input/output error"), []) is None


def test_the_current_folder_may_be_gone(tmp_path: Path, project_root: Path) -> None:
    """It is said in words."""
    gone = tmp_path / "gone"
    gone.mkdir()
    ran = subprocess.run(
        ["bash", "-c", f'rmdir "$PWD"; exec "{sys.executable}" -P -m builder explain C35'],
        cwd=gone,
        env={**os.environ, "PYTHONPATH": str(project_root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert 2 == ran.returncode
    assert "was deleted" in ran.stderr


def test_output_that_cannot_be_written_is_the_outside() -> None:
    """`>/dev/full` ends with 4, whether a text or a document was due."""
    for extra in ("", "--json"):
        ran = subprocess.run(
            ["bash", "-c", f'exec "{sys.executable}" -m builder explain C35 {extra} >/dev/full'],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert 4 == ran.returncode
        assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("NIGHTLOCK_THREADZ", "3", "no such setting"),
        ("NIGHTLOCK_THREADS", "0", "threads"),
        ("NIGHTLOCK_INDEX_NOSUCH", "/somewhere", "no index called nosuch"),
        ("HTTPS_PROXY", "http://[bad", "address"),
        ("HTTPS_PROXY", "gopher://proxy", "proxy"),
    ],
)
def test_a_misspelt_setting_is_bad_input(
    name: str, value: str, words: str, project_root: Path
) -> None:
    """A typo is refused in words, never ignored and never a traceback."""
    ran = subprocess.run(
        [sys.executable, "-m", "builder", "lock", "cpu"],
        cwd=project_root,
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert 2 == ran.returncode
    assert words in ran.stderr
    assert f"on: {name}\n" in ran.stderr
