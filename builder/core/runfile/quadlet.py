"""A quadlet: the container unit of podman (podman-systemd.unit(5))."""

from __future__ import annotations

from builder.core.runfile.quoting import systemd
from builder.core.runfile.spec import READY_MARGIN, RESTARTS, STOP, RunSpec, header
from builder.errors import BadInput

_PROBE = ("/opt/venv/bin/python", "-I", "-S", "/opt/nightlock/healthcheck.py")
"""podman takes no health check from an OCI image; this is the image's own."""


def write_quadlet(spec: RunSpec) -> str:
    """Write the `.container` file; GPUs go by CDI, the only way podman has.

    Raises BadInput for an empty argument, since podman 5's generator drops it and all behind it,
    and for `;` alone, which it hands to systemd without quotes: there it ends the command.
    """
    for argument in ("", ";"):
        if argument in spec.arguments:
            raise BadInput(
                f"a quadlet cannot hold the argument {argument!r}",
                subject=spec.profile,
                action="leave the argument out, or write another format",
            )
    lines = [f"# {line}" for line in header(spec, "quadlet")]
    lines += [
        "# The image is pulled before the unit is started, so that no limit covers a download:",
        f"#   podman pull {spec.image}",
        "",
        "[Unit]",
        f"Description=vLLM, {spec.profile}".replace("%", "%%"),
        "After=network-online.target",
        "Wants=network-online.target",
        f"StartLimitIntervalSec={(spec.startup + READY_MARGIN) * (RESTARTS + 1)}",
        f"StartLimitBurst={RESTARTS}",
        "",
        "[Container]",
        f"ContainerName={systemd(spec.name)}",
        f"Image={spec.image}",
        "Pull=never",
        *(f"AddDevice={name}" for name in (spec.gpus.cdi_names if spec.gpus.count else ())),
        f"ShmSize={spec.shm_mib}m",
        *(_volume(one.source, one.target, read_only=one.read_only) for one in spec.volumes),
        f"PublishPort={spec.address}:{spec.host_port}:{spec.port}",
        # What quadlet passes on becomes a command line of podman, so a `$` is doubled here too.
        *(f"Environment={systemd(f'{name}={value}')}" for name, value in spec.environment),
        *([f"EnvironmentFile={systemd(spec.secrets)}"] if spec.secrets else []),
        f"HealthCmd={' '.join(_PROBE)}",
        f"HealthStartPeriod={spec.startup}s",
        "HealthInterval=15s",
        "# Started is healthy: what is ordered after this unit finds a server that answers.",
        "Notify=healthy",
        f"StopTimeout={STOP}",
        "LogDriver=journald",
        "# Where SELinux enforces, a labelled container may not open the GPU's devices.",
        "SecurityLabelDisable=true",
        "# Rootless: the groups that may open the devices stay.",
        *(["GroupAdd=keep-groups"] if spec.gpus.count else []),
        f"Exec={' '.join(systemd(argument) for argument in spec.arguments)}",
        "",
        "[Service]",
        "Restart=on-failure",
        "RestartSec=15",
        f"TimeoutStartSec={spec.startup + READY_MARGIN}",
        f"TimeoutStopSec={STOP + 30}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _volume(source: str, target: str, *, read_only: bool) -> str:
    # The generator takes the value as it is, quotes too, and quotes it for systemd by itself.
    value = f"{source}:{target}".replace("%", "%%").replace("$", "$$")
    return f"Volume={value}" + (":ro" if read_only else "")
