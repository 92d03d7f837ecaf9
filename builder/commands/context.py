"""What every recipe is given: the project, the places, the settings and the printer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from builder.core.document import Result
from builder.core.finding import Finding
from builder.core.places import Places
from builder.core.settings import Settings
from builder.output import Output

R = TypeVar("R", bound=Result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One run of nightlock."""

    project: Path
    """Folder that holds images/ and lock/."""
    places: Places
    settings: Settings
    output: Output
    locks: Path | None = None
    """Folder of locks to use instead of the project's, as after a re-lock of .debs alone."""

    def lock_folder(self, image: str) -> Path:
        """Where the lock of an image is read from."""
        return (self.locks or self.project / "lock") / image


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[R]):
    """What a recipe answers; `ok` False means exit code 1."""

    result: R
    text: str = ""
    """The answer for a person, without colours."""
    ok: bool = True
    findings: tuple[Finding, ...] = field(default=())
    told: bool = False
    """Whether `text` tells the findings, so that they are not printed twice."""
