"""packages.py: what dpkg wrote becomes a function of the packages; all else stays untouched."""

from __future__ import annotations

import os
from pathlib import Path

from builder.runtime import packages

OLD = 1_600_000_000


def test_only_what_changed_is_settled(tmp_path: Path) -> None:
    """Times of old files stay, so that they are not copied into the layer."""
    root, mark = tmp_path / "root", tmp_path / "mark"
    old = root / "usr/old"
    old.parent.mkdir(parents=True)
    old.write_text("1")
    os.utime(old, (OLD, OLD))
    mark.touch()
    # The mark is older than what comes after it by the clock of the file system.
    before = mark.lstat().st_ctime_ns
    while mark.lstat().st_ctime_ns == before:
        mark.touch()
    for path, text in {
        "usr/lib/new": "2",
        "usr/lib/__pycache__/new.pyc": "3",
        "var/log/dpkg.log": "now",
        "var/cache/debconf/config.dat": "x",
        "var/lib/dpkg/status-old": "x",
        "var/lib/dpkg/status": "x",
        "etc/passwd-": "x",
        "etc/machine-id": "random",
        "etc/shadow": "root:*:20000:0:99999:7:::\nvllm:!::::::\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "usr/link").symlink_to("lib/new")
    assert 0 == packages.main(str(mark), str(root))
    assert OLD == old.stat().st_mtime
    left = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    assert {
        "usr/old",
        "usr/link",
        "usr/lib/new",
        "var/lib/dpkg/status",
        "etc/machine-id",
        "etc/shadow",
    } == left
    assert not (root / "usr/lib/__pycache__").exists()
    assert (root / "var/cache/debconf").is_dir()
    assert "" == (root / "etc/machine-id").read_text()
    assert "root:*:3652:0:99999:7:::\nvllm:!::::::\n" == (root / "etc/shadow").read_text()
    settled = ["usr", "usr/lib", "usr/link", "usr/lib/new", "var/log", "etc"]
    assert {packages.TIME} == {(root / name).lstat().st_mtime for name in settled}


def test_what_is_mounted_stays(tmp_path: Path) -> None:
    """Files and folders of the engine are not the image's."""
    root = tmp_path / "root"
    for name in ("etc/resolv.conf", "proc/1/status", "process/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    left_out = {str(root / "etc/resolv.conf"), str(root / "proc")}
    found = {os.path.relpath(path, root) for path in packages.changed(str(root), 0, left_out)}
    assert {"etc", "process", "process/x"} == found
    assert "/proc" in packages.mounted()
    assert "/" not in packages.mounted()
