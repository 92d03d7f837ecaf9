"""A boot's timeline: the log's phases, what was seen from outside, and the start before it."""

from __future__ import annotations

from collections.abc import Sequence

from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.places import Places
from builder.core.smoke import Phase, SmokeReport
from builder.core.timeline import PhaseName, Span, Timeline
from builder.edge import records

_SEEN: dict[str, tuple[str, PhaseName]] = {
    "start": ("container", "container-start"),
    "first-answer": ("client", "first-answer"),
    "second-answer": ("client", "second-answer"),
}
"""What was measured here → who and what it is in a timeline."""


def whole(log: Timeline, phases: Sequence[Phase]) -> Timeline:
    """Join the phases of the log with those that were measured here.

    Both count from one moment: the engine said that the container runs when our first phase ended.
    """
    spans: list[Span] = []
    at = 0.0
    began = 0.0
    for phase in phases:
        end = round(at + phase.seconds, 3)
        if phase.name == "start":
            began = end
        if phase.name in _SEEN:
            process, name = _SEEN[phase.name]
            spans.append(Span(process=process, phase=name, start=at, end=end))
        at = end
    return log.shifted(began).with_spans(*spans)


def over_budget(
    timeline: Timeline, budget: float | None, previous: SmokeReport | None, subject: str
) -> list[Finding]:
    """Compare the time until the first answer with what was allowed."""
    if budget is None or timeline.startup <= budget:
        return []
    evidence = f"first answer after {timeline.startup:.1f} s, budget {budget:g} s"
    if previous is not None:
        evidence += f", {previous.timeline.startup:.1f} s in the start before"
        before = previous.timeline.longest
        grown = {p: s - before.get(p, 0.0) for p, s in timeline.longest.items()}
        most = max(grown, key=lambda phase: grown[phase])
        evidence += f"; {most} grew most, by {grown[most]:.1f} s"
    else:
        most = max(timeline.longest, key=lambda phase: timeline.longest[phase])
        evidence += f"; longest: {most}, {timeline.longest[most]:.1f} s"
    return [finding("startup-over-budget", subject=subject, evidence=evidence)]


def find_previous(places: Places, name: str, profile: str) -> SmokeReport | None:
    """Find the newest start of this repository under this profile that passed, of any digest."""
    passed = (
        report
        for report in records.all_reports(places)
        if (report.name, report.profile, report.verdict) == (name, profile, "pass")
        and report.timeline.spans
    )
    return max(passed, key=lambda report: report.finished, default=None)
