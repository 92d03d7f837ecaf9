"""What a person who waits for a start sees, and the deadline of each of its phases."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from builder.core.timeline import PhaseName
from builder.edge.logfile import LogFile
from builder.output import Output

_SILENCE = 60.0
"""Seconds without a line of log before the person who waits is told."""


@dataclass(slots=True)
class Watch:
    """Looks at a log while it grows."""

    output: Output
    limits: Mapping[PhaseName, float]
    began: float = field(default_factory=time.monotonic)
    _told: float = field(default_factory=time.monotonic)
    _phase: PhaseName | None = None
    _since: float = field(default_factory=time.monotonic)

    def look(self, log: LogFile) -> str:
        """Show what goes on; return which phase took too long, empty while all is in time."""
        phase, said = log.now()
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._since = phase, now
            if phase is not None and not self.output.terminal:
                self.output.note(f"  {now - self.began:.0f} s, {phase}")
        self.output.changing(f"  {now - self.began:.0f} s, {said}" if phase is not None else "")
        if min(log.silence(), now - self._told) > _SILENCE:
            self._told = now
            last = (log.tail(1) or ["nothing yet"])[0]
            where = f" in {phase}" if phase else ""
            self.output.note(
                f"  {now - self.began:.0f} s, no new line for a minute{where}; last: {last}"
            )
        limit = self.limits.get(phase) if phase is not None else None
        if limit is not None and now - self._since > limit:
            return f"{phase} took more than {limit:g} s ({said})"
        return ""

    def wait(self, log: LogFile) -> None:
        """Show what goes on during a request, whose own deadline is enough."""
        self.look(log)

    def end(self) -> None:
        """Take the changing line off the screen."""
        self.output.changing("")
