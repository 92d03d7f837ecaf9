"""A small project that can be locked and fetched against a fake index."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from builder.commands.context import Context
from builder.core.lock import DebPin
from builder.core.places import Places
from builder.core.settings import Settings
from builder.edge import debs
from builder.output import Output

SPEC = """
[image]
name = "tiny"
description = "A vLLM that is none"
platforms = [{platforms}]
python = "3.11"
targets = ["cpu"]
[lock]
channel = "release"
package = "vllm"
variant = "cpu"
requirements = [{requirements}]
overrides = [{overrides}]
constraints = [{constraints}]
tools = [{tools}]
[lock.sources]
{sources}
[base]
debian = "bookworm"
"""

NO_FORGE = {"vllm": "none"}
"""Setting of whoever must not ask the real one."""

DEB = DebPin(
    name="tini",
    version="0.19.0-1",
    architecture="amd64",
    sha256="0" * 64,
    size=255_000,
    path="pool/main/t/tini/tini_0.19.0-1_amd64.deb",
    suite="bookworm",
    source="tini",
)


@dataclass(slots=True)
class Tiny:
    """The project, its places and what it said."""

    root: Path
    settings: Settings
    said: io.StringIO = field(default_factory=io.StringIO)
    cache: str = "cache"

    def spec(
        self,
        *requirements: str,
        overrides: tuple[str, ...] = (),
        constraints: tuple[str, ...] = (),
        tools: tuple[str, ...] = (),
        platforms: tuple[str, ...] = ("linux/amd64",),
        **sources: str,
    ) -> None:
        """Write images/tiny/image.toml; `sources` are package=index."""
        text = SPEC.format(
            requirements=_quoted(requirements),
            overrides=_quoted(overrides),
            constraints=_quoted(constraints),
            tools=_quoted(tools),
            platforms=_quoted(platforms),
            sources="\n".join(f'{name} = "{index}"' for name, index in sources.items()),
        )
        path = self.root / "images" / "tiny" / "image.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    @property
    def context(self) -> Context:
        """What recipes are given."""
        places = Places.from_environment(
            {
                "HOME": str(self.root),
                "XDG_CACHE_HOME": str(self.root / self.cache),
                "XDG_STATE_HOME": str(self.root / "state"),
            }
        )
        output = Output(out=io.StringIO(), err=self.said)
        return Context(project=self.root, places=places, settings=self.settings, output=output)

    @property
    def lock(self) -> Path:
        """Where its lock lies."""
        return self.root / "lock" / "tiny"

    def lock_files(self) -> dict[str, bytes]:
        """Bytes of the lock."""
        return {path.name: path.read_bytes() for path in sorted(self.lock.iterdir())}

    def line(self, package: str) -> str:
        """One package's line of the platform file; empty when it has none."""
        lines = (self.lock / "linux-amd64.txt").read_text().splitlines()
        return next((line for line in lines if line.startswith(f"{package}==")), "")


def _quoted(texts: tuple[str, ...]) -> str:
    return ", ".join(f'"{text}"' for text in texts)


_OF_THE_USER = ("PIP_", "UV_", "VIRTUAL_ENV", "XDG_", "NETRC", "NIGHTLOCK_")


def clean_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no configuration of this machine reach a test; there are no .debs to resolve."""
    for name in list(os.environ):
        if name.startswith(_OF_THE_USER):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    none: tuple[DebPin, ...] = ()
    monkeypatch.setattr(debs, "resolve_base", lambda *_: none)
