"""`nightlock lint` as a verb: files, folders, standard input, corrections, exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from builder import cli

BAD = "[Service]\nEnvironment=NOTE=50%off\r\nExecStart=/usr/bin/true\n"


def lint(*arguments: str | Path) -> int:
    """Run the command line; gives its exit code."""
    with pytest.raises(SystemExit) as left:
        cli.main(["lint", *map(str, arguments)])
    code = left.value.code
    assert isinstance(code, int)
    return code


def test_a_defect_is_one_answer_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, line, key, the line as it is and as it should be; exit 1."""
    file = tmp_path / "a.service"
    file.write_text(BAD)
    assert 1 == lint(file)
    out, err = capsys.readouterr()
    assert f"{file}:2: error: systemd-escaping:" in out
    assert "write: Environment=NOTE=50%%off  (--fix)" in out
    assert out.rstrip().endswith("1 file, 1 problem")
    assert "" == err


def test_fix_corrects_and_keeps_the_rest(tmp_path: Path) -> None:
    """Only the defect changes: line ends and mode stay, and a second run finds nothing."""
    file = tmp_path / "a.service"
    file.write_bytes(BAD.encode())
    file.chmod(0o640)
    assert 0 == lint(file, "--fix")
    assert BAD.replace("50%off", "50%%off").encode() == file.read_bytes()
    assert 0o640 == file.stat().st_mode & 0o777
    assert 0 == lint(file)


def test_a_folder_stands_for_its_run_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is none of the formats is skipped and named; --json is one document."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.service").write_text(BAD)
    (tmp_path / "picture.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "code.py").write_text("import os\n")
    assert 1 == lint(tmp_path, "--json")
    document = json.loads(capsys.readouterr().out)
    assert ["systemd-escaping"] == [one["key"] for one in document["findings"]]
    assert [str(tmp_path / "code.py"), str(tmp_path / "picture.bin")] == document["result"][
        "skipped"
    ]
    assert [("systemd", 1, 0)] == [
        (one["format"], one["problems"], one["corrected"]) for one in document["result"]["files"]
    ]


def test_one_unreadable_file_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 for the broken file, and the findings of the others are told."""
    (tmp_path / "a.yaml").write_text("services:\n  a: [\n")
    (tmp_path / "b.service").write_text(BAD)
    assert 2 == lint(tmp_path, "--json")
    document = json.loads(capsys.readouterr().out)
    assert "not YAML" in document["error"]["what"]
    assert ["systemd-escaping"] == [one["key"] for one in document["findings"]]


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-` is read; without a name the content tells the format."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert 1 == lint("-")
    assert "-:2: error: systemd-escaping" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["absent.service", "code.py", "picture.bin"])
def test_what_cannot_be_linted_is_bad_input(tmp_path: Path, name: str) -> None:
    """A file that was named is never skipped in silence: exit 2."""
    (tmp_path / "code.py").write_text("import os\n")
    (tmp_path / "picture.bin").write_bytes(b"\xff\xfe\x00")
    assert 2 == lint(tmp_path / name)


def test_remarks_do_not_count(tmp_path: Path) -> None:
    """A file with nothing but `info` is good."""
    file = tmp_path / "a.container"
    image = "vllm/vllm-openai@sha256:" + "0" * 64
    device = "AddDevice=nvidia.com/gpu=all"
    file.write_text(f"[Container]\nImage={image}\nShmSize=16g\n{device}\n")
    assert 0 == lint(file)
