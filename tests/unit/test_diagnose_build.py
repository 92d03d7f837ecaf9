"""What resolvers, installers, imports and builds say: one test a field case, C01 to C33."""

from __future__ import annotations

import pytest

from tests.support.diagnosing import keys, root_key, root_of

TRACE = (
    "(EngineCore pid=51) Traceback (most recent call last):",
    '(EngineCore pid=51)   File "/opt/venv/lib/python3.13/site-packages/{}", line 9, in <module>',
    "(EngineCore pid=51)     import this",
)


def traced(error: str, path: str = "vllm/x.py") -> list[str]:
    """Write an error as the end of a traceback in EngineCore."""
    return [*(line.format(path) for line in TRACE), f"(EngineCore pid=51) {error}"]


@pytest.mark.parametrize("which", ["cubin", "jit-cache"])
@pytest.mark.parametrize(("other", "own"), [("0.6.13", "0.6.14"), ("0.7.0", "0.7.0.post1")])
def test_flashinfer_trio_mismatch(which: str, other: str, own: str) -> None:
    """C01: both versions are quoted; the check is never told to be switched off."""
    line = (
        f"RuntimeError: flashinfer-{which} version ({other}) does not match flashinfer version "
        f"({own}). Please install the same version of both packages. Set "
        "FLASHINFER_DISABLE_VERSION_CHECK=1 to bypass this check."
    )
    found = root_of(*traced(line))
    assert found.root is not None
    assert "flashinfer-trio-mismatch" == found.root.key
    assert other in found.root.cause
    assert own in found.root.cause
    assert "DISABLE" not in found.root.action
    assert {"flashinfer-trio-mismatch"} == keys(found)


def test_flashinfer_trio_mismatch_that_only_warns() -> None:
    """C01: from 0.7.2 on it is silent about what it costs; the server comes up."""
    line = (
        "(EngineCore pid=51) WARNING 11-30 19:59:33 [x.py:1] Ignoring incompatible flashinfer-cubin "
        "package (cubins will be downloaded on demand to /root/.cache/cubins)"
    )
    found = root_of(line, "INFO:     Application startup complete.")
    assert None is found.root
    assert [("flashinfer-trio-mismatch", "warning")] == [
        (finding.key, finding.severity) for finding in found.findings("x")
    ]


@pytest.mark.parametrize(
    "line",
    [
        "400 Project size too large. Limit for project 'flashinfer-cubin' total size is 10 GB",
        "  × No solution found: Because there is no version of flashinfer-cubin==0.6.14 and you require",
        "ERROR: No matching distribution found for flashinfer-cubin==0.6.14",
    ],
)
def test_flashinfer_cubin_not_on_general_index(line: str) -> None:
    """C02: told apart from other packages that are missing."""
    expected = (
        "dependency-on-no-index" if "matching" in line else "flashinfer-cubin-not-on-general-index"
    )
    assert expected == root_key(line)


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("flashinfer-jit-cache : 0.6.16+cu130  ⚠ MISMATCH vs flashinfer-python==0.6.16", "info"),
        ("flashinfer-jit-cache : 0.6.1+cu130  ⚠ MISMATCH vs flashinfer-python==0.6.16", "error"),
    ],
)
def test_jit_cache_local_version(line: str, severity: str) -> None:
    """C03: a difference by +cu130 alone is a false alarm."""
    found = root_of(line)
    assert [("jit-cache-local-version", severity)] == [
        (finding.key, finding.severity) for finding in found.findings("x")
    ]
    assert (severity == "info") == (found.root is None)


def test_version_check_bypassed() -> None:
    """C04: with the bypass in the log it is the first suspect; without it nothing is guessed."""
    line = "(Worker_TP1 pid=98) torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    assert "version-check-bypassed" == root_key("FLASHINFER_DISABLE_VERSION_CHECK=1", line)
    alone = root_of(line)
    assert None is alone.root
    assert alone.first_error is not None
    noted = root_of("FLASHINFER_DISABLE_VERSION_CHECK=0")
    assert [("version-check-bypassed", "warning")] == [
        (finding.key, finding.severity) for finding in noted.findings("x")
    ]


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: operator torchvision::nms does not exist",
        "RuntimeError: Detected that PyTorch and TorchAudio were compiled with different CUDA versions. "
        "PyTorch has CUDA version 13.0 whereas TorchAudio has CUDA version 12.9",
    ],
)
def test_torch_family_cuda_mixed(line: str) -> None:
    """C05: import of a companion fails."""
    assert "torch-family-cuda-mixed" == root_key(*traced(line, "torchvision/__init__.py"))


def test_torchaudio_lag_is_legit_and_never_told() -> None:
    """C06: a valid set gives no finding."""
    found = root_of("torch==2.13.0", "torchvision==0.28.0", "torchaudio==2.11.0")
    assert (None, set()) == (found.root, keys(found))


def test_nightly_missing_for_platform() -> None:
    """C07: uv's words."""
    line = (
        "error: Distribution `vllm==0.23.1rc1.dev1403+g4080263bb.cu129 @ registry+https://wheels.vllm.ai"
        "/nightly/cu129` can't be installed because it doesn't have a source distribution or wheel for "
        "the current platform"
    )
    assert "nightly-missing-for-platform" == root_key(line)


@pytest.mark.parametrize(
    "line",
    [
        "Because there is no version of vllm[runai]==0.23.1rc1.dev508+gc6dd32a81 and you require it",
        "ERROR: Could not find a version that satisfies the requirement torch==2.6.0.dev20241217 (from versions: 2.5)",
        "ERROR: No matching distribution found for torch==2.6.0.dev20241217",
    ],
)
def test_rolling_index_version_gone(line: str) -> None:
    """C08: a nightly by its version."""
    assert "rolling-index-version-gone" == root_key(line)


SONAME = "ImportError: libcudart.so.{}: cannot open shared object file: No such file or directory"


def test_stable_outranks_nightly() -> None:
    """C09: same import error as C10; the install log tells that the stable release was taken."""
    index = "Looking in indexes: https://wheels.vllm.ai/nightly/cu129"
    for installed in (" + vllm==0.20.2", "Successfully installed torch-2.13.0 vllm-0.20.2"):
        assert "stable-outranks-nightly" == root_key(index, installed, *traced(SONAME.format(13)))
    nightly = " + vllm==0.20.2rc1.dev233+g1a2b3c4d5.cu129"
    assert "default-variant-flip" == root_key(index, nightly, *traced(SONAME.format(13)))


def test_default_variant_flip() -> None:
    """C10: the newer CUDA is missing, and no path in a cache says C39."""
    assert "default-variant-flip" == root_key(*traced(SONAME.format(13)))


def test_plus_and_relative_href() -> None:
    """C11: an object store's answer."""
    assert "plus-and-relative-href" == root_key(
        "<Error><Code>NoSuchKey</Code><Key>vllm 1.whl</Key>"
    )


def test_index_without_hashes() -> None:
    """C12: nothing to compare with."""
    line = "RuntimeError: Installed vLLM SHA-256 values [] do not match d4e5f6"
    assert "index-without-hashes" == root_key(line)


@pytest.mark.parametrize(
    "lines",
    [
        [
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have",
            "        Expected sha256 2c2c",
            "             Got        7018",
        ],
        [
            "  × Failed to download `somepackage==1.0.19`",
            "  ╰─▶ Hash mismatch for `somepackage==1.0.19`",
        ],
    ],
)
def test_hash_mismatch(lines: list[str]) -> None:
    """C13: pip's and uv's words."""
    assert "hash-mismatch" == root_key(*lines)


@pytest.mark.parametrize(
    "line",
    [
        "Wheel version does not match filename: 0.0.33+5d4b92a5.d20250907 != 0.0.33.dev20250901+cu129",
        "has inconsistent version: expected '2.8.3+cu126torch2.5', but metadata has '2.8.3'",
    ],
)
def test_filename_metadata_version_differ(line: str) -> None:
    """C14: two installers."""
    assert "filename-metadata-version-differ" == root_key(f"ERROR: {line}")


def test_dependency_on_no_index() -> None:
    """C15: an exact pin with a local version, which is no nightly."""
    line = (
        "Because there is no version of xformers==0.0.33+5d4b92a5.d20251029 and vllm depends on it"
    )
    found = root_of(line)
    assert found.root is not None
    assert ("dependency-on-no-index", True) == (found.root.key, "xformers" in found.root.cause)


def test_index_shadowing() -> None:
    """C16: the first index hides the others."""
    line = "Because only certifi==2022.12.7 is available and you require certifi>=2024, we can conclude"
    assert "index-shadowing" == root_key(line)


@pytest.mark.parametrize("symbol", ["GLIBC_2.34", "GLIBCXX_3.4.32"])
def test_manylinux_floor(symbol: str) -> None:
    """C18: the symbol is quoted."""
    line = (
        f"ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `{symbol}' not found (required by "
        "/opt/venv/lib/python3.13/site-packages/vllm/_C.abi3.so)"
    )
    found = root_of(*traced(line))
    assert found.root is not None
    assert ("manylinux-floor", True) == (found.root.key, symbol in found.root.cause)


@pytest.mark.parametrize(
    "line",
    [
        "Created wheel for vllm: vllm-0.1.dev1+gb22b798-cp38-abi3-linux_x86_64.whl",
        "LookupError: setuptools-scm was unable to detect version for /workspace.",
    ],
)
def test_commit_identity(line: str) -> None:
    """C19: a version that says nothing."""
    assert "commit-identity" == root_key(line)


def test_torch_backend_auto() -> None:
    """C20: CPU torch is worth a warning, since a CPU image wants just that."""
    found = root_of(" + torch==2.8.0+cpu")
    assert [("torch-backend-auto", "warning")] == [
        (finding.key, finding.severity) for finding in found.findings("x")
    ]
    assert set() == keys(root_of(" + torch==2.13.0+cu130"))


def test_lock_noise() -> None:
    """C21: a path of the machine in a lock's header."""
    line = "#    uv pip compile --output-file /ci/locks/python-runtime.txt /tmp/tmp-XQCJY.in"
    assert {"lock-noise"} == keys(root_of(line))


def test_fp4_kernels_not_built() -> None:
    """C22: the line of the bad build; the good one's is no finding."""
    assert "fp4-kernels-not-built" == root_key(
        "-- Not building NVFP4 as no compatible archs were found."
    )
    assert set() == keys(root_of("-- Building NVFP4 for archs: 12.0a"))


@pytest.mark.parametrize("arch", ["sm_121a", "sm_120a"])
def test_ptxas_too_old(arch: str) -> None:
    """C23: which architecture, and not the driver."""
    found = root_of(f"ptxas fatal   : Value '{arch}' is not defined for option 'gpu-name'")
    assert found.root is not None
    assert ("ptxas-too-old", True) == (found.root.key, arch in found.root.cause)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: No supported CUDA architectures found for major versions [12]",
        "RuntimeError: SM 12.x requires CUDA >= 12.9",
        "nvcc fatal   : Unsupported gpu architecture 'compute_120f'",
    ],
)
def test_wrong_nvcc(line: str) -> None:
    """C24: not the GPU's fault."""
    assert "wrong-nvcc" == root_key(*traced(line, "flashinfer/jit/core.py"))


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set "
        "triton.knobs.build.impl.",
        "/tmp/tmpabc/main.c:3:10: fatal error: Python.h: No such file or directory",
    ],
)
def test_no_c_compiler_at_runtime(line: str) -> None:
    """C25: the compiler, or the headers it needs."""
    assert "no-c-compiler-at-runtime" == root_key(line)


def test_cubin_download_in_build() -> None:
    """C26: the artifact store, not the package."""
    line = "2026-02-13 10:00:00,1 - ERROR - artifacts.py:9 - flashinfer.jit: Max retries reached. Download failed."
    assert "cubin-download-in-build" == root_key(line, noise=False)
    assert "cubin-download-in-build" == root_key(
        "flashinfer.jit: Max retries reached. Download failed."
    )


@pytest.mark.parametrize(
    "line",
    [
        "manifest for nvidia/cuda:13.0.1-devel-ubuntu24.04 not found: manifest unknown: manifest unknown",
        "ERROR: failed to solve: nvidia/cuda:12.1: failed to resolve source metadata for "
        "docker.io/nvidia/cuda:12.1: docker.io/nvidia/cuda:12.1: not found",
    ],
)
def test_base_tag_removed(line: str) -> None:
    """C28: by the engine and by BuildKit."""
    assert "base-tag-removed" == root_key(line)


def test_base_tag_removed_is_announced() -> None:
    """C28: the banner at start is a warning."""
    found = root_of(
        "THIS IMAGE IS DEPRECATED and is scheduled for DELETION.",
        "INFO:     Application startup complete.",
    )
    assert None is found.root
    assert {"base-tag-removed"} == keys(found)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("E: Version '3.5.5-1ubuntu3.2' for 'libssl-dev' was not found", "libssl-dev"),
        ("E: Failed to fetch http://archive.example/x.deb  504  Gateway Time-out", "out of reach"),
    ],
)
def test_apt_drift(line: str, word: str) -> None:
    """C29: replaced upstream, or an archive that is down."""
    found = root_of("#12 4.2 Reading package lists...", line)
    assert found.root is not None
    assert ("apt-drift", True) == (found.root.key, word in found.root.cause)


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: failed to solve: ResourceExhausted: failed to copy files: no space left on device",
        "write /var/lib/docker/tmp/GetImageBlob1: no space left on device",
        "OSError: [Errno 28] No space left on device: '/root/.cache/x'",
    ],
)
def test_disk_full(line: str) -> None:
    """C30: in build, pull and at run time; not /dev/shm."""
    assert "disk-full" == root_key(line)


@pytest.mark.parametrize("library", ["libcudart.so.12", "libcublas.so.12", "libnvrtc.so.12"])
def test_wrong_cuda_soname(library: str) -> None:
    """C32: a companion of the older CUDA."""
    line = f"ImportError: {library}: cannot open shared object file: No such file or directory"
    found = root_of(*traced(line, "nixl_ep/__init__.py"))
    assert found.root is not None
    assert ("wrong-cuda-soname", True) == (found.root.key, library in found.root.cause)


@pytest.mark.parametrize(
    "lines",
    [
        ["nvcc error   : 'cicc' died due to signal 9 (Kill signal)"],
        ["/src/a.cpp:1:10: fatal error: elfutils/libdwfl.h: No such file or directory"],
        [
            "-- Building for CUDA with CMake",
            "/src/a.cpp:1:10: fatal error: nccl.h: No such file or directory",
        ],
    ],
)
def test_source_build_resources(lines: list[str]) -> None:
    """C33: memory, a known header, an unknown one in a build from source."""
    assert "source-build-resources" == root_key(*lines, "ninja: build stopped: subcommand failed.")


def test_blob_damaged() -> None:
    """The digest in the message varies with each try."""
    line = 'failed commit on ref "layer-sha256:9f2c": unexpected commit digest sha256:1, expected sha256:9f2c'
    assert "blob-damaged" == root_key(line)
