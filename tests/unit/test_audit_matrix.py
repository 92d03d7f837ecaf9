"""The kernel matrix: how code runs on a GPU, as text, JSON, HTML, in an image and as a label."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from builder.commands import audit
from builder.commands.render import Plan, with_kernels
from builder.core.audit.file import Examiner
from builder.core.audit.kernels import Kernels
from builder.core.fatbin import FatbinScan
from builder.core.spec import parse_spec
from builder.errors import BadInput, Outside
from tests.support.audited import AMD64, SPEC, Audited, installed, others, vllm
from tests.support.elf import needing
from tests.support.fatbin import fatbin
from tests.support.wheels import Wheel, make_wheel

GOLDEN = Path(__file__).parents[1] / "golden" / "audit"


def of(*architectures: str) -> Kernels:
    """Make an object with one entry an architecture."""
    scan = FatbinScan()
    scan.feed(fatbin(*architectures))
    return Kernels(package="x", path="x/_C.so", size=1, code=scan.amounts())


@pytest.mark.parametrize(
    ("architecture", "gpu", "form"),
    [
        ("sm_120", "sm_120", "exact"),
        ("sm_120a", "sm_120", "a"),
        ("sm_120f", "sm_120", "f"),
        ("sm_120", "sm_121", "near"),
        ("sm_120f", "sm_121", "f"),
        ("sm_120a", "sm_121", None),
        ("sm_121", "sm_120", None),
        ("sm_121f", "sm_120", None),
        ("sm_100", "sm_120", None),
        ("sm_100f", "sm_103", "f"),
        ("sm_86", "sm_89", "near"),
        ("sm_90a", "sm_90", "a"),
        ("sm_90a", "sm_100", None),
        ("compute_80", "sm_120", "ptx"),
        ("compute_90a", "sm_120", None),
        ("compute_120f", "sm_121", "ptx"),
        ("compute_100f", "sm_120", None),
        ("compute_121", "sm_120", None),
    ],
)
def test_which_code_runs_on_which_gpu(architecture: str, gpu: str, form: str | None) -> None:
    """Machine code within its major, `a` on its own capability, `f` in its family, PTX upwards."""
    assert ([form] if form else []) == list(of(architecture).forms(gpu))


@pytest.mark.parametrize("piece", [64, 100, 1 << 20])
def test_relocatable_code_does_not_count(piece: int) -> None:
    """Code that was linked into other code of the file is loaded by no driver as it is."""
    data = needing("libc.so.6", before=fatbin("sm_90"), relocatable=fatbin("sm_120", "compute_120"))
    examiner = Examiner()
    for start in range(0, len(data), piece):
        examiner.feed(data[start : start + piece])
    assert ["sm_90"] == [one.code.architecture for one in examiner.facts().code]


def wheels() -> list[Wheel]:
    """Make a set with every kind of row."""
    code: dict[str, str | bytes] = {
        "torch/version.py": "__version__ = '2.14.0'\ncuda = '13.0'\n",
        "torch/lib/libtorch_cuda.so": _object(fatbin("sm_80", "sm_120", "sm_120")),
        "torch/lib/libold.so": _object(fatbin("sm_75", "compute_75")),
    }
    rest = [wheel for wheel in others() if not wheel.file.startswith("torch-")]
    return [vllm(), make_wheel("torch", "2.14.0", contents=code), *rest]


def _object(code: bytes) -> bytes:
    return needing("libc.so.6", glibc="2.17", before=code)


@pytest.fixture
def project(tmp_path: Path) -> Audited:
    """Make a project whose lock is in the store."""
    made = Audited.at(tmp_path)
    made.lock(wheels())
    return made


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_golden_matrix_of_a_small_set(form: str, project: Audited, update_golden: bool) -> None:
    """As a terminal, a program and a browser get it."""
    found = audit.run(project.context, lock="gpu", format=form).text + "\n"
    # The lock digest follows from files that tests make up.
    found = re.sub(r"sha256:[0-9a-f]{64}", "sha256:…", found)
    path = GOLDEN / f"small.{'txt' if form == 'text' else form}"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert path.read_text() == found


def test_fp4_kernels_not_built_is_asked_of_each_target(project: Audited) -> None:
    """fp4-kernels-not-built: a GPU that was named wins over the image's own."""
    outcome = audit.run(project.context, lock="gpu", targets=("sm_120", "sm_75"))
    assert {"vllm: vllm/_C_stable_libtorch.abi3.so", "vllm: vllm/_flashmla_C.abi3.so",
            "torch: torch/lib/libtorch_cuda.so"} == {
        row.subject for row in outcome.findings
    }  # fmt: skip
    assert all("sm_75" in row.evidence for row in outcome.findings)


@pytest.mark.parametrize("gpu", ["", "rtx5090", "sm_1", "12.0.1"])
def test_a_strange_target_is_refused(gpu: str, project: Audited) -> None:
    """With what to write instead."""
    with pytest.raises(BadInput, match="not a GPU architecture"):
        audit.run(project.context, lock="gpu", targets=(gpu,))


def plan(project: Audited) -> Plan:
    """Make a build plan without files."""
    lock = project.lock(wheels())
    return Plan(spec=parse_spec(SPEC, "x"), lock=lock, platform=AMD64, texts={})


def test_the_matrix_that_is_baked_in_is_the_audits(project: Audited) -> None:
    """kernels.json holds what the audit finds, and the label counts it."""
    made = with_kernels(project.context, plan(project))
    said = json.loads(made.texts["runtime/kernels.json"])
    (one,) = audit.run(project.context, lock="gpu").result.audits
    assert ("nightlock/kernels/1", ["sm_120"]) == (said["schema"], said["targets"])
    assert {row.path: list(row.code) for row in one.objects} == said["objects"]
    assert {"sm_120": {"native": 2, "none": 1, "ptx": 1}} == json.loads(made.kernels)


def test_a_wheel_is_read_once(project: Audited) -> None:
    """What was read is kept by its hash; what is damaged there is read anew."""
    asked, store = plan(project), project.context.places.store
    first = with_kernels(project.context, asked)
    store.rename(project.root / "away")
    assert first.texts == with_kernels(project.context, asked).texts
    cache = project.context.places.cache / "kernels"
    for path in cache.rglob("*.json"):
        path.write_text("[[1,2,3]]")
    with pytest.raises(Outside, match="not in the store"):
        with_kernels(project.context, asked)
    (project.root / "away").rename(store)
    assert first.texts == with_kernels(project.context, asked).texts


def test_an_image_without_gpu_has_no_matrix(project: Audited) -> None:
    """Nothing is read for it."""
    cpu = parse_spec(SPEC.replace('cuda = "13.0"', "").replace('"sm_120"', '"cpu"'), "x")
    asked = replace(plan(project), spec=cpu)
    assert asked == with_kernels(project.context, asked)


@pytest.mark.parametrize(("edit", "clean"), [(False, True), (True, False)])
def test_tag_vs_content_of_the_baked_matrix(edit: bool, clean: bool, project: Audited) -> None:
    """tag-vs-content: kernels.json of another build would let a preflight say wrong things."""
    made = plan(project)
    data = with_kernels(project.context, made).texts["runtime/kernels.json"]
    if edit:
        data = data.replace(b'"sm_120f"', b'"sm_121f"')
    layer = {"opt/nightlock/kernels.json": data}
    outcome = audit.run(project.context, image=project.image(made.lock, installed(wheels()), layer))
    assert clean == outcome.ok
    if not clean:
        (row,) = outcome.findings
        assert ("tag-vs-content", "/opt/nightlock/kernels.json") == (row.key, row.subject)
        assert "vllm/_C_stable_libtorch.abi3.so" in row.evidence
