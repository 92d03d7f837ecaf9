"""GPUs as NVML sees them, and whether the server can work with them.

NVML comes from the driver (libnvidia-ml.so.1, put into the container with the GPUs); the binding is
the `nvidia-ml-py` of the image. Without either nothing is known, and that is said.
"""

from __future__ import annotations

import json
import os
import sys

from builder.runtime.report import number, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from builder.runtime.report import Report

KERNELS = "/opt/nightlock/kernels.json"
"""The kernel matrix of the image, where one was baked in."""
DRIVERS = {13: 580, 12: 525}
"""CUDA major → first driver branch that runs it (CUDA release notes, minor-version
compatibility)."""
UTILIZATION = 0.9
"""vLLM's default of --gpu-memory-utilization."""
_STEP = 1.0
"""Seconds between looks while memory is waited for."""
_SIZES = (
    ("--tensor-parallel-size", "-tp"),
    ("--pipeline-parallel-size", "-pp"),
    ("--data-parallel-size-local", "-dpl"),
)


def wanted(arguments: Sequence[str]) -> int:
    """How many GPUs of this host the arguments ask for."""
    product = 1
    local = option(arguments, *_SIZES[2]) or option(arguments, "--data-parallel-size", "-dp")
    for text in (option(arguments, *_SIZES[0]), option(arguments, *_SIZES[1]), local):
        product *= max(1, int(number(text, 1)))
    return product


def check(
    arguments: Sequence[str],
    image: Mapping[str, Any],
    report: Report,
    *,
    settle: float,
    clock: Callable[[], float],
    pause: Callable[[float], None],
    root: str = "",
) -> set[str]:
    """Look at driver, architecture, number and memory; wait for the last two.

    Gives the architectures of the GPUs that are used, as `sm_120`; none where they cannot be told.
    """
    nvml, why = load(image)
    end = clock() + settle
    while nvml is None and why == _NO_DRIVER and clock() < end:
        pause(_STEP)
        nvml, why = load(image)
    if nvml is None:
        stop = report.stop if why == _NO_DRIVER else report.warn
        stop("vram-settle-and-boot-race", why, "--gpus all, or --device nvidia.com/gpu=all")
        return set()
    count = wanted(arguments)
    while nvml.nvmlDeviceGetCount() < count and clock() < end:
        pause(_STEP)
    handles = [nvml.nvmlDeviceGetHandleByIndex(place) for place in range(nvml.nvmlDeviceGetCount())]
    _driver(nvml, image, report)
    if not _number(handles, count, report):
        return set()
    used = handles[:count]
    have = _architecture(nvml, used, image, report)
    _sameness(nvml, used, report)
    _mig(nvml, used, report)
    if not os.path.exists(f"{root}/dev/nvidia-uvm"):
        report.stop(
            "vram-settle-and-boot-race",
            "/dev/nvidia-uvm is not there: CUDA would find no device, and vLLM no GPU",
            "nvidia-modprobe -u -c0 on the host, then recreate the container",
        )
    _memory(nvml, used, arguments, report, end=end, clock=clock, pause=pause)
    return have


_NO_DRIVER = "no GPU in this container: the driver's NVML library is not there"


def load(image: Mapping[str, Any]) -> tuple[Any, str]:
    """Load NVML, or say why not."""
    site = f"/opt/venv/lib/python{image.get('target', {}).get('python', '')}/site-packages"
    if site not in sys.path:
        # Behind Python's own modules: a package there must not replace one of those.
        sys.path.append(site)
    try:
        import pynvml  # noqa: PLC0415 - 30 ms, and only where there may be a GPU
    except ImportError:
        return None, "GPUs were not looked at: nvidia-ml-py is not in this image"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if isinstance(error, (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded)):
            return None, _NO_DRIVER
        return None, f"GPUs were not looked at: NVML says {error}"
    return pynvml, ""


def cuda_version(code: int) -> str:
    """Decode a CUDA version: 13000 is 13.0, 12080 is 12.8 (CUDA driver API, cuDriverGetVersion)."""
    return f"{code // 1000}.{code % 1000 // 10}"


def _driver(nvml: Any, image: Mapping[str, Any], report: Report) -> None:  # noqa: ANN401
    driver = _decoded(nvml.nvmlSystemGetDriverVersion())
    code = nvml.nvmlSystemGetCudaDriverVersion()
    cuda = str(image["target"]["cuda"])
    needed = DRIVERS.get(int(cuda.partition(".")[0]), 0)
    if int(number(driver.partition(".")[0], 0)) < needed:
        report.stop(
            "driver-too-old",
            f"driver {driver} runs CUDA up to {cuda_version(code)}, this image is CUDA {cuda}",
            f"a driver of branch R{needed} or newer on the host",
        )
        return
    report.ok("driver", f"{driver}, CUDA {cuda_version(code)}")


def _number(handles: list[Any], count: int, report: Report) -> bool:
    if len(handles) < count:
        report.stop(
            "vram-settle-and-boot-race",
            f"{len(handles)} GPUs are here, the arguments ask for {count}",
            "give the container more GPUs, or a smaller --tensor-parallel-size",
        )
        return False
    report.ok("gpus", f"{len(handles)}, {count} used")
    return True


def _architecture(nvml: Any, used: list[Any], image: Mapping[str, Any], report: Report) -> set[str]:  # noqa: ANN401
    have = {
        f"sm_{major}{minor}" for major, minor in map(nvml.nvmlDeviceGetCudaComputeCapability, used)
    }
    targets = _targets(image)
    for one in sorted(have):
        if one in targets:
            report.ok("architecture", one)
        else:
            report.stop(
                "no-kernel-image",
                f"this GPU is {one}, the image has kernels for {', '.join(sorted(targets))}",
                "an image of this GPU's architecture",
            )
    return have


def _targets(image: Mapping[str, Any]) -> set[str]:
    """Architectures the image was made for; from the kernel matrix where that was baked in."""
    try:
        with open(KERNELS, encoding="utf-8") as file:
            found = json.load(file).get("targets", [])
    except (OSError, ValueError):
        found = []
    return {str(one).rstrip("af") for one in (found or image.get("targets", []))}


def _sameness(nvml: Any, used: list[Any], report: Report) -> None:  # noqa: ANN401
    names = sorted({_decoded(nvml.nvmlDeviceGetName(handle)) for handle in used})
    sizes = {nvml.nvmlDeviceGetMemoryInfo(handle).total >> 30 for handle in used}
    if len(names) > 1 or len(sizes) > 1:
        shown = ", ".join(f"{size} GiB" for size in sorted(sizes))
        report.warn(
            "free-memory-restart-loop",
            f"different GPUs work together: {', '.join(names)} with {shown}; the smallest decides",
            "choose equal cards by UUID",
        )


def _memory(
    nvml: Any,  # noqa: ANN401
    used: list[Any],
    arguments: Sequence[str],
    report: Report,
    *,
    end: float,
    clock: Callable[[], float],
    pause: Callable[[float], None],
) -> None:
    share = number(option(arguments, "--gpu-memory-utilization"), UTILIZATION)
    waited = False
    short = _short(nvml, used, share)
    while short and clock() < end:
        waited = True
        pause(_STEP)
        short = _short(nvml, used, share)
    if not short:
        after = " after a wait" if waited else ""
        report.ok("memory", f"{share:.0%} of each GPU is free{after}")
        return
    for place, free, total in short:
        holders = _holders(nvml, used[place])
        by = f", held by PID {', '.join(map(str, holders))}" if holders else ""
        fits = int(free / total * 100) / 100
        report.stop(
            "free-memory-restart-loop",
            f"GPU {place}: {free / 2**30:.2f} of {total / 2**30:.2f} GiB are free, "
            f"--gpu-memory-utilization {share:g} wants {share * total / 2**30:.2f}{by}",
            f"end what holds it (`nvidia-smi` on the host), or --gpu-memory-utilization {fits:g}",
        )


def _short(nvml: Any, used: list[Any], share: float) -> list[tuple[int, int, int]]:  # noqa: ANN401
    """GPUs with too little: place, free and total bytes. Of MIG slices nothing is known."""
    found = []
    for place, handle in enumerate(used):
        if _is_mig(nvml, handle):
            continue
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        if memory.free < share * memory.total:
            found.append((place, int(memory.free), int(memory.total)))
    return found


def _is_mig(nvml: Any, handle: Any) -> bool:  # noqa: ANN401
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:
        return False
    return bool(current)


def _mig(nvml: Any, used: list[Any], report: Report) -> None:  # noqa: ANN401
    """Stop where MIG is on and no slice is made or given: CUDA has no device on such a GPU.

    NVML tells a slice that is not there as NOT_FOUND (nvmlDeviceGetMigDeviceHandleByIndex).
    """
    for place, handle in enumerate(used):
        if _is_mig(nvml, handle) and not _has_slice(nvml, handle):
            report.stop(
                "vram-settle-and-boot-race",
                f"GPU {place} is in MIG mode and no slice of it is in this container: CUDA would "
                "find no device there",
                f"give a slice by its UUID (`nvidia-smi -L`), or `nvidia-smi -i {place} -mig 0`",
            )


def _has_slice(nvml: Any, handle: Any) -> bool:  # noqa: ANN401
    """Whether there is one; also where NVML does not tell."""
    try:
        count = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except nvml.NVMLError:
        return True
    for place in range(count):
        try:
            nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
        except nvml.NVMLError_NotFound:
            continue
        except nvml.NVMLError:
            return True
        return True
    return False


def _holders(nvml: Any, handle: Any) -> list[int]:  # noqa: ANN401
    """Process ids on the host; empty where the driver does not tell a container."""
    try:
        return sorted({int(one.pid) for one in nvml.nvmlDeviceGetComputeRunningProcesses(handle)})
    except nvml.NVMLError:
        return []


def _decoded(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text
