"""Preflight: each thing that is wrong is one line with its fix; what is right stops nothing."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pynvml
import pytest

from builder.core.keys import KEYS
from builder.runtime import checkpoint, gpus, preflight
from builder.runtime.report import Report, number, option
from tests.support.fake_nvml import FakeGpu, compile_fake, load, situation

TIED = "sha256:" + "a" * 64
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4\n"


@pytest.fixture
def image(tmp_path: Path) -> dict[str, Any]:
    """Describe a CUDA image whose cache folder is there."""
    cache = tmp_path / "cache"
    cache.mkdir()
    return {
        "cache": str(cache),
        "lock": TIED,
        "target": {"cuda": "13.0", "python": "3.13"},
        "targets": ["sm_120"],
    }


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the fake libnvidia-ml once."""
    return compile_fake(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nvidia-ml-py load the fake, and forget what it has loaded before and after."""
    monkeypatch.setattr(pynvml, "nvmlLib", load(library))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Tell it, in seconds."""
        return self.now

    def pause(self, seconds: float) -> None:
        """Let it pass."""
        self.now += seconds


def looked(
    image: Mapping[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *devices: FakeGpu,
    arguments: tuple[str, ...] = (),
    driver: str = "580.95.05",
    cuda: int = 13000,
    settle: float = 60,
) -> tuple[Report, Clock]:
    """Look at GPUs in one situation."""
    monkeypatch.setenv("FAKE_NVML", str(situation(tmp_path, *devices, driver=driver, cuda=cuda)))
    (tmp_path / "dev").mkdir(exist_ok=True)
    (tmp_path / "dev" / "nvidia-uvm").touch()
    report, clock = Report(), Clock()
    gpus.check(
        arguments,
        image,
        report,
        settle=settle,
        clock=clock,
        pause=clock.pause,
        root=str(tmp_path),
    )
    return report, clock


def stops(report: Report) -> list[str]:
    """Keys of what stops the server."""
    return [row["key"] for row in report.rows if row["state"] == "stop"]


def warns(report: Report) -> list[str]:
    """Keys of what is doubtful."""
    return [row["key"] for row in report.rows if row["state"] == "warn"]


def text(report: Report) -> str:
    """Everything that was said."""
    return "\n".join(report.lines())


@pytest.mark.usefixtures("nvml")
def test_a_good_host_is_four_lines(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Driver, number, architecture and memory are told, and nothing else; nobody waits."""
    report, clock = looked(
        image, tmp_path, monkeypatch, *[FakeGpu()] * 8, arguments=("/m", "--tensor-parallel-size=8")
    )
    assert ["driver", "gpus", "architecture", "memory"] == [row["key"] for row in report.rows]
    assert report.good
    assert 0 == clock.now


@pytest.mark.usefixtures("nvml")
@pytest.mark.parametrize(("driver", "cuda"), [("570.133.07", 12080), ("535.104.05", 12020)])
def test_driver_too_old(
    image: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    cuda: int,
) -> None:
    """C37: one message, with the CUDA version decoded and the branch that is needed."""
    report, _ = looked(image, tmp_path, monkeypatch, FakeGpu(), driver=driver, cuda=cuda)
    assert ["driver-too-old"] == stops(report)
    assert f"driver {driver} runs CUDA up to {cuda // 1000}.{cuda % 1000 // 10}" in text(report)
    assert "R580" in text(report)


@pytest.mark.usefixtures("nvml")
def test_no_kernel_image(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C34: a GPU the image has no code for, by name of both."""
    report, _ = looked(image, tmp_path, monkeypatch, FakeGpu(name="H200", capability=(9, 0)))
    assert ["no-kernel-image"] == stops(report)
    assert "sm_90" in text(report)
    assert "sm_120" in text(report)


@pytest.mark.usefixtures("nvml")
@pytest.mark.parametrize(("vllm", "expected"), [("0.17.1", ["fp8-kv-triton-mla"]), ("0.33.0", [])])
def test_fp8_kv_triton_mla(
    image: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    vllm: str,
    expected: list[str],
) -> None:
    """C40: the GPU is asked its architecture, the image its vLLM, the model its wish."""
    monkeypatch.setattr(preflight, "_site", lambda _image: str(tmp_path / "site"))
    (tmp_path / "site" / f"vllm-{vllm}+cu130.dist-info").mkdir(parents=True)
    wish = {"kv_lora_rank": 512, "quantization_config": {"kv_cache_quant_algo": "FP8"}}
    folder = model(tmp_path, config__json=wish)
    monkeypatch.setenv("FAKE_NVML", str(situation(tmp_path, FakeGpu())))
    (tmp_path / "dev").mkdir(exist_ok=True)
    (tmp_path / "dev/nvidia-uvm").touch()
    report = preflight.check([str(folder)], image, {}, root=str(tmp_path))
    assert expected == stops(report)


@pytest.mark.usefixtures("nvml")
def test_free_memory_restart_loop(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C46, C47: memory that is held for ever stops, with the PID and the share that would fit."""
    held = FakeGpu(used=70_000, pid=4711)
    report, clock = looked(image, tmp_path, monkeypatch, held, settle=20)
    assert ["free-memory-restart-loop"] == stops(report)
    assert "held by PID 4711" in text(report)
    assert "--gpu-memory-utilization 0.28" in text(report)
    assert 20 == clock.now


@pytest.mark.usefixtures("nvml")
def test_orphan_workers_that_go_away_are_waited_for(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C46, C81: memory that returns after twenty looks lets the server start."""
    held = FakeGpu(used=70_000, pid=4711, looks=20)
    report, clock = looked(image, tmp_path, monkeypatch, held)
    assert [] == stops(report)
    assert "after a wait" in text(report)
    assert 10 < clock.now <= 20


@pytest.mark.usefixtures("nvml")
def test_a_smaller_share_is_enough(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compared is what the arguments ask for; GPUs that are not used do not count."""
    arguments = ("/m", "--gpu-memory-utilization", "0.25")
    report, _ = looked(
        image,
        tmp_path,
        monkeypatch,
        FakeGpu(used=70_000),
        FakeGpu(used=97_000),
        arguments=arguments,
    )
    assert report.good


@pytest.mark.usefixtures("nvml")
def test_two_different_cards(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can work together, and the smaller decides: a warning."""
    other = FakeGpu(name="NVIDIA GeForce RTX 5090", total=32_607)
    report, _ = looked(image, tmp_path, monkeypatch, FakeGpu(), other, arguments=("/m", "-tp", "2"))
    assert report.good
    assert ["free-memory-restart-loop"] == warns(report)
    assert "RTX 5090" in text(report)


@pytest.mark.usefixtures("nvml")
def test_too_few_gpus(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C81: fewer cards than the arguments shard over, after the wait."""
    report, clock = looked(
        image, tmp_path, monkeypatch, FakeGpu(), arguments=("/m", "--tensor_parallel_size=2")
    )
    assert ["vram-settle-and-boot-race"] == stops(report)
    assert "1 GPUs are here, the arguments ask for 2" in text(report)
    assert 60 == clock.now


@pytest.mark.usefixtures("nvml")
def test_mig_slices_are_left_alone(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a slice NVML tells another memory than CUDA sees: nothing is concluded from it."""
    report, _ = looked(image, tmp_path, monkeypatch, FakeGpu(used=90_000, mig=1))
    assert report.good


@pytest.mark.usefixtures("nvml")
def test_vram_settle_and_boot_race_mig_without_a_slice(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU can be in MIG mode with no slice made or given: CUDA has no device then."""
    report, clock = looked(image, tmp_path, monkeypatch, FakeGpu(mig=2))
    assert ["vram-settle-and-boot-race"] == stops(report)
    assert "GPU 0 is in MIG mode and no slice" in text(report)
    assert "nvidia-smi -i 0 -mig 0" in text(report)
    assert 0 == clock.now


def test_no_gpu_is_said(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the driver's library: one stop in words, after a bounded wait."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    report, clock = looked(image, tmp_path, monkeypatch, settle=5)
    assert ["vram-settle-and-boot-race"] == stops(report)
    assert "--gpus all" in text(report)
    assert 5 == clock.now


def written(folder: Path, **files: object) -> Path:
    """Write a checkpoint; `__` in a name stands for a dot."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


def shard(size: int = 64) -> bytes:
    """Write a .safetensors of one tensor."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def model(tmp_path: Path, **changes: object) -> Path:
    """Write a whole checkpoint, then change it."""
    whole: dict[str, object] = {
        "config__json": {"architectures": ["LlamaForCausalLM"]},
        "tokenizer_config__json": {"chat_template": "{{ x }}"},
        "model__safetensors": shard(),
    }
    kept = {name: value for name, value in (whole | changes).items() if value is not None}
    return written(tmp_path / "model", **kept)


def checked(folder: str | Path, **environment: str) -> Report:
    """Check a model as `vllm serve FOLDER` would be given it."""
    report = Report()
    checkpoint.check([str(folder)], environment, report)
    return report


def test_a_whole_model_is_one_line(tmp_path: Path) -> None:
    """Its folder and the size of its weights."""
    report = checked(model(tmp_path))
    assert [("ok", "model")] == [(row["state"], row["key"]) for row in report.rows]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config__json": None}, "has no config.json"),
        ({"config__json": b"{"}, "config.json cannot be read"),
        ({"model__safetensors": None}, "holds no weights"),
        ({"model__safetensors": shard()[:-1]}, "cut short"),
        ({"model__safetensors": b""}, "cut short: no header"),
        ({"model__safetensors": b"\xff" * 64}, "cut short: no header"),
        ({"model__safetensors": POINTER}, "model.safetensors is a git-lfs pointer of 126 bytes"),
        ({"model__safetensors": None, "pytorch_model__bin": POINTER}, "git-lfs pointer"),
        ({"model__safetensors__index__json": {"weight_map": {"w": "b.safetensors"}}}, "1 of 1"),
        ({"model__safetensors__index__json": b"[]"}, "cannot be read"),
    ],
)
def test_model_incomplete(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    """A folder that lacks something is named, with what."""
    report = checked(model(tmp_path, **changes))
    assert ["model-incomplete"] == stops(report)
    assert words in text(report)


def test_model_incomplete_because_nothing_is_mounted() -> None:
    """A path that is not in the container: how to mount it."""
    report = checked("/models/nowhere")
    assert ["model-incomplete"] == stops(report)
    assert "-v /where/it/lies:/models/nowhere:ro" in text(report)


def test_chat_template_missing(tmp_path: Path) -> None:
    """C58: a model without one can be served, so it is a warning; one that is given counts."""
    folder = model(tmp_path, tokenizer_config__json={})
    assert ["chat-template-missing"] == warns(checked(folder))
    report = Report()
    checkpoint.check([str(folder), "--chat-template", "x.jinja"], {}, report)
    assert [] == warns(report)


def test_hf_offline(tmp_path: Path) -> None:
    """C50: a name of the hub that is not in the cache, while nothing may be fetched."""
    report = checked("org/name", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert ["hf-offline"] == stops(report)
    (tmp_path / "hub" / "models--org--name" / "snapshots").mkdir(parents=True)
    assert checked("org/name", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path)).good
    assert checked("org/name").good


def whole(image: Mapping[str, Any], environment: Mapping[str, str], root: Path) -> Report:
    """Check everything that needs no GPU."""
    bare = {**image, "target": {"python": "3.13"}}
    return preflight.check(["/nowhere"], bare, environment, root=str(root))


def test_version_check_bypassed(image: dict[str, Any], tmp_path: Path) -> None:
    """C04: a variable that switches FlashInfer's check off is a warning."""
    report = whole(image, {"FLASHINFER_DISABLE_VERSION_CHECK": "1"}, tmp_path)
    assert ["version-check-bypassed"] == warns(report)


@pytest.mark.parametrize(("value", "warned"), [("1", True), ("true", True), ("0", False)])
def test_driver_too_old_is_let_in(
    image: dict[str, Any], tmp_path: Path, value: str, warned: bool
) -> None:
    """C34: the container toolkit's own check is switched off; `0` switches nothing off."""
    report = whole(image, {"NVIDIA_DISABLE_REQUIRE": value}, tmp_path)
    assert (["driver-too-old"] if warned else []) == warns(report)


def test_stale_caches(image: dict[str, Any], tmp_path: Path) -> None:
    """C39: a cache that is not keyed to this image's lock."""
    own = {"VLLM_CACHE_ROOT": f"{image['cache']}/{'a' * 12}/vllm"}
    assert [] == warns(whole(image, own, tmp_path))
    shared = {"VLLM_CACHE_ROOT": "/home/me/.cache/vllm"}
    assert ["stale-caches"] == warns(whole(image, shared, tmp_path))


def test_non_root_user(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C49: a cache folder that belongs to somebody else."""
    # Root may write everywhere: what the kernel says of this folder to others is put in its place.
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != image["cache"] and real(path, mode)
    )
    report = whole(image, {}, tmp_path)
    assert "non-root-user" in stops(report)
    assert "cannot be written by UID" in text(report)


def test_flashinfer_trio_mismatch(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C01: the story's mismatch, seen by the names of folders, before anything is imported."""
    site = tmp_path / "site"
    for name in ("flashinfer_python-0.6.4.dist-info", "flashinfer_cubin-0.6.3.dist-info"):
        (site / name).mkdir(parents=True)
    monkeypatch.setattr(preflight, "_site", lambda _image: str(site))
    report = whole(image, {}, tmp_path)
    assert "flashinfer-trio-mismatch" in stops(report)
    assert "flashinfer_cubin 0.6.3, flashinfer_python 0.6.4" in text(report)


def test_jit_cache_local_version_is_no_mismatch(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C03: `+cu130` alone makes no other version."""
    site = tmp_path / "site"
    for name in (
        "flashinfer_python-0.6.4.dist-info",
        "flashinfer_jit_cache-0.6.4+cu130.dist-info",
    ):
        (site / name).mkdir(parents=True)
    monkeypatch.setattr(preflight, "_site", lambda _image: str(site))
    assert "flashinfer-trio-mismatch" not in stops(whole(image, {}, tmp_path))


def test_flag_and_env_drift(
    image: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C52: a variable this vLLM does not know has no effect, and says nothing by itself."""
    envs = tmp_path / "site" / "vllm" / "envs.py"
    envs.parent.mkdir(parents=True)
    envs.write_text('"VLLM_USE_V1": 1,\n')
    monkeypatch.setattr(preflight, "_site", lambda _image: str(tmp_path / "site"))
    report = whole(image, {"VLLM_ATTENTION_BACKEND": "X", "VLLM_USE_V1": "1"}, tmp_path)
    assert ["flag-and-env-drift"] == warns(report)
    assert "VLLM_ATTENTION_BACKEND" in text(report)


def test_cuda_compat_803(image: dict[str, Any], tmp_path: Path) -> None:
    """C35: a compat libcuda on the loader's path, by variable or by ld.so.conf.d."""
    compat = tmp_path / "usr" / "compat"
    compat.mkdir(parents=True)
    (compat / "libcuda.so.1").touch()
    report = Report()
    preflight._compat({"LD_LIBRARY_PATH": str(compat)}, report, str(tmp_path))
    assert ["cuda-compat-803"] == stops(report)
    conf = tmp_path / "etc" / "ld.so.conf.d" / "cuda.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("/usr/compat\n")
    report = Report()
    preflight._compat({}, report, str(tmp_path))
    assert ["cuda-compat-803"] == stops(report)


def test_shm_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C41: Docker's 64 MiB stop; several GPUs need more than one."""
    sizes = {"one": 64, "two": 512}
    for name, size in sizes.items():
        state = os.statvfs_result((4096, 4096, size * 256, size * 256, size * 256, 1, 1, 1, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _folder, state=state: state)
        report = Report()
        words = ["/m", "-tp", "2"] if name == "two" else ["/m"]
        preflight._shared_memory(words, report, str(tmp_path))
        assert ["shm-too-small"] == stops(report)
    report = Report()
    preflight._shared_memory(["/m"], report, str(tmp_path))
    assert [] == stops(report)


def test_every_key_is_in_the_table(image: dict[str, Any], tmp_path: Path) -> None:
    """What stops or warns can be looked up with `nightlock explain`."""
    folder = Path(preflight.__file__).parent
    used = {
        word
        for name in ("preflight.py", "gpus.py", "checkpoint.py", "kvcache.py")
        for word in (folder / name).read_text().replace("(", '"').split('"')
        if word.count("-") >= 1 and word in KEYS
    }
    assert {"shm-too-small", "driver-too-old", "model-incomplete", "hf-offline"} <= used
    report = whole(image, {"FLASHINFER_DISABLE_VERSION_CHECK": "1"}, tmp_path)
    assert {row["key"] for row in report.rows if row["state"] != "ok"} <= set(KEYS)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("", "strict"), ("strict", "strict"), ("WARN", "warn"), (" off ", "off"), ("maybe", "strict")],
)
def test_modes(word: str, expected: str) -> None:
    """An unknown word is strict."""
    assert expected == preflight.mode({"NIGHTLOCK_PREFLIGHT": word})


def test_a_stop_stops_unless_it_is_only_to_warn(
    image: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """`warn` says the same and goes on; `off` says nothing."""
    bare = {**image, "target": {}}
    assert not preflight.may_start(["/nowhere"], bare, {})
    said = capsys.readouterr().err
    assert "stop model-incomplete" in said
    assert preflight.may_start(["/nowhere"], bare, {"NIGHTLOCK_PREFLIGHT": "warn"})
    assert "stop model-incomplete" in capsys.readouterr().err
    assert preflight.may_start(["/nowhere"], bare, {"NIGHTLOCK_PREFLIGHT": "off"})
    assert "" == capsys.readouterr().err


def test_json_is_one_line(image: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for by itself: the document on stdout, exit 1 for a stop, 2 for a wrong option."""
    bare = {**image, "target": {}}
    assert 1 == preflight.main(["--json", "--wait", "0", "/nowhere"], bare)
    document = json.loads(capsys.readouterr().out)
    assert ("nightlock/preflight/1", False) == (document["schema"], document["ok"])
    assert 2 == preflight.main(["--wait", "soon"], bare)


def test_options_are_read_as_vllm_reads_them() -> None:
    """The last counts, `=` or not, `_` for `-`; words that are no numbers are the default."""
    words = ["--a=1", "--a", "2", "--b_c", "3", "-x", "4", "--last"]
    assert ("2", "3", "4", "", "") == (
        option(words, "--a"),
        option(words, "--b-c"),
        option(words, "-x"),
        option(words, "--last"),
        option(words, "--other"),
    )
    assert (7.0, 1.5) == (number("no", 7), number("1.5", 7))
