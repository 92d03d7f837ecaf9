"""`nightlock run` and `nightlock outdated` against a registry on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import cli
from tests.support.registry import FakeRegistry, served, small_image

OLD = small_image({"org.nightlock.image": "cpu", "org.nightlock.vllm.version": "0.32.0"})
NEW = small_image({"org.nightlock.image": "cpu", "org.nightlock.vllm.version": "0.33.0"})

pytestmark = pytest.mark.loopback


@pytest.fixture
def fake() -> FakeRegistry:
    """Make a registry in which `stable` has moved from OLD to NEW."""
    registry = FakeRegistry()
    registry.add("team/cpu", "old", OLD)
    registry.add("team/cpu", "stable", NEW)
    return registry


@pytest.fixture
def place(fake: FakeRegistry) -> Iterator[str]:
    """Serve it; gives the repository's name."""
    with served(fake) as host:
        yield f"{host}/team/cpu"


def nightlock(*arguments: str | Path) -> int:
    """Run the command line; gives its exit code."""
    with pytest.raises(SystemExit) as left:
        cli.main([str(argument) for argument in arguments])
    code = left.value.code
    assert isinstance(code, int)
    return code


def test_a_tag_is_pinned(place: str, tmp_path: Path, project_root: Path) -> None:
    """The file has the digest the tag names now, and the tag in a comment; a script can be run."""
    out = tmp_path / "run.sh"
    arguments = ("--image", f"{place}:stable", "--model", "/models/tiny", "--out", out)
    assert 0 == nightlock("run", "smoke-cpu", *arguments, "--project", project_root)
    text = out.read_text()
    assert f"{place}@{NEW.digest}" in text
    assert f"# image {place}:stable\n" in text
    assert out.stat().st_mode & 0o111


def test_update_moves_the_digest_alone(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything else of somebody's own file stays, and the move is shown."""
    file = tmp_path / "compose.yaml"
    before = f"services:\n  a:\n    image: {place}@{OLD.digest}  # stable\n    x-mine: 1\n"
    file.write_text(before)
    assert 1 == nightlock("outdated", file)
    assert "behind stable: vllm 0.32.0 → 0.33.0" in capsys.readouterr().out
    assert 0 == nightlock("run", "--update", file)
    out = capsys.readouterr().out
    assert f"-    image: {place}@{OLD.digest}  # stable" in out
    assert before.replace(OLD.digest, NEW.digest) == file.read_text()
    assert 0 == nightlock("outdated", file)
    assert 0 == nightlock("run", "--update", file)


def test_run_file_behind(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The finding names file, line, both digests and what moved."""
    file = tmp_path / "a.sh"
    file.write_text(f"docker run {place}:stable@{OLD.digest}\n")
    assert 1 == nightlock("outdated", file, "--json")
    document = json.loads(capsys.readouterr().out)
    (found,) = document["findings"]
    assert ("run-file-behind", f"{file}:1") == (found["key"], found["subject"])
    assert "vllm 0.32.0 → 0.33.0" in found["evidence"]
    assert ["behind"] == [row["state"] for row in document["result"]["images"]]


def test_run_file_gone(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """C63: an image that the registry has deleted is an error, tag or no tag."""
    file = tmp_path / "a.sh"
    gone = "sha256:" + "9" * 64
    file.write_text(f"docker run {place}@{gone}\n")
    assert 1 == nightlock("outdated", file, "--json")
    assert ["run-file-gone"] == [
        one["key"] for one in json.loads(capsys.readouterr().out)["findings"]
    ]


def test_a_pin_without_a_tag_is_said(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not behind anything; `--update` needs to be told what to follow, and then works."""
    file = tmp_path / "a.sh"
    file.write_text(f"docker run {place}@{OLD.digest}\n")
    assert 0 == nightlock("outdated", file)
    assert "follows no tag" in capsys.readouterr().out
    assert 2 == nightlock("run", "--update", file)
    assert 0 == nightlock("run", "--update", file, "--image", f"{place}:stable")
    assert f"docker run {place}@{NEW.digest}\n" == file.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "models/tiny"), "not an absolute path"),
        ((), "no folder of the model"),
        (("--model", "/m", "--gpus", "2"), "shards its model over 0 GPUs"),
        (("--model", "/m", "--host", "nosuch"), "there is no profile 'nosuch'"),
        (("--model", "/m", "--mount", "a:b"), "not a mount"),
    ],
)
def test_bad_input(
    place: str,
    project_root: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    """Exit 2, and the message says what to give."""
    image = ("--image", f"{place}@{OLD.digest}")
    assert 2 == nightlock("run", "smoke-cpu", *image, *arguments, "--project", project_root)
    assert words in capsys.readouterr().err


def test_a_tag_that_is_not_there(place: str, project_root: Path) -> None:
    """A run file for nothing is never written."""
    arguments = ("--image", f"{place}:nosuch", "--model", "/m", "--project", project_root)
    assert 2 == nightlock("run", "smoke-cpu", *arguments)


def test_a_file_without_a_pin(tmp_path: Path) -> None:
    """`outdated` says that there is nothing to follow: exit 2."""
    file = tmp_path / "a.sh"
    file.write_text("docker run x:latest\n")
    assert 2 == nightlock("outdated", file)


def test_an_unreachable_registry_is_the_outside(tmp_path: Path) -> None:
    """Exit 4: nothing is known of the file."""
    file = tmp_path / "a.sh"
    file.write_text(f"docker run localhost:1/team/cpu:stable@{OLD.digest}\n")
    assert 4 == nightlock("outdated", file)
