"""`lock SET` and paths with two owners, against indexes on loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.core.dockerfile import groups_of
from builder.edge import uv
from builder.edge.project import read_lock
from builder.errors import SpecError
from builder.runtime import owner
from tests.support.cuda_project import NONE, CudaProject, clean, cuda_project, versions, vllm
from tests.support.nightly_index import NIGHT, fake_forge, sha
from tests.support.wheels import Wheel, make_wheel

WINNER = """
[[lock.winners]]
package = "flashinfer-python"
paths = ["build_backend.py"]
reason = "nothing imports it"
"""
SETS = '[pair]\n"linux/amd64" = "gpu"\n"linux/arm64" = "spark"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaProject]:
    """Make a project with two images and the set of both."""
    clean(monkeypatch, tmp_path / "home")
    with cuda_project(tmp_path) as made:
        made.spec(name="spark", arm=True)
        (tmp_path / "images" / "sets.toml").write_text(SETS)
        yield made


def overlapping(mine: str = "one", theirs: str = "other") -> list[Wheel]:
    """Make the two packages that ship their build script, and one that pulls the second in."""
    return [
        make_wheel(
            "flashinfer-python",
            "0.7.2.post1",
            requires=["cuda-python>=12", "torch-c-dlpack-ext"],
            contents={"build_backend.py": mine},
        ),
        make_wheel("torch-c-dlpack-ext", "0.1", contents={"build_backend.py": theirs}),
    ]


def test_a_set_gets_one_vllm(project: CudaProject) -> None:
    """nightly-missing-for-platform: 0.34.0 for one machine alone is nobody's."""
    project.general.add(vllm("0.34.0"))
    outcome = project.run("pair")
    assert ["0.33.0", "0.33.0"] == [lock.vllm for lock in outcome.result.locks]
    assert ["gpu", "spark"] == [lock.image for lock in outcome.result.locks]
    (skipped,) = outcome.result.skipped
    assert skipped.startswith("vllm 0.34.0 has no wheel for linux/arm64; it has vllm-0.34.0-")
    assert "passed over: vllm 0.34.0" in project.said
    # Alone, the image may have it.
    assert "0.34.0" == versions(project.lock("gpu"))["vllm"]


def test_a_set_is_written_whole_or_not_at_all(project: CudaProject) -> None:
    """One image with an error keeps the other one's lock as it was."""
    project.lock("pair")
    before = {
        path: path.read_bytes()
        for path in (project.tiny.root / "lock").rglob("*")
        if path.is_file()
    }
    project.general.add(
        *(
            vllm("0.34.0", machine, cuda=cuda)
            for machine, cuda in (("x86_64", "13"), ("aarch64", "12"))
        )
    )
    outcome = project.run("pair")
    assert (False, ["refused", "refused"]) == (
        outcome.ok,
        [lock.change for lock in outcome.result.locks],
    )
    assert ["default-variant-flip"] == [row.key for row in outcome.findings]
    assert before == {
        path: path.read_bytes()
        for path in (project.tiny.root / "lock").rglob("*")
        if path.is_file()
    }


def test_images_of_a_set_ask_for_one_vllm(project: CudaProject) -> None:
    """Two pins cannot both be kept."""
    path = project.tiny.root / "images" / "spark" / "image.toml"
    path.write_text(path.read_text().replace('"vllm",', '"vllm==0.33.0",'))
    with pytest.raises(SpecError, match=r"vllm in gpu, vllm==0\.33\.0 in spark"):
        project.run("pair")


def test_out_has_a_folder_for_each_image(project: CudaProject, tmp_path: Path) -> None:
    """`--out DIR` of a set."""
    project.run("pair", out=tmp_path / "out")
    assert ["gpu", "spark"] == sorted(path.name for path in (tmp_path / "out").iterdir())


def test_path_owned_twice(project: CudaProject) -> None:
    """Different bytes, no winner: refused; a constraint or override that takes one away helps."""
    project.general.add(*overlapping())
    assert [("path-owned-twice", "flashinfer-python, torch-c-dlpack-ext")] == project.errors()
    project.spec(NONE + "\noverrides = [\"torch-c-dlpack-ext; sys_platform == 'never'\"]")
    assert "torch-c-dlpack-ext" not in versions(project.lock())


def test_equal_bytes_have_no_owner_trouble(project: CudaProject) -> None:
    """Nothing is said and nothing recorded."""
    project.general.add(*overlapping("same", "same"))
    assert () == project.run().findings
    assert {} == project.lock().platforms["linux/amd64"].wins


def test_a_script_of_two_packages_is_a_path_too(project: CudaProject) -> None:
    """The installer generates it, so it is in no central directory."""
    for name in ("one", "two"):
        points = f"[console_scripts]\ntool = {name}:main\n"
        project.general.add(
            make_wheel(name, "1", contents={f"{name}-1.dist-info/entry_points.txt": points})
        )
    path = project.tiny.root / "images" / "gpu" / "image.toml"
    path.write_text(path.read_text().replace('"ninja"]', '"ninja", "one", "two"]'))
    (row,) = project.run().findings
    assert ("path-owned-twice", "one, two") == (row.key, row.subject)
    assert "{scripts}/tool" in row.evidence


def test_a_stated_winner_is_locked_and_installed(project: CudaProject, tmp_path: Path) -> None:
    """In the lock, in the build folder, and with the real uv: one owner, every RECORD true."""
    wheels = overlapping()
    project.general.add(*wheels)
    project.spec(NONE + WINNER)
    project.lock()
    lock = read_lock(project.tiny.root, "gpu")
    assert {"flashinfer-python": {"torch-c-dlpack-ext": ("build_backend.py",)}} == (
        lock.platforms["linux/amd64"].wins
    )
    meta = json.loads((project.tiny.root / "lock/gpu/linux-amd64.meta.json").read_text())
    assert {"torch-c-dlpack-ext": ["build_backend.py"]} == meta["flashinfer-python"]["wins"]
    (group,) = [group for group in groups_of(lock, "linux/amd64") if group.lost]
    for wheel in wheels:
        (tmp_path / wheel.file).write_bytes(wheel.data)
    (tmp_path / "losers.txt").write_bytes(group.files()["losers.txt"])
    (tmp_path / "lost.txt").write_bytes(group.files()["lost.txt"])
    winner = lock.platforms["linux/amd64"].wheel("flashinfer-python")
    assert winner is not None
    (tmp_path / "requirements.txt").write_text(winner.line() + "\n")
    venv = tmp_path / "venv"
    for file in ("losers.txt", "requirements.txt"):
        subprocess.run(
            [
                uv.program(), "pip", "install", "--prefix", str(venv), "--no-deps", "--no-index",
                "--require-hashes", "--find-links", str(tmp_path), "--requirement",
                str(tmp_path / file), "--offline", "--cache-dir", str(tmp_path / "uv"),
                "--python-version", "3.13",
            ],
            check=True,
            capture_output=True,
        )  # fmt: skip
        if file == "losers.txt":
            assert 0 == owner.main(str(venv), str(tmp_path / "lost.txt"))
    (site,) = venv.glob("lib/python3*/site-packages")
    assert "one" == (site / "build_backend.py").read_text()
    rows = [
        (record.parent.name.split("-")[0], line.split(",")[0])
        for record in site.glob("*.dist-info/RECORD")
        for line in record.read_text().splitlines()
        if line.startswith("build_backend.py,")
    ]
    assert [("flashinfer_python", "build_backend.py")] == rows


FULL = "4ba787ec9" + "0" * 31
"""Of the commit that the wheels name."""


def commits(project: CudaProject, **options: object) -> set[str]:
    """Lock the set, and say which commit the headers have."""
    project.lock("pair", **options)
    return {read_lock(project.tiny.root, name).header.vllm.commit for name in ("gpu", "spark")}


def test_commit_identity_of_a_release_in_full(project: CudaProject) -> None:
    """The wheels name it, a forge completes it; whom the next one can ask changes no byte."""
    forges = project.tiny.settings.forges
    forges["vllm"] = "none"
    assert {"4ba787ec9"} == commits(project)
    with fake_forge([(FULL, NIGHT)], {"v0.33.0": FULL}) as place:
        forges["vllm"] = place
        # A lock of this vLLM stands: it stays as it is until somebody asks for more.
        assert {"4ba787ec9"} == commits(project)
        assert {FULL} == commits(project, upgrade_packages=("vllm",))
        files = project.tiny.root / "lock"
        before = {path: path.read_bytes() for path in files.rglob("*.t*")}
    forges["vllm"] = "none"
    assert {FULL} == commits(project)
    assert before == {path: path.read_bytes() for path in files.rglob("*.t*")}


def test_a_forge_that_knows_another_commit_is_not_believed(project: CudaProject) -> None:
    """Identity is in the wheel; nothing but its completion is taken from outside."""
    with fake_forge([(sha("bbbbbbbbb"), NIGHT)]) as place:
        project.tiny.settings.forges["vllm"] = place
        assert {"4ba787ec9"} == commits(project)


def test_commit_identity_of_a_tag_that_moved(project: CudaProject) -> None:
    """C19: `--check` says it once for the set; a release has no age, and a silent forge is none."""
    tags = {"v0.33.0": FULL}
    with fake_forge([(FULL, NIGHT)], tags) as place:
        project.tiny.settings.forges["vllm"] = place
        project.lock("pair")
        assert [] == list(project.run("pair", check=True).findings)
        tags["v0.33.0"] = sha("bbbbbbbbb")
        (row,) = project.run("pair", check=True).findings
    assert ("commit-identity", "warning", "vllm 0.33.0") == (row.key, row.severity, row.subject)
    assert f"the tag v0.33.0 names commit {sha('bbbbbbbbb')} now" in row.evidence
    assert [] == list(project.run("pair", check=True).findings)
