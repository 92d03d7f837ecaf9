"""The command line: help, usage errors, exit codes, the one JSON document, start-up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from builder import cli, errors
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
    group = typer.main.get_command(cli.app)
    commands: dict[str, object] = dict(getattr(group, "commands", {}))
    engine = commands.pop("engine")
    commands |= {f"engine {name}": sub for name, sub in getattr(engine, "commands", {}).items()}
    return {name: str(getattr(command, "help", "")) for name, command in sorted(commands.items())}


def test_help_names_every_verb() -> None:
    """`--help` exits 0 and lists each verb."""
    ran = nightlock("--help")
    assert 0 == ran.returncode
    assert "" == ran.stderr
    assert [] == [name for name in verbs() if name.split()[0] not in ran.stdout]


def test_every_verb_has_help_and_json() -> None:
    """Each verb says in one line what it does, and takes the options all verbs take."""
    group = typer.main.get_command(cli.app)
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
