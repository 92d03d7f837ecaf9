"""A smoke report as one HTML file that asks for nothing else: no script, no font, no request."""

from __future__ import annotations

import jinja2
from markupsafe import Markup

from builder.core.smoke import SmokeReport

FAULT = {
    "image": "the image's fault",
    "model": "the model's, not the image's",
    "profile": "the profile's, not the image's",
    "test": "the test's, not the image's",
}


def html(report: SmokeReport, template: str, picture: str = "") -> str:
    """Fill the template `smoke.html.j2`; all that came from a server or a registry is escaped.

    `picture` is our own SVG of the start-up, as it is; without one the phases stand as bars.
    """
    engine = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    whole = sum(phase.seconds for phase in report.phases)
    return engine.from_string(template).render(
        report=report,
        fault=FAULT,
        picture=Markup(picture),  # noqa: S704 - drawn by us, escaped there
        whole=whole,
        printable=_printable,
    )


def _printable(text: str) -> str:
    """Show characters that a page cannot: controls by their number, as U+0007."""
    return "".join(
        char if char >= " " or char in "\n\t" else f"[U+{ord(char):04X}]"
        for char in text.replace("\r\n", "\n")
    )
