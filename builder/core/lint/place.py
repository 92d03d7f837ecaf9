"""What readers hand to rules, and rules to the report: words, problems and edits, with lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from builder.core.finding import Severity

Format = Literal["systemd", "quadlet", "compose", "kubernetes", "dockerfile", "shell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One value as its program will see it, and where it stands."""

    text: str
    line: int
    """In the file, from 1."""
    raw: str = ""
    """As it is spelled in the file; empty where that is not one piece of one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A mechanical correction: in one line, one text becomes another."""

    line: int
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One defect: the finding key is why, the rest is where and how to write it."""

    key: str
    line: int
    why: str
    """What happens, in one sentence."""
    corrected: str
    """The line as it should be, or what to add."""
    edits: tuple[Edit, ...] = ()
    """Empty where correcting needs a decision."""
    severity: Severity | None = None
    """Instead of the table's."""


@dataclass(slots=True)
class Notes:
    """Collects the problems of one file; a rule that says a thing twice is heard once."""

    lines: list[str]
    """Of the file, without line ends."""
    found: list[Problem] = field(default_factory=list)

    def add(
        self,
        key: str,
        line: int,
        why: str,
        *,
        corrected: str = "",
        edit: tuple[str, str] | None = None,
        severity: Severity | None = None,
    ) -> None:
        """Note a problem; `edit` is (old, new) in that line, and gives the corrected line."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        edits: tuple[Edit, ...] = ()
        if edit is not None and edit[0] and text.count(edit[0]) == 1:
            edits = (Edit(line=line, old=edit[0], new=edit[1]),)
            corrected = corrected or text.replace(edit[0], edit[1]).strip()
        problem = Problem(
            key=key, line=line, why=why, corrected=corrected, edits=edits, severity=severity
        )
        if problem not in self.found:
            self.found.append(problem)


def applied(text: str, problems: list[Problem]) -> str:
    """Apply every edit to a file's text; one whose old text is gone by then is left out."""
    lines = text.split("\n")
    for problem in problems:
        for edit in problem.edits:
            at = edit.line - 1
            if lines[at].count(edit.old) == 1:
                lines[at] = lines[at].replace(edit.old, edit.new)
    return "\n".join(lines)
