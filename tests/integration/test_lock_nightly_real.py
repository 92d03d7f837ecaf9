"""The nightly channel with dummy vLLMs among real packages from PyPI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.core.lock import Lock
from builder.edge.project import read_lock
from builder.edge.userconfig import read_user_config
from tests.support.cuda_project import MACHINES, CudaProject, clean, cuda_project
from tests.support.elf import needing
from tests.support.nightly_index import Bucket, nightly_server, sha
from tests.support.wheels import VLLM_VERSION, Wheel, make_wheel

pytestmark = pytest.mark.network

COMMIT, HALF = sha("aaaaaaaaa"), sha("bbbbbbbbb")
WHOLE, NEWER = "0.33.1rc1.dev313+gaaaaaaaaa", "0.33.1rc1.dev344+gbbbbbbbbb"
REAL = ("numpy==2.5.2", "pydantic>=2.12", "nvidia-cuda-nvcc", "nvidia-cuda-runtime")


def nightly(version: str, machine: str) -> Wheel:
    """Make a vLLM as upstream names it, which wants real packages."""
    return make_wheel(
        "vllm",
        version,
        requires=REAL,
        tag=f"cp38-abi3-manylinux_2_28_{machine}",
        contents={
            "vllm/_version.py": VLLM_VERSION.format(commit=version.partition("+g")[2]),
            "vllm/cumem_allocator.abi3.so": needing("libcudart.so.13", "libc.so.6"),
        },
    )


@pytest.fixture
def bucket() -> Bucket:
    """Publish one commit whole."""
    made = Bucket()
    made.publish(COMMIT, *(nightly(WHOLE, machine) for machine in MACHINES))
    return made


@pytest.fixture
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket: Bucket
) -> Iterator[CudaProject]:
    """Make the set of two machines; `general` is what this machine is configured for."""
    general = read_user_config(os.environ).general.value
    clean(monkeypatch, tmp_path / "home")
    with cuda_project(tmp_path) as made, nightly_server(bucket) as server:
        made.spec(name="spark", arm=True)
        (tmp_path / "images" / "sets.toml").write_text(
            '[pair]\n"linux/amd64" = "gpu"\n"linux/arm64" = "spark"\n'
        )
        made.tiny.settings.indexes.update(
            {"general": general, "vllm": f"{server.url}/nightly/cu130"}
        )
        yield made


def versions(lock: Lock) -> dict[str, tuple[str, str]]:
    """Package → version and index."""
    (content,) = lock.platforms.values()
    return {pin.name: (pin.version, pin.index) for pin in content.wheels}


def test_a_nightly_among_real_packages(
    project: CudaProject, bucket: Bucket, tmp_path: Path
) -> None:
    """The newest whole commit for both machines; real stable vLLMs are newer, and nobody's choice.

    The CUDA toolchain is held to the image's, and what the index gave hashes for has them.
    """
    outcome = project.run("pair", channel="nightly")
    assert outcome.ok, outcome.findings
    for name in ("gpu", "spark"):
        lock = read_lock(tmp_path, name)
        found = versions(lock)
        assert (COMMIT, (WHOLE, "vllm")) == (lock.header.vllm.commit, found["vllm"])
        assert ("2.5.2", "general") == found["numpy"]
        for part in ("nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-nvvm", "nvidia-cuda-crt"):
            assert found[part][0].startswith("13.0.")
        (content,) = lock.platforms.values()
        hashed = {
            key: row["hash_from"] for key, row in content.meta.items() if isinstance(row, dict)
        }
        assert ("computed here", "index") == (hashed["vllm"], hashed["numpy"])
    before = {path: path.read_bytes() for path in (tmp_path / "lock").rglob("*.t*")}
    bucket.publish(HALF, nightly(NEWER, "x86_64"))
    again = project.run("pair", channel="nightly")
    assert again.ok
    assert any(HALF[:9] in skipped for skipped in again.result.skipped)
    assert before == {path: path.read_bytes() for path in (tmp_path / "lock").rglob("*.t*")}
