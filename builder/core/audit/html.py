"""The answer of an audit as one HTML file that asks for nothing else: no script, no font."""

from __future__ import annotations

import jinja2

from builder.core.audit.kernels import FORMS
from builder.core.audit.result import AuditResult


def html(result: AuditResult, template: str) -> str:
    """Fill the template `audit.html.j2`; all that comes from what was audited is escaped."""
    engine = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return engine.from_string(template).render(result=result, forms=FORMS)
