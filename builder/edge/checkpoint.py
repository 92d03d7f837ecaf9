"""A checkpoint on this machine: read as the image's preflight reads it, and its overlay written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builder.core.checkpoint import Checkpoint, CheckRow, quantization_of
from builder.edge import files
from builder.errors import BadInput, Refused
from builder.runtime import checkpoint, kvcache, overlay
from builder.runtime.report import Report

_SKIPPED = frozenset({".git", ".cache"})
"""Folders that a download leaves beside a checkpoint."""


def inspect(folder: Path, *, gpu: str, vllm: str) -> Checkpoint:
    """Read a model folder without its tensors; `gpu` is as `sm_120`, `vllm` a version or empty.

    Raises BadInput when there is no such folder.
    """
    if not folder.is_dir():
        raise BadInput(
            "there is no such model folder",
            subject=str(folder),
            action="name the folder that holds config.json and the weights",
        )
    report = Report()
    checkpoint.check([str(folder.resolve())], {}, report)
    said = kvcache.read(str(folder))
    if report.good:
        kvcache.check(str(folder), [], [gpu], vllm, report)
    config = said.get("config.json", {})
    names = config.get("architectures")
    weights = [path for path in folder.iterdir() if path.name.endswith(checkpoint.WEIGHTS)]
    return Checkpoint(
        folder=str(folder),
        architectures=tuple(map(str, names)) if isinstance(names, list) else (),
        attention=kvcache.attention_of(config),
        quantization=quantization_of(said),
        kv_cache=kvcache.asked(said),
        shards=len(weights),
        bytes=sum(path.stat().st_size for path in weights if path.exists()),
        rows=tuple(CheckRow.model_validate(row) for row in report.rows),
    )


def write_overlay(folder: Path, out: Path) -> list[str]:
    """Write a folder that is the checkpoint without its wish for a quantised KV cache.

    Weights and all else are hard links, so that one mount is enough; symbolic ones on another
    file system. Gives one line per change. The original is only read.

    Raises:
        BadInput: `out` is inside the checkpoint or is something else than an earlier overlay.
        Refused: the checkpoint asks for nothing, or is an overlay itself.
        DiskFull: there is no room.

    """
    source, target = folder.resolve(), out.resolve()
    _refuse_place(source, target)
    said = kvcache.read(str(source))
    changed = kvcache.corrected(said)
    if not changed:
        raise Refused(
            "the checkpoint asks for no quantised KV cache: there is nothing to correct",
            subject=str(folder),
            action="serve it as it is",
        )
    names = _names(source)
    with files.fresh_folder(target) as fresh:
        linked = [name for name in names if name not in changed]
        hard = [_link(source / name, fresh / name) for name in linked]
        for name, content in changed.items():
            files.write(fresh / name, json.dumps(content, indent=2).encode() + b"\n")
        note = _note(source, names, linked, said, hard=all(hard))
        files.write(fresh / overlay.NOTE, json.dumps(note, indent=1).encode() + b"\n")
    return [f"{row['file']}: {row['entry']} taken out" for row in note["changes"]]


def _note(
    source: Path,
    names: list[str],
    linked: list[str],
    said: Mapping[str, Mapping[str, Any]],
    *,
    hard: bool,
) -> dict[str, Any]:
    return {
        "schema": "nightlock/overlay/1",
        "source": str(source),
        "links": "hard" if hard else "symbolic",
        "linked": linked,
        "changes": [
            {
                "file": name,
                "entry": ".".join(keys),
                "was": value,
                "why": "the attention of the GPU may have no KV cache of that type; without the "
                "entry it has the type of the model",
            }
            for name, keys, value in kvcache.entries(said)
        ],
        # Size and time of the last change in ns: preflight refuses the overlay when they differ.
        "files": {name: overlay.stat_of(str(source / name)) for name in names},
    }


def _names(source: Path) -> list[str]:
    found = []
    for top, folders, names in os.walk(source):
        folders[:] = sorted(set(folders) - _SKIPPED)
        found += [str((Path(top) / name).relative_to(source)) for name in sorted(names)]
    return found


def _link(source: Path, target: Path) -> bool:
    """Link a file, a link of a hub's cache by what it leads to; whether the link is a hard one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    whole = source.resolve()
    try:
        os.link(whole, target)
    except OSError:
        target.symlink_to(whole)
        return False
    return True


def _refuse_place(source: Path, target: Path) -> None:
    if (source / overlay.NOTE).exists():
        raise Refused(
            "this folder is an overlay already",
            subject=str(source),
            action="make one of the checkpoint it was made from",
        )
    if target == source or source in target.parents or target in source.parents:
        raise BadInput(
            "an overlay lies neither inside of the checkpoint nor around it",
            subject=str(target),
            action="name a new folder beside it",
        )
    if target.exists() and not (target / overlay.NOTE).is_file():
        raise BadInput(
            "there is something else than an overlay",
            subject=str(target),
            action="name a new folder, or remove that one",
        )
