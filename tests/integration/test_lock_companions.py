"""`lock` of CUDA images against indexes on loopback: companions, toolchain, torch, vLLM's build."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.errors import NetworkError, Refused
from tests.support.cuda_project import (
    LEADER,
    NONE,
    CudaProject,
    clean,
    cuda_project,
    flashinfer,
    torch,
    versions,
    vllm,
)
from tests.support.wheels import make_wheel

MATCH = 'companions = { flashinfer-cubin = "match" }'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaProject]:
    """Make a project whose general index has today's real case, in small."""
    clean(monkeypatch, tmp_path / "home")
    with cuda_project(tmp_path) as made:
        yield made


def test_todays_real_case_comes_out_right(project: CudaProject) -> None:
    """Policies `none`: nothing of FlashInfer beside python, one toolkit, no finding."""
    outcome = project.run()
    assert (True, ()) == (outcome.ok, outcome.findings)
    made = project.lock()
    assert {"flashinfer-python": LEADER} == versions(made, "flashinfer")
    assert [] == project.home.requests
    notes = " ".join(outcome.result.of("gpu").notes["linux/amd64"])
    assert "flashinfer-cubin is left out by policy" in notes
    assert "flashinfer-jit-cache is left out by policy" in notes


def test_cuda_toolchain_mixed(project: CudaProject) -> None:
    """The newest nvcc and the oldest cuda-python are there for the taking, and are not taken."""
    outcome = project.run()
    assert {
        "nvidia-cuda-nvcc": "13.0.88",
        "cuda-toolkit": "13.0.3",
        "cuda-python": "13.4.4",
    } == {
        name: version
        for name, version in versions(project.lock()).items()
        if name in ("nvidia-cuda-nvcc", "cuda-toolkit", "cuda-python")
    }
    notes = outcome.result.of("gpu").notes["linux/amd64"]
    assert notes[-1].startswith("the CUDA toolchain is held to the image's 13.0")


def test_flashinfer_trio_mismatch(project: CudaProject) -> None:
    """A stale cubin from another package's pin is refused, and no lock is written."""
    project.general.add(
        make_wheel("flashinfer-cubin", "0.6.13"),
        make_wheel("helper", "1", requires=["flashinfer-cubin==0.6.13"]),
    )
    project.spec(NONE + "\nconstraints = []")
    path = project.tiny.root / "images" / "gpu" / "image.toml"
    path.write_text(path.read_text().replace('"ninja"]', '"ninja", "helper"]'))
    found = project.errors()
    assert ("flashinfer-trio-mismatch", "flashinfer-cubin") in found
    assert not (project.tiny.root / "lock" / "gpu").exists()


def test_flashinfer_cubin_not_on_general_index(project: CudaProject) -> None:
    """Without a policy: from its own index, or refused where that lacks it; never 0.6.13."""
    project.general.add(make_wheel("flashinfer-cubin", "0.6.13"))
    project.spec('companions = { flashinfer-jit-cache = "none" }')
    with pytest.raises(Refused, match=re.escape(f"flashinfer-cubin=={LEADER}")) as caught:
        project.run()
    assert ["flashinfer-cubin-not-on-general-index"] == [row.key for row in caught.value.findings]
    assert '`flashinfer-cubin = "none"`' in caught.value.action
    project.home.add(make_wheel("flashinfer-cubin", "0.6.13"), *flashinfer())
    made = project.lock()
    pin = made.platforms["linux/amd64"].wheel("flashinfer-cubin")
    assert pin is not None
    assert (LEADER, "flashinfer") == (pin.version, pin.index)
    assert made.header.companions["flashinfer-cubin"] == LEADER


def test_flashinfer_nightly_gaps(project: CudaProject) -> None:
    """C17: the night vLLM pins has no jit-cache: each gap is named, and the newest whole night."""
    nights = [f"0.7.5.dev2026112{day}" for day in (9, 8, 7)]
    for version in nights:
        project.home.add(
            make_wheel("flashinfer-python", version), *flashinfer("sm120f", version=version)
        )
    for file in list(project.home.wheels):
        if f"{nights[0]}+" in file or f"flashinfer_cubin-{nights[1]}" in file:
            del project.home.wheels[file]
    project.general.add(vllm(leader=nights[0]))
    project.spec(MATCH)
    with pytest.raises(Refused) as caught:
        project.run()
    assert f"flashinfer-jit-cache=={nights[0]}+cu130" in caught.value.what
    assert f"the newest whole FlashInfer night is {nights[2]}" in caught.value.what
    gaps = [row for row in caught.value.findings if row.key == "flashinfer-nightly-gaps"]
    assert [nights[0], nights[1]] == [row.subject for row in gaps]
    assert "has no flashinfer-cubin" in gaps[1].evidence
    # A whole night is locked like a release, all from its own index.
    project.general.add(vllm(leader=nights[2]))
    made = project.lock()
    assert {nights[2]} == {
        version.partition("+")[0] for version in versions(made, "flashinfer").values()
    }


def test_the_era_when_cubin_was_on_the_general_index(project: CudaProject) -> None:
    """A vLLM 0.25 pins both; cubin comes from `general`, and its own index is not asked."""
    project.general.add(
        vllm("0.25.1", "x86_64", "flashinfer-cubin==0.6.13", leader="0.6.13"),
        make_wheel("flashinfer-python", "0.6.13"),
        make_wheel("flashinfer-cubin", "0.6.13"),
    )
    project.spec('companions = { flashinfer-jit-cache = "none" }')
    path = project.tiny.root / "images" / "gpu" / "image.toml"
    path.write_text(path.read_text().replace('"vllm",', '"vllm==0.25.1",'))
    made = project.lock()
    pin = made.platforms["linux/amd64"].wheel("flashinfer-cubin")
    assert pin is not None
    assert ("0.6.13", "general") == (pin.version, pin.index)
    assert [] == project.home.requests


@pytest.mark.parametrize(
    ("arm", "expected"),
    [(False, "flashinfer-jit-cache-sm120f"), (True, "flashinfer-jit-cache-sm121a")],
)
def test_the_right_provider_is_taken_and_the_others_are_not(
    project: CudaProject, arm: bool, expected: str
) -> None:
    """One shim names all providers; the image takes the one that runs on its GPU."""
    project.home.add(*flashinfer("sm90a", "sm100a", "sm120f", "sm121a"))
    project.spec(MATCH, arm=arm)
    made = project.lock()
    assert {
        "flashinfer-python": LEADER,
        "flashinfer-cubin": LEADER,
        "flashinfer-jit-cache": f"{LEADER}+cu130",
        expected: f"{LEADER}+cu130",
    } == versions(made, "flashinfer")
    (pins,) = (content.wheels for content in made.platforms.values())
    assert {"flashinfer"} == {
        pin.index for pin in pins if pin.name.startswith(("flashinfer-c", "flashinfer-j"))
    }


def test_jit_cache_local_version(project: CudaProject) -> None:
    """No provider for the GPU, or only caches of another CUDA: refused, with what there is."""
    project.home.add(*flashinfer("sm90a", "sm100a"))
    project.spec(MATCH)
    with pytest.raises(Refused, match="no provider runs on sm_120; there are sm100a, sm90a") as one:
        project.run()
    assert ["jit-cache-local-version"] == [row.key for row in one.value.findings]
    project.home.wheels.clear()
    project.home.add(*flashinfer("sm120f", label="+cu129"))
    with pytest.raises(
        Refused, match=r"flashinfer-jit-cache==0\.7\.2\.post1\+cu130 .* not offered"
    ):
        project.run()


def test_all_of_flashinfer_in_one_folder_does(project: CudaProject, tmp_path: Path) -> None:
    """A closed network has no `cu130/`: the index is replaced by a flat folder."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    for wheel in flashinfer("sm120f"):
        (folder / wheel.file).write_bytes(wheel.data)
    project.spec(MATCH)
    made = project.lock(indexes=(f"flashinfer={folder}",))
    assert f"{LEADER}+cu130" == versions(made)["flashinfer-jit-cache-sm120f"]
    assert [] == project.home.requests


def test_the_flashinfer_index_that_is_down_is_named(project: CudaProject) -> None:
    """`match` needs it; both ways out are told."""
    project.spec(MATCH)
    project.tiny.settings.indexes["flashinfer"] = "http://127.0.0.1:9/whl"
    with pytest.raises(
        NetworkError, match=r"the index flashinfer at http://127\.0\.0\.1:9/whl"
    ) as caught:
        project.run()
    assert "--index flashinfer=URL-or-folder" in caught.value.action
    assert '`flashinfer-jit-cache = "none"` under `lock.companions`' in caught.value.action


def test_jit_needs_nvcc(project: CudaProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a policy of `none` makes necessary has to be in the image."""
    from builder.edge import debs  # noqa: PLC0415
    from tests.support.lockable import DEB  # noqa: PLC0415

    monkeypatch.setattr(debs, "resolve_base", lambda *_: (DEB,))
    assert {
        ("jit-needs-nvcc", "flashinfer-cubin"),
        ("jit-needs-nvcc", "flashinfer-jit-cache"),
    } == set(project.errors())


def test_torch_family_cuda_mixed(project: CudaProject) -> None:
    """By torch's own version.py: the file name says nothing."""
    project.general.add(torch(says="cuda: Optional[str] = '12.9'\n"))
    assert [("torch-family-cuda-mixed", "torch")] == project.errors()


def test_torch_backend_auto(project: CudaProject) -> None:
    """A CPU build in a CUDA image is what `auto` gives on a builder without a GPU."""
    project.general.add(torch(version="2.14.0+cpu", says="cuda: Optional[str] = None\n"))
    del project.general.wheels["torch-2.14.0-py3-none-any.whl"]
    assert ("torch-backend-auto", "torch") in project.errors()


def test_torchaudio_lag_is_legit(project: CudaProject) -> None:
    """A torch 2.14 with torchaudio 2.11: no finding; an invented 2.14 is on no index."""
    for name, version in (("torchaudio", "2.11.0"), ("torchvision", "0.29.0")):
        project.general.add(torch(name, version, says=""))
    project.general.add(vllm("0.33.0", "x86_64", "torchaudio==2.11.0", "torchvision==0.29.0"))
    assert () == project.run().findings
    project.general.add(vllm("0.34.0", "x86_64", "torchaudio==2.14.0"))
    with pytest.raises(Refused, match=r"no version of torchaudio==2\.14\.0"):
        project.run()


def test_default_variant_flip(project: CudaProject) -> None:
    """An unsuffixed wheel that needs libcudart.so.12 is not for CUDA 13, whatever its name."""
    project.general.add(vllm(cuda="12"))
    ((key, subject),) = project.errors()
    assert "default-variant-flip" == key
    assert subject.startswith("vllm-0.33.0-cp38-abi3")


def test_dependency_on_no_index(project: CudaProject) -> None:
    """C15: every exact pin that nobody offers, who asks for it, and where it was looked for."""
    lacking = ["xformers==0.0.33+5d4b92a5.d20251029", "nosuch==1; sys_platform == 'win32'"]
    project.general.add(
        vllm("0.33.0", "x86_64", *lacking, "quack-kernels==0.6.5"),
        make_wheel("xformers", "0.0.33"),
        make_wheel("torch", "2.14.0", requires=["triton==3.8.0"]),
    )
    with pytest.raises(Refused) as caught:
        project.run()
    place = f"general at {project.general.url}"
    assert [
        (
            "dependency-on-no-index",
            "quack-kernels==0.6.5",
            f"vllm 0.33.0 asks for it; {place} has no wheel of quack-kernels",
        ),
        (
            "dependency-on-no-index",
            "triton==3.8.0",
            f"torch 2.14.0 asks for it; {place} has no wheel of triton",
        ),
        (
            "dependency-on-no-index",
            "xformers==0.0.33+5d4b92a5.d20251029",
            f"vllm 0.33.0 asks for it; {place} has 0.0.33",
        ),
    ] == sorted((row.key, row.subject, row.evidence) for row in caught.value.findings)
    # All there: the resolver's own words stand.
    project.general.add(vllm(), torch(), make_wheel("helper", "1", requires=["click>99"]))
    path = project.tiny.root / "images" / "gpu" / "image.toml"
    path.write_text(path.read_text().replace('"ninja"]', '"ninja", "helper"]'))
    with pytest.raises(Refused, match="click") as caught:
        project.run()
    assert () == caught.value.findings


def test_index_shadowing(project: CudaProject) -> None:
    """A newer ninja, torch and vLLM on FlashInfer's index are not even looked at."""
    project.home.add(
        *flashinfer("sm120f"),
        make_wheel("ninja", "99"),
        make_wheel("torch", "2.14.0", licence="hostile"),
        vllm("0.99.0"),
    )
    project.spec(MATCH)
    made = project.lock()
    assert ("1.13.2", "0.33.0") == (versions(made)["ninja"], versions(made)["vllm"])
    assert {"flashinfer-cubin", "flashinfer-jit-cache", "flashinfer-jit-cache-sm120f"} == {
        row[1].split("/")[-2] for row in project.home.requests if "/simple/" in row[1]
    }


def test_manylinux_floor(project: CudaProject) -> None:
    """A release that wants a newer glibc than the base has is passed over, and said."""
    project.general.add(vllm("0.34.0", glibc="2_42"))
    outcome = project.run()
    assert "0.33.0" == outcome.result.of("gpu").vllm
    assert [
        "vllm 0.34.0 needs glibc 2.42, the base of linux/amd64 has 2.41"
    ] == outcome.result.skipped
    for name in [name for name in project.general.wheels if name.startswith("vllm-0.33.0")]:
        del project.general.wheels[name]
    with pytest.raises(Refused) as caught:
        project.run()
    assert ["manylinux-floor"] == [row.key for row in caught.value.findings]


def test_stable_outranks_nightly(project: CudaProject) -> None:
    """A pre-release beside a stable one is not taken, and vLLM is never a resolver's choice."""
    project.general.add(
        vllm("0.34.0rc1"),
        make_wheel("helper", "1", requires=["vllm<0.33"]),
        vllm("0.32.0"),
    )
    assert "0.33.0" == versions(project.lock())["vllm"]
    path = project.tiny.root / "images" / "gpu" / "image.toml"
    path.write_text(path.read_text().replace('"ninja"]', '"ninja", "helper"]'))
    with pytest.raises(Refused, match="helper"):
        project.run()
