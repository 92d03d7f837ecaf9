"""A diagnosis for a person: the root cause first, on one screen."""

from __future__ import annotations

import textwrap

from builder.core.diagnosis import Diagnosis, finding_of, place_of
from builder.core.keys import KEYS
from builder.core.start import Hit

_WIDTH = 96
_SHOWN = 8
_QUOTED = 400
_LOOP = 3
"""Starts that end the same way which make a loop."""


def text_of(diagnosis: Diagnosis, subject: str, lines: int) -> str:
    """Write the verdict, its evidence, cause and action, then what else was found."""
    parts = [_head(diagnosis, subject, lines), _others(diagnosis)]
    return "\n\n".join(part for part in parts if part)


def _head(diagnosis: Diagnosis, subject: str, lines: int) -> str:
    if diagnosis.root is not None:
        return _root(diagnosis.root, diagnosis)
    if diagnosis.first_error is not None:
        seen = diagnosis.first_error
        return "\n".join(
            [
                "root cause: not known: no signature fits what this log says",
                f"  first specific error: {place_of(seen).removesuffix(': ')}",
                _quote(seen.text),
                _wrapped("do", "Search for this line; one entry in a file of signatures names it "
                         "next time (--signatures)."),
            ]
        )  # fmt: skip
    if diagnosis.status == "empty":
        return f"nothing to diagnose: the log is empty ({subject})"
    if diagnosis.status == "up":
        return f"no error found: the server came up ({subject}, {lines} lines)"
    if diagnosis.status == "stopped":
        return f"no error found: the server was stopped from outside ({subject}, {lines} lines)"
    last = f"; the last phase is `{diagnosis.phase}`" if diagnosis.phase else ""
    return (
        f"no error found, and no line that says the server is up{last} ({subject}, {lines} lines)"
    )


def _root(hit: Hit, diagnosis: Diagnosis) -> str:
    found = finding_of(hit, "")
    title = KEYS[hit.key].title if hit.key in KEYS else found.cause
    where = place_of(hit.seen).removesuffix(": ") or "the container's environment"
    if hit.count > 1:
        where += f", first of {hit.count} such lines"
    others = sorted(hit.places - {hit.seen.process.split(" (")[0]})
    if others:
        where += f", also in {', '.join(others[:6])}"
    head = "root cause" if diagnosis.failed else "no error found: it served, and then"
    rows = [
        f"{head}: {hit.key}: {title}",
        f"  {where}",
        _quote(hit.seen.text),
        _wrapped("why", found.cause),
        _wrapped("do", found.action),
    ]
    if diagnosis.times >= _LOOP:
        loop = f"{diagnosis.times} starts in this log ended like this: stop the loop first."
        rows.append(_wrapped("again", loop))
    return "\n".join(rows)


def _others(diagnosis: Diagnosis) -> str:
    if not diagnosis.others:
        return ""
    rows = []
    for hit in diagnosis.others[:_SHOWN]:
        found = finding_of(hit, "")
        row = f"  {found.severity:7}  {hit.key}: {found.evidence}"
        rows.append(row if len(row) <= _WIDTH else row[: _WIDTH - 1] + "…")
    if len(diagnosis.others) > _SHOWN:
        rows.append(f"  and {len(diagnosis.others) - _SHOWN} more (--json has all)")
    return "also found (`nightlock explain KEY`):\n" + "\n".join(rows)


def _quote(text: str) -> str:
    return textwrap.fill(
        text[:_QUOTED] + ("…" if len(text) > _QUOTED else ""),
        width=_WIDTH,
        initial_indent="  | ",
        subsequent_indent="  | ",
        break_on_hyphens=False,
    )


def _wrapped(label: str, text: str) -> str:
    return textwrap.fill(
        f"{label}: {text}", width=_WIDTH, initial_indent="  ", subsequent_indent="      ",
        break_on_hyphens=False,
    )  # fmt: skip
