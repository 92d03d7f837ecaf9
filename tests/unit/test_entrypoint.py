"""The entrypoint: every argument form that users of vLLM's images know, mapped and then run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builder.runtime import entrypoint
from builder.runtime.entrypoint import UsageError, cache_environment, command, find_program

MODULE = {"server": ["/opt/venv/bin/python", "-m", "api_server"], "model_argument": "--model"}
SERVE = {"server": ["/opt/venv/bin/vllm", "serve"], "model_argument": "positional"}


@pytest.mark.parametrize(
    ("words", "named", "positional"),
    [
        ("", "", ""),
        ("--help", "--help", "--help"),
        ("org/name", "--model org/name", "org/name"),
        ("org/name --port 80", "--model org/name --port 80", "org/name --port 80"),
        ("--model org/name --port 80", "--model org/name --port 80", "org/name --port 80"),
        ("--port 80 --model org/name -tp 2", "--port 80 --model org/name -tp 2",
         "org/name --port 80 -tp 2"),
        ("--port 80 --model=org/name", "--port 80 --model=org/name", "org/name --port 80"),
        ("serve org/name --port 80", "--model org/name --port 80", "org/name --port 80"),
        ("serve --model org/name", "--model org/name", "org/name"),
        ("vllm serve org/name -tp 8", "--model org/name -tp 8", "org/name -tp 8"),
        ("-- org/name", "--model org/name", "org/name"),
        ("-- sh", "--model sh", "sh"),
        ("--config /c.yaml --port 80", "--config /c.yaml --port 80", "--config /c.yaml --port 80"),
        ("--port 8000", "--port 8000", "--port 8000"),
        ("/models/x", "--model /models/x", "/models/x"),
    ],
)  # fmt: skip
def test_server_forms(words: str, named: str, positional: str) -> None:
    """One line means the same, whichever way the server wants its model."""
    arguments = words.split()
    for image, expected in ((MODULE, named), (SERVE, positional)):
        wanted = [*image["server"], *expected.split()]
        assert (wanted, True) == command(arguments, image, "/usr/bin:/bin")


@pytest.mark.parametrize("words", [["sh"], ["sh", "-c", "echo $HOME"], ["/bin/sh"], ["env", "-i"]])
def test_programs_run_as_they_are(words: list[str]) -> None:
    """A program on PATH, or named by its path, is what was asked for."""
    assert (words, False) == command(words, MODULE, "/usr/bin:/bin")


def test_another_vllm_verb_is_the_vllm_program(tmp_path: Path) -> None:
    """`vllm bench …` is not a model called vllm."""
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    words = ["vllm", "bench", "latency"]
    assert (words, False) == command(words, SERVE, str(tmp_path))


@pytest.mark.parametrize(
    "words",
    [
        "org/name --model other/name",
        "serve org/name --model=other/name",
    ],
)
@pytest.mark.parametrize("image", [MODULE, SERVE])
def test_a_model_named_twice_is_refused(words: str, image: dict[str, object]) -> None:
    """One of them would be dropped in silence."""
    with pytest.raises(UsageError, match="twice"):
        command(words.split(), image, "")


@pytest.mark.parametrize(
    "words", ["--port 80 name", "--enforce-eager org/name", "--trust-remote-code /models/x"]
)
def test_a_model_after_options_is_refused_where_the_server_would_drop_it(words: str) -> None:
    """The API server module takes a positional model, ignores it and downloads its default."""
    with pytest.raises(UsageError, match="name the model first"):
        command(words.split(), MODULE, "")
    assert ([*SERVE["server"], *words.split()], True) == command(words.split(), SERVE, "")


def test_a_model_file_marked_executable_is_a_model(tmp_path: Path) -> None:
    """Network volumes mark every file executable."""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF\x03\x00\x00\x00")
    model.chmod(0o755)
    assert ([*SERVE["server"], str(model)], True) == command([str(model)], SERVE, "")
    assert "" == find_program(str(tmp_path), "")


def test_caches_move_whole() -> None:
    """Only what lies in the folder moves; a name that merely begins alike does not."""
    moved = cache_environment(
        {"HOME": "/cache", "HF_HOME": "/cache/hf", "OTHER": "/cachet/x", "MODEL": "/models"},
        "/cache",
        "/t/c",
    )
    expected = {"HOME": "/t/c", "HF_HOME": "/t/c/hf", "OTHER": "/cachet/x", "MODEL": "/models"}
    assert expected == moved


def image_folder(folder: Path, **fields: object) -> Path:
    """Lay out a folder as /opt/nightlock is, with a server that says how it was called."""
    shutil.copy(entrypoint.__file__, folder / "entrypoint.py")
    modules = folder / "builder" / "runtime"
    modules.mkdir(parents=True)
    for name in ("preflight", "gpus", "checkpoint", "kvcache", "overlay", "report"):
        shutil.copy(Path(entrypoint.__file__).with_name(f"{name}.py"), modules)
    server = folder / "server"
    server.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\necho "HF_HOME=$HF_HOME"\n')
    server.chmod(0o755)
    image = {
        "server": [str(server)],
        "model_argument": "positional",
        "cache": str(folder / "cache"),
    }
    (folder / "image.json").write_text(json.dumps(image | fields))
    return folder


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it as the image does."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(folder / "entrypoint.py"), *arguments],
        env={"PATH": "/usr/bin:/bin"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_it_becomes_the_server(tmp_path: Path) -> None:
    """Arguments arrive as they were, without a shell between."""
    folder = image_folder(tmp_path)
    (folder / "cache").mkdir()
    ran = start(folder, "a b", "--x", "$HOME *", HF_HOME=f"{folder}/cache/hf")
    expected = [str(folder / "server"), "a b", "--x", "$HOME *", f"HF_HOME={folder}/cache/hf"]
    assert expected == ran.stdout.splitlines()
    assert [] == [line for line in ran.stderr.splitlines() if not line.startswith("nightlock: ok")]


@pytest.mark.parametrize("word", ["--help", "-h", "--help=ModelConfig"])
def test_help_is_printed_on_any_machine(tmp_path: Path, word: str) -> None:
    """As upstream's image does; without the word preflight says no to this model."""
    folder = image_folder(tmp_path)
    (folder / "cache").mkdir()
    refused = start(folder, "/nowhere/model")
    assert (entrypoint.REFUSED, "") == (refused.returncode, refused.stdout)
    ran = start(folder, "/nowhere/model", word)
    expected = [str(folder / "server"), "/nowhere/model", word, "HF_HOME="]
    assert (0, expected, "") == (ran.returncode, ran.stdout.splitlines(), ran.stderr)


def test_caches_that_cannot_be_written_go_elsewhere(tmp_path: Path) -> None:
    """A read-only root and a /tmp are enough; that nothing is kept is said."""
    folder = image_folder(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ran = start(folder, HF_HOME=f"{folder}/cache/hf", TMPDIR=str(scratch))
    substitute = scratch / f"cache-{os.getuid()}"
    assert f"HF_HOME={substitute}/hf" == ran.stdout.splitlines()[-1]
    assert f"nightlock: {folder}/cache cannot be written" in ran.stderr
    assert 0o700 == substitute.stat().st_mode & 0o777


@pytest.mark.parametrize("given", ["", "/somewhere"])
def test_temporary_files_go_to_the_cache_where_tmp_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """A read-only root with one writable folder is enough; a TMPDIR that was given stays."""
    monkeypatch.setattr(entrypoint, "TEMPORARY", str(tmp_path / "nosuch"))
    before = {"TMPDIR": given} if given else {}
    after = entrypoint._temporary(before, str(tmp_path))
    own = tmp_path / f"scratch-{os.getuid()}"
    assert {"TMPDIR": given or str(own)} == after
    assert bool(given) != own.exists()


def test_a_writable_tmp_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made, nothing is set."""
    monkeypatch.setattr(entrypoint, "TEMPORARY", str(tmp_path))
    assert {} == entrypoint._temporary({}, str(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("server", "status", "words"),
    [
        ("/nonexistent/server", 127, "there is no program"),
        ("/etc/passwd", 126, "cannot be run"),
    ],
)
def test_a_server_that_cannot_run_is_said(
    tmp_path: Path, server: str, status: int, words: str
) -> None:
    """Exit codes are those of a shell."""
    ran = start(image_folder(tmp_path, server=[server], cache=str(tmp_path)), "org/name")
    assert status == ran.returncode
    assert words in ran.stderr


def test_a_usage_error_is_exit_2_without_traceback(tmp_path: Path) -> None:
    """One line says what to write instead."""
    ran = start(image_folder(tmp_path, cache=str(tmp_path)), "org/name", "--model", "other")
    assert (2, "") == (ran.returncode, ran.stdout)
    assert 1 == len(ran.stderr.splitlines())
