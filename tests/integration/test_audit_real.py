"""`audit` on real files: NVIDIA's own reader agrees, and the built image is clean."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from packaging.utils import canonicalize_name

from builder.commands import audit
from builder.commands.context import Context
from builder.core.audit.file import Examiner
from builder.core.audit.kernels import Kernels
from builder.core.elf import ElfScan
from builder.core.fatbin import FatbinScan
from builder.core.lock import WheelPin, digest_of
from builder.core.manifest import OCI_MANIFEST
from builder.core.reference import ImageRef
from builder.edge.project import read_lock
from builder.edge.store import Store
from tests.support.cuobjdump import Cuobjdump, install
from tests.support.far_wheel import extract
from tests.support.image_handle import ImageHandle

ROOT = Path(__file__).parents[2]
SMALL = ("nccl-extensions==0.1.0", "torchcodec==0.17.0")
"""Small wheels with code for several architectures: `a`, PTX, and linked relocatable code."""
VLLM = WheelPin(
    name=canonicalize_name("vllm"),
    version="0.33.0",
    sha256="4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa",
    file="vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl",
    size=336_361_138,
    index="general",
)
TRUE: dict[str, dict[str, int]] = {
    "vllm/_C_stable_libtorch.abi3.so": {"f": 35, "exact": 50, "ptx": 28},
    "vllm/_moe_C_stable_libtorch.abi3.so": {"f": 19, "exact": 8, "ptx": 15},
    "vllm/_flashkda_C.abi3.so": {"f": 1},
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so": {"ptx": 76},
    "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so": {},
    "vllm/_flashmla_C.abi3.so": {},
    "vllm/_flashmla_extension_C.abi3.so": {},
    "vllm/_deepselect_C.abi3.so": {},
    "vllm/_qutlass_C.abi3.so": {},
}
"""What SM120 runs of vllm 0.33.0, and how: counted once with cuobjdump, which names `a` and `f`."""


def code_of(path: Path) -> tuple[dict[str, int], int]:
    """Count entries by architecture in the section that cuobjdump reads, and all there are.

    cuBLAS, cuDNN and CUPTI keep code elsewhere too, and load it by themselves.
    """
    tables, code, whole = ElfScan(), FatbinScan(), Examiner()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            tables.feed(piece)
            code.feed(piece)
            whole.feed(piece)
    everything = sum(one.count for one in whole.facts().code)
    listed: dict[str, int] = {}
    for at, size in tables.sections(".nv_fatbin"):
        around = [(0, at), (at + size, path.stat().st_size)]
        listed |= {one.code.architecture: one.count for one in code.amounts(around)}
    return listed, everything


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Cuobjdump:
    """Install NVIDIA's reader."""
    return Cuobjdump.installed(tmp_path_factory.mktemp("cuobjdump"))


@pytest.mark.network
def test_cuobjdump_agrees_on_small_wheels(cuobjdump: Cuobjdump, tmp_path: Path) -> None:
    """The same architectures with the same suffixes, as often."""
    install(tmp_path, *SMALL)
    compared = 0
    for path in sorted(tmp_path.rglob("*.so*")):
        found, everything = code_of(path)
        assert cuobjdump.code(path) == found, path
        assert sum(found.values()) == everything, path
        compared += bool(found)
    assert compared >= 8


@pytest.mark.network
def test_the_true_numbers_of_vllm_0_33_are_cuobjdumps_too(
    cuobjdump: Cuobjdump, engine_context: Context, tmp_path: Path
) -> None:
    """Both read the extensions of the published wheel, but for FlashAttention's 173 MB."""
    wanted = {name: forms for name, forms in TRUE.items() if "/vllm_flash_attn/" not in name}
    for path in extract(engine_context, VLLM, wanted, tmp_path):
        name = path.relative_to(tmp_path).as_posix()
        assert cuobjdump.code(path) == code_of(path)[0], name
        examiner = Examiner()
        examiner.feed(path.read_bytes())
        code = examiner.facts().code
        row = Kernels(package="vllm", path=name, size=path.stat().st_size, code=code)
        assert wanted[name] == row.forms("sm_120"), name
        assert bool(wanted[name]) != bool(row.exception("sm_120")), name


@pytest.mark.long
@pytest.mark.network
def test_cuobjdump_agrees_on_every_object_of_the_cuda_lock(
    cuobjdump: Cuobjdump, engine_context: Context, tmp_path: Path
) -> None:
    """All 199 wheels of the committed lock (after `nightlock fetch cuda13-sm120`)."""
    lock = read_lock(ROOT, "cuda13-sm120")
    store = Store(engine_context.places.store)
    compared = 0
    for pin in lock.platforms["linux/amd64"].wheels:
        with zipfile.ZipFile(store.path(pin.sha256)) as wheel:
            for name in wheel.namelist():
                if ".so" not in name:
                    continue
                path = Path(wheel.extract(name, tmp_path))
                found, everything = code_of(path)
                if everything:
                    assert cuobjdump.code(path) == found, name
                    assert everything >= sum(found.values()), name
                    compared += 1
                path.unlink()
    assert compared > 50


@pytest.mark.long
def test_the_true_numbers_of_vllm_0_33(engine_context: Context) -> None:
    """What was counted in the wheel of vllm 0.33.0 (after `nightlock fetch cuda13-sm120`)."""
    if "0.33.0" != read_lock(ROOT, "cuda13-sm120").header.vllm.version:
        pytest.skip("the committed lock has moved on")
    outcome = audit.run(engine_context, lock="cuda13-sm120")
    rows = {row.path: row for row in outcome.result.audits[0].objects if row.package == "vllm"}
    runs = {path: row.runs["sm_120"] for path, row in rows.items()}
    assert outcome.ok, outcome.findings
    assert TRUE == runs
    none = {path for path, forms in runs.items() if not forms}
    assert none == {path for path, row in rows.items() if row.exceptions}


@pytest.fixture(scope="module")
def derived(cpu_image: ImageHandle) -> Iterator[str]:
    """Push a copy of the built image with one layer more: debug patches and what they left."""
    ref = ImageRef.parse(cpu_image.reference)
    base = f"http://{cpu_image.registry}/v2/{ref.repository}"
    with httpx.Client(trust_env=False, timeout=60) as client:
        yield _derive(client, base, ref, cpu_image)


SITE = "opt/venv/lib/python3.11/site-packages"
MODEL = f"{SITE}/vllm/model_executor/models/llama.py"


def _derive(client: httpx.Client, base: str, ref: ImageRef, image: ImageHandle) -> str:
    def put(data: bytes) -> dict[str, object]:
        place = client.post(f"{base}/blobs/uploads/").headers["Location"]
        url = httpx.URL(place).copy_merge_params({"digest": digest_of(data)})
        client.put(url, content=data).raise_for_status()
        return {"digest": digest_of(data), "size": len(data)}

    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for name, data in {
            MODEL: b"import torch\ntorch.save({}, '/tmp/activations.pt')\n",
            f"{SITE}/vllm/debug_dump.py": b"import torch\n",
            "root/.netrc": b"machine example.com login me password hunter22\n",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    headers = {"Accept": OCI_MANIFEST}
    manifest = client.get(f"{base}/manifests/{image.digest}", headers=headers).json()
    manifest["layers"].append(
        {"mediaType": "application/vnd.oci.image.layer.v1.tar", **put(layer.getvalue())}
    )
    tag = f"{ref.tag}-patched"
    client.put(
        f"{base}/manifests/{tag}", json=manifest, headers={"Content-Type": OCI_MANIFEST}
    ).raise_for_status()
    return str(ref.with_tag(tag))


@pytest.mark.docker
def test_the_built_image_is_clean(cpu_image: ImageHandle, engine_context: Context) -> None:
    """Every file is as its wheel lists it, nothing else is there, no finding at all."""
    outcome = audit.run(engine_context, image=cpu_image.reference)
    (one,) = outcome.result.audits
    assert (True, ()) == (outcome.ok, outcome.findings)
    assert cpu_image.digest == outcome.result.digest
    assert (148, "3.11", "2.36") == (one.packages, one.python, one.glibc)


@pytest.mark.docker
def test_debug_patches_in_a_derived_image_are_found(derived: str, engine_context: Context) -> None:
    """file-edited, file-stray, secret-in-layer: one line each, with the injected code in it."""
    outcome = audit.run(engine_context, image=derived)
    found = {(row.key, row.subject): row.evidence for row in outcome.findings}
    edited, stray, netrc = f"/{MODEL}", f"/{SITE}/vllm/debug_dump.py", "/root/.netrc"
    assert {
        ("file-edited", edited),
        ("file-stray", stray),
        ("file-stray", netrc),
        ("secret-in-layer", netrc),
    } == set(found)
    assert "torch.save({}, '/tmp/activations.pt')" in found["file-edited", edited]
    assert "hunter22" not in outcome.result.model_dump_json()
