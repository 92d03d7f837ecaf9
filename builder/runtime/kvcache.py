"""The KV cache a checkpoint asks for, and whether the attention of this GPU and vLLM has it (C40).

A checkpoint can ask for an FP8 KV cache by itself: `kv_cache_scheme` of its quantization_config
(compressed-tensors), `kv_cache_quant_algo` of ModelOpt's hf_quant_config.json. `--kv-cache-dtype
auto`, the default, obeys it: where the backend cannot, the server fails after minutes of loading.
"""

from __future__ import annotations

import json
import re

from builder.runtime.report import option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from builder.runtime.report import Report

BACKENDS: tuple[dict[str, Any], ...] = (
    {
        "backend": "TRITON_MLA",
        "attention": "mla",
        "sm_major": 12,
        "vllm": ((0, 15), (0, 18)),
        "dtypes": ("auto", "bfloat16"),
    },
    {
        "backend": "TRITON_MLA",
        "attention": "mla",
        "sm_major": 12,
        "vllm": ((0, 18), None),
        "dtypes": ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3"),
    },
)
"""Which types the one backend has that vLLM chooses there; versions from, and below which.

Dense MLA on compute capability 12 has TRITON_MLA alone. The types are those of
`TritonMLABackend.supported_kv_cache_dtypes` (vllm/v1/attention/backends/mla/triton_mla.py) in the
wheels of 0.15.0 to 0.33.0. Attention without a row here has FP8, or nothing is known of it.
"""
SOURCE = "vllm/v1/attention/backends/mla/triton_mla.py"
_DTYPES = re.compile(r"supported_kv_cache_dtypes[^=\n]*=\s*\[([^\]]*)\]")
_SCHEMES = {"FP8": "fp8", "NVFP4": "nvfp4"}


def attention_of(config: Mapping[str, Any]) -> str:
    """`mla`, `sparse-mla`, or `dense`, by the sizes that config.json gives."""
    inner = text_config(config)
    if not inner.get("kv_lora_rank"):
        return "dense"
    return "sparse-mla" if inner.get("index_topk") else "mla"


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a config that describes the language model."""
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def entries(files: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, tuple[str, ...], Any]]:
    """Every entry that asks for a quantised KV cache: file, keys that lead to it, value.

    `files` maps config.json and hf_quant_config.json to what they hold.
    """
    places: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("config.json", ("quantization_config", "kv_cache_scheme")),
        ("config.json", ("quantization_config", "kv_cache_quant_algo")),
        ("config.json", ("quantization_config", "quantization", "kv_cache_quant_algo")),
        ("config.json", ("text_config", "quantization_config", "kv_cache_scheme")),
        ("config.json", ("text_config", "quantization_config", "kv_cache_quant_algo")),
        ("hf_quant_config.json", ("quantization", "kv_cache_quant_algo")),
        ("hf_quant_config.json", ("quantization", "kv_cache_scheme")),
    )
    found = []
    for name, keys in places:
        value: Any = files.get(name)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value:
            found.append((name, keys, value))
    return found


def asked(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Spell what a checkpoint asks for, as `--kv-cache-dtype` would: `fp8`, `nvfp4`; else ""."""
    for _, _, value in entries(files):
        if isinstance(value, str):
            return _SCHEMES.get(value.upper(), value.lower())
        if isinstance(value, dict) and value.get("num_bits") == 8:
            return "fp8" if value.get("type", "float") == "float" else "int8"
    return ""


def corrected(files: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Copy the files that ask, without what asks; the rest of them stays as it was."""
    changed: dict[str, dict[str, Any]] = {}
    for name, keys, _ in entries(files):
        content = changed.setdefault(name, json.loads(json.dumps(files[name])))
        *way, last = keys
        for key in way:
            content = content[key]
        del content[last]
    return changed


def read_dtypes(site: str) -> tuple[str, ...]:
    """Read what the installed TRITON_MLA says it has; empty when that cannot be read.

    A nightly carries the version of the release before it: its source is the better witness.
    """
    try:
        with open(f"{site}/{SOURCE}", encoding="utf-8", errors="replace") as file:
            match = _DTYPES.search(file.read())
    except OSError:
        return ()
    return tuple(re.findall(r"[\"']([a-z0-9_]+)[\"']", match.group(1))) if match else ()


def release(version: str) -> tuple[int, ...]:
    """Read the release numbers of a PEP 440 version: 0.17.2rc1.dev3+g1 is (0, 17, 2)."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def backend(
    attention: str, sm: str, vllm: str, dtypes: Sequence[str] = ()
) -> tuple[str, Sequence[str]]:
    """Name the backend and its types; ("", ()) where nothing forbids anything.

    `sm` is as `sm_120`; `vllm` is a version, or empty for the newest that is known; `dtypes` are
    those that the installed source names, which win over the table.
    """
    number = re.match(r"sm_(\d+)\d[af]?$", sm)
    if number is None:
        return "", ()
    version = release(vllm) or (9999,)
    for row in BACKENDS:
        first, end = row["vllm"]
        if (
            row["attention"] == attention
            and row["sm_major"] == int(number.group(1))
            and first <= version
            and (end is None or version < end)
        ):
            return str(row["backend"]), tuple(dtypes or row["dtypes"])
    return "", ()


def read(model: str) -> dict[str, dict[str, Any]]:
    """Read the two files that may ask; one that is not there or is damaged asks for nothing."""
    found = {}
    for name in ("config.json", "hf_quant_config.json"):
        try:
            with open(f"{model}/{name}", encoding="utf-8") as file:
                content = json.load(file)
        except (OSError, ValueError):
            continue
        if isinstance(content, dict):
            found[name] = content
    return found


def check(
    model: str,
    arguments: Sequence[str],
    sms: Iterable[str],
    vllm: str,
    report: Report,
    *,
    dtypes: Sequence[str] = (),
) -> None:
    """Stop where the type that was asked for, by flag or by the checkpoint, is not to be had."""
    files = read(model)
    flag = option(arguments, "--kv-cache-dtype")
    own = asked(files)
    wanted = flag if flag not in ("", "auto") else own
    if not wanted:
        return
    attention = attention_of(files.get("config.json", {}))
    for sm in sorted(sms):
        name, has = backend(attention, sm, vllm, dtypes)
        if not name or wanted in has:
            continue
        by = f"--kv-cache-dtype {flag}" if wanted == flag else f"the checkpoint ({_where(files)})"
        report.stop(
            "fp8-kv-triton-mla",
            f"{by} asks for a KV cache of {wanted}; {name}, the one backend for its attention on "
            f"{sm}, has {', '.join(has)}" + (f" in vLLM {vllm}" if vllm else ""),
            f"leave out --kv-cache-dtype {flag}"
            if wanted == flag
            else "`nightlock model check FOLDER --overlay DIR` on the host, then serve DIR",
        )
        return
    report.ok("kv-cache", wanted)


def _where(files: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{name}: {'.'.join(keys)}" for name, keys, _ in entries(files))
