"""The program that settles a stage's tree while building."""

from __future__ import annotations

import marshal
import os
import stat
import sys
from pathlib import Path
from types import CodeType

import pytest

from builder.runtime import tree

PYTHON = "/opt/venv/bin/python"


def test_times_and_modes_are_settled(tmp_path: Path) -> None:
    """Whatever the umask and the clock were, one tree comes out; links are not followed."""
    (tmp_path / "bin").mkdir(mode=0o700)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o1777)
    (tmp_path / "bin/tool").write_text("x")
    (tmp_path / "bin/tool").chmod(0o700)
    (tmp_path / "data").write_text("x")
    (tmp_path / "data").chmod(0o600)
    (tmp_path / "link").symlink_to("nowhere")
    assert 5 == tree.settle(tmp_path)
    found = {
        path.name: (stat.S_IMODE(path.lstat().st_mode), path.lstat().st_mtime)
        for path in (tmp_path, *tmp_path.rglob("*"))
        if not path.is_symlink()
    }
    assert {
        tmp_path.name: (0o755, tree.TIME),
        "bin": (0o755, tree.TIME),
        "cache": (0o1777, tree.TIME),
        "tool": (0o755, tree.TIME),
        "data": (0o644, tree.TIME),
    } == found
    assert tree.TIME == os.lstat(tmp_path / "link").st_mtime


@pytest.mark.parametrize(
    ("line", "foreign"),
    [
        (b"#!/opt/venv/bin/python\n", False),
        (b"#!/usr/bin/env python3\n", False),
        (b"#!/bin/sh\n", False),
        (b"\x7fELF\x02python", False),
        (b"#!/build/host/bin/python\n", True),
        (b"#!/opt/venv/bin/python3\n", True),
    ],
)
def test_scripts_of_another_interpreter_fail_the_build(
    tmp_path: Path, line: bytes, foreign: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shebang of the build machine would only fail at run time."""
    folder = tmp_path / "opt/venv/bin"
    folder.mkdir(parents=True)
    (folder / "script").write_bytes(line)
    (folder / "python").symlink_to("/usr/bin/python3")
    (folder.parent / ".lock").touch()
    assert int(foreign) == tree.main(str(tmp_path), PYTHON)
    assert foreign == ("script: " in capsys.readouterr().err)
    assert not (folder.parent / ".lock").exists()


def test_byte_code_that_a_wheel_brought_stays(tmp_path: Path) -> None:
    """Its RECORD holds the hash of those bytes, so the file must stay as it came."""
    site = tmp_path / "opt/venv/lib/python3/site-packages"
    (site / "__pycache__").mkdir(parents=True)
    (tmp_path / "opt/venv/bin").mkdir()
    for name in ("brought", "plain"):
        (site / f"{name}.py").write_text("x = 1\n")
    tag = sys.implementation.cache_tag
    brought = site / f"__pycache__/brought.{tag}.pyc"
    brought.write_bytes(b"as in the wheel")
    cache = tmp_path / "cache"
    cache.hardlink_to(brought)
    assert 0 == tree.main(str(tmp_path), PYTHON)
    assert b"as in the wheel" == brought.read_bytes() == cache.read_bytes()
    assert (site / f"__pycache__/plain.{tag}.pyc").is_file()


def compiled(path: Path) -> tuple[int, str]:
    """Read the flags of a .pyc (PEP 552) and the file name its tracebacks will show."""
    data = path.read_bytes()
    code = marshal.loads(data[16:])  # noqa: S302 - written by this test
    assert isinstance(code, CodeType)
    return int.from_bytes(data[4:8], "little"), code.co_filename


def test_byte_code_is_checked_by_hash_and_names_the_path_in_the_image(tmp_path: Path) -> None:
    """Neither times nor the build folder show, so that a layer is a function of its wheels."""
    found = []
    for name in ("one", "another/place"):
        root = tmp_path / name
        site = root / "opt/venv/lib/python3/site-packages"
        site.mkdir(parents=True)
        (site / "module.py").write_text(
            "NAMES = frozenset({'a', 'b', 'c'})\n\ndef f(): return NAMES\n"
        )
        (site / "template.py").write_text("def {{ name }}")
        tree.compile_modules(str(root), "/opt/venv/lib")
        [path] = (site / "__pycache__").iterdir()
        found.append(path.read_bytes())
        assert (0b11, "/opt/venv/lib/python3/site-packages/module.py") == compiled(path)
    assert found[0] == found[1]


def test_the_library_layer_holds_byte_code_alone(tmp_path: Path) -> None:
    """The modules themselves lie in the base."""
    folder = tmp_path / "usr/lib/python3"
    (folder / "empty").mkdir(parents=True)
    (folder / "package").mkdir()
    (folder / "package/module.py").write_text("X = 1\n")
    (folder / "data.txt").write_text("data")
    assert 0 == tree.main(str(tmp_path), PYTHON, "/usr/lib/python3")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [".pyc"] == [path.suffix for path in files]
    assert not (folder / "empty").exists()
