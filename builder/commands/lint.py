"""`nightlock lint`: defects in anybody's run files and Dockerfiles, each with its correction."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from builder.commands.context import Context, Outcome
from builder.core.document import Result
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.lint.check import check, recognise
from builder.core.lint.place import Format, Problem, applied
from builder.edge import runfiles
from builder.errors import BadInput

_ROUNDS = 5
"""Corrections can uncover one another; more than this never helps."""


class LintedFile(BaseModel):
    """One file that was read."""

    model_config = ConfigDict(extra="forbid")

    file: str
    format: Format
    problems: int
    """That are left."""
    corrected: int
    """Lines that `--fix` changed."""


class LintResult(Result):
    """What was read; the problems are the document's findings."""

    files: list[LintedFile]
    skipped: list[str]
    """Files in folders that are none of the formats."""


def run(
    context: Context,  # noqa: ARG001 - a recipe takes it
    *paths: Path,
    fix: bool = False,
    form: Format | None = None,
) -> Outcome[LintResult]:
    """Check each file; a folder stands for every file in it whose format is recognised.

    Raises BadInput for a file that is missing, of no known format, or not readable as its format.
    """
    result = LintResult(files=[], skipped=[])
    findings: list[Finding] = []
    lines: list[str] = []
    refused: BadInput | None = None
    for path, text in _texts(paths, result, form):
        try:
            known, problems, after = _checked(path, text, fix=fix, form=form)
        except BadInput as error:
            # The other files are still read: one mistake must not hide the rest.
            refused = refused or error
            continue
        old, new = text.split("\n"), after.split("\n")
        changed = sum(a != b for a, b in zip(old, new, strict=True))
        result.files.append(
            LintedFile(file=str(path), format=known, problems=len(problems), corrected=changed)
        )
        for problem in problems:
            found = _finding(path, problem, new)
            findings.append(found)
            lines += _words(found, problem)
    if refused is not None:
        refused.findings = tuple(findings)
        raise refused
    left = sum(one.problems for one in result.files)
    done = sum(one.corrected for one in result.files)
    summary = f"{_count(len(result.files), 'file')}, {_count(left, 'problem')}"
    if fix:
        summary += f", {_count(done, 'line')} corrected"
    return Outcome(
        result=result,
        text="\n".join([*lines, summary]),
        ok=not any(one.severity != "info" for one in findings),
        findings=tuple(findings),
        told=True,
    )


def _texts(
    paths: tuple[Path, ...], result: LintResult, form: Format | None
) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    for path in paths:
        if str(path) == "-":
            found.append((path, runfiles.read_input()))
            continue
        if not path.is_dir():
            text = runfiles.read(path)
            if text is None:
                raise BadInput("not a text file", subject=str(path), action="leave it out")
            found.append((path, text))
            continue
        for inner in runfiles.below(path):
            text = runfiles.read(inner)
            if text is None or (form is None and recognise(str(inner), text) is None):
                result.skipped.append(str(inner))
            else:
                found.append((inner, text))
    return found


def _checked(
    path: Path, text: str, *, fix: bool, form: Format | None
) -> tuple[Format, list[Problem], str]:
    """Check a file, correct it where that is asked for; gives what is left, and the new text."""
    known, problems = check(str(path), text, form)
    before = text
    if fix and str(path) != "-":
        for _ in range(_ROUNDS):
            after = applied(text, problems)
            if after == text:
                break
            text = after
            problems = check(str(path), text, known)[1]
        if text != before:
            runfiles.write_back(path, text)
    return known, problems, text


def _finding(path: Path, problem: Problem, content: list[str]) -> Finding:
    line = content[problem.line - 1].strip() if 0 < problem.line <= len(content) else ""
    return finding(
        problem.key,
        severity=problem.severity,
        subject=f"{path}:{problem.line}",
        evidence=line,
        cause=problem.why,
        action=f"write: {problem.corrected}" if problem.corrected else None,
    )


def _words(found: Finding, problem: Problem) -> list[str]:
    mechanical = "  (--fix)" if problem.edits else ""
    return [
        f"{found.subject}: {found.severity}: {found.key}: {found.cause}",
        f"    now:   {found.evidence}",
        f"    {found.action}{mechanical}",
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
