"""The rule of imports: commands → core, edge, output; edge → core; core → core."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

BUILDER = Path(__file__).parents[2] / "builder"

ALLOWED: dict[str, tuple[str, ...]] = {
    "core": ("builder.core", "builder.errors"),
    # The host asks a checkpoint what the image would: one program, run in two places.
    "edge": ("builder.core", "builder.edge", "builder.runtime", "builder.errors"),
    "commands": (
        "builder.core",
        "builder.edge",
        "builder.commands",
        "builder.output",
        "builder.errors",
    ),
    "runtime": ("builder.runtime",),
}
EFFECTS = {
    "subprocess",
    "socket",
    "httpx",
    "docker",
    "requests",
    "time",
    "random",
    "tempfile",
    "shutil",
}


def modules() -> list[Path]:
    """Every module below the four packages."""
    return sorted(path for name in ALLOWED for path in (BUILDER / name).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Full names of everything a module imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            assert node.level == 0, f"{path}: relative import"
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(BUILDER)))
def test_a_package_imports_only_what_it_may(path: Path) -> None:
    """A module of ours that is imported lies in a package its own may use."""
    allowed = ALLOWED[path.relative_to(BUILDER).parts[0]]
    ours = {name for name in imported(path) if name.startswith("builder.")}
    assert set() == {name for name in ours if not name.startswith(allowed)}


@pytest.mark.parametrize(
    "path", sorted((BUILDER / "core").rglob("*.py")), ids=lambda path: path.name
)
def test_the_core_has_no_effects(path: Path) -> None:
    """The core neither touches the world nor asks for time, chance or environment."""
    tops = {name.split(".")[0] for name in imported(path)}
    assert set() == tops & EFFECTS
    text = path.read_text()
    assert [] == [word for word in ("os.environ", "open(", "datetime.now") if word in text]


@pytest.mark.parametrize(
    "path", sorted((BUILDER / "runtime").rglob("*.py")), ids=lambda path: path.name
)
def test_runtime_programs_use_the_standard_library_alone(path: Path) -> None:
    """They run in images with nothing but each other beside them, and NVML's binding."""
    tops = {name.split(".")[0] for name in imported(path)}
    assert set() == tops - set(sys.stdlib_module_names) - {"builder", "pynvml"}


def test_only_output_prints() -> None:
    """`print` and the standard streams belong to output.py (and to programs inside images)."""
    talkers = set()
    for path in BUILDER.rglob("*.py"):
        if path.name == "output.py" or "runtime" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Name) and node.id == "print":
                talkers.add(path.name)
    assert set() == talkers


def test_a_module_stays_under_400_lines() -> None:
    """A file is one noun; what grows over 400 lines is two."""
    long = {
        p.name: n for p in BUILDER.rglob("*.py") if (n := len(p.read_text().splitlines())) > 400
    }
    assert {} == long


def test_no_module_is_a_drawer() -> None:
    """Names say what is inside."""
    drawers = {"utils", "helpers", "common", "manager", "util", "helper", "misc"}
    assert set() == drawers & {path.stem for path in BUILDER.rglob("*.py")}
