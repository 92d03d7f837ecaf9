"""What may stand in no file of the project."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

# Put together from parts, so that this file does not hold what it looks for.
HOSTS = re.compile(
    "|".join(
        re.escape(first + second)
        for first, second in (
            ("pypi", ".org"),
            ("python", "hosted.org"),
            ("deb.deb", "ian.org"),
            ("security.deb", "ian.org"),
            ("snapshot.deb", "ian.org"),
            ("ftp.deb", "ian.org"),
            ("registry.npm", "js.org"),
        )
    )
)
MACHINE_PATHS = re.compile("|".join(("/" + "work/", "/" + "root/.pyenv", "/" + "tmp/lab")))


def tracked(root: Path) -> list[Path]:
    """Every text file that git knows or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    paths = [root / name for name in listing.split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:4096]]


@pytest.mark.parametrize("pattern", [HOSTS, MACHINE_PATHS], ids=["registry-hosts", "machine-paths"])
def test_no_file_holds_it(pattern: re.Pattern[str], project_root: Path) -> None:
    """Default addresses come from libraries or the user's configuration; paths are relative."""
    found = {
        f"{path.relative_to(project_root)}: {match.group()}"
        for path in tracked(project_root)
        if (match := pattern.search(path.read_text(errors="replace")))
    }
    assert set() == found


def test_the_search_would_find_one() -> None:
    """The pattern does match what it is meant to match."""
    assert HOSTS.search("https://pypi" + ".org/simple/") is not None


def test_the_top_level_is_fixed(project_root: Path) -> None:
    """Nothing lies at the top but what the contract names."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=project_root, capture_output=True, check=True, text=True
    ).stdout
    tops = {name.split("/")[0] for name in listing.split("\0") if name}
    allowed = {
        "pyproject.toml",
        "images",
        "lock",
        "builder",
        "tests",
        ".github",
        "README.md",
        ".ci",
    }
    assert set() == tops - allowed - {".gitignore"}
