"""`nightlock model check DIR`: can this checkpoint be served, and a corrected copy that can."""

from __future__ import annotations

from pathlib import Path

from packaging.version import InvalidVersion, Version

from builder.commands.context import Context, Outcome
from builder.core.checkpoint import Checkpoint, CheckRow, findings_of, memory_rows
from builder.core.document import Result
from builder.edge import checkpoint
from builder.errors import BadInput


class ModelCheckResult(Result):
    """What was read, of the overlay where one was written."""

    model: Checkpoint
    gpu: str
    gpus: int
    vllm: str
    """Empty for the newest that the rules know."""
    checks: list[CheckRow]
    overlay: str
    """The folder that was written; empty when none was."""
    changes: list[str]


def check(
    context: Context,
    folder: Path,
    *,
    gpu: str,
    gpus: int,
    memory: float,
    vllm: str,
    overlay: Path | None,
) -> Outcome[ModelCheckResult]:
    """Check a folder, or write an overlay of it and check that.

    Raises BadInput when there is no such folder or version, Refused when there is nothing to
    correct.
    """
    if vllm and not _is_version(vllm):
        raise BadInput("not a version", subject=vllm, action="write it as 0.33.0")
    found = checkpoint.inspect(folder, gpu=gpu, vllm=vllm)
    changes: list[str] = []
    if overlay is not None and not _damaged(found):
        with context.output.step("overlay", f"writing {overlay}"):
            changes = checkpoint.write_overlay(folder, overlay)
        found = checkpoint.inspect(overlay, gpu=gpu, vllm=vllm)
    rows = [*found.rows, *memory_rows(found, gpus, memory)]
    return Outcome(
        result=ModelCheckResult(
            model=found,
            gpu=gpu,
            gpus=gpus,
            vllm=vllm,
            checks=rows,
            overlay=str(overlay) if changes else "",
            changes=changes,
        ),
        text="\n".join(_lines(found, rows, changes)),
        ok=all(row.state != "stop" for row in rows),
        findings=findings_of(found.folder, rows),
        told=True,
    )


def _damaged(found: Checkpoint) -> bool:
    """Whether something is wrong that no overlay corrects."""
    return any(row.state == "stop" and row.key != "fp8-kv-triton-mla" for row in found.rows)


def _lines(found: Checkpoint, rows: list[CheckRow], changes: list[str]) -> list[str]:
    names = ", ".join(found.architectures) or "no architecture named"
    kv = f", asks for a KV cache of {found.kv_cache}" if found.kv_cache else ""
    what = (
        f"  {names}; {found.attention} attention; {found.quantization}; "
        f"{found.shards} files of weights, {found.bytes / 2**30:.1f} GiB{kv}"
    )
    return [
        found.folder,
        what,
        *(f"  changed {change}" for change in changes),
        *(
            f"  {row.state:<4} {row.key}: {row.text}" + (f"\n    do: {row.fix}" if row.fix else "")
            for row in rows
        ),
    ]


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
