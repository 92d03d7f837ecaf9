"""A script that starts the container with docker, and the options that a unit shares with it."""

from __future__ import annotations

from builder.core.runfile.quoting import shell
from builder.core.runfile.spec import RESTARTS, STOP, RunSpec, header


def options(spec: RunSpec) -> list[tuple[str, ...]]:
    """Options of `docker run` that say what the container is, one row an option."""
    rows: list[tuple[str, ...]] = [("--name", spec.name), ("--pull", "never")]
    rows += gpu_options(spec)
    rows.append(("--shm-size", f"{spec.shm_mib}m"))
    rows += mount_options(spec)
    rows.append(("--publish", f"{spec.address}:{spec.host_port}:{spec.port}"))
    rows += [("--env", f"{name}={value}") for name, value in spec.environment]
    if spec.secrets:
        rows.append(("--env-file", spec.secrets))
    rows.append(("--health-start-period", f"{spec.startup}s"))
    rows.append(("--stop-timeout", str(STOP)))
    return rows


def mount_options(spec: RunSpec) -> list[tuple[str, ...]]:
    """One `--volume` a mount."""
    return [
        ("--volume", f"{one.source}:{one.target}" + (":ro" if one.read_only else ""))
        for one in spec.volumes
    ]


def gpu_options(spec: RunSpec) -> list[tuple[str, ...]]:
    """`--gpus`, or a CDI device each."""
    gpus = spec.gpus
    if not gpus.count:
        return []
    if gpus.cdi:
        return [("--device", name) for name in gpus.cdi_names]
    if gpus.chosen:
        # The value is CSV: a list of devices keeps double quotes of its own (C76).
        return [("--gpus", f'"device={",".join(gpus.chosen)}"')]
    return [("--gpus", str(gpus.count))]


def write_docker(spec: RunSpec) -> str:
    """Write the script. It pulls by digest, then starts; a name that is taken is an error."""
    rows = [
        ("--detach",),
        # Docker keeps restarting within these; a name stays until `docker rm`.
        ("--restart", f"on-failure:{RESTARTS}"),
        ("--log-driver", "local"),
        ("--log-opt", "max-size=50m"),
        ("--log-opt", "max-file=5"),
        *options(spec),
        (spec.image,),
        *((argument,) for argument in spec.arguments),
    ]
    lines = ["#!/bin/sh", *(f"# {line}" for line in header(spec, "docker"))]
    lines += [
        "set -eu",
        f"docker pull {shell(spec.image)}",
        "exec docker run \\",
        " \\\n".join("  " + " ".join(shell(word) for word in row) for row in rows),
    ]
    return "\n".join(lines) + "\n"
