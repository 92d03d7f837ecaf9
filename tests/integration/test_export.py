"""Exports of a real lock, taken by the real uv and pip; no network beyond loopback."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from uv import find_uv_bin

from builder.commands import export, lock
from builder.errors import BadInput, NetworkError, NotOffered
from tests.support.tiny_lock import CLICK, TORCH, VLLM, TinyLock, clean, tiny_lock

INSTALLED = ["click", "torch", "vllm"]


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyLock]:
    """Yield a project that is locked."""
    clean(monkeypatch, tmp_path / "home")
    with tiny_lock(tmp_path) as made:
        assert lock.run(made.project.context, "tiny").ok
        yield made


def write(tiny: TinyLock, name: str, *, style: export.Format, urls: bool = False) -> Path:
    """Export into a file."""
    path = tiny.project.root / name
    export.run(tiny.project.context, "tiny", style=style, urls=urls, out=path)
    return path


def install(*arguments: str | Path, target: Path) -> list[str]:
    """Run an installer that has no index; packages that lie in `target` afterwards."""
    ran = subprocess.run(
        [*map(str, arguments), "--target", str(target)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert 0 == ran.returncode, ran.stderr
    return sorted(path.name.partition("-")[0] for path in target.glob("*.dist-info"))


def pip(*arguments: str | Path) -> tuple[str | Path, ...]:
    """Call the pip of this Python."""
    quiet = ("-q", "--disable-pip-version-check")
    return (sys.executable, "-m", "pip", "install", *quiet, "--no-deps", "--no-index", *arguments)


def uv(*arguments: str | Path) -> tuple[str | Path, ...]:
    """Call the uv that is installed with us."""
    kept = ("--no-config", "--no-cache", "--no-index", "--no-deps")
    return (find_uv_bin(), "pip", "install", "-q", *kept, "--python", sys.executable, *arguments)


def test_the_locks_own_lines_go_to_stdout(tiny: TinyLock) -> None:
    """Without an option and without a request."""
    tiny.general.requests.clear()
    outcome = export.run(tiny.project.context, "tiny")
    own = (tiny.project.lock / "linux-amd64.txt").read_text()
    assert (own, own.rstrip("\n"), "linux/amd64", 3) == (
        outcome.result.text,
        outcome.text,
        outcome.result.platform,
        outcome.result.packages,
    )
    assert [] == tiny.general.requests


def test_uv_and_pip_install_requirements_with_urls(tiny: TinyLock, tmp_path: Path) -> None:
    """No index is named to them; each hash counts."""
    path = write(tiny, "urls.txt", style="requirements", urls=True)
    both = ("--require-hashes", "-r", path)
    assert INSTALLED == install(*pip(*both), target=tmp_path / "by-pip")
    assert INSTALLED == install(*uv(*both), target=tmp_path / "by-uv")
    path.write_text(path.read_text().replace(CLICK.sha256, "0" * 64))
    with pytest.raises(AssertionError, match=r"(?i)hash"):
        install(*pip(*both), target=tmp_path / "wrong")


def test_installers_take_the_pylock(tiny: TinyLock, tmp_path: Path) -> None:
    """PEP 751: uv always, pip from the version that reads it."""
    path = write(tiny, "pylock.tiny.toml", style="pylock")
    assert INSTALLED == install(*uv("-r", path), target=tmp_path / "by-uv")
    said = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, text=True, check=True
    )
    version = re.search(r"pip (\d+)\.(\d+)", said.stdout)
    assert version is not None
    if (int(version[1]), int(version[2])) >= (26, 3):
        ran = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "-r", path)
        assert INSTALLED == install(*ran, target=tmp_path / "by-pip")


def test_addresses_come_from_pages_and_nothing_is_downloaded(tiny: TinyLock) -> None:
    """Relative links are joined; two exports are equal byte for byte."""
    tiny.pytorch.links = "relative"
    tiny.general.requests.clear()
    first = write(tiny, "pylock.a.toml", style="pylock").read_bytes()
    assert [] == tiny.general.asked("/files/")
    assert f'url = "http://{tiny.pytorch.host}/files/torch-2.13.0%2Bcpu'.encode() in first
    assert first == write(tiny, "pylock.b.toml", style="pylock").read_bytes()


def test_a_file_without_an_address_is_an_error(tiny: TinyLock) -> None:
    """Gone from its index, another file in its place, or an index that does not answer."""
    tiny.general.listed[CLICK.file] = "0" * 64
    with pytest.raises(NotOffered, match=r"1 locked file\(s\) are on no index"):
        write(tiny, "urls.txt", style="requirements", urls=True)
    del tiny.general.wheels[VLLM.file]
    with pytest.raises(NotOffered, match=r"2 locked file\(s\)") as caught:
        write(tiny, "urls.txt", style="requirements", urls=True)
    assert f"{CLICK.file}, {VLLM.file}" == caught.value.subject
    tiny.pytorch.statuses["/simple/torch/"] = [503] * 9
    with pytest.raises(NetworkError, match="keeps answering 503"):
        write(tiny, "urls.txt", style="requirements", urls=True)
    assert not (tiny.project.root / "urls.txt").exists()


def test_a_copy_on_this_machine_serves_when_the_index_does_not(
    tiny: TinyLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Find-links are asked next, and the person is told."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / TORCH.file).write_bytes(TORCH.data)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    tiny.pytorch.wheels.clear()
    text = write(tiny, "urls.txt", style="requirements", urls=True).read_text()
    assert f"torch @ {(folder / TORCH.file).as_uri()} --hash=sha256:{TORCH.sha256}" in text
    assert "torch: only find-links of PIP_FIND_LINKS" in tiny.project.said.getvalue()
    (folder / TORCH.file).write_bytes(b"another file")
    with pytest.raises(NotOffered):
        write(tiny, "urls.txt", style="requirements", urls=True)


def test_bad_names_are_bad_input(tiny: TinyLock, tmp_path: Path) -> None:
    """A pylock nobody would read, a platform that is not there."""
    with pytest.raises(BadInput, match="PEP 751"):
        export.run(tiny.project.context, "tiny", style="pylock", out=tmp_path / "pylock.a.b.toml")
    with pytest.raises(BadInput, match="the lock has no platform 'linux/arm64'"):
        export.run(tiny.project.context, "tiny", platform="linux/arm64")
