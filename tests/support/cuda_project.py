"""A project with CUDA images that can be locked against indexes on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from builder.commands import lock as recipe
from builder.commands.context import Outcome
from builder.commands.lock_result import LockResult
from builder.core.lock import Lock
from builder.core.settings import Settings
from builder.edge import debs, download
from builder.edge.project import read_lock
from tests.support.elf import needing
from tests.support.index import FakeIndex, fake_index
from tests.support.lockable import DEB, NO_FORGE, Tiny
from tests.support.wheels import VLLM_VERSION, Wheel, make_wheel

SPEC = """
[image]
name = "{name}"
description = "A CUDA image that is none"
platforms = ["{platform}"]
python = "3.13"
cuda = "13.0"
targets = ["{gpu}"]
[lock]
channel = "release"
package = "vllm"
requirements = ["vllm", "nvidia-cuda-nvcc", "ninja"]
{lock}
[base]
debian = "trixie"
"""

NONE = 'companions = { flashinfer-cubin = "none", flashinfer-jit-cache = "none" }'
LEADER = "0.7.2.post1"
LABEL = "+cu130"
TAG = "cp313-cp313-manylinux_2_28_"
MACHINES = ("x86_64", "aarch64")


def clean(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Keep this machine's configuration away; the base is a compiler, retries are quick."""
    import os  # noqa: PLC0415
    from dataclasses import replace  # noqa: PLC0415

    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "VIRTUAL_ENV", "XDG_", "NETRC", "NIGHTLOCK_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pins = tuple(replace(DEB, name=name) for name in ("g++", "ninja-build", "tini"))
    monkeypatch.setattr(debs, "resolve_base", lambda *_: pins)
    monkeypatch.setattr(download, "BACKOFF", 0.01)


def vllm(
    version: str = "0.33.0",
    machine: str = "x86_64",
    *more: str,
    leader: str = LEADER,
    cuda: str = "13",
    glibc: str = "2_28",
) -> Wheel:
    """Make a vLLM that pins FlashInfer and torch, with a small CUDA extension inside."""
    return make_wheel(
        "vllm",
        version,
        requires=["torch==2.14.0", f"flashinfer-python=={leader}", *more],
        tag=f"cp38-abi3-manylinux_{glibc}_{machine}",
        contents={
            "vllm/_version.py": VLLM_VERSION.format(commit="4ba787ec9"),
            "vllm/cumem_allocator.abi3.so": needing(f"libcudart.so.{cuda}", "libc.so.6"),
        },
    )


def torch(name: str = "torch", version: str = "2.14.0", says: str = "cuda = '13.0'\n") -> Wheel:
    """Make one of the torch family; `says` is its version.py."""
    return make_wheel(
        name,
        version,
        requires=["cuda-toolkit==13.0.3"] if name == "torch" else [],
        contents={f"{name}/version.py": f"__version__ = '{version}'\n{says}"},
    )


def family() -> list[Wheel]:
    """Make all that a CUDA image of vllm 0.33.0 wants, both machines, with too new a toolkit."""
    return [
        *(vllm(machine=machine) for machine in MACHINES),
        torch(),
        make_wheel("flashinfer-python", LEADER, requires=["cuda-python>=12"]),
        make_wheel("cuda-toolkit", "13.0.3"),
        make_wheel("cuda-toolkit", "13.5.0"),
        make_wheel("nvidia-cuda-nvcc", "13.0.88"),
        make_wheel("nvidia-cuda-nvcc", "13.5.37"),
        make_wheel("cuda-python", "12.6.2.post1"),
        make_wheel("cuda-python", "13.4.4"),
        make_wheel("ninja", "1.13.2"),
    ]


def flashinfer(*providers: str, version: str = LEADER, label: str = LABEL) -> list[Wheel]:
    """Make cubin, the shim and its providers."""
    names = [f"flashinfer-jit-cache-{name}" for name in providers]
    return [
        make_wheel("flashinfer-cubin", version),
        *(
            make_wheel(
                "flashinfer-jit-cache",
                version + label,
                requires=[f"{name}=={version}{label}" for name in names],
                tag=TAG + machine,
            )
            for machine in MACHINES
        ),
        *(
            make_wheel(name, version + label, tag=TAG + machine)
            for name in names
            for machine in MACHINES
        ),
    ]


@dataclass(slots=True)
class CudaProject:
    """The project, its indexes, and what a lock of it came to."""

    tiny: Tiny
    general: FakeIndex
    home: FakeIndex
    """FlashInfer's index: one page a package, whatever the folder in front of it."""
    specs: dict[str, tuple[str, str]] = field(default_factory=dict)

    def spec(self, lock: str = NONE, *, name: str = "gpu", arm: bool = False) -> None:
        """Write an image; `lock` goes below `[lock]`."""
        platform, gpu = ("linux/arm64", "sm_121") if arm else ("linux/amd64", "sm_120")
        path = self.tiny.root / "images" / name / "image.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SPEC.format(name=name, platform=platform, gpu=gpu, lock=lock))

    def run(self, *names: str, **options: object) -> Outcome[LockResult]:
        """Lock."""
        return recipe.run(self.tiny.context, *(names or ("gpu",)), **options)  # type: ignore[arg-type]

    def lock(self, *names: str, **options: object) -> Lock:
        """Lock without an error, and read the first one back."""
        outcome = self.run(*names, **options)
        assert outcome.ok, outcome.findings
        return read_lock(self.tiny.root, outcome.result.locks[0].image)

    def errors(self, *names: str) -> list[tuple[str, str]]:
        """Lock, and give key and subject of the errors."""
        findings = self.run(*names).findings
        return [(row.key, row.subject) for row in findings if row.severity == "error"]

    @property
    def said(self) -> str:
        """What was told on the way."""
        return self.tiny.said.getvalue()


def versions(lock: Lock, prefix: str = "") -> dict[str, str]:
    """Package → version, of all platforms."""
    return {
        pin.name: pin.version
        for content in lock.platforms.values()
        for pin in content.wheels
        if pin.name.startswith(prefix)
    }


@contextmanager
def cuda_project(root: Path) -> Iterator[CudaProject]:
    """Run both indexes around a project with one image."""
    with fake_index(*family()) as general, fake_index() as home:
        general.json = True
        settings = Settings(
            indexes={"general": general.url, "flashinfer": home.url}, forges=NO_FORGE
        )
        project = CudaProject(Tiny(root, settings), general, home)
        project.spec()
        yield project
