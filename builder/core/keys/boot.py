"""Keys met while a container starts or serves."""

from __future__ import annotations

from builder.core.keys.key import Key

KEYS: tuple[Key, ...] = (
    Key(
        key="no-kernel-image",
        title="a binary has no code for this GPU",
        kind="boot",
        severity="error",
        case="C34",
        cause="torch, vLLM's extension or FlashInfer was built without this architecture; the "
        "innermost frame says which.",
        action="torch: another CUDA variant. vLLM: another wheel or arch list. FlashInfer: "
        "another jit-cache provider.",
        seen="vllm-project/vllm#18995 vllm-project/vllm#16901 vllm-project/vllm#39233 "
        "gpustack/gpustack#2097 flashinfer-ai/flashinfer#4363",
    ),
    Key(
        key="cuda-compat-803",
        title="error 803: the image's compat libcuda hides the host's driver",
        kind="boot",
        severity="error",
        case="C35",
        cause="The forward-compatibility package stayed in the loader's path, and its libcuda is "
        "older than the driver.",
        action="Remove the compat folder and its ld.so.conf entry from the image; until then put "
        "the driver's folder first in LD_LIBRARY_PATH.",
        seen="vllm-project/vllm#33992 vllm-project/vllm#33447 llm-d/llm-d#706 "
        "gpustack/gpustack#4678",
    ),
    Key(
        key="cuda-compat-804",
        title="error 804: forward compatibility on a card that does not allow it",
        kind="boot",
        severity="error",
        case="C36",
        cause="The driver is older than the image's CUDA, and only data-centre cards may bridge "
        "that.",
        action="Upgrade the host's driver (580 or newer for CUDA 13), or use a CUDA 12.9 image.",
        seen="vllm-project/vllm#5283 vllm-project/vllm#5510 vllm-project/vllm#4940",
    ),
    Key(
        key="driver-too-old",
        title="the host's driver is too old for the image's CUDA",
        kind="boot",
        severity="error",
        case="C37",
        cause="CUDA 13 needs a driver of the 580 branch or newer; the container toolkit, torch or "
        "the first PTX kernel says so, each in its own words.",
        action="Upgrade the driver; NVIDIA_DISABLE_REQUIRES only moves the failure.",
        seen="modelscope/FunASR#2973 MauriceNino/dashdot#1226 vllm-project/vllm#5635 "
        "vllm-project/vllm#28030 vllm-project/vllm#31700 vllm-project/vllm#28305 "
        "vllm-project/vllm#39872",
    ),
    Key(
        key="jit-needs-nvcc",
        title="FlashInfer compiles at run time, and what it needs is not there",
        kind="boot",
        severity="error",
        case="C38",
        cause="No jit-cache, or a kernel it does not hold: then nvcc, ninja, a C++ compiler and "
        "headers must be in the image and CUDA_HOME must be right.",
        action="Add the named programs, or lock a jit-cache that fits the GPU.",
        seen="NVIDIA-NeMo/Gym#1405 vllm-project/vllm#49497 vllm-project/vllm#21960 "
        "vllm-project/vllm#36077 vllm-project/vllm#42291 flashinfer-ai/flashinfer#1781 "
        "flashinfer-ai/flashinfer#1904 flashinfer-ai/flashinfer#1919 kserve/kserve#4565",
    ),
    Key(
        key="stale-caches",
        title="a mounted cache comes from another image",
        kind="boot",
        severity="error",
        case="C39",
        cause="Compiled modules are reused although CUDA, torch or vLLM changed: their keys do "
        "not hold those.",
        action="Drop the named volume; keep compile caches in one volume per build, apart from "
        "the models.",
        seen="flashinfer-ai/flashinfer#5145 flashinfer-ai/flashinfer#972 "
        "vllm-project/vllm#24915 vllm-project/vllm#52154 vllm-project/vllm#21858",
    ),
    Key(
        key="fp8-kv-triton-mla",
        title="the attention backend has no FP8 KV cache on this GPU",
        kind="boot",
        severity="error",
        case="C40",
        cause="Backends are chosen by GPU: a flag, or the checkpoint's own config, asks for a KV "
        "cache type that the one chosen here does not implement.",
        action="Serve with --kv-cache-dtype auto, or a backend that has it; for a checkpoint that "
        "asks for it use an overlay of its config.",
        seen="vllm-project/vllm#35577",
    ),
    Key(
        key="shm-too-small",
        title="the container has too little shared memory (/dev/shm)",
        kind="boot",
        severity="error",
        case="C41",
        cause="Containers get 64 MiB unless told otherwise, and some compose programs drop `ipc`.",
        action="Run with --shm-size 1g or more, or --ipc=host.",
        seen="pytorch/torchtitan#853 NVIDIA/nccl#290 vllm-project/vllm#789 "
        "vllm-project/vllm#1125 vllm-project/vllm#1393",
    ),
    Key(
        key="nccl-p2p-hang",
        title="a collective hangs over PCIe",
        kind="boot",
        severity="error",
        case="C42",
        cause="PCIe access control sends peer-to-peer traffic through the IOMMU; it is the "
        "platform's setting, not a fault of vLLM. GPU slicing layers give the same picture.",
        action="Set NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce, both; lastingly switch "
        "ACS or the IOMMU off in the firmware or kernel.",
        seen="NVIDIA/nccl#1999 local-inference-lab/rtx6kpro#15 vllm-project/vllm#33041 "
        "local-inference-lab/vllm#262 vllm-project/vllm#51513 NVIDIA/nccl#2079 "
        "vllm-project/vllm#45004 vllm-project/vllm#42063 noonghunna/club-3090#873 "
        "noonghunna/club-3090#786 Project-HAMi/HAMi#2641",
    ),
    Key(
        key="shm-broadcast-60s",
        title="nobody has read the broadcast queue for a minute",
        kind="boot",
        severity="warning",
        case="C43",
        cause="Workers load or compile for long, which is harmless, or one is stuck for ever: "
        "progress between the lines tells which.",
        action="Wait while other lines show progress; after five repeats without any treat it as "
        "a hang.",
        seen="vllm-project/vllm#27313 vllm-project/vllm#54559 vllm-project/vllm#37250 "
        "gpustack/gpustack#3888 vllm-project/vllm-ascend#9287",
    ),
    Key(
        key="engine-ready-timeout",
        title="the engine was not ready within its limit",
        kind="boot",
        severity="error",
        case="C44",
        cause="A cold start compiles kernels for longer than the fixed limit; or it hangs, when "
        "nothing was logged before.",
        action="Raise VLLM_ENGINE_READY_TIMEOUT_S, keep the cache volume, and install a jit-cache.",
        seen="vllm-project/vllm#48031 vllm-project/vllm#35547 vllm-project/vllm#35616 "
        "vllm-project/vllm#32116 vllm-project/vllm#47456",
    ),
    Key(
        key="startup-over-budget",
        title="the start took longer than its budget",
        kind="boot",
        severity="error",
        cause="A phase became slower than the budget allows: cold caches, slower storage, or a "
        "nightly that compiles or captures more.",
        action="Look which phase of the timeline grew since the previous start; keep the cache "
        "volume, or raise --startup-budget.",
    ),
    Key(
        key="root-cause-above",
        title="only the wrapper's error is in the log",
        kind="boot",
        severity="error",
        case="C45",
        cause="Errors cross three processes and each wraps them; the first specific line counts.",
        action="Fetch more of the log, from the start of the container.",
        seen="vllm-project/vllm#18455 gpustack/gpustack#2723 community-scripts/ProxmoxVED#2047",
    ),
    Key(
        key="orphan-workers",
        title="workers of an earlier run hold GPU memory",
        kind="boot",
        severity="error",
        case="C46",
        cause="The front end was killed without a chance to stop its children.",
        action="Stop the named processes; run with an init and stop with SIGTERM and a wait "
        "longer than vLLM's own.",
        seen="vllm-project/vllm#55510 vllm-project/vllm-omni#2317 vllm-project/vllm#44751 "
        "vllm-project/vllm#32116",
    ),
    Key(
        key="free-memory-restart-loop",
        title="too little free GPU memory at start, again and again",
        kind="boot",
        severity="error",
        case="C47",
        cause="The last run has not released its memory yet, or another process changed it while "
        "it was measured; an unlimited restart policy repeats that.",
        action="Wait for the memory before starting, limit restarts, start one container at a "
        "time per GPU, or lower --gpu-memory-utilization.",
        seen="noonghunna/club-3090#535 noonghunna/club-3090#544 eugr/spark-vllm-docker#257 "
        "NVIDIA/NemoClaw#9932 vllm-project/vllm#56830",
    ),
    Key(
        key="graph-capture-oom",
        title="out of memory while CUDA graphs are captured",
        kind="boot",
        severity="error",
        case="C48",
        cause="Whether graph memory counts into the budget changed between versions, and the "
        "estimate can be wrong.",
        action="Lower --gpu-memory-utilization by 0.01 or 0.02, or capture fewer sizes.",
        seen="vllm-project/vllm#57475 vllm-project/vllm#49224 vllm-project/vllm#30515 "
        "gpustack/runner#251",
    ),
    Key(
        key="non-root-user",
        title="the user is unknown, or may not write to its caches",
        kind="boot",
        severity="error",
        case="C49",
        cause="Home and caches come from the user database, and mounts create parents that root "
        "owns.",
        action="Run as the image's own user, or any UID with GID 0; mount the one cache folder, "
        "not a child of it.",
        seen="ai-dynamo/dynamo#12457 vectorize-io/hindsight#3934 vllm-project/vllm#40275 "
        "odysseus-dev/odysseus#6157",
    ),
    Key(
        key="hf-offline",
        title="offline, and the model is not completely in the cache",
        kind="boot",
        severity="error",
        case="C50",
        cause="A repository name needs the hub, and since huggingface_hub 1.22 a partial snapshot "
        "is refused.",
        action="Pass a complete local folder with --served-model-name, mounted read-only.",
        seen="vllm-project/vllm#3719 vllm-project/vllm#23684 eugr/spark-vllm-docker#372 "
        "huggingface/optimum-intel#1855 huggingface/huggingface_hub#4624",
    ),
    Key(
        key="entrypoint-form",
        title="the arguments do not fit the image's entrypoint",
        kind="boot",
        severity="error",
        case="C51",
        cause="Some images start `vllm serve`, some the API server module, some nothing; "
        "arguments are appended to whatever it is.",
        action="Give arguments in the form of this image's entrypoint.",
        seen="vllm-project/vllm#37133 vllm-project/vllm#27389 vllm-project/vllm#22072 "
        "NVIDIA-AI-IOT/jetson-ai-lab#420 gpustack/gpustack#3707 vllm-project/vllm#15007",
    ),
    Key(
        key="flag-and-env-drift",
        title="this vLLM does not know a flag or variable",
        kind="boot",
        severity="error",
        case="C52",
        cause="Flags and variables are removed and renamed between minors; a removed variable "
        "only warns, and its setting has no effect.",
        action="Remove it or use the new spelling.",
        seen="kserve/kserve#6037 llm-d/llm-d-benchmark#1572 runpod-workers/worker-vllm#324 "
        "gpustack/gpustack#3991 vllm-project/vllm#50292 vllm-project/vllm#50346 "
        "AMD-AGI/Hyperloom#462",
    ),
    Key(
        key="external-sigterm",
        title="somebody stopped the container",
        kind="boot",
        severity="info",
        case="C53",
        cause="A signal came before the first error: a stop, a unit's timeout, the end of a user "
        "session, or the kernel's memory killer.",
        action="Look for who sent it: exit code, unit limits, lingering, OOMKilled.",
        seen="vllm-project/vllm#50067",
    ),
    Key(
        key="gpu-out-of-memory",
        title="GPU memory ran out",
        kind="boot",
        severity="error",
        cause="Weights, the KV cache or a request need more than the card has or than "
        "--gpu-memory-utilization leaves; where the log stood says which.",
        action="While loading: more GPUs or a smaller quantisation. In profiling: a shorter "
        "--max-model-len. While serving: a lower --gpu-memory-utilization or --max-num-seqs.",
        seen="noonghunna/club-3090#32 vllm-project/vllm#14095",
    ),
    Key(
        key="no-gpu-visible",
        title="the container sees no GPU",
        kind="boot",
        severity="error",
        cause="It was started without --gpus or a CDI device, the GPU named by "
        "CUDA_VISIBLE_DEVICES does not exist, or the driver's nodes were not there yet.",
        action="Run `nvidia-smi` in the container; start it with --gpus or the CDI device of this "
        "host.",
    ),
    Key(
        key="triton-shared-memory",
        title="a Triton kernel wants more shared memory than the GPU has",
        kind="boot",
        severity="error",
        cause="It was tuned for data-centre parts; SM120 has 99 KiB a block.",
        action="Choose another attention or MoE backend, or a newer build.",
        seen="triton-lang/triton#8182 guqiong96/Lvllm#77 flashinfer-ai/flashinfer#3170",
    ),
)
"""In the order of the cases."""
