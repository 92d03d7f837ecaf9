"""What a machine has and lacks for the main job: one line and one fix each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from builder.core.engine_features import (
    CREATE_BUILDER,
    DAEMON_JSON,
    NEEDED_BUILDKIT,
    BuildKit,
    has_containerd_store,
)
from builder.core.spec import GENERAL
from builder.errors import NightlockError, redacted

State = Literal["ok", "lacks", "optional"]
_OWN_BUILDERS = ("docker-container", "kubernetes", "remote")
_NEEDED_ENGINE = 25
"""Its BuildKit is 0.12; Debian's builds of BuildKit do not say their version."""

STORE_BYTES = 2_000_000_000
"""Wheels and .debs of the `cpu` image."""
ENGINE_BYTES = 15_000_000_000
"""Context, stages, unpacked image and layers of the `cpu` image at their peak."""
CUDA_BYTES = 45_000_000_000
"""The same of a CUDA 13 image, wheels included."""


class Check(BaseModel):
    """One line of `nightlock doctor`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    state: State
    """`lacks`: the main job needs it. `optional`: something else would."""
    found: str
    fix: str = ""


def ok(name: str, found: str) -> Check:
    """Say that something is there."""
    return Check(name=name, state="ok", found=found)


def lacks(name: str, found: str, fix: str) -> Check:
    """Say that something the main job needs is not there."""
    return Check(name=name, state="lacks", found=found, fix=fix)


def optional(name: str, found: str, fix: str) -> Check:
    """Say that something is not there which the main job does not need."""
    return Check(name=name, state="optional", found=found, fix=fix)


def judge_index(name: str, where: str, origin: str, why_not: str) -> Check:
    """Judge an index by whether it answers; only the general one is needed for everything."""
    label, found = f"index {name}", f"{where} ({origin})"
    if not why_not:
        return ok(label, found)
    silent = f"{found}: {redacted(why_not)}"
    if name == GENERAL:
        fix = "check the network and the proxy variables, or name a mirror in PIP_INDEX_URL"
        return lacks(label, silent, fix)
    variable = "NIGHTLOCK_INDEX_" + name.upper().replace("-", "_")
    fix = f"name a mirror or folder in {variable}, or put its files where PIP_FIND_LINKS points"
    return optional(label, silent, fix)


def judge_place(label: str, where: str, origin: str, why_not: str) -> Check:
    """Judge a further place that may hold files."""
    if not why_not:
        return ok(label, f"{where} ({origin})")
    return optional(label, f"{where} ({origin}): {redacted(why_not)}", f"correct {origin}")


def from_error(name: str, error: NightlockError) -> Check:
    """Say that something is not there, as its error does."""
    return lacks(
        name, f"{error.what} ({error.subject})" if error.subject else error.what, error.action
    )


def judge_python(version: tuple[int, int]) -> Check:
    """Judge the Python that runs us."""
    found = ".".join(map(str, version))
    if version >= (3, 11):
        return ok("python", found)
    return lacks("python", found, "install Python 3.11 or newer")


def judge_no_engine(refused: NightlockError | None) -> Check:
    """Judge a machine where no engine answers: say whether a private one may start."""
    if refused is None:
        return ok("engine", "none answers; `nightlock engine start` can start a private one here")
    return from_error("engine", refused)


def judge_version(version: str) -> Check:
    """Judge the version of the engine that answers."""
    if _major(version) >= _NEEDED_ENGINE:
        return ok("engine", f"Docker {version}")
    return lacks("engine", f"Docker {version}", "upgrade Docker Engine to 26 or newer")


def judge_store(info: Mapping[str, Any], buildkit: BuildKit) -> Check:
    """Judge whether layers can be zstd and media types OCI: never silently gzip."""
    name, can = "image store", "zstd layers, OCI media types"
    if buildkit.driver in _OWN_BUILDERS:
        return ok(name, f"builder with driver {buildkit.driver}: {can}")
    if has_containerd_store(info):
        return ok(name, f"containerd: {can}")
    return lacks(
        name,
        f"{info.get('Driver') or 'unknown'}, not containerd: no {can}",
        f"add {DAEMON_JSON} to /etc/docker/daemon.json and restart Docker, or run "
        f"`{CREATE_BUILDER}` and give `--builder nightlock`",
    )


def judge_buildkit(version: str, buildkit: BuildKit) -> Check:
    """Judge the BuildKit that would build."""
    name, can = "BuildKit", "COPY --link, heredocs, OCI layouts, network=none"
    if not buildkit.driver:
        return lacks(name, "no docker buildx", "install the package docker-buildx")
    found = buildkit.describe(version)
    known = buildkit.number if buildkit.number > (0, 0) else None
    if (known and known >= NEEDED_BUILDKIT) or (not known and _major(version) >= _NEEDED_ENGINE):
        return ok(name, f"{found}: {can}")
    needed = ".".join(map(str, NEEDED_BUILDKIT))
    return lacks(
        name,
        found,
        f"BuildKit {needed} or newer: upgrade Docker Engine, or run `{CREATE_BUILDER}` and give "
        "`--builder nightlock`",
    )


def judge_registry(host: str, loopback: str, setting: str) -> Check:
    """Judge where images can be pushed; the loopback of another machine is not ours."""
    if setting:
        return ok("registry", f"{setting} (setting `registry`)")
    local = host.startswith(("unix://", "tcp://localhost:", "tcp://127."))
    if loopback and not local:
        return lacks(
            "registry",
            f"{loopback} is on loopback here, the engine is at {host}",
            "set NIGHTLOCK_REGISTRY to a repository prefix that the engine reaches",
        )
    if loopback:
        return ok("registry", f"{loopback} on loopback")
    return lacks(
        "registry",
        "none on loopback, none in the settings",
        "run `nightlock engine start`, or set NIGHTLOCK_REGISTRY to a repository prefix",
    )


def judge_disk(name: str, folder: str, free: int, needed: int) -> Check:
    """Judge the room in one folder for the main job; bytes."""
    found = f"{free / 1e9:.0f} GB free at {folder}, {needed / 1e9:.0f} GB needed"
    if free >= needed:
        return ok(name, found)
    return lacks(
        name, found, "free some space, or point XDG_CACHE_HOME and XDG_STATE_HOME elsewhere"
    )


def judge_cuda_disk(free: int) -> Check:
    """Judge the room for a CUDA image; bytes."""
    found = f"{free / 1e9:.0f} GB free, {CUDA_BYTES / 1e9:.0f} GB needed for a CUDA image"
    if free >= CUDA_BYTES:
        return ok("disk for CUDA", found)
    return optional("disk for CUDA", found, "free some space before building a CUDA image")


def judge_gpu(cards: str, toolkit: str) -> tuple[Check, ...]:
    """Judge what only GPU images need; `cards` is what `nvidia-smi -L` says."""
    names = "; ".join(line.split(" (UUID")[0] for line in cards.splitlines())
    gpu = (
        ok("GPU", names)
        if names
        else optional("GPU", "no nvidia-smi", "install NVIDIA's driver to boot CUDA images here")
    )
    container = (
        ok("NVIDIA container toolkit", toolkit)
        if toolkit
        else optional(
            "NVIDIA container toolkit",
            "no nvidia-ctk",
            "install nvidia-container-toolkit to boot CUDA images here",
        )
    )
    return gpu, container


def table(checks: tuple[Check, ...]) -> str:
    """Lay checks out for a person: a line each, and a line for the fix where there is one."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.state:<8}  {check.name:<{width}}  {check.found}")
        if check.fix:
            lines.append(f"{'':8}  {'':{width}}  do: {check.fix}")
    return "\n".join(lines)


def _major(version: str) -> int:
    match = re.match(r"\d+", version)
    return int(match[0]) if match else 0
