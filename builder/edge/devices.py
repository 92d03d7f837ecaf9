"""GPUs for a container, as Docker's API asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from docker.types import DeviceRequest


def device_requests(count: int, ids: Sequence[str]) -> list[DeviceRequest]:
    """Ask for GPUs by number, index, UUID or CDI name; none for nothing asked.

    Source: Docker Engine API, HostConfig.DeviceRequests; CDI names go to the driver `cdi`
    (Engine 25 and newer), the others to NVIDIA's, which is found by its capability.
    """
    if ids and "=" in ids[0]:
        return [DeviceRequest(driver="cdi", device_ids=list(ids))]
    if ids:
        return [DeviceRequest(device_ids=list(ids), capabilities=[["gpu"]])]
    if count:
        return [DeviceRequest(count=count, capabilities=[["gpu"]])]
    return []
