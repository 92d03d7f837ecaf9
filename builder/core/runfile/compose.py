"""A compose file (Compose specification)."""

from __future__ import annotations

from typing import Any

from builder.core.runfile.quoting import dollars
from builder.core.runfile.spec import RESTARTS, STOP, RunSpec, header
from builder.core.runfile.yamltext import yaml_text


def write_compose(spec: RunSpec) -> str:
    """Write the file; every text is a list item or a value, so nothing is split or filled in."""
    service: dict[str, Any] = {
        "image": spec.image,
        "container_name": spec.name,
        "command": [dollars(argument) for argument in spec.arguments],
        "environment": {name: dollars(value) for name, value in spec.environment},
    }
    if spec.secrets:
        service["env_file"] = [dollars(spec.secrets)]
    service |= {
        "shm_size": f"{spec.shm_mib}mb",
        "ports": [f"{spec.address}:{spec.host_port}:{spec.port}"],
        "volumes": [
            {
                "type": "volume" if volume.named else "bind",
                "source": dollars(volume.source),
                "target": dollars(volume.target),
                **({"read_only": True} if volume.read_only else {}),
            }
            for volume in spec.volumes
        ],
        # The image has the probe; only its patience is the deployment's.
        "healthcheck": {"start_period": f"{spec.startup}s"},
        "stop_grace_period": f"{STOP}s",
        "restart": f"on-failure:{RESTARTS}",
        "logging": {"driver": "local", "options": {"max-size": "50m", "max-file": "5"}},
    }
    if spec.gpus.count:
        service["deploy"] = {"resources": {"reservations": {"devices": [_device(spec)]}}}
    named = {volume.source: None for volume in spec.volumes if volume.named}
    content: dict[str, Any] = {"name": spec.name, "services": {"vllm": service}}
    if named:
        content["volumes"] = named
    return yaml_text(header(spec, "compose"), [content])


def _device(spec: RunSpec) -> dict[str, Any]:
    gpus = spec.gpus
    if gpus.cdi:
        return {"driver": "cdi", "device_ids": list(gpus.cdi_names), "capabilities": ["gpu"]}
    which: dict[str, Any] = (
        {"device_ids": list(gpus.chosen)} if gpus.chosen else {"count": gpus.count}
    )
    return {"driver": "nvidia", **which, "capabilities": ["gpu"]}
