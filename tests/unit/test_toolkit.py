"""The program that lays the CUDA toolkit out while building."""

from __future__ import annotations

import ctypes
import shutil
import zipfile
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from builder.runtime import toolkit

HOME = "/opt/venv/lib/python3.13/site-packages/nvidia/cu13"
NAMES = [
    "bin/crt/link.stub",
    "bin/nvcc",
    "bin/nvcc.profile",
    "include/cuda.h",
    "lib/libcudart.so.13",
    "lib/libcudart_static.a",
    "lib/libnvperf_host.so",
    "lib/libnvrtc-builtins.so.13.0",
    "nvvm/bin/cicc",
]

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here; images have it")


HEADER = """
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuMemcpy         __CUDA_API_PTDS(cuMemcpy)
    #define cuMemcpyAsync __CUDA_API_PTSZ(cuMemcpyAsync)
#define CU_LAUNCH_PARAM_END_AS_INT 0x00
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice dev);
typedef void (CUDA_CB *CUstreamCallback)(CUstream hStream, CUresult status, void *userData);
"""
FUNCTIONS = [
    "cuDeviceTotalMem",
    "cuDeviceTotalMem_v2",
    "cuInit",
    "cuMemcpy",
    "cuMemcpyAsync",
    "cuMemcpyAsync_ptsz",
    "cuMemcpy_ptds",
]


def wheel(folder: Path, name: str, *names: str) -> Path:
    """Write a wheel with empty files, and the header if it is among them."""
    path = folder / f"{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for one in names:
            archive.writestr(one, HEADER if one.endswith("cuda.h") else "")
    return path


def test_files_are_those_below_home_of_all_wheels(tmp_path: Path) -> None:
    """A toolkit comes in parts; folders, other majors and other packages do not count."""
    wheels = [
        wheel(tmp_path, "nvcc", "nvidia/cu13/bin/nvcc", "nvidia/cu13/bin/", "nvcc-1.dist-info/A"),
        wheel(tmp_path, "runtime", "nvidia/cu13/lib/libcudart.so.13", "nvidia/cu12/lib/x.so"),
    ]
    expected = {"bin/nvcc": wheels[0], "lib/libcudart.so.13": wheels[1]}
    assert expected == toolkit.files_below(HOME, wheels)


def test_links_are_what_compilers_and_linkers_look_for() -> None:
    """Whole folders where nothing is added; programs and libraries one by one."""
    assert {
        "lib64": "lib",
        "bin/crt": f"{HOME}/bin/crt",
        "bin/nvcc": f"{HOME}/bin/nvcc",
        "bin/nvcc.profile": f"{HOME}/bin/nvcc.profile",
        "include": f"{HOME}/include",
        "lib/libcudart.so": "libcudart.so.13",
        "lib/libcudart.so.13": f"{HOME}/lib/libcudart.so.13",
        "lib/libcudart_static.a": f"{HOME}/lib/libcudart_static.a",
        "lib/libnvperf_host.so": f"{HOME}/lib/libnvperf_host.so",
        "lib/libnvrtc-builtins.so": "libnvrtc-builtins.so.13.0",
        "lib/libnvrtc-builtins.so.13.0": f"{HOME}/lib/libnvrtc-builtins.so.13.0",
        "nvvm": f"{HOME}/nvvm",
    } == toolkit.links(HOME, NAMES)


def test_functions_of_the_driver_have_the_names_that_it_exports() -> None:
    """Declared, renamed by a macro, and the forms for per-thread streams."""
    assert FUNCTIONS == toolkit.driver_functions(HEADER)


@pytest.mark.parametrize("lacking", ["bin/nvcc", "include/cuda.h", "lib/libcudart.so.13"])
def test_wheels_without_a_whole_toolkit_fail_the_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lacking: str
) -> None:
    """An image whose compilers find nothing would only fail at its first request."""
    wheel(tmp_path, "all", *(f"nvidia/cu13/{name}" for name in NAMES if name != lacking))
    assert 1 == toolkit.main(str(tmp_path / "out"), HOME, str(tmp_path))
    assert f"no wheel installs {HOME}/{lacking.removesuffix('.13')}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@needs_gcc
def test_the_folder_is_written_whole(tmp_path: Path) -> None:
    """Links and the stub; a second one beside it is equal to the byte."""
    wheels = tmp_path / "wheels" / "group-01"
    wheels.mkdir(parents=True)
    wheel(wheels, "all", *(f"nvidia/cu13/{name}" for name in NAMES))
    found = []
    for name in ("one", "another/place"):
        out = tmp_path / name
        assert 0 == toolkit.main(str(out), HOME, str(tmp_path / "wheels"))
        found.append((out / "lib64/stubs/libcuda.so.1").read_bytes())
    assert Path(HOME, "bin/nvcc") == (out / "bin/nvcc").readlink()
    assert Path("libcuda.so.1") == (out / "lib64/stubs/libcuda.so").readlink()
    assert found[0] == found[1]


@needs_gcc
def test_the_stub_can_be_linked_and_says_that_it_is_one(tmp_path: Path) -> None:
    """Programs linked to it load the driver; who loads the stub hears so from each function."""
    path = tmp_path / "libcuda.so.1"
    toolkit.compile_stub(path, FUNCTIONS)
    with path.open("rb") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        tags = {tag.entry.d_tag: tag for tag in dynamic.iter_tags()}
    assert "libcuda.so.1" == getattr(tags["DT_SONAME"], "soname", "")
    assert "DT_NEEDED" not in tags
    library = ctypes.CDLL(str(path))
    assert {34} == {getattr(library, name)(0) for name in FUNCTIONS}
