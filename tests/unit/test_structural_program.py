"""The program that looks at an image from inside, on a small environment of our own."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.edge import probes
from builder.runtime.probes import structural

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here; images have it")
SITE = "lib/python3/site-packages"


def digest(data: bytes) -> str:
    """As RECORD spells it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Install one package by hand: a module, its byte code, a script."""
    site = tmp_path / SITE
    info = site / "tidy-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    files = {
        f"{SITE}/tidy.py": b"x = 1\n",
        f"{SITE}/tidy-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tidy\nVersion: 1.0\n",
        "bin/tidy": b"#!/bin/sh\n",
    }
    rows = ["tidy-1.0.dist-info/RECORD,,"]
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        listed = name.removeprefix(f"{SITE}/") if name.startswith(SITE) else f"../../../{name}"
        rows.append(f"{listed},sha256={digest(data)},{len(data)}")
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    (tmp_path / "pyvenv.cfg").touch()
    (tmp_path / "bin/python").symlink_to("/usr/bin/python3")
    compile_module(site / "tidy.py")
    return tmp_path


def compile_module(path: Path) -> Path:
    """Write byte code as images have it."""
    return Path(
        py_compile.compile(
            str(path), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH, doraise=True
        )
        or ""
    )


def looked(prefix: Path) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Read and look."""
    tree = structural.Tree(str(prefix))
    tree.site = prefix / SITE
    tree.read()
    return tree.packages, tree.look(2)


def test_a_whole_environment_has_nothing_wrong(prefix: Path) -> None:
    """Its own frame, byte code and other names of listed files are no strays."""
    (prefix / "lib64").symlink_to("lib")
    (prefix / "bin/tidy2").symlink_to("tidy")
    packages, look = looked(prefix)
    assert [{"name": "tidy", "version": "1.0"}] == packages
    assert ({}, {}) == (look["counts"], look["wrong"])
    assert 9 == look["files"]


def edit(prefix: Path) -> None:
    """Write other bytes of the same size."""
    (prefix / SITE / "tidy.py").write_bytes(b"x = 2\n")
    compile_module(prefix / SITE / "tidy.py")


def remove(prefix: Path) -> None:
    """Take a file away."""
    (prefix / "bin/tidy").unlink()


def leave(prefix: Path) -> None:
    """Add a file nobody lists."""
    (prefix / SITE / "patch.py").touch()


def leave_code(prefix: Path) -> None:
    """Leave byte code whose module is gone."""
    (prefix / SITE / "__pycache__/gone.cpython-311.pyc").touch()


def replace_code(prefix: Path) -> None:
    """Put byte code of another source there: what runs is not what is shown."""
    other = prefix / "other.py"
    other.write_text("x = 3\n")
    code = compile_module(other).read_bytes()
    other.unlink()
    for path in (prefix / "__pycache__").iterdir():
        path.unlink()
    Path(importlib.util.cache_from_source(str(prefix / SITE / "tidy.py"))).write_bytes(code)


def lose_record(prefix: Path) -> None:
    """Take away what says what belongs to it."""
    (prefix / SITE / "tidy-1.0.dist-info/RECORD").unlink()


def unhash(prefix: Path) -> None:
    """Drop a hash: such a row would let anything pass."""
    record = prefix / SITE / "tidy-1.0.dist-info/RECORD"
    rows = record.read_text().splitlines(keepends=True)
    record.write_text("".join("tidy.py,,\n" if row.startswith("tidy.py") else row for row in rows))


@pytest.mark.parametrize(
    ("fault", "kind", "name"),
    [
        (edit, "edited", "tidy.py"),
        (remove, "missing", "tidy"),
        (leave, "stray", "patch.py"),
        (leave_code, "stray", "gone.cpython-311.pyc"),
        (replace_code, "edited", "tidy.cpython"),
        (lose_record, "missing", "RECORD"),
        (unhash, "edited", "tidy.py"),
    ],
)
def test_a_fault_is_named(
    prefix: Path, fault: Callable[[Path], None], kind: str, name: str
) -> None:
    """Edited, missing and stray files, each by its path."""
    fault(prefix)
    _, look = looked(prefix)
    assert [name] == [Path(row["path"]).name[: len(name)] for row in look["wrong"][kind]], look


def test_many_are_counted(prefix: Path) -> None:
    """An answer stays small whatever was done to the image."""
    for number in range(60):
        (prefix / SITE / f"stray{number}.py").touch()
    _, look = looked(prefix)
    assert (60, structural.SHOWN) == (look["counts"]["stray"], len(look["wrong"]["stray"]))


def test_a_program_is_stopped_with_what_it_started() -> None:
    """A compiler that hangs does not hold the answer back."""
    hangs = "import subprocess; subprocess.run(['sleep', '600'])"
    ran = structural.run([sys.executable, "-c", hangs], 0.5)
    assert ran["status"] is None


def test_a_program_that_is_not_there() -> None:
    """Its end says so."""
    ran = structural.run(["/no/such/program"], 1)
    assert (127, "/no/such/program: No such file or directory") == (ran["status"], ran["err"])


@needs_gcc
def test_a_machine_without_driver_gets_a_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVML names one GPU of the image's architecture, and libcuda is the toolkit's stub."""
    stubs = tmp_path / "cuda/lib64/stubs"
    stubs.mkdir(parents=True)
    (stubs / "libcuda.so.1").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/before")
    environment = structural.stand_in(["12.1a", "12.0f"], str(tmp_path))
    assert environment is not None
    assert f"{tmp_path}:{stubs}:/before" == environment["LD_LIBRARY_PATH"]
    asks = (
        "import ctypes; n = ctypes.CDLL('libnvidia-ml.so.1'); a, b = ctypes.c_int(), ctypes.c_int()"
        "; print(n.nvmlInit_v2(), n.nvmlDeviceGetCount_v2(ctypes.byref(a)), a.value);"
        "n.nvmlDeviceGetCudaComputeCapability(None, ctypes.byref(a), ctypes.byref(b));"
        "print(a.value, b.value)"
    )
    ran = structural.run([sys.executable, "-c", asks], 60, environment)
    assert "0 0 1\n12 1\n" == ran["out"], ran["err"]


@pytest.mark.parametrize("architectures", [[], ["12.0f"]])
def test_no_stand_in_without_a_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architectures: list[str]
) -> None:
    """Other images run their programs as a user does."""
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert structural.stand_in(architectures, str(tmp_path)) is None


def test_it_runs_as_one_argument() -> None:
    """As a container gets it: answers on standard output, whatever else is printed there."""
    text = probes.read("structural")
    assert len(text.encode()) < 128 << 10
    plan = {
        "modules": ["this", "no.such.module", "json"],
        "commands": {"version": [sys.executable, "-c", "print('1.0')"]},
        "architectures": [],
        "seconds": 100,
    }
    ran = subprocess.run(
        [sys.executable, "-c", text, json.dumps(plan)], capture_output=True, text=True, check=True
    )
    said = json.loads(ran.stdout)
    rows = [json.loads(line) for line in said["programs"]["imports"]["out"].splitlines()]
    assert ["this", "no.such.module", "json"] == [row["module"] for row in rows if "module" in row]
    assert ["ModuleNotFoundError: No module named 'no'"] == [
        row["error"] for row in rows if "error" in row
    ]
    assert "1.0\n" == said["programs"]["version"]["out"]
    assert said["tree"]["files"] > 0
    assert {"mypy", "pytest"} <= {row["name"] for row in said["packages"]}


def test_another_triton_is_unknown() -> None:
    """Its API is not public: a Triton that chooses in another way is no fault of the image."""
    ran = subprocess.run(
        [sys.executable, "-I", "-c", probes.read("ptxas"), "120"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"unknown": "No module named 'triton'"} == json.loads(ran.stdout)
