"""A checkpoint that asks for a KV cache its GPU cannot have, and the overlay that does not."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from builder.commands import model as command
from builder.commands.context import Context, Outcome
from builder.core.checkpoint import Checkpoint, memory_rows, quantization_of
from builder.core.places import Places
from builder.core.settings import Settings
from builder.edge import checkpoint as edge
from builder.errors import BadInput, Refused
from builder.output import Output
from builder.runtime import checkpoint, kvcache, overlay
from builder.runtime.report import Report

MLA = {"architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512}
SCHEME = {"kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}}


def tensor(size: int = 64) -> bytes:
    """Write a .safetensors of one tensor."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def model(folder: Path, config: dict[str, Any], quant: dict[str, Any] | None = None) -> Path:
    """Write a whole checkpoint."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    if quant is not None:
        (folder / "hf_quant_config.json").write_text(json.dumps(quant))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ x }}"}))
    (folder / "model.safetensors").write_bytes(tensor())
    return folder


def judged(
    folder: Path,
    *flags: str,
    sm: str = "sm_120",
    vllm: str = "0.17.1",
    dtypes: tuple[str, ...] = (),
) -> Report:
    """Check as preflight does."""
    report = Report()
    kvcache.check(str(folder), [str(folder), *flags], [sm], vllm, report, dtypes=dtypes)
    return report


def run_check(tmp_path: Path, folder: Path, **options: object) -> Outcome[command.ModelCheckResult]:
    """Run the command with what it takes by default."""
    context = Context(
        project=tmp_path,
        places=Places.from_environment({"HOME": str(tmp_path)}),
        settings=Settings(),
        output=Output(),
    )
    defaults: dict[str, Any] = {
        "gpu": "sm_120",
        "gpus": 1,
        "memory": 0,
        "vllm": "0.17.1",
        "overlay": None,
    }
    return command.check(context, folder, **(defaults | options))


def test_the_command_says_what_a_checkpoint_is(tmp_path: Path) -> None:
    """Architecture, attention, quantisation, size; the finding is the document's."""
    config = {**MLA, "quantization_config": {"quant_method": "compressed-tensors", **SCHEME}}
    folder = model(tmp_path / "m", config)
    outcome = run_check(tmp_path, folder)
    assert not outcome.ok
    assert ["fp8-kv-triton-mla"] == [found.key for found in outcome.findings]
    for word in ("DeepseekV3ForCausalLM", "mla attention", "compressed-tensors", "of fp8"):
        assert word in outcome.text
    assert run_check(tmp_path, folder, vllm="0.33.0").ok


def test_the_command_writes_an_overlay_and_checks_that(tmp_path: Path) -> None:
    """What was refused is served from there."""
    folder = model(tmp_path / "m", {**MLA, "quantization_config": SCHEME})
    outcome = run_check(tmp_path, folder, overlay=tmp_path / "o")
    assert outcome.ok
    assert ["config.json: quantization_config.kv_cache_scheme taken out"] == outcome.result.changes
    assert str(tmp_path / "o") == outcome.result.overlay == outcome.result.model.folder


def test_no_overlay_of_a_damaged_checkpoint(tmp_path: Path) -> None:
    """It would hide that a shard is cut short."""
    folder = model(tmp_path / "m", {**MLA, "quantization_config": SCHEME})
    (folder / "model.safetensors").write_bytes(tensor()[:-1])
    outcome = run_check(tmp_path, folder, overlay=tmp_path / "o")
    assert ["model-incomplete"] == [found.key for found in outcome.findings]
    assert not (tmp_path / "o").exists()
    with pytest.raises(BadInput):
        run_check(tmp_path, tmp_path / "nowhere")
    with pytest.raises(BadInput, match="not a version"):
        run_check(tmp_path, folder, vllm="abc")


def states(report: Report) -> list[tuple[str, str]]:
    """State and key of each row."""
    return [(row["state"], row["key"]) for row in report.rows]


ASKING = [
    pytest.param({**MLA, "quantization_config": SCHEME}, None, id="compressed-tensors"),
    pytest.param(
        {**MLA, "quantization_config": {"kv_cache_quant_algo": "FP8"}}, None, id="modelopt"
    ),
    pytest.param(MLA, {"quantization": {"kv_cache_quant_algo": "FP8"}}, id="hf_quant_config"),
    pytest.param(
        {"text_config": {"kv_lora_rank": 512, "quantization_config": SCHEME}},
        None,
        id="text_config",
    ),
]


@pytest.mark.parametrize(("config", "quant"), ASKING)
def test_fp8_kv_triton_mla_is_seen_before_the_weights_load(
    tmp_path: Path, config: dict[str, Any], quant: dict[str, Any] | None
) -> None:
    """C40: every spelling of the wish, on the GPU and the vLLM of the report."""
    report = judged(model(tmp_path / "m", config, quant))
    assert [("stop", "fp8-kv-triton-mla")] == states(report)
    (row,) = report.rows
    assert "TRITON_MLA" in row["text"]
    assert "kv_cache" in row["text"]
    assert "--overlay" in row["fix"]


def test_fp8_kv_triton_mla_by_a_flag(tmp_path: Path) -> None:
    """A flag wins over the checkpoint; `auto` obeys it."""
    folder = model(tmp_path / "m", MLA)
    assert [] == states(judged(folder))
    report = judged(folder, "--kv-cache-dtype=fp8_e5m2", vllm="0.33.0")
    assert [("stop", "fp8-kv-triton-mla")] == states(report)
    assert "leave out" in report.rows[0]["fix"]
    asking = model(tmp_path / "n", {**MLA, "quantization_config": SCHEME})
    assert [("ok", "kv-cache")] == states(judged(asking, "--kv-cache-dtype=bfloat16"))
    assert [("stop", "fp8-kv-triton-mla")] == states(judged(asking, "--kv-cache-dtype", "auto"))


@pytest.mark.parametrize(
    ("change", "sm", "vllm"),
    [
        ({}, "sm_120", "0.18.0"),
        ({}, "sm_121", "0.33.0+cu130"),
        ({}, "sm_120", ""),
        ({}, "sm_100", "0.17.1"),
        ({}, "sm_90", "0.17.1"),
        ({"kv_lora_rank": None}, "sm_120", "0.17.1"),
        ({"index_topk": 2048}, "sm_120", "0.17.1"),
        ({}, "sm_120", "0.9.0"),
    ],
)
def test_what_can_be_served_is_let_through(
    tmp_path: Path, change: dict[str, Any], sm: str, vllm: str
) -> None:
    """Newer vLLM, other GPUs, other attention, and what no rule knows."""
    folder = model(tmp_path / "m", {**MLA, "quantization_config": SCHEME, **change})
    assert [("ok", "kv-cache")] == states(judged(folder, sm=sm, vllm=vllm))


def test_the_installed_source_wins_over_the_table(tmp_path: Path) -> None:
    """A nightly has the number of the release before it."""
    folder = model(tmp_path / "m", {**MLA, "quantization_config": SCHEME})
    source = tmp_path / "site" / kvcache.SOURCE
    source.parent.mkdir(parents=True)
    source.write_text(
        "class TritonMLABackend(MLACommonBackend):\n"
        '    supported_kv_cache_dtypes: ClassVar[list[CacheDType]] = [\n        "auto",\n'
        '        "fp8",\n    ]\n'
    )
    dtypes = kvcache.read_dtypes(str(tmp_path / "site"))
    assert ("auto", "fp8") == dtypes
    assert () == kvcache.read_dtypes(str(tmp_path / "nowhere"))
    report = judged(folder, vllm="0.17.2rc1.dev344+gabcdef0", dtypes=dtypes)
    assert [("ok", "kv-cache")] == states(report)


@pytest.mark.parametrize("text", ["{", "[]", '{"quantization_config": 7}', '{"text_config": []}'])
def test_odd_configs_ask_for_nothing(tmp_path: Path, text: str) -> None:
    """Whether a config can be read is another check's word."""
    folder = model(tmp_path / "m", MLA)
    (folder / "config.json").write_text(text)
    assert [] == states(judged(folder))


@pytest.mark.parametrize(("config", "quant"), ASKING)
def test_an_overlay_asks_for_nothing(
    tmp_path: Path, config: dict[str, Any], quant: dict[str, Any] | None
) -> None:
    """Only the wish is gone; the original is as it was, the weights are its own."""
    folder = model(tmp_path / "m", config, quant)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    changes = edge.write_overlay(folder, tmp_path / "o")
    assert [True] == ["kv_cache" in change for change in changes]
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [] == states(judged(tmp_path / "o"))
    assert (tmp_path / "o/model.safetensors").samefile(folder / "model.safetensors")
    assert {*before, overlay.NOTE} == {path.name for path in (tmp_path / "o").iterdir()}
    kept = json.loads((tmp_path / "o/config.json").read_text())
    assert config.get("architectures") == kept.get("architectures")
    report = Report()
    checkpoint.check([str(tmp_path / "o")], {}, report)
    assert report.good


def test_an_overlay_of_a_hubs_cache(tmp_path: Path) -> None:
    """Links of a snapshot are followed: one mount is enough. Folders inside come along."""
    folder = model(tmp_path / "blobs", {**MLA, "quantization_config": SCHEME})
    snapshot = tmp_path / "snapshot"
    (snapshot / "extra").mkdir(parents=True)
    (snapshot / ".cache").mkdir()
    (snapshot / ".cache/lock").touch()
    (snapshot / "extra/code.py").write_text("x = 1\n")
    for path in folder.iterdir():
        (snapshot / path.name).symlink_to(f"../blobs/{path.name}")
    edge.write_overlay(snapshot, tmp_path / "o")
    assert not (tmp_path / "o/model.safetensors").is_symlink()
    assert (tmp_path / "o/extra/code.py").exists()
    assert not (tmp_path / "o/.cache").exists()


@pytest.mark.parametrize("seen", [True, False], ids=["source-visible", "in-a-container"])
def test_overlay_stale(tmp_path: Path, seen: bool) -> None:
    """A shard that is written anew under it stops the server, wherever that runs."""
    folder = model(tmp_path / "m", {**MLA, "quantization_config": SCHEME})
    edge.write_overlay(folder, tmp_path / "o")
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\1")
    os.utime(folder / "model.safetensors", ns=(0, 1))
    if not seen:
        folder.rename(tmp_path / "elsewhere")
    report = Report()
    checkpoint.check([str(tmp_path / "o")], {}, report)
    assert [("stop", "overlay-stale")] == states(report)


def test_overlay_stale_when_its_source_is_replaced(tmp_path: Path) -> None:
    """A new config beside old links: only the host can see that."""
    folder = model(tmp_path / "m", {**MLA, "quantization_config": SCHEME})
    edge.write_overlay(folder, tmp_path / "o")
    (folder / "config.json").write_text(json.dumps({**MLA, "x": 1}))
    report = Report()
    checkpoint.check([str(tmp_path / "o")], {}, report)
    assert [("stop", "overlay-stale")] == states(report)
    (tmp_path / "o" / overlay.NOTE).write_text("[]")
    report = Report()
    checkpoint.check([str(tmp_path / "o")], {}, report)
    assert [("stop", "overlay-stale")] == states(report)


def test_an_overlay_is_written_where_it_harms_nothing(tmp_path: Path) -> None:
    """Neither inside the checkpoint, nor over something else, nor of an overlay; again is fine."""
    folder = model(tmp_path / "m", {**MLA, "quantization_config": SCHEME})
    other = tmp_path / "other"
    other.mkdir()
    for place in (folder / "o", folder, tmp_path, other):
        with pytest.raises(BadInput):
            edge.write_overlay(folder, place)
    edge.write_overlay(folder, tmp_path / "o")
    edge.write_overlay(folder, tmp_path / "o")
    with pytest.raises(Refused, match="already"):
        edge.write_overlay(tmp_path / "o", tmp_path / "p")
    with pytest.raises(Refused, match="nothing to correct"):
        edge.write_overlay(model(tmp_path / "n", MLA), tmp_path / "q")
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize(
    ("config", "quant", "expected"),
    [
        ({"quantization_config": {"quant_method": "fp8"}}, {}, "fp8"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, {}, "awq 4 bits"),
        ({}, {"quantization": {"quant_algo": "NVFP4"}}, "modelopt NVFP4"),
        (
            {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack"}},
            {},
            "compressed-tensors pack",
        ),
        ({"torch_dtype": "bfloat16"}, {}, "bfloat16"),
        ({"text_config": {"dtype": "float16"}}, {}, "float16"),
        ({}, {}, "unknown"),
        ({"quantization_config": []}, {"quantization": 3}, "unknown"),
    ],
)
def test_quantisation_in_words(
    config: dict[str, Any], quant: dict[str, Any], expected: str
) -> None:
    """The method and the kind, as the files spell them."""
    assert expected == quantization_of({"config.json": config, "hf_quant_config.json": quant})


def test_gpu_out_of_memory_before_anything_is_loaded() -> None:
    """550 GiB fit on eight cards of 96 GB, not on four."""
    found = Checkpoint(
        folder="m",
        architectures=(),
        attention="mla",
        quantization="modelopt NVFP4",
        kv_cache="",
        shards=1,
        bytes=550 << 30,
        rows=(),
    )
    (fits,) = memory_rows(found, 8, 95.6)
    assert ("ok", "memory") == (fits.state, fits.key)
    (short,) = memory_rows(found, 4, 95.6)
    assert ("stop", "gpu-out-of-memory") == (short.state, short.key)
    assert short.fix.startswith("7 GPUs")
    (unsaid,) = memory_rows(found, 8, 0)
    assert "68.8 GiB" in unsaid.text
