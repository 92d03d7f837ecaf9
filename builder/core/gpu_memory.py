"""What GPUs hold, and whether a stop gave it back (C46)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

QUERY = "index,uuid,memory.used,memory.total"
"""For `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`."""
SLACK_MIB = 512
"""A driver's own bookkeeping moves by some of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """One GPU, in MiB."""

    index: int
    uuid: str
    used: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """All GPUs that were looked at."""

    memory: tuple[GpuMemory, ...]
    holders: tuple[str, ...] = ()
    """`pid name`, of processes that hold memory, where they can be seen."""


def parse_memory(text: str) -> tuple[GpuMemory, ...]:
    """Read nvidia-smi's answer to `QUERY`; rows that are none are left out."""
    rows = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 4 and all(parts[at].isdigit() for at in (0, 2, 3)):
            index, used, total = (int(parts[at]) for at in (0, 2, 3))
            rows.append(GpuMemory(index=index, uuid=parts[1], used=used, total=total))
    return tuple(rows)


def parse_holders(text: str) -> tuple[str, ...]:
    """Read nvidia-smi's answer to `--query-compute-apps=pid,process_name`."""
    found = []
    for line in text.splitlines():
        pid, _, name = line.partition(",")
        if pid.strip().isdigit():
            found.append(f"{pid.strip()} {name.strip()}".strip())
    return tuple(found)


def not_returned(before: Sequence[GpuMemory], after: Sequence[GpuMemory]) -> list[str]:
    """Name each GPU that holds more than before, with how much; GPUs are told by UUID."""
    had = {gpu.uuid: gpu.used for gpu in before}
    return [
        f"GPU {gpu.index} ({gpu.uuid}) holds {gpu.used} MiB, {had[gpu.uuid]} MiB before the start"
        for gpu in after
        if gpu.uuid in had and gpu.used > had[gpu.uuid] + SLACK_MIB
    ]
