"""A diff as one HTML file that asks for nothing else: no script, no font, no picture."""

from __future__ import annotations

import jinja2

from builder.core import diff_words as words
from builder.core import image_diff_words as image_words
from builder.core.diff_alarms import alarms
from builder.core.diff_commits import short_link
from builder.core.diff_result import DiffResult


def html(result: DiffResult, template: str) -> str:
    """Fill the template `diff.html.j2`; all that comes from locks and forges is escaped."""
    engine = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return engine.from_string(template).render(
        result=result,
        words=words,
        image_words=image_words,
        alarms=alarms(result),
        short_link=short_link,
    )
