"""Records that the companion rules read: from a lock, a wheel, an installed tree, a spec."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.core.companion import programs_of
from builder.core.companions import check
from builder.core.distribution import (
    Content,
    Distribution,
    cuda_label,
    of_lock,
    of_metadata,
    parse_version,
)
from builder.core.identity import commit_of
from builder.core.lock import PlatformLock, WheelPin
from builder.core.spec import parse_spec
from builder.core.target import Target, architecture, target_of
from builder.errors import BadInput

METADATA = """\
Metadata-Version: 2.4
Name: Flashinfer.Python
Version: 0.7.2.post1
Requires-Python: >=3.10,<4.0
Requires-Dist: torch
Requires-Dist: cuda-python>=12.0; sys_platform == "linux"

Requires-Dist: not-a-header
"""


def pin(name: str, version: str) -> WheelPin:
    """Make a lock's line."""
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return WheelPin(name=name, version=version, sha256="0" * 64, file=file, size=1, index="general")


def test_a_lock_becomes_records() -> None:
    """Pins with what the wheels say of themselves; a row that is missing or odd says nothing."""
    lock = PlatformLock(
        wheels=(pin("flashinfer-cubin", "0.6.3"), pin("flashinfer-python", "0.6.4"), pin("x", "1")),
        debs=(),
        meta={
            "flashinfer-python": {
                "requires_dist": ["torch"],
                "requires_python": ">=3.10",
                "metadata_version": "0.6.4",
                "licence": "Apache-2.0",
            },
            "overlaps": [],
            "x": {"requires_dist": None},
        },
    )
    cubin, python, odd = of_lock(lock, "lock/gpu/linux-amd64.txt")
    assert ("0.6.3", "general", ()) == (cubin.version, cubin.index, cubin.requires_dist)
    assert (("torch",), ">=3.10", "0.6.4") == (
        python.requires_dist,
        python.requires_python,
        python.metadata_version,
    )
    assert () == odd.requires_dist
    found = {one.key: one for one in check([cubin, python, odd], Target(cuda="13.0"), {})}
    assert "in lock/gpu/linux-amd64.txt" in found["flashinfer-trio-mismatch"].evidence


def test_a_dist_info_becomes_a_record() -> None:
    """An installed tree has no file name; only headers are read."""
    record = of_metadata(METADATA, origin="site-packages", content=Content(cuda="13.0"))
    assert ("flashinfer-python", "0.7.2.post1", "") == (record.name, record.version, record.file)
    assert ("torch", 'cuda-python>=12.0; sys_platform == "linux"') == record.requires_dist
    assert ">=3.10,<4.0" == record.requires_python
    assert ("cu130", "content") == (record.label, record.label_from)


def test_a_wheel_is_named_by_its_file() -> None:
    """Installers go by the file name; METADATA's version stays beside it."""
    file = "flashinfer_python-0.7.2-py3-none-any.whl"
    record = of_metadata(METADATA, file=file, index="general")
    assert ("0.7.2", "0.7.2.post1") == (record.version, record.metadata_version)
    assert {"py3-none-any"} == {str(tag) for tag in record.tags}


@pytest.mark.parametrize("text", ["Name: x\n", "Version: 1\n", ""])
def test_metadata_without_name_or_version_is_bad_input(text: str) -> None:
    """It says where it lay."""
    with pytest.raises(BadInput) as caught:
        of_metadata(text, origin="site-packages/x.dist-info")
    assert "site-packages/x.dist-info" == caught.value.subject


def test_a_file_that_is_no_wheel_is_bad_input() -> None:
    """Its name does not parse."""
    with pytest.raises(BadInput) as caught:
        of_metadata(METADATA, file="flashinfer.whl")
    assert "flashinfer.whl" == caught.value.subject


def test_a_record_reads_pins_for_the_target_only() -> None:
    """Markers of other machines and extras do not count; ranges are no pins."""
    record = Distribution(
        name="vllm",
        version="0.33.0",
        requires_dist=(
            'flashinfer-python==9; sys_platform == "win32"',
            'flashinfer-python==8; extra == "x"',
            "Flashinfer_Python==0.7.2.post1",
            "torch==2.*",
            "numpy>=1",
        ),
    )
    environment = Target().environment
    names = ("flashinfer-python", "torch", "numpy", "absent")
    assert ["0.7.2.post1", None, None, None] == [record.pin_of(one, environment) for one in names]


def test_a_spec_gives_the_target_of_each_platform() -> None:
    """CUDA, GPUs and Python from image.toml; `cpu` is no GPU."""
    text = """
[image]
name = "gpu"
description = "d"
platforms = ["linux/arm64"]
python = "3.13"
cuda = "13.0"
targets = ["sm_121"]
[lock]
channel = "release"
package = "vllm"
requirements = ["vllm"]
[base]
debian = "trixie"
"""
    spec = parse_spec(text, "image.toml")
    target = target_of(spec, "linux/arm64", glibc="2.41", programs=frozenset({"c++"}))
    assert ("cu130", ("sm_121",), "aarch64") == (
        target.label,
        target.gpus,
        target.environment["platform_machine"],
    )
    cpu = text.replace('cuda = "13.0"\n', "").replace("sm_121", "cpu")
    assert ("cpu", ()) == (
        (bare := target_of(parse_spec(cpu, "image.toml"), "linux/arm64")).label,
        bare.gpus,
    )


def test_the_patch_of_python_is_used_where_it_is_known() -> None:
    """Markers may ask for it."""
    patched = replace(Target(), python="3.13.5").environment
    assert ("3.13", "3.13.5") == (patched["python_version"], patched["python_full_version"])
    assert "3.13.0" == Target().environment["python_full_version"]


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("sm_120", "sm120"),
        ("sm120f", "sm120f"),
        ("12.0f", "sm120f"),
        ("compute_90a", "sm90a"),
        ("SM_86", "sm86"),
        ("cpu", None),
        ("sm_1200", None),
    ],
)
def test_an_architecture_is_read_in_every_spelling(text: str, tag: str | None) -> None:
    """Spec, provider, arch list, compiler."""
    found = architecture(text)
    assert tag == (found.tag if found else None)


def test_labels_commits_and_programs() -> None:
    """Small readings that several rules share."""
    assert ["cu130", "cu129", "cpu", "cpu"] == [
        cuda_label(text) for text in ("13.0", "12.9.1", "cpu", "")
    ]
    assert ["e7edf17ce", "e7edf17ce", "", ""] == [
        commit_of(text)
        for text in ("0.28.1rc1.dev681+ge7edf17ce", "0.28+ge7edf17ce.cu129", "0.33.0", "what")
    ]
    assert parse_version("what") is None
    assert {"c++", "nvcc", "ninja"} == programs_of(["g++-14", "cuda-nvcc-13-0", "ninja-build"])
    assert frozenset() == programs_of(["gcc", "libc6"])
