"""What `smoke` leaves and hands out: its page, its JUnit file, the evidence of a failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from builder.core.evidence import bundle, secrets_of
from builder.core.profile import Profile
from builder.core.smoke import SmokeReport, junit
from builder.core.smoke_html import html
from builder.core.timeline import Timeline
from builder.core.timeline_picture import draw
from builder.edge import files
from builder.edge.gpu_state import gpu_state
from builder.edge.templates import read_template

EVIDENCE = "evidence"
"""Folder of the bundle inside a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Files that were asked for beside the record; None where not."""

    out: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    evidence: Path | None = None


def page(report: SmokeReport, previous: Timeline | None = None) -> str:
    """Spell the report as one HTML file; `previous` is the start that it is compared with."""
    timeline = report.timeline
    picture = draw(timeline, previous) if timeline.spans else ""
    return html(report, read_template("smoke.html.j2"), picture)


def evidence_of(
    report: SmokeReport,
    log: bytes,
    inspected: Mapping[str, JsonValue],
    profile: Profile | None = None,
) -> dict[str, bytes]:
    """Put the bundle together; what the profile hands over in secret is in none of its files."""
    return bundle(
        report,
        log=log.decode(errors="replace"),
        inspect=inspected,
        gpus=gpu_state(),
        pages={"report.html": page, "junit.xml": junit},
        secrets=secrets_of(profile) if profile is not None else (),
    )


def hand_out(
    report: SmokeReport, folder: Path, wanted: Wanted, evidence: Mapping[str, bytes]
) -> None:
    """Write everything that was asked for; `folder` is the record."""
    if wanted.out is not None:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            files.write(wanted.out / file.relative_to(folder), file.read_bytes())
    if wanted.junit is not None:
        files.write(wanted.junit, junit(report).encode())
    if wanted.html is not None:
        files.write(wanted.html, page(report).encode())
    if wanted.evidence is not None:
        for name, data in evidence.items():
            files.write(wanted.evidence / name, data)
