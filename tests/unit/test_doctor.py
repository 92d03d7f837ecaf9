"""What lacks is judged, and each lack names its fix (core/doctor.py)."""

from __future__ import annotations

import pytest

from builder.core import doctor
from builder.core.doctor import Check
from builder.core.engine_features import BuildKit
from builder.errors import ToolMissing

CONTAINERD = {
    "Driver": "overlayfs",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
}
CLASSIC = {"Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]]}
OWN = BuildKit(driver="docker", version="v0.0.0+unknown")
BUILDER = BuildKit(driver="docker-container", version="v0.21.1")

CASES = [
    (doctor.judge_python((3, 11)), "ok", ""),
    (doctor.judge_python((3, 10)), "lacks", "Python 3.11"),
    (doctor.judge_version("26.1.5+dfsg1"), "ok", ""),
    (doctor.judge_version("20.10.24"), "lacks", "26 or newer"),
    (doctor.judge_no_engine(None), "ok", ""),
    (doctor.judge_no_engine(ToolMissing("needs root", action="use sudo")), "lacks", "use sudo"),
    (doctor.judge_store(CONTAINERD, OWN), "ok", ""),
    (doctor.judge_store(CLASSIC, OWN), "lacks", '"features": {"containerd-snapshotter": true}'),
    (doctor.judge_store(CLASSIC, OWN), "lacks", "docker buildx create"),
    (doctor.judge_store({}, OWN), "lacks", "/etc/docker/daemon.json"),
    (doctor.judge_store(CLASSIC, BUILDER), "ok", ""),
    (doctor.judge_buildkit("26.1.5", OWN), "ok", ""),
    (doctor.judge_buildkit("24.0.7", OWN), "lacks", "--builder nightlock"),
    (doctor.judge_buildkit("20.10.24", BUILDER), "ok", ""),
    (
        doctor.judge_buildkit("28.0.0", BuildKit(driver="remote", version="v0.9.3")),
        "lacks",
        "BuildKit 0.12",
    ),
    (
        doctor.judge_buildkit("28.0.0", BuildKit(driver="", version="")),
        "lacks",
        "docker-buildx",
    ),
    (doctor.judge_registry("unix:///s", "localhost:5000", ""), "ok", ""),
    (doctor.judge_registry("unix:///s", "", "registry.example/team"), "ok", ""),
    (doctor.judge_registry("unix:///s", "", ""), "lacks", "nightlock engine start"),
    (
        doctor.judge_registry("tcp://10.0.0.9:2376", "localhost:5000", ""),
        "lacks",
        "the engine reaches",
    ),
    (doctor.judge_disk("store", "/s", 2 * 10**9, 10**9), "ok", ""),
    (doctor.judge_disk("store", "/s", 10**9, 2 * 10**9), "lacks", "XDG_CACHE_HOME"),
    (doctor.judge_cuda_disk(10**9), "optional", "CUDA image"),
    (doctor.judge_cuda_disk(10**12), "ok", ""),
]


@pytest.mark.parametrize(("check", "state", "fix"), CASES)
def test_each_judgement(check: Check, state: str, fix: str) -> None:
    """State, and the fix where there is something to fix."""
    assert state == check.state
    assert bool(fix) == bool(check.fix)
    assert fix in check.fix


def test_cards_are_named_without_their_numbers() -> None:
    """A report is shown to others; the UUID of a card is nobody's business."""
    said = "GPU 0: NVIDIA RTX PRO 6000 (UUID: GPU-1)\nGPU 1: NVIDIA RTX PRO 6000 (UUID: GPU-2)"
    gpu, toolkit = doctor.judge_gpu(said, "")
    assert ("ok", "optional") == (gpu.state, toolkit.state)
    assert "GPU 0: NVIDIA RTX PRO 6000; GPU 1: NVIDIA RTX PRO 6000" == gpu.found


def test_a_table_has_a_line_each_and_the_fix_below() -> None:
    """Columns stand under one another."""
    checks = (doctor.ok("uv", "0.9"), doctor.lacks("engine", "none", "start one"))
    expected = "ok        uv      0.9\nlacks     engine  none\n                  do: start one"
    assert expected == doctor.table(checks)


@pytest.mark.parametrize(
    ("name", "why", "state"),
    [
        ("general", "", "ok"),
        ("general", "no answer within 5 s", "lacks"),
        ("pytorch-cpu", "", "ok"),
        ("pytorch-cpu", "it is not there", "optional"),
    ],
)
def test_an_index_that_does_not_answer_is_not_ok(name: str, why: str, state: str) -> None:
    """Only the general one is needed; the fix names the variable."""
    check = doctor.judge_index(name, "https://mirror.example/simple", "default", why)
    assert (state, f"index {name}") == (check.state, check.name)
    assert ("" if state == "ok" else "variable") == ("variable" if check.fix else "")
    assert why in check.found
