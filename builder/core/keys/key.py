"""One row of the table of finding keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builder.core.finding import Severity

Kind = Literal["lock", "build", "boot", "api", "release", "manifest"]
"""Where in the chain it is met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A finding's stable name, and everything that is the same each time it is met."""

    key: str
    title: str
    """What is wrong, in one line."""
    kind: Kind
    severity: Severity
    """The usual one; a finding may carry another where the circumstances differ."""
    cause: str
    action: str
    case: str = ""
    """Number in the collection of field cases, as `C01`; empty: found while building this."""
    seen: str = ""
    """Public reports, `owner/repository#number`, parted by spaces."""

    @property
    def reports(self) -> tuple[str, ...]:
        """Where people met it."""
        return tuple(self.seen.split())
