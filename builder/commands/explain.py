"""`nightlock explain [KEY]`: what a finding means, what to do, where it was seen; or all keys."""

from __future__ import annotations

import itertools
import textwrap
from typing import get_args

from pydantic import Field

from builder.commands.context import Context, Outcome
from builder.core.document import Result
from builder.core.finding import Severity
from builder.core.keys import KEYS, Key, Kind, close_to, find_key
from builder.errors import BadInput


class KeyTitle(Result):
    """One line of the list of all keys."""

    key: str
    title: str
    kind: Kind
    severity: Severity


class ExplainResult(Result):
    """One row of the table of finding keys; without a key all of them by title."""

    key: str = ""
    title: str = ""
    kind: Kind | None = None
    severity: Severity | None = None
    cause: str = ""
    action: str = ""
    case: str = ""
    """Number among the field cases, as `C01`; empty when it has none."""
    reports: list[str] = Field(default_factory=list)
    """Addresses of public reports."""
    keys: list[KeyTitle] = Field(default_factory=list)
    """All keys, in the order of the chain; only where none was asked for."""


def run(context: Context, key: str) -> Outcome[ExplainResult]:  # noqa: ARG001 - a recipe takes it
    """Explain a key, or the number of a case; list all without one.

    Raises BadInput when there is no such key.
    """
    if not key.strip():
        return _list()
    row = find_key(key)
    if row is None:
        raise _unknown(key)
    result = ExplainResult(
        key=row.key,
        title=row.title,
        kind=row.kind,
        severity=row.severity,
        cause=row.cause,
        action=row.action,
        case=row.case,
        reports=[_address(report) for report in row.reports],
    )
    return Outcome(result=result, text=_text(row, result.reports))


_CHAIN: tuple[Kind, ...] = get_args(Kind)
"""Parts of the chain, in their order."""


def _list() -> Outcome[ExplainResult]:
    rows = [
        KeyTitle(key=row.key, title=row.title, kind=row.kind, severity=row.severity)
        for row in sorted(KEYS.values(), key=lambda row: _CHAIN.index(row.kind))
    ]
    width = max(len(row.key) for row in rows)
    lines = []
    for kind, group in itertools.groupby(rows, key=lambda row: row.kind):
        lines += [f"{kind}:", *(f"  {row.key:{width}}  {row.title}" for row in group), ""]
    lines.append("`nightlock explain KEY` says what one means and what to do.")
    return Outcome(result=ExplainResult(keys=rows), text="\n".join(lines))


def _unknown(key: str) -> BadInput:
    close = close_to(key)
    return BadInput(
        "there is no such finding key",
        subject=key,
        action=f"did you mean {' or '.join(close)}?"
        if close
        else "`nightlock explain` without a key lists all of them",
    )


def _address(report: str) -> str:
    repository, number = report.split("#")
    return f"https://github.com/{repository}/issues/{number}"


def _text(row: Key, addresses: list[str]) -> str:
    place = f"met in: {row.kind}" + (f", field case {row.case}" if row.case else "")
    parts = [
        f"{row.key} ({row.severity})",
        _wrap(_sentence(row.title)),
        "What it means\n" + _wrap(row.cause),
        "What to do\n" + _wrap(row.action),
        place,
    ]
    if addresses:
        parts.append("Where it was seen\n" + "\n".join(f"  {one}" for one in addresses))
    return "\n\n".join(parts)


def _sentence(title: str) -> str:
    """Begin with a capital unless the first word is a name."""
    first = title.split(" ", 1)[0]
    plain = first.isalpha() and first not in _NAMES
    return (title[0].upper() if plain else title[0]) + title[1:]


_NAMES = frozenset({"torch", "torchaudio", "systemd", "compose"})
"""Names of programs that are written small."""


def _wrap(text: str) -> str:
    return textwrap.fill(text, width=88, initial_indent="  ", subsequent_indent="  ")
