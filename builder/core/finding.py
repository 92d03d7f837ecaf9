"""A finding: one thing that is wrong, or worth knowing, with its cause and what to do."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Severity = Literal["error", "warning", "info"]


class Finding(BaseModel):
    """One row of `findings` in every JSON document; keys are those of `core/keys.py`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    severity: Severity
    subject: str
    """What it is about: a file, a package, a reference."""
    evidence: str
    """What was seen, quoted."""
    cause: str
    action: str
