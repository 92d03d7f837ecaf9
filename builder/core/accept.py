"""Acceptances: findings a person has looked at and lives with, for a reason and until a day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from builder.core.finding import Finding
from builder.core.keys import KEYS, finding


class Accept(BaseModel):
    """`[[accept]]` of images/policy.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$")]
    """Of the findings, as `nightlock explain` lists them."""
    subject: Annotated[str, Field(min_length=1)]
    """Pattern of their subjects; `*` stands for anything."""
    reason: Annotated[str, Field(min_length=8)]
    until: date
    """The last day it counts."""
    images: Annotated[list[str], Field(min_length=1)] = ["*"]
    """Image names; `*` stands for anything."""

    def fits(self, one: Finding, image: str) -> bool:
        """Whether it is about this finding of this image."""
        return (
            one.key == self.key
            and fnmatchcase(one.subject, self.subject)
            and any(fnmatchcase(image, glob) for glob in self.images)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A finding, and what excuses it."""

    finding: Finding
    by: Accept


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Findings after acceptances were applied."""

    open: tuple[Finding, ...]
    """Those that count, with one for each acceptance that has run out."""
    accepted: tuple[Accepted, ...]


def unknown_keys(rows: Iterable[Accept]) -> list[str]:
    """Name keys that no finding has."""
    return sorted({row.key for row in rows} - KEYS.keys())


def apply(
    findings: Iterable[Finding], rows: Sequence[Accept], *, image: str, today: date
) -> Sorted:
    """Part what is accepted from what counts; an acceptance that has run out excuses nothing."""
    counting: list[Finding] = []
    excused: list[Accepted] = []
    expired: dict[int, list[Finding]] = {}
    for one in findings:
        fitting = [number for number, row in enumerate(rows) if row.fits(one, image)]
        valid = [number for number in fitting if today <= rows[number].until]
        if valid:
            excused.append(Accepted(finding=one, by=rows[valid[0]]))
            continue
        counting.append(one)
        for number in fitting:
            expired.setdefault(number, []).append(one)
    alarms = [
        finding(
            "acceptance-expired",
            subject=f"{rows[number].key}: {rows[number].subject}",
            evidence=f"accepted until {rows[number].until.isoformat()} "
            f"({rows[number].reason}); today is {today.isoformat()}, and it still holds for "
            + ", ".join(one.subject for one in found[:3])
            + (f" and {len(found) - 3} more" if len(found) > 3 else ""),
        )
        for number, found in expired.items()
    ]
    return Sorted(open=(*alarms, *counting), accepted=tuple(excused))
