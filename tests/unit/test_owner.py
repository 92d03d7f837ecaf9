"""The program that takes lost paths from a package while building."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.runtime import owner


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Lay out one installed package with a file at the top, one inside, and a script."""
    found = tmp_path / "lib/python3.13/site-packages"
    (found / "Torch_C.Ext").mkdir(parents=True)
    (found / "Torch_C.Ext/__init__.py").write_text("")
    (found / "build_backend.py").write_text("loser")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tool").write_text("#!x")
    info = found / "Torch_C.Ext-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(
        '"Torch_C.Ext/__init__.py",sha256=x,0\nbuild_backend.py,sha256=y,5\n'
        "../../../bin/tool,sha256=z,3\nTorch_C.Ext-1.0.dist-info/RECORD,,\n"
    )
    return found


def test_the_file_and_its_row_go(tmp_path: Path, site: Path) -> None:
    """Whatever is left is still true of the tree."""
    listing = tmp_path / "lost.txt"
    listing.write_text("torch-c-ext build_backend.py\ntorch-c-ext {scripts}/tool\n")
    assert 0 == owner.main(str(tmp_path), str(listing))
    assert not (site / "build_backend.py").exists()
    assert not (tmp_path / "bin/tool").exists()
    assert (
        "Torch_C.Ext/__init__.py,sha256=x,0\nTorch_C.Ext-1.0.dist-info/RECORD,,\n"
        == (site / "Torch_C.Ext-1.0.dist-info/RECORD").read_text()
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("torch-c-ext nothing.py", "torch-c-ext has no nothing.py"),
        ("other x.py", "other is not installed in"),
    ],
)
def test_a_path_that_is_not_there_fails_the_build(
    tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    """The lock and the wheel disagree: nothing may go on."""
    (tmp_path / "lost.txt").write_text(line + "\n")
    assert 1 == owner.main(str(tmp_path), str(tmp_path / "lost.txt"))
    assert words in capsys.readouterr().err
    assert (site / "build_backend.py").exists()
