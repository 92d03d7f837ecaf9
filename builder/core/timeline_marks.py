"""What lines of vLLM say about the phases of a start; data for `timeline_reader`.

Source: vLLM 0.6 to 0.33 (model_executor/model_loader/default_loader.py, v1/worker/
gpu_model_runner.py and gpu_worker.py, compilation/backends.py and monitor.py, v1/core/
kv_cache_utils.py, v1/engine/core.py, entrypoints/openai/api_server.py and launcher.py),
FlashInfer's autotuner.py, uvicorn's server.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from builder.core.timeline import PhaseName


@dataclass(frozen=True, slots=True)
class PhaseMark:
    """A line, and what it says of a phase.

    Groups: `took` seconds, `gib` or `gb` of weights, `done` what of it is done.
    """

    needle: str
    """Every line that fits holds it."""
    match: re.Pattern[str]
    phase: PhaseName
    kind: Literal["begins", "goes-on", "ends", "filled"]
    """`filled`: the phase began where the process's last one ended, and ends here."""


def _mark(
    needle: str,
    match: str,
    phase: PhaseName,
    kind: Literal["begins", "goes-on", "ends", "filled"],
) -> PhaseMark:
    return PhaseMark(needle, re.compile(match), phase, kind)


_TOOK = r"(?P<took>\d+(?:\.\d+)?)"
_BAR = r"\s+\d+%(?:[^|]*\|){1,2}\s*(?P<done>\d+/\d+)"
MARKS: tuple[PhaseMark, ...] = (
    _mark("vLLM API server version", r"^vLLM API server version \S", "imports", "ends"),
    _mark("  version ", r"[█▀▄] +version \S", "imports", "ends"),
    _mark("LLM engine (v", r"^Initializing an? (?:V\d )?LLM engine \(v", "engine-init", "begins"),
    _mark("Starting to load", r"^Starting to load model ", "weights", "begins"),
    _mark("Loading", rf"^Loading [\w.+ -]*checkpoint shards:{_BAR}", "weights", "goes-on"),
    _mark("Loading model weights took", r"took (?P<gb>[\d.]+) GB", "weights", "ends"),
    _mark("Loading weights took", rf"took {_TOOK} s", "weights", "ends"),
    _mark(
        "odel loading took",
        rf"odel loading took (?P<gib>[\d.]+) GiB(?:(?: memory)? and {_TOOK} s)?",
        "kernels",
        "ends",
    ),
    _mark("torch_compile_cache", r"torch_compile_cache", "compile", "goes-on"),
    _mark("Dynamo bytecode", rf"transform time: {_TOOK} s", "compile", "goes-on"),
    _mark("ompil", r"^Compiling a graph for ", "compile", "goes-on"),
    _mark("torch.compile t", rf"^torch\.compile (?:takes|took) {_TOOK} s", "compile", "ends"),
    _mark("profiling", rf"^Initial profiling/warmup run took {_TOOK} s", "kv-cache", "goes-on"),
    _mark("profiling takes", rf"^Memory profiling takes {_TOOK} s", "kv-cache", "ends"),
    _mark("KV cache", r"^Available KV cache memory|GiB for KV cache", "kv-cache", "filled"),
    _mark("KV cache size", r"^\w+ KV cache size: ", "kv-cache", "filled"),
    _mark("GPU blocks", r"^# GPU blocks: ", "kv-cache", "filled"),
    _mark("utotuning process", r"Autotuning process starts", "autotune", "begins"),
    _mark("utotuning process", r"Autotuning process ends", "autotune", "ends"),
    _mark("utoTuner]: Tuning", rf"Tuning [\w.-]+:{_BAR}", "autotune", "goes-on"),
    _mark("DeepGEMM warmup", rf"^DeepGEMM warmup:{_BAR}", "warm-up", "goes-on"),
    _mark("Capturing", rf"^Capturing (?:CUDA|cuda)[ \w(),-]*:{_BAR}", "capture", "goes-on"),
    _mark("Capturing", r"^Capturing (?:cudagraphs|the model for CUDA)", "capture", "begins"),
    _mark("Graph capturing", rf"^Graph capturing finished in {_TOOK} s", "capture", "ends"),
    _mark("init engine", r"^init engine \(.*\) took ", "warm-up", "filled"),
    _mark("Starting vLLM", r"^Starting vLLM (?:API )?server ", "server-up", "begins"),
    _mark("Started server", r"^Started server process", "server-up", "goes-on"),
    _mark("Application startup", r"^Application startup complete", "server-up", "ends"),
)
CHECKPOINT = re.compile(r"Checkpoint size: (?P<gib>[\d.]+) GiB")
KERNELS = re.compile(
    r"^(Using (?:\S+ )?(?:[Aa]ttention |Flash ?Attention |FlashInfer )?(?:\S+ ){0,3}"
    r"(?:backend|kernel)\b|Using \S*Kernel for \S+)"
)
"""A line that names a choice; what follows (candidates, reasons) is cut."""
