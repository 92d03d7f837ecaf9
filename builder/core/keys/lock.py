"""Keys met while resolving, locking and auditing a lock."""

from __future__ import annotations

from builder.core.keys.key import Key

KEYS: tuple[Key, ...] = (
    Key(
        key="flashinfer-trio-mismatch",
        title="flashinfer-python and its companion packages are of different versions",
        kind="lock",
        severity="error",
        case="C01",
        cause="No dependency ties the FlashInfer packages together, so an upgrade moves one and "
        "leaves the others. Up to 0.7.1 importing flashinfer raises; from 0.7.2 it only warns, "
        "ignores the package and downloads or compiles kernels at run time.",
        action="Install every FlashInfer package at the version vLLM's metadata pins, to the last "
        ".postN or .devN, or leave the companion out by policy. Do not switch the check off.",
        seen="vllm-project/vllm#49804 NVIDIA-NeMo/Export-Deploy#679 "
        "pipecat-ai/nemotron-january-2026#8 NVIDIA-NeMo/labs-molt#43 "
        "flashinfer-ai/flashinfer#3044",
    ),
    Key(
        key="flashinfer-cubin-not-on-general-index",
        title="flashinfer-cubin is missing; it is not on PyPI after 0.6.13",
        kind="lock",
        severity="error",
        case="C02",
        cause="The project ran into its size quota on PyPI, and vLLM's wheel no longer names "
        "cubin, so installing vLLM gives an image without it: kernels are downloaded or "
        "compiled at first use.",
        action="Take the equal version from the `flashinfer` index (flashinfer.ai/whl), or state "
        'the policy "none" for flashinfer-cubin and ship nvcc, ninja and '
        "VLLM_HAS_FLASHINFER_CUBIN=1.",
        seen="flashinfer-ai/flashinfer#3842 flashinfer-ai/flashinfer#3808 "
        "flashinfer-ai/flashinfer#4781 flashinfer-ai/flashinfer#2133 "
        "vllm-project/vllm-omni#5258 swiss-ai/model-launch#204 NovaSky-AI/SkyRL#2114",
    ),
    Key(
        key="jit-cache-local-version",
        title="flashinfer-jit-cache does not fit: its version, its CUDA label or its GPU",
        kind="lock",
        severity="error",
        case="C03",
        cause="FlashInfer 0.6 only asks whether the cache's version starts with its own, so 0.6.13 "
        "passes for 0.6.1, and no version looks at the +cuNNN label or, before the first kernel "
        "is wanted, at the GPU a provider was built for.",
        action="Lock jit-cache at flashinfer-python's version with the image's CUDA label, its "
        "providers at exactly the shim's version, and one provider that fits each GPU.",
        seen="flashinfer-ai/flashinfer#4337 sgl-project/sglang#22741",
    ),
    Key(
        key="version-check-bypassed",
        title="FlashInfer's version check is switched off",
        kind="lock",
        severity="error",
        case="C04",
        cause="Any non-empty value switches the check off, `0` included. Kernels with an old "
        "argument layout are then called by newer code, and fail later as an illegal memory "
        "access somewhere else.",
        action="Remove the variable and make the FlashInfer packages equal instead.",
        seen="lightseekorg/tokenspeed#284 flashinfer-ai/flashinfer#3294",
    ),
    Key(
        key="torch-family-cuda-mixed",
        title="torch and its companions were built for different CUDA versions",
        kind="lock",
        severity="error",
        case="C05",
        cause="One step took torch from another index than torchvision or torchaudio, and nothing "
        "looked at the set afterwards. Importing torchvision fails, with any driver.",
        action="Take the whole family from one index, in the image's CUDA variant.",
        seen="vllm-project/vllm#56829",
    ),
    Key(
        key="torchaudio-lag-is-legit",
        title="torchaudio is behind torch by some minors, which is right",
        kind="lock",
        severity="info",
        case="C06",
        cause="torchaudio is no longer released in step with torch; vLLM pins torch 2.14.0 with "
        "torchaudio 2.11.0.",
        action="Nothing. Companion versions come from vLLM's metadata, never from arithmetic.",
        seen="vllm-project/vllm#40077 NVIDIA-NeMo/RL#4080",
    ),
    Key(
        key="nightly-missing-for-platform",
        title="the nightly has no wheel for a wanted platform or variant",
        kind="lock",
        severity="error",
        case="C07",
        cause="Jobs of one commit upload at different times and some variants are not built for "
        "every commit: a version on the page need not have a wheel for your platform.",
        action="Lock the newest commit that is complete for every wanted platform, or wait for "
        "the missing upload.",
        seen="vllm-project/vllm#49683 eugr/spark-vllm-docker#21 llm-d/llm-d#291 "
        "vllm-project/vllm#30295 NVIDIA-NeMo/RL#3137",
    ),
    Key(
        key="rolling-index-version-gone",
        title="the locked build is not on the rolling index any more",
        kind="lock",
        severity="error",
        case="C08",
        cause="`nightly/` lists only the newest build, and PyTorch purges nightlies after some "
        "weeks; only the folder of the full commit stays.",
        action="Lock the commit's own folder and keep the wheel in the store; for a purged file "
        "use the kept copy, or lock again.",
        seen="LMCache/LMCache#3910 docker/model-runner#736 replicate/monobase#17 "
        "pytorch/pytorch#143434 SystemPanic/vllm-windows#55 statsmodels/statsmodels#9198",
    ),
    Key(
        key="stable-outranks-nightly",
        title="a stable release was taken where a nightly was wanted",
        kind="lock",
        severity="error",
        case="C09",
        cause="0.20.2 is newer than 0.20.2rc1.dev233 by version order, so a resolver that may look "
        "at two indexes takes the release.",
        action="Choose the nightly's exact version from its own index first, and resolve the rest "
        "around it.",
        seen="vllm-project/vllm#42338 vllm-project/vllm#28438 vllm-project/vllm#44515 "
        "pytorch/vision#3607",
    ),
    Key(
        key="default-variant-flip",
        title="vLLM's wheel was built for another CUDA than its name suggests",
        kind="lock",
        severity="error",
        case="C10",
        cause="A wheel without a suffix is whatever upstream's default is at that time: CUDA 12.9 "
        "up to 0.19, CUDA 13.0 from 0.20.",
        action="Take the wheel of the image's CUDA; believe the libcudart it needs, not its name.",
        seen="vllm-project/vllm#39878 vllm-project/vllm#44335 vllm-project/vllm#43435 "
        "vllm-project/vllm#55387",
    ),
    Key(
        key="plus-and-relative-href",
        title="a link with a plus sign or a relative path leads nowhere",
        kind="lock",
        severity="error",
        case="C11",
        cause="Object stores read a bare + in a path as a space, and links are relative to the "
        "page with its trailing slash.",
        action="Join links to the response's own URL, and write + as %2B in URLs we build.",
        seen="vllm-project/vllm#29787 ROCm/TheRock#777 vllm-project/vllm#52510",
    ),
    Key(
        key="index-without-hashes",
        title="the index gives no hash for a file",
        kind="lock",
        severity="error",
        case="C12",
        cause="A simple index may list links without a hash; locking tools copy what they see, and "
        "installs then fail, or check nothing.",
        action="Hash the file once while locking and record the hash as computed here.",
        seen="pytorch/pytorch#164347 pytorch/pytorch#153469 astral-sh/uv#5120 astral-sh/uv#13195 "
        "astral-sh/uv#13112 pytorch/pytorch#181056 marin-community/marin#8099 "
        "marin-community/marin#8102",
    ),
    Key(
        key="hash-mismatch",
        title="a file is not the one the lock names",
        kind="lock",
        severity="error",
        case="C13",
        cause="The download was cut short, the lock holds the metadata's hash, another index "
        "serves another file of the same name, or upstream replaced the file.",
        action="Read which of the four it is; lock again only on purpose.",
        seen="pytorch/pytorch#145501 pytorch/vision#9243 pytorch/pytorch#168362 "
        "flashinfer-ai/flashinfer#496 pytorch/pytorch#193491",
    ),
    Key(
        key="filename-metadata-version-differ",
        title="a wheel's file name and its METADATA disagree",
        kind="lock",
        severity="error",
        case="C14",
        cause="The wheel was renamed after it was built; installers refuse it, or install it again "
        "on every run.",
        action="Ask the publisher for a wheel whose METADATA was rewritten; where only the local "
        "part differs, METADATA's version counts as the installed one.",
        seen="vllm-project/vllm#29009 pytorch/pytorch#162371 "
        "mjun0812/flash-attention-prebuild-wheels#55 PozzettiAndrea/cuda-wheels#2 "
        "astral-sh/uv#11038",
    ),
    Key(
        key="dependency-on-no-index",
        title="an exact pin exists on no index that may serve it",
        kind="lock",
        severity="error",
        case="C15",
        cause="The nightly pins a build that was never uploaded, or one that lies only on another "
        "index.",
        action="Bind the package to the index that has it, or lock another commit.",
        seen="vllm-project/vllm#28201 astral-sh/uv#9651 LMCache/LMCache#3400",
    ),
    Key(
        key="index-shadowing",
        title="a setting lets one index shadow another",
        kind="lock",
        severity="error",
        case="C16",
        cause="Extra indexes have no priority in pip, and best match over all indexes lets anyone "
        "who can upload a name anywhere win.",
        action="Remove the setting; bind each package to the one index it may come from.",
        seen="nod-ai/AMD-SHARK-Studio#743 astral-sh/uv#3137 astral-sh/uv#5001 astral-sh/uv#7607 "
        "PrunaAI/pruna#674 Eventual-Inc/Daft#6630",
    ),
    Key(
        key="foreign-index",
        title="a package comes from another index than it may",
        kind="lock",
        severity="error",
        cause="The allow-list says which index may serve which package, and this file came from "
        "another one.",
        action="Lock again with the package bound to its index, or change [lock.sources] on "
        "purpose.",
        seen="nod-ai/AMD-SHARK-Studio#743 astral-sh/uv#3137",
    ),
    Key(
        key="user-configuration-ignored",
        title="a setting of the user's pip or uv configuration was not used",
        kind="lock",
        severity="warning",
        cause="Constraints and strategies of one user would give that user other bytes; only "
        "indexes, find-links, credentials, proxy and CA are taken.",
        action="Put what must hold for everybody into [lock] of image.toml.",
    ),
    Key(
        key="flashinfer-nightly-gaps",
        title="the newest FlashInfer nightly is incomplete",
        kind="lock",
        severity="warning",
        case="C17",
        cause="python, cubin and jit-cache wheels are uploaded by separate jobs, and the index is "
        "rebuilt only when all went well.",
        action="Use the newest night on which all packages exist for all platforms.",
        seen="flashinfer-ai/flashinfer#5259 flashinfer-ai/flashinfer#4623 "
        "flashinfer-ai/flashinfer#3228",
    ),
    Key(
        key="manylinux-floor",
        title="a wheel needs a newer glibc than the base has",
        kind="lock",
        severity="error",
        case="C18",
        cause="The manylinux tag is written by the build job, not measured; the symbols a library "
        "needs decide.",
        action="Use a base with that glibc, or a build of the wheel for an older one.",
        seen="vllm-project/vllm#41103 vllm-project/vllm#39609 vllm-project/vllm#41416 "
        "vllm-project/vllm#58270",
    ),
    Key(
        key="commit-identity",
        title="the version does not say which commit this is, or says another one",
        kind="lock",
        severity="error",
        case="C19",
        cause="Versions are derived from the nearest tag, which a shallow clone lacks and anybody "
        "may move; the tree may also have had local changes.",
        action="Lock by full commit, and use a wheel whose +g<commit> is its beginning.",
        seen="vllm-project/vllm#9119 vllm-project/vllm#20664 vllm-project/vllm#57744 "
        "timothystewart6/vllm-gb10#67 coreweave/ml-containers#178 vllm-project/vllm#13130",
    ),
    Key(
        key="torch-backend-auto",
        title="the torch build was left to the machine that resolves",
        kind="lock",
        severity="error",
        case="C20",
        cause="`auto` looks at the driver of the resolving machine: without a GPU it picks the CPU "
        "build.",
        action="State the CUDA variant; never `auto` in anything that is built.",
        seen="astral-sh/uv#15446 MeteoSwiss/evalml#165",
    ),
    Key(
        key="lock-noise",
        title="a lock changed without any change of what it names",
        kind="lock",
        severity="info",
        case="C21",
        cause="Temporary paths, comments, order or hashes of foreign platforms got into the file.",
        action="Nothing: order, headers and comments are no changes.",
        seen="timothystewart6/vllm-gb10#6 timothystewart6/vllm-gb10#12 jazzband/pip-tools#1173 "
        "vllm-project/vllm#42599 coreweave/ml-containers#174",
    ),
)
"""In the order of the cases."""
