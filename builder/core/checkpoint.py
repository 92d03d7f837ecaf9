"""A checkpoint in words: what it is, what it asks of a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from builder.core.finding import Finding
from builder.core.keys import finding

UTILIZATION = 0.9
"""vLLM's default of --gpu-memory-utilization."""


class CheckRow(BaseModel):
    """One thing that was looked at."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: Literal["ok", "warn", "stop"]
    key: str
    """A finding key, unless all is well."""
    text: str
    fix: str


class Checkpoint(BaseModel):
    """A model folder, read without its tensors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: str
    architectures: tuple[str, ...]
    attention: Literal["dense", "mla", "sparse-mla"]
    quantization: str
    """How its weights are stored, as `modelopt NVFP4`; without quantisation the data type."""
    kv_cache: str
    """The type that it asks for itself, as `fp8`; empty when it asks for none."""
    shards: int
    bytes: int
    """Of all weights."""
    rows: tuple[CheckRow, ...]


def quantization_of(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Say how weights are stored; `files` maps config.json, hf_quant_config.json to content.

    Keys are those of Hugging Face's `quantization_config` and of ModelOpt's `quantization`.
    """
    config = files.get("config.json", {})
    inner = config.get("text_config") if isinstance(config.get("text_config"), dict) else {}
    row = config.get("quantization_config") or (inner or {}).get("quantization_config") or {}
    own = files.get("hf_quant_config.json", {})
    modelopt = own.get("quantization") if isinstance(own.get("quantization"), dict) else {}
    if not isinstance(row, dict):
        row = {}
    method = row.get("quant_method") or ("modelopt" if modelopt else "")
    kind = row.get("quant_algo") or (modelopt or {}).get("quant_algo") or row.get("format") or ""
    if not kind and row.get("bits"):
        kind = f"{row['bits']} bits"
    if method or kind:
        return " ".join(str(part) for part in (method, kind) if part)
    types = (config, inner or {})
    return next((str(t[k]) for t in types for k in ("torch_dtype", "dtype") if t.get(k)), "unknown")


def memory_rows(checkpoint: Checkpoint, gpus: int, memory: float) -> tuple[CheckRow, ...]:
    """Say what weights take of each GPU, in GiB; `memory` is what one has, 0 when not said.

    An estimate: tensor parallelism divides nearly all weights evenly.
    """
    each = checkpoint.bytes / gpus / 2**30
    text = f"{each:.1f} GiB of weights on each of {gpus} GPUs"
    if not memory:
        return (CheckRow(state="ok", key="memory", text=text, fix=""),)
    room = UTILIZATION * memory
    text += f", of {room:.1f} GiB (--gpu-memory-utilization {UTILIZATION:g} of {memory:g})"
    if each < room:
        text += f": {room - each:.1f} GiB for activations, graphs and the KV cache"
        return (CheckRow(state="ok", key="memory", text=text, fix=""),)
    fix = f"{int(checkpoint.bytes / 2**30 / room) + 1} GPUs or more, or a smaller quantisation"
    return (CheckRow(state="stop", key="gpu-out-of-memory", text=text, fix=fix),)


def findings_of(folder: str, rows: Sequence[CheckRow]) -> tuple[Finding, ...]:
    """Turn what stops or is doubtful into findings."""
    return tuple(
        finding(
            row.key,
            subject=folder,
            evidence=row.text,
            severity="error" if row.state == "stop" else "warning",
            action=row.fix,
        )
        for row in rows
        if row.state != "ok"
    )
