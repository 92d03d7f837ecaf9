"""What a container says that does not start: C34 to C41, C45 to C53."""

from __future__ import annotations

import pytest

from tests.support.diagnosing import (
    CORE,
    ERROR,
    SHARD,
    TIMEOUTS,
    WRAPPERS,
    keys,
    root_key,
    root_of,
    traced,
    unknown_of,
)

NO_KERNEL = (
    "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
)
SITE = "/usr/local/lib/python3.12/dist-packages/"


@pytest.mark.parametrize("error", NO_KERNEL)
@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("vllm/_custom_ops.py", "vLLM wheel"),
        ("flashinfer/decode.py", "jit-cache"),
        ("torch/nn/functional.py", "CUDA variant"),
    ],
)
def test_no_kernel_image(error: str, path: str, word: str) -> None:
    """C34: the innermost frame that does not only pass a call on names the package."""
    paths = (SITE + "vllm/v1/worker/gpu_worker.py", SITE + path, SITE + "torch/_ops.py")
    found = root_of(*traced(ERROR, error, *paths), *WRAPPERS)
    assert found.root is not None
    assert ("no-kernel-image", True) == (found.root.key, word in found.root.action)
    assert "Worker_TP3 (pid 97)" == found.root.seen.process


def test_no_kernel_image_without_frames() -> None:
    """Nothing is said of a package that the log does not name."""
    found = root_of(NO_KERNEL[0])
    assert found.root is not None
    assert ("no-kernel-image", "") == (found.root.key, found.root.cause)


def test_cuda_compat_803_is_kept_apart_from_804() -> None:
    """C35, C36: their advice is opposite."""
    start = "RuntimeError: Unexpected error from cudaGetDeviceCount(). "
    more = "Did you run some cuda functions before calling NumCudaDevices()? "
    line = "Error 803: system has unsupported display driver / cuda driver combination"
    assert "cuda-compat-803" == root_key(CORE + start + more + line, *WRAPPERS)
    assert "cuda-compat-803" == root_key(f"UserWarning: CUDA initialization: {start}{line}")


def test_cuda_compat_804() -> None:
    """C36: a driver older than the image's CUDA on a card that may not bridge it."""
    line = "Error 804: forward compatibility was attempted on non supported HW"
    assert "cuda-compat-804" == root_key(CORE + "RuntimeError: " + line, *WRAPPERS)
    assert "cuda-compat-804" == root_key(line + " (Triggered internally at ../c10/cuda/x.cpp:108.)")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please "
            "update your driver to a newer version, or use an earlier cuda container: unknown",
            "cuda>=12.8",
        ),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). "
            "Please update your GPU driver",
            "CUDA 12.8",
        ),
        ("The NVIDIA driver on your system is too old (found version 13000).", "CUDA 13.0"),
        ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", ""),
    ],
)
def test_driver_too_old(line: str, word: str) -> None:
    """C37: three messages, one finding; the number in the second is decoded."""
    found = root_of(line, *WRAPPERS)
    assert found.root is not None
    assert ("driver-too-old", True) == (found.root.key, word in found.root.cause)


@pytest.mark.parametrize(
    "lines",
    [
        ["RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist"],
        [
            "/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found",
            "ninja: build stopped: subcommand failed.",
        ],
        [
            "sampling.cu:1:10: fatal error: curand.h: No such file or directory",
            "ninja: build stopped",
        ],
        ["FileNotFoundError: [Errno 2] No such file or directory: 'ninja'"],
    ],
)
def test_jit_needs_nvcc(lines: list[str]) -> None:
    """C38: the first line counts, never ninja's."""
    head = "(EngineCore_DP0 pid=91) "
    found = root_of(
        head + "RuntimeError: Ninja build failed. Ninja output:",
        *(head + line for line in lines),
        *WRAPPERS,
    )
    assert found.root is not None
    assert ("jit-needs-nvcc", lines[0]) == (found.root.key, found.root.seen.text)


def test_jit_needs_nvcc_sees_a_broken_cuda_home() -> None:
    """C38: a colon in front is told as such."""
    found = root_of("/bin/sh: 1: :/usr/local/cuda-12.8/bin/nvcc: not found", "ninja: build stopped")
    assert found.root is not None
    assert ("jit-needs-nvcc", True) == (found.root.key, "colon" in found.root.cause)


def test_jit_needs_nvcc_by_ninja_alone() -> None:
    """C38: with nothing above it, ninja's line is all there is; something else above wins."""
    ninja = "ninja: build stopped: subcommand failed."
    assert "jit-needs-nvcc" == root_key(CORE + ninja, *WRAPPERS)
    fatal = "nvcc fatal   : Unsupported gpu architecture 'compute_120a'"
    assert "wrong-nvcc" == root_key(CORE + fatal, CORE + ninja, *WRAPPERS)
    other = "RuntimeError: flashinfer refuses head_dim 80"
    assert (None, other) == unknown_of(CORE + other, CORE + ninja, *WRAPPERS)


SONAME_13 = (
    "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory"
)


def test_stale_caches_by_path() -> None:
    """C39: the same words as C10, and the innermost path is in a cache folder."""
    cached = "/root/.cache/flashinfer/0.6.14/120f/cached_ops/sampling/sampling.so"
    lines = traced(ERROR, SONAME_13, SITE + "flashinfer/jit/core.py", cached)
    found = root_of(*lines, *WRAPPERS)
    assert found.root is not None
    assert ("stale-caches", True) == (found.root.key, cached in found.root.action)
    driver = f"RuntimeError: {cached}: CUDA driver version is insufficient (code 35)"
    assert "stale-caches" == root_key(ERROR + driver, *WRAPPERS)
    assert "default-variant-flip" == root_key(
        *traced(ERROR, SONAME_13, SITE + "vllm/_custom_ops.py"), *WRAPPERS
    )


@pytest.mark.parametrize(
    "line",
    [
        "NotImplementedError: TritonMLA V1 with FP8 KV cache not yet supported",
        "NotImplementedError: FlashInferMLA with FP8 KV cache not yet supported",
    ],
)
def test_fp8_kv_triton_mla(line: str) -> None:
    """C40: after minutes of loading, in any worker."""
    assert "fp8-kv-triton-mla" == root_key(*traced(ERROR, line, SITE + "vllm/v1/mla.py"), *WRAPPERS)


@pytest.mark.parametrize(
    "line",
    [
        "Error while creating shared memory segment /dev/shm/nccl-a1B2c3 (size 7340384)",
        "gpu1:97:97 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment "
        "/dev/shm/nccl-zzz (size 9637888)",
        "RuntimeError: Insufficient space in /dev/shm: 160 MiB required",
        "OSError: [Errno 28] No space left on device: '/dev/shm/psm_0a'",
    ],
)
def test_shm_too_small(line: str) -> None:
    """C41: by NCCL, by vLLM, by Python; told apart from a full disk."""
    assert "shm-too-small" == root_key(ERROR + line, *WRAPPERS)


def test_shm_too_small_by_a_bus_error() -> None:
    """C41: a bus error is a weak sign, a cause beside it wins."""
    assert "shm-too-small" == root_key("Bus error (core dumped)", *WRAPPERS)
    assert "cuda-compat-804" == root_key("Bus error", "RuntimeError: Error 804: x", *WRAPPERS)


def test_root_cause_above_when_nothing_else_is_there() -> None:
    """C45: only wrappers: the cause was cut off."""
    for line in WRAPPERS:
        assert "root-cause-above" == root_key(line)
    assert "root-cause-above" == root_key(*reversed(WRAPPERS))


def test_root_cause_above_wrappers_in_two_workers() -> None:
    """C45: two interleaved workers; the earliest specific error, its process, and who else."""
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU {} has"
    heads = ["(Worker_TP1 pid=98) ERROR 11-30 [a.py:1] ".replace("[", "19:00:00 ["), ERROR]
    one = traced(heads[0], oom.format(1), SITE + "vllm/a.py", SITE + "torch/b.py")
    two = traced(heads[1], oom.format(3), SITE + "vllm/a.py", SITE + "torch/b.py")
    lines = [line for pair in zip(one, two, strict=True) for line in pair]
    found = root_of(*lines, *WRAPPERS)
    assert found.root is not None
    assert ("Worker_TP1 (pid 98)", {"Worker_TP1", "Worker_TP3"}, 2) == (
        found.root.seen.process,
        found.root.places,
        found.root.count,
    )


FREE = (
    "(EngineCore pid=51) ValueError: Free memory on device cuda:1 (22.06/23.56 GiB) on startup is "
    "less than desired GPU memory utilization (0.95, 22.38 GiB). Decrease GPU memory utilization "
    "or reduce GPU memory used by other processes."
)
BANNER = "(APIServer pid=7) INFO 11-30 19:58:36 [api_server.py:1977] vLLM API server version 0.31.0"


def test_orphan_workers_after_a_start_that_was_given_up() -> None:
    """C46: the next start finds too little memory; who may hold it is told beside."""
    found = root_of(BANNER, SHARD.format(50), TIMEOUTS[0], BANNER, FREE, *WRAPPERS)
    assert found.root is not None
    assert "free-memory-restart-loop" == found.root.key
    assert "orphan-workers" in keys(found)
    assert "orphan-workers" not in keys(root_of(BANNER, FREE, *WRAPPERS))


def test_free_memory_restart_loop() -> None:
    """C47: the utilisation that would fit is computed; a loop is reported once."""
    found = root_of(BANNER, FREE, *WRAPPERS)
    assert found.root is not None
    assert ("free-memory-restart-loop", True) == (found.root.key, "0.93" in found.root.action)
    loop = root_of(*([BANNER, FREE, *WRAPPERS] * 4))
    assert (4, 4, {"free-memory-restart-loop"}) == (loop.starts, loop.times, keys(loop))
    begun = root_of(*([BANNER, FREE, *WRAPPERS] * 4), BANNER)
    assert "free-memory-restart-loop" == (begun.root and begun.root.key)
    profiling = (
        "AssertionError: Error in memory profiling. Initial free memory 9 GiB, current 10 GiB."
    )
    assert "free-memory-restart-loop" == root_key(CORE + profiling, *WRAPPERS)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."


@pytest.mark.parametrize(
    "capture",
    [
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  50%|█████     | 17/35 [00:01<00:01]",
        "(Worker_TP3 pid=97) INFO 11-30 19:59:33 [model_runner.py:1473] Capturing cudagraphs for decoding.",
        "Capturing CUDA graph shapes:   9%|▉         | 3/35\rCapturing CUDA graph shapes:  11%|█ | 4/35",
    ],
)
def test_graph_capture_oom(capture: str) -> None:
    """C48: the last progress says where; after capture it is another thing."""
    done = "(Worker_TP3 pid=97) INFO 11-30 19:59:33 [x.py:1] Graph capturing finished in 9 secs"
    assert "graph-capture-oom" == root_key(SHARD.format(90), capture, ERROR + OOM, *WRAPPERS)
    assert "gpu-out-of-memory" == root_key(capture, done, ERROR + OOM, *WRAPPERS)


def test_gpu_out_of_memory_says_when() -> None:
    """C48's other ways: in weight loading and in requests other advice is right."""
    loading = root_of(SHARD.format(10), ERROR + OOM, *WRAPPERS)
    up = "INFO:     Application startup complete."
    serving = root_of(
        SHARD.format(10), up, ERROR + OOM, "EngineDeadError: EngineCore encountered an issue"
    )
    for found, word in ((loading, "tensor-parallel"), (serving, "--max-num-seqs")):
        assert found.root is not None
        assert ("gpu-out-of-memory", True) == (found.root.key, word in found.root.action)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("KeyError: 'getpwuid(): uid not found: 1000'", "1000"),
        ("PermissionError: [Errno 13] Permission denied: '/app/.cache/flashinfer'", "/app/.cache"),
        ("PermissionError: [Errno 13] Permission denied: '/.triton'", "/.triton"),
    ],
)
def test_non_root_user(line: str, word: str) -> None:
    """C49: the user or the path is named; a second error of the same chain does not hide it."""
    chain = "OSError: No username set in the environment"
    found = root_of(CORE + line, CORE + chain, *WRAPPERS)
    assert found.root is not None
    assert ("non-root-user", True) == (found.root.key, word in found.root.cause)


@pytest.mark.parametrize(
    "line",
    [
        "huggingface_hub.utils._http.OfflineModeIsEnabled: Cannot reach https://huggingface.co/api/"
        "models/a/b: offline mode is enabled.",
        "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach x: offline mode is enabled. To "
        "disable it, please unset the `HF_HUB_OFFLINE` environment variable.",
        "huggingface_hub.errors.IncompleteSnapshotError: 3 of 9 files of the revision are missing",
        "huggingface_hub.errors.HFValidationError: Repo id must use alphanumeric chars, '-', '_'.",
        "OSError: Can't load the configuration of '/nowhere'.",
    ],
)
def test_hf_offline(line: str) -> None:
    """C50: by the class's name, whatever its module and text."""
    first = "httpx.ConnectError: [Errno -3] Temporary failure in name resolution"
    assert "hf-offline" == root_key(CORE + first, CORE + line, *WRAPPERS)


@pytest.mark.parametrize(
    "line",
    [
        "vllm: error: unrecognized arguments: serve /models/x",
        "api_server.py: error: unrecognized arguments: /root/models/x",
        "api_server.py: error: unrecognized arguments: Qwen/Qwen3-4B",
        'docker: Error response from daemon: failed to create task: exec: "vllm-openai": '
        "executable file not found in $PATH: unknown.",
    ],
)
def test_entrypoint_form(line: str) -> None:
    """C51: a word too many or too few, by either parser."""
    assert "entrypoint-form" == root_key("usage: vllm [-h] [-v] {chat,serve} ...", line)


@pytest.mark.parametrize(
    "line",
    [
        "vllm: error: unrecognized arguments: --disable-log-requests",
        "api_server.py: error: unrecognized arguments: --task generate",
        "vllm serve: error: argument --dtype: invalid choice: 'x' (choose from auto, half)",
    ],
)
def test_flag_and_env_drift(line: str) -> None:
    """C52: a removed flag stops the start."""
    assert "flag-and-env-drift" == root_key(line)


def test_flag_and_env_drift_of_a_variable_only_warns() -> None:
    """C52: the server runs on, and the setting has no effect."""
    line = (
        "(APIServer pid=7) WARNING 11-30 19:58:36 [envs.py:1800] Unknown vLLM environment variable "
        "detected: VLLM_ATTENTION_BACKEND"
    )
    found = root_of(line, "INFO:     Application startup complete.")
    assert None is found.root
    assert [("flag-and-env-drift", "warning")] == [(f.key, f.severity) for f in found.findings("x")]
    assert "VLLM_ATTENTION_BACKEND" in found.findings("x")[0].cause


SIGTERM = (
    "(EngineCore pid=51) INFO 11-30 20:16:01 [core.py:1350] [shutdown] EngineCore: trigger received "
    "signal=SIGTERM"
)
DEAD = (
    "(APIServer pid=7) ERROR 11-30 20:16:02 [async_llm.py:906] vllm.v1.engine.exceptions."
    "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
)


def test_external_sigterm() -> None:
    """C53: a signal before the first error wins over what dies of it."""
    assert "external-sigterm" == root_key(SIGTERM, DEAD)
    assert "external-sigterm" == root_key(SHARD.format(10), SIGTERM, *traced(CORE, "ValueError: x"))
    crash = root_of(ERROR + "Insufficient space in /dev/shm", SIGTERM, DEAD)
    assert crash.root is not None
    assert "shm-too-small" == crash.root.key


def test_external_sigterm_after_serving_is_no_failure() -> None:
    """C53: it served and was stopped: the end is named, and nothing failed."""
    up = "(APIServer pid=7) INFO:     Application startup complete."
    stopped = root_of(up, SIGTERM, DEAD)
    assert ("external-sigterm", "stopped", False) == (
        stopped.root and stopped.root.key,
        stopped.status,
        stopped.failed,
    )
    assert ["info"] == [finding.severity for finding in stopped.findings("x")]


def test_external_sigterm_by_the_memory_killer() -> None:
    """C53's other way: a worker that ends without an error of its own."""
    line = "(EngineCore pid=51) ERROR 11-30 19:59:33 [x.py:1] Worker proc VllmWorker-1 died unexpectedly, shutting down executor."
    assert "external-sigterm" == root_key(line, *WRAPPERS)
    assert "gpu-out-of-memory" == root_key(ERROR + OOM, line, *WRAPPERS)


@pytest.mark.parametrize("limit", [101376, 166912])
def test_triton_shared_memory(limit: int) -> None:
    """SM120 has 99 KiB a block; the numbers are quoted."""
    line = f"triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: {limit}. Reducing block sizes or `num_stages` may help."
    found = root_of(*traced(ERROR, line, SITE + "triton/x.py"), *WRAPPERS)
    assert found.root is not None
    assert ("triton-shared-memory", True) == (found.root.key, str(limit) in found.root.cause)


def test_no_gpu_visible() -> None:
    """The container was started without a GPU."""
    assert "no-gpu-visible" == root_key(
        CORE + "RuntimeError: No CUDA GPUs are available", *WRAPPERS
    )
    assert "no-gpu-visible" == root_key("RuntimeError: Failed to infer device type")
