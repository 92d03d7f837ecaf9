"""A systemd unit that keeps one container in the foreground."""

from __future__ import annotations

from collections.abc import Iterable

from builder.core.runfile.docker import gpu_options, mount_options, options
from builder.core.runfile.quoting import systemd
from builder.core.runfile.spec import READY_MARGIN, RESTARTS, STOP, RunSpec, header

_DOCKER = "/usr/bin/docker"
_WAIT = 300
"""Seconds that a start waits for the GPUs and their memory (C47, C81)."""


def write_systemd(spec: RunSpec, *, docker: str = _DOCKER) -> str:
    """Write the unit; `docker` is the program's path on the host."""
    lines = [f"# {line}" for line in header(spec, "systemd")]
    lines += [
        "# The image is pulled before the unit is started, so that no limit covers a download:",
        f"#   docker pull {spec.image}",
        "",
        "[Unit]",
        f"Description=vLLM, {spec.profile}".replace("%", "%%"),
        "After=docker.service network-online.target",
        "Wants=network-online.target",
        "Requires=docker.service",
        "# A start that takes minutes to fail is not tried for ever.",
        f"StartLimitIntervalSec={(spec.startup + READY_MARGIN) * (RESTARTS + 1)}",
        f"StartLimitBurst={RESTARTS}",
        "",
        "[Service]",
        "Type=exec",
        "# A container that a crash of the host left behind would keep the name.",
        f"ExecStartPre=-{_words([docker, 'rm', '--force', spec.name])}",
        *_wait(spec, docker),
        f"ExecStart={_rows(docker, spec)}",
        f"ExecStop={_words([docker, 'stop', '--time', str(STOP), spec.name])}",
        f"TimeoutStartSec={_WAIT + READY_MARGIN}",
        "# Above the stop of the container, which is above vLLM's own.",
        f"TimeoutStopSec={STOP + 30}",
        "Restart=on-failure",
        "RestartSec=15",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _wait(spec: RunSpec, docker: str) -> list[str]:
    """Wait until the GPUs are there and their memory is free, with the image's own preflight."""
    if not spec.gpus.count:
        return []
    words = [docker, "run", "--rm", "--pull", "never"]
    words += [word for row in (*gpu_options(spec), *mount_options(spec)) for word in row]
    words += ["--shm-size", f"{spec.shm_mib}m", spec.image, "preflight", "--wait", str(_WAIT)]
    words += spec.arguments
    return [
        "# Memory of the last run may take seconds to return, and after a boot the devices too.",
        f"ExecStartPre={_words(words)}",
    ]


def _rows(docker: str, spec: RunSpec) -> str:
    # journald has what the container prints; a second copy would only fill the disk.
    fixed: list[tuple[str, ...]] = [("--rm",), ("--log-driver", "none")]
    rows = [*fixed, *options(spec), (spec.image,), *((one,) for one in spec.arguments)]
    return " \\\n    ".join([f"{docker} run", *(_words(row) for row in rows)])


def _words(words: Iterable[str]) -> str:
    return " ".join(systemd(word) for word in words)
