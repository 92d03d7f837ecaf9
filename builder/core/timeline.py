"""Timeline: a start as phases of each process, in seconds since the container was asked for."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

PhaseName = Literal[
    "container-start",
    "imports",
    "engine-init",
    "weights",
    "kernels",
    "compile",
    "autotune",
    "capture",
    "kv-cache",
    "warm-up",
    "server-up",
    "first-answer",
    "second-answer",
]
"""In the order of a usual start. `kernels`: after the weights are read, until the model is loaded:
dequantisation, repacking, choice of kernels. `kv-cache`: the profile run and the sizing."""
PHASES: tuple[PhaseName, ...] = PhaseName.__args__  # type: ignore[attr-defined]
_SLOWER = 1.25
_SLOWER_SECONDS = 2.0
"""A phase that took a quarter and two seconds more than before is worth a word."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Span(_Table):
    """One phase of one process."""

    process: str
    """As vLLM names it, as `Worker_TP3`; `container`, `client` for what no process says; `server`
    where lines carry no name."""
    phase: PhaseName
    start: float
    end: float
    """Seconds since the container was asked for."""
    bytes: int = 0
    """Weights: what this rank holds after loading, else the checkpoint's size; 0 where unknown."""
    gb_per_second: float = 0
    """10^9 bytes per second of a load; 0 where unknown."""
    open: bool = False
    """Whether the log ended within it: where a start that failed was."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return round(self.end - self.start, 3)


class Timeline(_Table):
    """A whole start."""

    seconds: float = 0
    """Until the second answer, or as far as it came."""
    spans: tuple[Span, ...] = ()
    """Sorted by start."""
    kernels: tuple[str, ...] = ()
    """Which kernels vLLM says it chose, each once."""

    @property
    def startup(self) -> float:
        """Seconds until the first answer was there; `seconds` where none came."""
        ends = [span.end for span in self.spans if span.phase == "first-answer" and not span.open]
        return ends[0] if ends else self.seconds

    @property
    def longest(self) -> dict[PhaseName, float]:
        """Phase → seconds of the process that took longest, in the order of a start."""
        found: dict[PhaseName, float] = {}
        for phase in PHASES:
            took = [span.seconds for span in self.spans if span.phase == phase]
            if took:
                found[phase] = max(took)
        return found

    def with_spans(self, *spans: Span) -> Timeline:
        """Add what was seen from outside."""
        every = sorted((*self.spans, *spans), key=lambda span: (span.start, span.end))
        end = max((span.end for span in every), default=0.0)
        return self.model_copy(update={"spans": tuple(every), "seconds": round(end, 3)})

    def shifted(self, seconds: float) -> Timeline:
        """Move all of it to later."""
        moved = [
            span.model_copy(
                update={
                    "start": round(span.start + seconds, 3),
                    "end": round(span.end + seconds, 3),
                }
            )
            for span in self.spans
        ]
        return self.model_copy(update={"spans": ()}).with_spans(*moved)

    def rows(self, previous: Timeline | None = None) -> list[str]:
        """Spell it for people, a line a phase; with the previous start's seconds beside it."""
        before = previous.longest if previous is not None else {}
        lines = []
        for phase, seconds in self.longest.items():
            spans = [span for span in self.spans if span.phase == phase]
            rate = max(span.gb_per_second for span in spans)
            more = f"  {rate:.2f} GB/s" if rate else ""
            if len(spans) > 1:
                more += f"  slowest of {len(spans)}"
            if any(span.open for span in spans):
                more += "  not finished"
            if phase in before:
                more += f"  before {before[phase]:.1f} s"
                if seconds > before[phase] * _SLOWER and seconds > before[phase] + _SLOWER_SECONDS:
                    more += ", slower"
            lines.append(f"{phase:15} {seconds:8.1f} s{more}")
        return lines
