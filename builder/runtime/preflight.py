"""What is wrong on this host, said in the first second: one line a check, and a fix with each stop.

    docker run … IMAGE preflight [--json] [--wait SECONDS] MODEL --flags …

The entrypoint calls `may_start` before it becomes the server; asked for by itself it is what a unit
waits for: until the GPUs are there and their memory is free, for at most `--wait` seconds. It reads
and waits; it never ends a process and never writes.

NIGHTLOCK_PREFLIGHT: `strict` (default) stops where the server could not work, `warn` says the same
and goes on, `off` looks at nothing. NIGHTLOCK_PREFLIGHT_JSON=1 adds one JSON line.
"""

from __future__ import annotations

import os
import re
import sys
import time

from builder.runtime import checkpoint, gpus, kvcache
from builder.runtime.report import Report

# `typing` costs more than all checks together. Type checkers read this name as true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Clock = Callable[[], float]
    Pause = Callable[[float], None]

SETTLE = 60.0
"""Seconds that a start waits for GPU memory to return by itself."""
MODES = ("strict", "warn", "off")
_SHM_ONE = 256
_SHM_MANY = 1024
"""MiB of /dev/shm: vLLM's ring buffers take 160, NCCL's segments more for each further GPU."""
_BYPASS = {
    "FLASHINFER_DISABLE_VERSION_CHECK": "version-check-bypassed",
    "NVIDIA_DISABLE_REQUIRE": "driver-too-old",
    "NVIDIA_DISABLE_REQUIRES": "driver-too-old",
}
_CACHES = (
    "VLLM_CACHE_ROOT",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "NUMBA_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
    "CUDA_CACHE_PATH",
)
_VLLM = re.compile(r"vllm-([^-]+)\.dist-info$")
_TRIO = re.compile(r"(flashinfer_(?:python|cubin|jit_cache))-([^-]+)\.dist-info$")


def check(
    arguments: Sequence[str],
    image: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    settle: float = SETTLE,
    clock: Clock = time.monotonic,
    pause: Pause = time.sleep,
    root: str = "",
) -> Report:
    """Look at everything; `settle` is how many seconds to wait for GPUs and memory.

    `root` stands before absolute paths of the system, for tests.
    """
    report = Report()
    _variables(environment, image, report)
    _cache_folder(environment, image, report)
    _shared_memory(arguments, report, f"{root}/dev/shm")  # noqa: S108 - its size is asked for
    _packages(image, report)
    checkpoint.check(arguments, environment, report)
    if image.get("target", {}).get("cuda"):
        _compat(environment, report, root)
        have = gpus.check(
            arguments, image, report, settle=settle, clock=clock, pause=pause, root=root
        )
        _kv_cache(arguments, image, have, report)
    return report


def _kv_cache(
    arguments: Sequence[str], image: Mapping[str, Any], have: set[str], report: Report
) -> None:
    model, site = checkpoint.model_of(arguments), _site(image)
    if os.path.isdir(model):
        dtypes = kvcache.read_dtypes(site)
        kvcache.check(model, arguments, have, _vllm(site), report, dtypes=dtypes)


def _vllm(site: str) -> str:
    """Version of the vLLM that is installed; empty when there is none."""
    names = sorted(os.listdir(site)) if os.path.isdir(site) else []
    found = [_VLLM.match(name) for name in names]
    return next((match.group(1) for match in found if match), "")


def _variables(environment: Mapping[str, str], image: Mapping[str, Any], report: Report) -> None:
    for name, key in _BYPASS.items():
        value = environment.get(name, "")
        if value and not (name.startswith("NVIDIA_") and value.lower() in ("0", "f", "false")):
            report.warn(key, f"{name} is set: a check is switched off", f"run without {name}")
    known = _known_variables(image)
    for name in sorted(environment):
        if known and name.startswith("VLLM_") and name not in known:
            report.warn(
                "flag-and-env-drift",
                f"{name} is no variable of this vLLM: it has no effect",
                "take it out, or look for its new name in vllm/envs.py",
            )


def _known_variables(image: Mapping[str, Any]) -> set[str]:
    """Read the names out of vllm/envs.py, without importing vLLM."""
    text = _text(f"{_site(image)}/vllm/envs.py")
    # Set by its start scripts and images, read elsewhere.
    given = {"VLLM_CONFIG_ROOT", "VLLM_CACHE_ROOT", "VLLM_BUILD_COMMIT", "VLLM_API_KEY"}
    return set(re.findall(r"\bVLLM_[A-Z0-9_]+\b", text)) | given if text else set()


def _cache_folder(environment: Mapping[str, str], image: Mapping[str, Any], report: Report) -> None:
    folder = image["cache"]
    if os.access(folder, os.W_OK | os.X_OK):
        report.ok("cache", f"{folder} can be written")
    elif not os.path.isdir(folder) or _read_only(folder):
        report.warn(
            "non-root-user",
            f"{folder} is not there or read-only: what is compiled ends with the container",
            f"mount a volume at {folder}",
        )
    else:
        report.stop(
            "non-root-user",
            f"{folder} cannot be written by UID {os.getuid()}, GID {os.getgid()}",
            f"give the mounted folder to the user (chown {os.getuid()}), or mount a named volume",
        )
    mark = str(image.get("lock", "")).removeprefix("sha256:")[:12]
    for name in _CACHES:
        value = environment.get(name, "")
        if value and mark and f"/{mark}" not in value and not value.startswith("/tmp/"):  # noqa: S108
            report.warn(
                "stale-caches",
                f"{name}={value} is shared with other images: their compiled code may not fit",
                f"leave {name} as the image sets it; one volume at {folder} serves all images",
            )


def _read_only(folder: str) -> bool:
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _shared_memory(arguments: Sequence[str], report: Report, folder: str) -> None:
    try:
        state = os.statvfs(folder)
    except OSError:
        return
    size = state.f_blocks * state.f_frsize // 2**20
    free = state.f_bavail * state.f_frsize // 2**20
    many = gpus.wanted(arguments) > 1
    needed = _SHM_MANY if many else _SHM_ONE
    if free >= needed:
        report.ok("shm", f"{free} MiB in shared memory")
        return
    report.stop(
        "shm-too-small",
        f"shared memory: {free} of {size} MiB are free, {needed} are needed",
        f"--shm-size {'16g' if many else '1g'}, or --ipc=host",
    )


def _packages(image: Mapping[str, Any], report: Report) -> None:
    """Compare FlashInfer's packages as they are installed, by the names of their folders."""
    found = {}
    try:
        names = os.listdir(_site(image))
    except OSError:
        return
    for name in names:
        match = _TRIO.match(name)
        if match:
            found[match.group(1)] = match.group(2).partition("+")[0]
    if len(set(found.values())) > 1:
        said = ", ".join(f"{name} {version}" for name, version in sorted(found.items()))
        report.stop(
            "flashinfer-trio-mismatch",
            f"{said}: they have to be equal",
            "run an image as it was built; nothing may be installed into it",
        )
    elif found:
        report.ok("companions", ", ".join(f"{name} {found[name]}" for name in sorted(found)))


def _compat(environment: Mapping[str, str], report: Report, root: str) -> None:
    """Find a libcuda of the image that comes before the driver's (C35)."""
    folders = [part for part in environment.get("LD_LIBRARY_PATH", "").split(":") if part]
    place = f"{root}/etc/ld.so.conf.d"
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        lines = _text(f"{place}/{name}").splitlines()
        folders += [root + line.strip() for line in lines if line.strip().startswith("/")]
    for folder in folders:
        if "compat" in folder and os.path.exists(f"{folder}/libcuda.so.1"):
            report.stop(
                "cuda-compat-803",
                f"{folder} has a libcuda of its own, which comes before the driver's",
                "run without that folder on LD_LIBRARY_PATH and without mounting it",
            )


def _site(image: Mapping[str, Any]) -> str:
    python = image.get("target", {}).get("python", "")
    return f"/opt/venv/lib/python{python}/site-packages"


def _text(name: str) -> str:
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def mode(environment: Mapping[str, str]) -> str:
    """Read NIGHTLOCK_PREFLIGHT; an unknown word is `strict`, since it was meant to do something."""
    word = environment.get("NIGHTLOCK_PREFLIGHT", "").strip().lower() or "strict"
    return word if word in MODES else "strict"


def may_start(
    arguments: Sequence[str], image: Mapping[str, Any], environment: Mapping[str, str]
) -> bool:
    """Say what was found, and whether the server may be started."""
    word = mode(environment)
    if word == "off":
        return True
    given = environment.get("NIGHTLOCK_PREFLIGHT", "").strip().lower()
    if given and given not in MODES:
        _print(f"NIGHTLOCK_PREFLIGHT={given} is none of {', '.join(MODES)}: taken as strict")
    report = check(arguments, image, environment)
    for line in report.lines():
        _print(line)
    if environment.get("NIGHTLOCK_PREFLIGHT_JSON") == "1":
        _print(report.json())
    if report.good or word == "warn":
        return True
    _print("not started; NIGHTLOCK_PREFLIGHT=warn starts it all the same")
    return False


def main(arguments: Sequence[str], image: Mapping[str, Any]) -> int:
    """Check by itself: 0 when a server may start, 1 when not, 2 for a wrong option."""
    words = list(arguments)
    as_json, wait = False, 0.0
    while words and words[0] in ("--json", "--wait"):
        if words.pop(0) == "--json":
            as_json = True
            continue
        try:
            wait = float(words.pop(0))
        except (IndexError, ValueError):
            _print("--wait takes a number of seconds")
            return 2
    report = check(words, image, dict(os.environ), settle=wait)
    for line in report.lines():
        _print(line)
    if as_json:
        print(report.json(), flush=True)
    return 0 if report.good else 1


def _print(text: str) -> None:
    print(f"nightlock: {text}", file=sys.stderr, flush=True)
