"""A timeline as an SVG: one row a process, one bar a phase; light and dark by the reader's choice.

The text stands in a report as it is: no script, no font of its own, nothing from the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from builder.core.timeline import PHASES, PhaseName, Span, Timeline

_WIDTH, _LEFT, _RIGHT, _ROW, _BAR = 960, 150, 18, 28, 18
_TOP = 24
_LEGEND = 6
"""Phases in one line of the legend."""
_MOST_ROWS = 64
_LETTER = 6.6
"""Pixels of a letter at 11 px, about: decides whether a label fits its bar."""
_LIGHT = (
    *("#94a3b8", "#60a5fa", "#818cf8", "#34d399", "#a3e635", "#fbbf24", "#fb923c"),
    *("#f472b6", "#22d3ee", "#c084fc", "#4ade80", "#f87171", "#fca5a5"),
)
"""One colour a phase, light enough for black letters on it in both schemes."""
_STYLE = """
.t{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1e293b}
.m{fill:#64748b}.g{stroke:#cbd5e1;stroke-width:1}.b{fill:#0f172a}.o{stroke:#dc2626;stroke-width:2}
.p{opacity:.45}
@media (prefers-color-scheme:dark){.t{fill:#e2e8f0}.m{fill:#94a3b8}.g{stroke:#334155}
.b{fill:#0f172a}.o{stroke:#f87171}}
"""
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400)


def draw(timeline: Timeline, previous: Timeline | None = None) -> str:
    """Draw a timeline as one `<svg>` element, which scales to where it stands.

    Below 42 rem its letters would be too small to read: there it wants to be scrolled.

    `previous`: an earlier start; each process gets a thin, paler bar of it below its own.
    """
    rows = _rows(timeline.spans)
    earlier = dict(_rows(previous.spans)) if previous is not None else {}
    total = max(timeline.seconds, previous.seconds if previous is not None else 0, 0.001)
    shown = rows[:_MOST_ROWS]
    used = [phase for phase in PHASES if any(s.phase == phase for s in timeline.spans)]
    legend = -(-len(used) // _LEGEND) * 18
    bottom = _TOP + len(shown) * _ROW
    height = bottom + 12 + legend + (18 if len(rows) > len(shown) else 0)
    said = f"start of {timeline.seconds:.1f} s in {len(timeline.longest)} phases"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="100%" style="min-width:42rem" role="img" aria-label="{said}">'
    )
    parts = [
        head,
        f"<style>{_STYLE}</style>",
        *_axis(total, bottom),
    ]
    for number, (process, spans) in enumerate(shown):
        top = _TOP + number * _ROW
        parts.append(
            f'<text class="t" x="{_LEFT - 8}" y="{top + 17}" text-anchor="end">'
            f"{_cut(process, 21)}</text>"
        )
        parts += [_bar(span, total, top + 4, _BAR) for span in spans]
        parts += [_bar(span, total, top + 23, 3, "p") for span in earlier.get(process, [])]
    if len(rows) > len(shown):
        parts.append(
            f'<text class="t m" x="{_LEFT}" y="{bottom + 12}">'
            f"and {len(rows) - len(shown)} more processes</text>"
        )
    parts += _legend(used, height - legend)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _rows(spans: Sequence[Span]) -> list[tuple[str, list[Span]]]:
    """Sort spans to processes, in the order in which those appear."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.process, []).append(span)
    return list(found.items())


def _axis(total: float, bottom: int) -> list[str]:
    step = next((step for step in _STEPS if total / step <= 10), total / 10)
    lines = []
    for number in range(int(total / step) + 1):
        x = _x(number * step, total)
        lines.append(f'<line class="g" x1="{x:.1f}" y1="{_TOP - 4}" x2="{x:.1f}" y2="{bottom}"/>')
        lines.append(
            f'<text class="t m" x="{x:.1f}" y="14" text-anchor="middle">{number * step:g} s</text>'
        )
    return lines


def _bar(span: Span, total: float, y: int, height: int, name: str = "") -> str:
    left = _x(span.start, total)
    width = max(_x(span.end, total) - left, 1.5)
    rate = f", {span.bytes / 1e9:.2f} GB at {span.gb_per_second:.2f} GB/s" if span.bytes else ""
    said = f"{span.process}: {span.phase}, {span.seconds:.2f} s from {span.start:.2f} s{rate}"
    said += ", not finished" if span.open else ""
    kind = " ".join(part for part in (name, "o" if span.open else "") if part)
    text = ""
    if not name and width > len(span.phase) * _LETTER + 8:
        text = f'<text class="t b" x="{left + 4:.1f}" y="{y + 13}">{span.phase}</text>'
    return (
        f"<g><title>{escape(said)}</title>"
        f'<rect class="{kind}" x="{left:.1f}" y="{y}" width="{width:.1f}" '
        f'height="{height}" rx="2" fill="{_color(span.phase)}"/>{text}</g>'
    )


def _legend(used: Sequence[PhaseName], top: int) -> list[str]:
    parts = []
    room = (_WIDTH - _LEFT) // _LEGEND
    for number, phase in enumerate(used):
        x = _LEFT + number % _LEGEND * room
        y = top + number // _LEGEND * 18
        parts.append(
            f'<rect x="{x}" y="{y}" width="11" height="11" rx="2" fill="{_color(phase)}"/>'
            f'<text class="t" x="{x + 16}" y="{y + 10}">{phase}</text>'
        )
    return parts


def _color(phase: PhaseName) -> str:
    return _LIGHT[PHASES.index(phase)]


def _x(seconds: float, total: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(seconds, 0), total) / total


def _cut(text: str, most: int) -> str:
    return escape(text if len(text) <= most else text[: most - 1] + "…")
