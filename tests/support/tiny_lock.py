"""The smallest project that locks against loopback: a vLLM, its torch from elsewhere, click."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.core.settings import Settings
from builder.edge import debs, download
from tests.support.index import FakeIndex, fake_index
from tests.support.lockable import DEB, NO_FORGE, Tiny
from tests.support.wheels import make_vllm, make_wheel

VLLM = make_vllm("0.32.0", requires=["torch==2.13.0", "click>=8"])
TORCH = make_wheel("torch", "2.13.0+cpu", tag="cp311-cp311-manylinux_2_28_x86_64")
CLICK = make_wheel("click", "8.1.0", requires=["colorama; platform_system == 'Windows'"])
_CONFIGURATION = ("PIP_", "UV_", "VIRTUAL_ENV", "XDG_", "NETRC", "NIGHTLOCK_")


def clean(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Let no configuration of this machine reach a test; .debs are one that is made up."""
    for name in list(os.environ):
        if name.startswith(_CONFIGURATION):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(debs, "resolve_base", lambda *_: (DEB,))
    monkeypatch.setattr(debs, "archives", lambda *_: {})
    monkeypatch.setattr(debs, "find_gone", lambda *_, **__: ([], []))
    monkeypatch.setattr(download, "BACKOFF", 0.01)


@dataclass(frozen=True, slots=True)
class TinyLock:
    """The project and its two indexes."""

    project: Tiny
    general: FakeIndex
    pytorch: FakeIndex
    """Without hashes, for torch alone."""


@contextmanager
def tiny_lock(root: Path) -> Iterator[TinyLock]:
    """Make the project in a folder, and run its indexes."""
    with fake_index(VLLM, CLICK) as general, fake_index(TORCH) as pytorch:
        pytorch.hashes = False
        settings = Settings(
            forges=NO_FORGE, indexes={"general": general.url, "pytorch-cpu": pytorch.url}
        )
        project = Tiny(root, settings)
        project.spec("vllm==0.32.0", "torch==2.13.0", torch="pytorch-cpu")
        yield TinyLock(project, general, pytorch)
