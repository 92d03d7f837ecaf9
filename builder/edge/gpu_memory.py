"""GPU memory, looked at where the engine is: by nvidia-smi in a throw-away container."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import docker

from builder.core.boot import OWNER_LABEL, RUN_LABEL, BootPlan
from builder.core.gpu_memory import QUERY, GpuState, parse_holders, parse_memory
from builder.edge import owner
from builder.edge.container import explained, open_client
from builder.edge.devices import device_requests
from builder.edge.engine import Engine

_SECONDS = 60


def look(engine: Engine, plan: BootPlan) -> GpuState:
    """Say what the GPUs of a boot hold; the container toolkit puts nvidia-smi into any image.

    Raises EngineError when the container cannot run.
    """
    with explained(engine), open_client(engine, _SECONDS) as client:
        memory = _ask(client, plan, [f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"])
        apps = ["--query-compute-apps=pid,process_name", "--format=csv,noheader"]
        holders = _ask(client, plan, apps)
    return GpuState(memory=parse_memory(memory), holders=parse_holders(holders))


def _ask(client: docker.DockerClient, plan: BootPlan, arguments: Sequence[str]) -> str:
    said = client.containers.run(
        plan.image,
        list(arguments),
        entrypoint=["nvidia-smi"],
        environment={"NVIDIA_DRIVER_CAPABILITIES": "utility"},
        device_requests=device_requests(plan.gpus, plan.gpu_ids),
        labels={RUN_LABEL: secrets.token_hex(8), OWNER_LABEL: owner.this_process().text},
        network_mode="none",
        # Only there a process of another container has the number that the host knows.
        pid_mode="host",
        remove=True,
    )
    return bytes(said).decode(errors="replace")
