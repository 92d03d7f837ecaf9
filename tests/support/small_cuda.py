"""A CUDA image by hand: what golden files of the CUDA family are rendered from."""

from __future__ import annotations

from builder.core.lock import Lock, PlatformLock, TargetTable, VllmTable
from builder.core.spec import ImageSpec, parse_spec
from tests.support.small_lock import AMD64, pin, small_lock

ARM64 = "linux/arm64"
IMAGES = {"cuda13-sm120": (AMD64, "sm_120"), "cuda13-sm121": (ARM64, "sm_121")}
"""Image → its platform and its GPU."""

_SPEC = """
[image]
name = "{name}"
description = "A small CUDA image, for golden files"
platforms = ["{platform}"]
python = "3.13"
cuda = "13.0"
targets = ["{target}"]
[lock]
channel = "release"
package = "vllm"
requirements = ["vllm"]
[lock.companions]
flashinfer-cubin = "none"
flashinfer-jit-cache = "none"
[base]
debian = "trixie"
packages = ["python3", "tini"]
"""


def small_cuda(name: str) -> tuple[ImageSpec, Lock, str]:
    """Return spec, lock and platform of one image of the CUDA family, small."""
    platform, target = IMAGES[name]
    text = _SPEC.format(name=name, platform=platform, target=target)
    spec = parse_spec(text, f"images/{name}/image.toml")
    wheels = (
        pin("flashinfer-python", "0.7.2.post1", 62_052_965),
        pin("nvidia-cuda-nvcc", "13.0.88", 37_384_532),
        pin("nvidia-cuda-runtime", "13.0.96", 2_243_632),
        pin("vllm", "0.33.0", 336_361_138),
    )
    cpu = small_lock(spec)
    (debs,) = (content.debs for content in cpu.platforms.values())
    (tools,), (base,) = cpu.header.tools.values(), cpu.header.base.debs.values()
    header = cpu.header.model_copy(
        update={
            "vllm": VllmTable(package="vllm", version="0.33.0", commit="b" * 40),
            "target": TargetTable(python="3.13", glibc="2.41", cuda="13.0"),
            "companions": {"flashinfer-python": "0.7.2.post1"},
            "base": cpu.header.base.model_copy(
                update={"debian": "trixie", "debs": {platform: base}}
            ),
            "tools": {platform: tools},
            "layers": {
                platform: [
                    ["flashinfer-python"],
                    ["nvidia-cuda-nvcc", "nvidia-cuda-runtime"],
                    ["vllm"],
                ]
            },
        }
    )
    meta = {"vllm": {"requires_dist": ["flashinfer-python==0.7.2.post1"]}}
    content = PlatformLock(wheels=wheels, debs=debs, meta=meta)
    return spec, Lock(header=header, platforms={platform: content}), platform
