"""After a stop: GPU memory is as free as before the start, within a bounded wait (C46)."""

from __future__ import annotations

import time
from collections.abc import Callable

from builder.core.finding import Finding
from builder.core.gpu_memory import GpuState, not_returned
from builder.core.keys import finding

_POLL = 1.0


def await_return(
    before: GpuState,
    look: Callable[[], GpuState],
    limit: float,
    subject: str,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> list[Finding]:
    """Look until no GPU holds more than before, at most `limit` seconds.

    What stays is a finding with the processes that hold it; nothing is killed.
    """
    end = clock() + limit
    while True:
        state = look()
        held = not_returned(before.memory, state.memory)
        if not held:
            return []
        if clock() >= end:
            break
        pause(_POLL)
    by = "; held by " + ", ".join(state.holders) if state.holders else "; no process is visible"
    evidence = f"{limit:g} s after the stop: {'; '.join(held)}{by}"
    return [finding("orphan-workers", subject=subject, evidence=evidence)]
