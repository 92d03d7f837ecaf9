"""A project with a small image of the CUDA family: the base of `cpu`, nvcc and what it needs.

105 MB of the real toolkit's wheels, the family's template, the program that lays the toolkit out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder.commands import fetch
from builder.commands.context import Context
from builder.core.debs import debs_digest
from builder.core.lock import BaseLock, Lock, PlatformLock, TargetTable, VllmTable
from builder.core.spec import parse_spec
from builder.edge.debs import archives, fetch_debs, resolve_base
from builder.edge.project import read_lock, read_spec, write_lock
from builder.edge.store import Store
from builder.output import Output
from tests.support.mini_image import AMD64, ROOT

NAME = "minicuda"
GROUPS = [
    ["nvidia-nvvm"],
    ["nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-runtime"],
    ["nvidia-cuda-nvcc"],
]
_SPEC = """
[image]
name = "{name}"
description = "nvcc and nothing else"
platforms = ["{platform}"]
python = "{python}"
cuda = "13.0"
targets = ["sm_120"]
[lock]
channel = "release"
package = "nvidia-cuda-nvcc"
requirements = ["nvidia-cuda-nvcc"]
[base]
debian = "{debian}"
packages = {packages!r}
"""


def mini_cuda(context: Context, folder: Path) -> Context:
    """Write the project below `folder`, with a lock of its own, and fetch what it names."""
    cpu = read_spec(ROOT, "cpu")
    text = _SPEC.format(
        name=NAME,
        platform=AMD64,
        python=cpu.image.python,
        debian=cpu.base.debian,
        packages=cpu.base.packages,
    )
    spec = parse_spec(text, f"images/{NAME}/image.toml")
    image = folder / "images" / NAME
    image.mkdir(parents=True)
    (folder / "images/_shared").symlink_to(ROOT / "images/_shared")
    (image / "Dockerfile.j2").write_text('{% extends "_shared/cuda.j2" %}\n')
    (image / "image.toml").write_text(text)
    assert spec.base.debian is not None
    settings = context.settings.debian
    debs = resolve_base(spec.base, AMD64, settings, folder / "apt")
    fetch_debs(debs, Store(context.places.store), archives(spec.base.debian, settings))
    whole, cuda = read_lock(ROOT, "cpu"), read_lock(ROOT, "cuda13-sm120")
    names = {name for group in GROUPS for name in group}
    wheels = tuple(pin for pin in cuda.platforms[AMD64].wheels if pin.name in names)
    (last,) = (pin for pin in wheels if pin.name == spec.lock.package)
    header = whole.header.model_copy(
        update={
            "image": NAME,
            "spec": spec.digest,
            "vllm": VllmTable(package=last.name, version=last.version, commit="c" * 40),
            "target": TargetTable(python=spec.image.python, glibc="2.36", cuda="13.0"),
            "companions": {},
            "base": BaseLock(debian=spec.base.debian, debs={AMD64: debs_digest(debs)}),
            "layers": {AMD64: GROUPS},
        }
    )
    content = PlatformLock(wheels=wheels, debs=debs, meta={})
    write_lock(folder, Lock(header=header, platforms={AMD64: content}))
    own = replace(context, project=folder, output=Output())
    fetch.run(own, NAME)
    return own
