"""Where a wheel's files go when it is installed."""

from __future__ import annotations

import pytest

from builder.core.contents import contents, installed_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch/__init__.py", "torch/__init__.py"),
        ("build_backend.py", "build_backend.py"),
        ("uv-0.13.9.data/scripts/uv", "{scripts}/uv"),
        ("x-1.data/purelib/x/__init__.py", "x/__init__.py"),
        ("x-1.data/platlib/x.so", "x.so"),
        ("x-1.data/headers/x.h", "{headers}/x.h"),
        ("x-1.data/data/bin/tool", "{scripts}/tool"),
        ("x-1.data/data/lib/python3.13/site-packages/x/y.py", "x/y.py"),
        ("x-1.data/data/share/man/x.1", "{data}/share/man/x.1"),
    ],
)
def test_paths_are_those_of_the_environment(name: str, expected: str) -> None:
    """Two names in two wheels that end in one place are one path."""
    assert expected == installed_path(name)


def test_files_are_marked_by_checksum_and_size_and_scripts_by_what_they_call() -> None:
    """Folders are no files; a script of an entry point is generated, so it is in no directory."""
    found = contents(
        [("x/", 0, 0), ("x/b.py", 0xAB, 7), ("x/a.py", 0, 0)],
        "[console_scripts]\nTool = x.cli : main\n[gui_scripts]\nwin=x:gui\n[other]\nno = x:no\n",
    )
    assert (
        ("x/a.py", "00000000:0"),
        ("x/b.py", "000000ab:7"),
        ("{scripts}/Tool", "calls x.cli:main"),
        ("{scripts}/win", "calls x:gui"),
    ) == found


def test_entry_points_that_nobody_can_read_name_no_script() -> None:
    """Installers refuse that file; the wheel's other files count all the same."""
    assert (("x.py", "00000001:1"),) == contents([("x.py", 1, 1)], "not an ini file")
