"""GPUs of a smoke: how Docker is asked for them, and whether their memory came back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from docker.types import DeviceRequest

from builder.commands.smoke_memory import await_return
from builder.core.gpu_memory import GpuState, not_returned, parse_holders, parse_memory
from builder.core.profile import ServerTable, parse_profile
from builder.edge.devices import device_requests
from builder.errors import SpecError

UUID = "GPU-4f1c0d4e-6c0e-9d0f-1b1e-0c7f3f7f6a01"
IDLE = f"0, {UUID}, 3, 97887\n1, GPU-b, 3, 97887\n"
BUSY = f"0, {UUID}, 87040, 97887\n1, GPU-b, 3, 97887\n"
CHECK = """
[[check]]
name = "models"
request = "get"
path = "/v1/models"
expect = {models = true}
"""


@pytest.mark.parametrize(
    ("count", "ids", "expected"),
    [
        (0, (), None),
        (2, (), {"Count": 2, "DeviceIDs": [], "Capabilities": [["gpu"]], "Driver": ""}),
        (8, ("1", UUID), {"Count": 0, "DeviceIDs": ["1", UUID], "Capabilities": [["gpu"]]}),
        (1, ("nvidia.com/gpu=0",), {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}),
    ],
)
def test_gpus_are_asked_for_as_docker_wants(
    count: int, ids: tuple[str, ...], expected: dict[str, object] | None
) -> None:
    """By number, index, UUID, CDI name; nothing at all for the cpu image."""
    found = device_requests(count, ids)
    if expected is None:
        assert [] == found
        return
    (request,) = found
    assert isinstance(request, DeviceRequest)
    assert expected == {key: request[key] for key in expected}


def test_the_profile_says_which_gpus_and_how_it_is_stopped() -> None:
    """Wrong names and a mix are told with their place; vLLM's own limit is waited for."""
    text = 'kind = "gpu:sm_120"\n[server]\ngpus = ["0", "GPU-x"]\nipc = "host"\n'
    text += 'volumes = ["cache:/cache", "/data:/data:ro"]\n'
    text += 'arguments = ["--shutdown-timeout", "90"]\n[deadlines]\nphases = {weights = 900}\n'
    profile = parse_profile(text + CHECK, "x.toml")
    assert (["0", "GPU-x"], 100.0) == (profile.server.gpus, profile.grace)
    assert {"weights": 900} == profile.deadlines.phases
    assert 30.0 == parse_profile('kind = "cpu"\n' + CHECK, "x.toml").grace
    assert 0.0 == ServerTable(arguments=["--shutdown-timeout"]).shutdown_seconds
    for wrong in (
        'gpus = ["0", "nvidia.com/gpu=0"]',
        'gpus = ["all the cards"]',
        'ipc = "container:x"',
        'volumes = ["/data"]',
    ):
        with pytest.raises(SpecError, match=r"server"):
            parse_profile(f'kind = "cpu"\n[server]\n{wrong}\n{CHECK}', "x.toml")


def test_what_nvidia_smi_says_is_read() -> None:
    """Rows of another kind are left out, as `[N/A]` of a card that says nothing."""
    rows = parse_memory(IDLE + "2, GPU-c, [N/A], [N/A]\nNo devices were found\n")
    assert [(0, UUID, 3), (1, "GPU-b", 3)] == [(g.index, g.uuid, g.used) for g in rows]
    assert ("4242 VLLM::Worker_TP0",) == parse_holders("4242, VLLM::Worker_TP0\n[N/A]\n")
    assert [] == not_returned(rows, parse_memory(IDLE.replace(", 3,", ", 400,")))
    assert [] == not_returned((), parse_memory(BUSY))


class Card:
    """Stands for a card whose memory is free after some looks."""

    def __init__(self, busy: int) -> None:
        self.answers: Iterator[str] = iter([BUSY] * busy + [IDLE] * 100)
        self.time = 0.0

    def look(self) -> GpuState:
        """Look once."""
        return GpuState(memory=parse_memory(next(self.answers)), holders=("4242 VLLM::Worker",))

    def pause(self, seconds: float) -> None:
        """Let time pass without waiting."""
        self.time += seconds

    def clock(self) -> float:
        """Say what time it is."""
        return self.time


@pytest.mark.parametrize(("busy", "keys"), [(0, []), (20, []), (90, ["orphan-workers"])])
def test_orphan_workers_are_named_after_a_bounded_wait(busy: int, keys: list[str]) -> None:
    """Memory that comes back late is none; memory that never does is told with who holds it."""
    card, before = Card(busy), GpuState(memory=parse_memory(IDLE))
    found = await_return(before, card.look, 60, "image", clock=card.clock, pause=card.pause)
    assert keys == [one.key for one in found]
    assert min(busy, 60) == card.time
    for one in found:
        assert f"GPU 0 ({UUID}) holds 87040 MiB, 3 MiB before" in one.evidence
        assert "4242 VLLM::Worker" in one.evidence
