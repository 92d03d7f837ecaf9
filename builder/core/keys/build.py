"""Keys met while an image is built."""

from __future__ import annotations

from builder.core.keys.key import Key

KEYS: tuple[Key, ...] = (
    Key(
        key="fp4-kernels-not-built",
        title="kernels for the target GPU are missing from an extension",
        kind="build",
        severity="error",
        case="C22",
        cause="The build's gate did not match the spelling of the arch list and skipped the "
        "kernels with one line in its log.",
        action="Use a wheel whose extensions hold code for the target, or build with the arch "
        "spelling of that vLLM era; look at the result, not at the spelling.",
        seen="vllm-project/vllm#41738 vllm-project/vllm#45260 vllm-project/vllm#44344 "
        "vllm-project/vllm#39233",
    ),
    Key(
        key="ptxas-too-old",
        title="Triton's ptxas does not know the GPU",
        kind="build",
        severity="error",
        case="C23",
        cause="Triton prefers the ptxas in its own wheel, which can be older than the GPU needs.",
        action="Set TRITON_PTXAS_PATH to the toolkit's ptxas (Triton up to 3.5), or "
        "TRITON_PTXAS_BLACKWELL_PATH (from 3.6).",
        seen="triton-lang/triton#8539 vllm-project/vllm#29469 gpustack/gpustack#4372",
    ),
    Key(
        key="wrong-nvcc",
        title="another nvcc than the image's toolkit comes first on PATH",
        kind="build",
        severity="error",
        case="C24",
        cause="FlashInfer takes the toolkit's version from whichever nvcc is found, and then says "
        "the GPU is not supported.",
        action="Set CUDA_HOME, put its bin first, and remove the distribution's "
        "nvidia-cuda-toolkit; SM120 needs nvcc 12.9 or newer.",
        seen="flashinfer-ai/flashinfer#2577 flashinfer-ai/flashinfer#3633 "
        "flashinfer-ai/flashinfer#1657",
    ),
    Key(
        key="no-c-compiler-at-runtime",
        title="the image has no C compiler, and Triton needs one",
        kind="build",
        severity="error",
        case="C25",
        cause="Triton compiles a small C module at first use: it needs a compiler, libc headers "
        "and Python's headers at run time.",
        action="Keep gcc, libc6-dev and python3-dev in the final stage.",
        seen="lemonade-sdk/lemonade#2749 lemonade-sdk/lemonade#2750 vllm-project/vllm#2997 "
        "sgl-project/sglang#1067",
    ),
    Key(
        key="cubin-download-in-build",
        title="the build downloads cubins",
        kind="build",
        severity="error",
        case="C26",
        cause="A step fetches kernels from a vendor's store that the lock does not know; it fails "
        "when the store refuses, and is not reproducible when it does not.",
        action="Lock the flashinfer-cubin wheel instead; it has the same files.",
        seen="eugr/spark-vllm-docker#44 eugr/spark-vllm-docker#245 vllm-project/vllm#46517 "
        "vllm-project/vllm#38391 vllm-project/vllm#46465",
    ),
    Key(
        key="layer-duplication",
        title="the same files are stored in several layers",
        kind="build",
        severity="warning",
        case="C27",
        cause="Layers are additive: an upgrade, chmod or chown in a later step ships the whole "
        "file again.",
        action="Install once, set owners while copying, and upgrade nothing of the base later.",
        seen="vllm-project/vllm#41134 vllm-project/vllm#22377 vllm-project/vllm#17163",
    ),
    Key(
        key="base-tag-removed",
        title="the base image's tag is gone or has moved",
        kind="build",
        severity="error",
        case="C28",
        cause="Tags are not archives: registries drop deprecated ones, and a digest goes with the "
        "repository.",
        action="Build from a mirror by digest, or lock a base that is still published.",
        seen="NVIDIA/nvidia-docker#1768 NVIDIA/nvidia-docker#1790 NVlabs/instant-ngp#1185 "
        "prefix-dev/pixi-docker#80",
    ),
    Key(
        key="apt-drift",
        title="a locked .deb is on no source any more",
        kind="build",
        severity="error",
        case="C29",
        cause="Mirrors keep only the newest version; security updates replace pinned ones within "
        "days.",
        action="Take it from the store, a mirror or a snapshot, or lock the .debs again.",
        seen="InternationalColorConsortium/iccDEV#1921 joinmarket-ng/joinmarket-ng#631 "
        "unslothai/unsloth#10363 Xilinx/mlir-aie#3043",
    ),
    Key(
        key="disk-full",
        title="there is not enough room",
        kind="build",
        severity="error",
        case="C30",
        cause="Layers exist twice for a while during export, and each kept nightly costs some 30 "
        "GB.",
        action="Free the named amount on the named file system; `nightlock prune` lists own "
        "images that nothing needs.",
        seen="RakuenSoftware/aimee#782 OpenHands/benchmarks#280",
    ),
    Key(
        key="not-reproducible",
        title="the same inputs gave another digest",
        kind="build",
        severity="error",
        case="C31",
        cause="File times, a rewritten base layer, an installer's cache file, byte code or an "
        "attestation differ.",
        action="Look at the first differing path; compare image manifests, not indexes.",
        seen="moby/buildkit#4746 moby/buildkit#4804 moby/buildkit#4805 moby/buildkit#6348 "
        "moby/buildkit#6704 jkreileder/cf-ips-to-hcloud-fw#1461 docker/cli#6996 "
        "docker/for-mac#7297",
    ),
    Key(
        key="wrong-cuda-soname",
        title="a package is for another CUDA major than the image",
        kind="build",
        severity="error",
        case="C32",
        cause="Packages choose their CUDA build by name or environment, not by the torch that is "
        "there; the missing library shows only when the package is imported.",
        action="Take the package's build for the image's CUDA major, or leave it out.",
        seen="vllm-project/vllm#42525 vllm-project/vllm#39872 llm-d/llm-d#1402 "
        "vllm-project/vllm#30628 kaito-project/kaito#2050",
    ),
    Key(
        key="source-build-resources",
        title="a source build ran out of memory, or lacks a header",
        kind="build",
        severity="error",
        case="C33",
        cause="Compile jobs times memory exceed the machine, or a new commit needs a package the "
        "pinned list lacks.",
        action="Lower MAX_JOBS (about one per 4 GB), or add the package that has the header.",
        seen="vllm-project/vllm#8448 vllm-project/vllm#38391",
    ),
)
"""In the order of the cases."""
