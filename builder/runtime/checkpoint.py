"""The model folder, before weights are read for minutes: is it all there, and can it be served."""

from __future__ import annotations

import json
import os
import struct

from builder.runtime import overlay
from builder.runtime.report import option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from builder.runtime.report import Report

_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_HEADER = 100 << 20
"""Bytes; what safetensors' own reader allows for a header."""
WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".npz")


def model_of(arguments: Sequence[str]) -> str:
    """Name of the model in a server's arguments; empty when it cannot be told."""
    named = option(arguments, "--model")
    if named:
        return named
    words = [word for word in arguments if word not in ("vllm", "serve", "--")]
    return words[0] if words and not words[0].startswith("-") else ""


def check(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    report: Report,
) -> None:
    """Check the folder that is served; a name of a hub is left to the server, unless offline."""
    model = model_of(arguments)
    if not model:
        return
    if not (model.startswith(("/", "./", "../", "~")) or os.path.exists(model)):
        _hub(model, environment, report)
        return
    if os.path.isfile(model):
        report.ok("model", f"{model}, {os.path.getsize(model) / 2**30:.1f} GiB")
        return
    if not os.path.isdir(model):
        report.stop(
            "model-incomplete",
            f"there is no {model} in this container",
            f"mount the model's folder: -v /where/it/lies:{model}:ro",
        )
        return
    if not os.access(model, os.R_OK | os.X_OK):
        report.stop(
            "non-root-user",
            f"{model} cannot be read by UID {os.getuid()}",
            "make the folder readable for all, or run with --user",
        )
        return
    if not _overlay(model, report) or not _config(model, report):
        return
    size = _shards(model, report)
    _template(model, arguments, report)
    if report.good:
        report.ok("model", f"{model}, {size / 2**30:.1f} GiB of weights")


def _hub(model: str, environment: Mapping[str, str], report: Report) -> None:
    offline = environment.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    if not offline or "/" not in model:
        return
    home = environment.get("HF_HOME", os.path.expanduser("~/.cache/huggingface"))
    cache = environment.get("HF_HUB_CACHE", f"{home}/hub")
    if os.path.isdir(f"{cache}/models--{model.replace('/', '--')}/snapshots"):
        return
    report.stop(
        "hf-offline",
        f"{model} is not in {cache}, and HF_HUB_OFFLINE forbids to fetch it",
        "mount the folder of the model and name that, or run once without HF_HUB_OFFLINE",
    )


def _overlay(model: str, report: Report) -> bool:
    """Refuse an overlay whose source changed under it; anything else is no concern of this."""
    try:
        note = overlay.read(model)
        why = overlay.stale(model, note) if note else ""
    except (OSError, ValueError) as error:
        why = str(error)
    if why:
        report.stop(
            "overlay-stale",
            f"{model} stands for a checkpoint that is not as it was: {why}",
            "make it anew on the host: `nightlock model check SOURCE --overlay DIR`",
        )
    return not why


def _config(model: str, report: Report) -> bool:
    """Whether config.json can be read, or is not needed."""
    name = f"{model}/config.json"
    try:
        with open(name, encoding="utf-8") as file:
            json.load(file)
    except FileNotFoundError:
        if os.path.exists(f"{model}/params.json"):
            return True
        report.stop(
            "model-incomplete",
            f"{model} has no config.json",
            "mount the folder that holds config.json and the weights, not one above or below it",
        )
        return False
    except (OSError, ValueError) as error:
        report.stop(
            "model-incomplete", f"{name} cannot be read: {error}", "fetch the checkpoint again"
        )
        return False
    return True


def _shards(model: str, report: Report) -> int:
    """Bytes of all weights; a shard that is missing or cut short is a stop."""
    names = sorted(name for name in os.listdir(model) if name.endswith(WEIGHTS))
    index = f"{model}/model.safetensors.index.json"
    wanted = set(names)
    if os.path.exists(index):
        try:
            with open(index, encoding="utf-8") as file:
                wanted = set(json.load(file)["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            report.stop("model-incomplete", f"{index} cannot be read: {error}", "fetch it again")
            return 0
    missing = sorted(wanted - set(names))
    if missing or not names:
        what = (
            f"{len(missing)} of {len(wanted)} shards are missing, {missing[0]}"
            if missing
            else (f"{model} holds no weights")
        )
        report.stop("model-incomplete", what, "fetch the checkpoint again, all of it")
        return 0
    total = 0
    for name in names:
        path = f"{model}/{name}"
        size = os.path.getsize(path)
        total += size
        if _is_pointer(path, size):
            report.stop(
                "model-incomplete",
                f"{name} is a git-lfs pointer of {size} bytes, not the weights",
                "git lfs pull in the clone, or fetch it with `hf download`",
            )
            continue
        if not name.endswith(".safetensors"):
            continue
        expected = shard_size(path)
        if not expected or expected != size:
            said = f"{expected} bytes by its header, {size} on disk" if expected else "no header"
            report.stop("model-incomplete", f"{name} is cut short: {said}", "fetch it again")
    return total


def _is_pointer(path: str, size: int) -> bool:
    """Whether git-lfs has left its note instead of the file (git-lfs, docs/spec.md: < 1024 bytes).

    A file that cannot be read is none.
    """
    if size >= 1024:
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(_POINTER)) == _POINTER
    except OSError:
        return False


def shard_size(path: str) -> int:
    """Bytes a .safetensors file must have by its header; 0 when it has none.

    Format: 8 bytes little-endian length, a JSON header, then the tensors, whose `data_offsets`
    count from the header's end (safetensors, README).
    """
    try:
        with open(path, "rb") as file:
            start = file.read(8)
            if len(start) < 8:
                return 0
            (length,) = struct.unpack("<Q", start)
            if length > _HEADER:
                return 0
            header = json.loads(file.read(length))
        ends = [row["data_offsets"][1] for name, row in header.items() if name != "__metadata__"]
        return int(8 + length + max(ends, default=0))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return 0


def _template(model: str, arguments: Sequence[str], report: Report) -> None:
    if option(arguments, "--chat-template"):
        return
    if any(
        os.path.exists(f"{model}/{name}") for name in ("chat_template.jinja", "chat_template.json")
    ):
        return
    try:
        with open(f"{model}/tokenizer_config.json", encoding="utf-8") as file:
            if json.load(file).get("chat_template"):
                return
    except (OSError, ValueError, AttributeError):
        pass
    report.warn(
        "chat-template-missing",
        f"{model} has no chat template: /v1/chat/completions will be refused",
        "--chat-template FILE, or ask /v1/completions",
    )
