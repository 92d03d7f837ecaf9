"""Written run files, read by the programs they are for: systemd, podman, compose, Kubernetes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from builder.core.lint.commandline import run_command
from builder.core.lint.unit import entries
from builder.core.runfile.spec import Gpus, RunSpec, Volume
from builder.core.runfile.systemd import write_systemd
from builder.core.runfile.write import write
from builder.core.settings import DebianSettings
from builder.edge.apt import AptRoot, host_sources
from builder.edge.tools import unpack

pytestmark = pytest.mark.network

NASTY = (
    "$free",
    "${HOME} $$ $(id) $",
    "50%off %i %% %",
    '{"a": "b c", "d": [1, 2]}',
    'it\'s "quoted" \\ and\ttabbed \\n',
    "a;b",
    "#not-a-comment",
    "two\nlines",
    "-",
    "ünïcode 日本",
    "yes",
    "null",
    "~",
    "1e3",
    "0o17",
    "0x1F",
    "1_000",
    ".inf",
    "12:30:45",
    "2026-01-01",
    "a && b | c > d `e`",
    "  spaces  ",
    "\x01\x7f",
)
"""Every one has been somebody's outage or some reader's surprise."""
SPEC = RunSpec(
    name="vllm-test",
    image=f"registry.example:5000/team/vllm@sha256:{'0' * 64}",
    tag="stable",
    profile="test",
    arguments=("/model", "--tensor-parallel-size=2", *NASTY),
    environment=(("A", 'b "c" $d %e'), ("NCCL_PROTO", "LL"), ("N", "1e3")),
    secrets="",
    gpus=Gpus(count=2),
    shm_mib=16384,
    volumes=(
        Volume(source="/models/a $x %i model", target="/model", read_only=True),
        Volume(source="vllm-test-cache", target="/cache"),
    ),
    startup=900,
)


@dataclass(frozen=True)
class Programs:
    """Debian 13's, unpacked."""

    quadlet: Path
    compose: Path


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Fetch and unpack podman and docker-compose; both are Go programs that run anywhere."""
    folder = tmp_path_factory.mktemp("programs")
    architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    root = AptRoot(folder / "apt", host_sources("trixie", DebianSettings()), architecture)
    root.update()
    for deb in root.download(["podman", "docker-compose"], folder):
        unpack(deb, folder / "root")
        deb.unlink()
    libexec = folder / "root/usr/libexec"
    return Programs(
        quadlet=libexec / "podman/quadlet", compose=libexec / "docker/cli-plugins/docker-compose"
    )


def expanded(text: str) -> str:
    """Do to a word what systemd does before it starts a program."""
    return text.replace("%%", "%").replace("$$", "$")


def generated(programs: Programs, folder: Path, spec: RunSpec) -> str:
    """Let podman's generator turn a quadlet into a service."""
    (folder / "vllm-test.container").write_text(write(spec, "quadlet"))
    ran = subprocess.run(
        [programs.quadlet, "-dryrun"],
        env={**os.environ, "QUADLET_UNIT_DIRS": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr
    return ran.stdout


def test_systemd_escaping_of_a_quadlet(programs: Programs, tmp_path: Path) -> None:
    """C72: podman's own generator gives podman every argument and variable as it was meant."""
    service = generated(programs, tmp_path, SPEC)
    row = next(one for one in entries(service) if one.key == "ExecStart").words()
    box = run_command([replace(word, text=expanded(word.text)) for word in row], "systemd")
    assert box is not None
    assert list(SPEC.arguments) == [word.text for word in box.arguments]
    expected = {f"{name}={value}" for name, value in SPEC.environment}
    assert expected == {word.text for word in box.environment}
    words = [word.text for word in row]
    assert "16384m" == words[words.index("--shm-size") + 1]
    volumes = [expanded(words[at + 1]) for at, word in enumerate(words) if word == "-v"]
    assert ["/models/a $x %i model:/model:ro", "vllm-test-cache:/cache"] == volumes
    devices = [words[place + 1] for place, word in enumerate(words) if word == "--device"]
    assert ["nvidia.com/gpu=0", "nvidia.com/gpu=1"] == devices


def test_compose_interpolation_by_compose_itself(programs: Programs, tmp_path: Path) -> None:
    """C80: what compose makes of the file are the arguments that were meant; none is a number."""
    file = tmp_path / "compose.yaml"
    file.write_text(write(SPEC, "compose"))
    said = subprocess.run(
        [programs.compose, "-f", file, "config", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "d": "interpolated", "free": "interpolated"},
    )
    assert 0 == said.returncode, said.stderr
    service: dict[str, Any] = json.loads(said.stdout)["services"]["vllm"]
    # It doubles the dollars again, so that its answer is a compose file.
    assert list(SPEC.arguments) == [text.replace("$$", "$") for text in service["command"]]
    environment = {name: text.replace("$$", "$") for name, text in service["environment"].items()}
    assert dict(SPEC.environment) == environment
    assert 16384 * 2**20 == int(service["shm_size"])
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert ("nvidia", 2) == (device["driver"], device["count"])
    assert ["/models/a $x %i model", "vllm-test-cache"] == [
        row["source"].replace("$$", "$") for row in service["volumes"]
    ]


def test_kubernetes_manifests_are_valid() -> None:
    """Each resource against the schema of its kind, strictly: no field that nobody reads."""
    resources = list(yaml.safe_load_all(write(SPEC, "kubernetes")))
    for resource in resources:
        kubernetes_validate.validate(resource, "1.34", strict=True)
    assert {"Deployment", "Service", "PersistentVolumeClaim"} == {one["kind"] for one in resources}
    wrong = {**resources[0], "spek": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.34", strict=True)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed here")
def test_systemd_takes_the_unit(programs: Programs, tmp_path: Path) -> None:
    """`systemd-analyze verify`, of the unit and of what a quadlet becomes; it does find faults."""
    (tmp_path / "docker.service").write_text("[Service]\nExecStart=/bin/true\n")
    unit = tmp_path / "vllm-test.service"
    unit.write_text(write_systemd(SPEC, docker="/bin/true"))
    assert "" == verified(unit)
    quadlets = tmp_path / "quadlets"
    quadlets.mkdir()
    # Its generator writes a path with a space into RequiresMountsFor= as two.
    plain = replace(SPEC, volumes=(Volume(source="/models/m", target="/model"),))
    text = generated(programs, quadlets, plain).partition("---vllm-test.service---\n")[2]
    made = tmp_path / "made.service"
    made.write_text(text.replace("/usr/bin/podman", "/bin/true"))
    assert "" == verified(made)
    unit.write_text(unit.read_text().replace("Type=exec", "Type=wrong"))
    assert "Failed to parse service type" in verified(unit)


def verified(unit: Path) -> str:
    """Return what systemd complains of, in a unit and all it names."""
    ran = subprocess.run(
        ["systemd-analyze", "verify", unit],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{unit.parent}:"},
    )
    return "\n".join(
        line for line in ran.stderr.splitlines() if unit.parent.name in line or unit.name in line
    )
