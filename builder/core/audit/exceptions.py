"""What looks wrong in a tree and is right, each with its reason: data, no rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Exempt:
    """A file, on some GPUs."""

    path: str
    """Pattern of its path below the site directory."""
    gpus: str
    """Pattern of GPUs, as `sm_12*`."""
    reason: str


EXCEPTIONS: tuple[Exempt, ...] = (
    Exempt(
        path="vllm/_flashmla*_C.abi3.so",
        gpus="sm_12*",
        reason="FlashMLA is for Hopper and SM100; MLA on SM12x runs on Triton and FlashInfer",
    ),
    Exempt(
        path="vllm/_deepselect_C.abi3.so",
        gpus="sm_12*",
        reason="DeepSelect is for SM100, and vLLM asks for that family before it uses it",
    ),
    Exempt(
        path="vllm/_qutlass_C.abi3.so",
        gpus="sm_12*",
        reason="QuTLASS is built for SM100 alone: checkpoints with its FP4 transform do not run "
        "on SM12x, all others never call it",
    ),
    Exempt(
        path="vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
        gpus="sm_1*",
        reason="FlashAttention 3 is for Hopper; SM12x runs FlashAttention 2 from its PTX",
    ),
    Exempt(
        path="nccl/m2n/lib/cu*/libnccl_m2n.so",
        gpus="sm_12*",
        reason="moves weights from a trainer into a server (weight transfer backend nccl_m2n), "
        "built for datacenter GPUs alone; serving never loads it",
    ),
    Exempt(
        path="nvidia/cu*/lib/libcufftw.so.*",
        gpus="sm_*",
        reason="FFTW's interface to cuFFT: its one kernel is an empty placeholder",
    ),
)
"""Objects without code for a GPU on purpose; read in the wheels of vllm 0.33.0 and beside it."""

SPECIFIC: tuple[Exempt, ...] = (
    Exempt(
        path="vllm/_C*.abi3.so",
        gpus="sm_12*",
        reason="NVFP4 and block-scaled kernels exist in these forms only",
    ),
    Exempt(
        path="vllm/_moe_C*.abi3.so",
        gpus="sm_12*",
        reason="NVFP4 and block-scaled kernels exist in these forms only",
    ),
)
"""Objects that must hold code of the forms `a` or `f`, where they hold code for the GPU at all."""


PUBLISHED: Mapping[str, str] = dict.fromkeys(
    (
        "b0e33484eec4df24af2c9068c3d7ca4ad92d4d98535d3e06b688f27eaa9a041b",
        "9e5cf879dd4540b4a8e5107598334b0096d551d7911d235cd169a553b1cf636b",
        "6ac8154d711636d41d468be4c8beab3182a7f9700bb5538583d031a772a42cc6",
        "32e4ba45b4d5887fbdf32eecb0cb5468a67579c32f4c439ede1d825bb16b7ee6",
    ),
    "pynvvideocodec 2.0.4 (cp313) was published with these objects and a RECORD of others",
)
"""sha256 of files whose own wheel lists another one → why that is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """Files of an image that no package lists."""

    path: str
    """Pattern; `{environment}` is the virtual environment."""
    reason: str
    links: bool = False
    """Whether only symbolic links are meant."""


OURS: tuple[Ours, ...] = (
    Ours(path="{environment}/pyvenv.cfg", reason="the virtual environment"),
    Ours(path="{environment}/bin/python*", reason="its interpreter", links=True),
    Ours(path="{environment}/lib64", reason="its other name of lib", links=True),
    Ours(path="opt/nightlock/*", reason="entrypoint, programs, lock"),
    Ours(path="etc/passwd", reason="the image's user"),
    Ours(path="usr/local/cuda/*", reason="names compilers look for, in the wheels", links=True),
    Ours(path="usr/local/cuda/lib/stubs/libcuda.so.1", reason="links without a driver"),
)
"""What nightlock's builds add to an image; byte code is told by its source instead."""
