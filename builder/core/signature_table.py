"""All signatures and marks, compiled: what a line can mean, and how to find lines that do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from builder.core.signature import Mark, Signature, SignatureFile

ERROR_PIECES = (
    "rror",
    "xception",
    "ERROR",
    "Traceback",
    "Segmentation",
    "Segfault",
    "Killed",
    "fatal: ",
)
"""What a line holds that may be an error nobody has a signature for."""
_COMMON = (
    *ERROR_PIECES, "match", "ailed", "not found", "nvcc", " memory", "CUDA ", "uilding ", "inja",
    "ontainer", " space ", "flashinfer-", "unexpected", "imed out", " compile", " driver ",
    "nvalid ", "vllm==", "vllm-", "torch==", "torch-", "esolv", "nknown", "API server v",
    "equirement", "nitializ", "does not ", "not s", "supported", "apturing ", "defined ", "was not",
    "wheel", "NCCL ", "GLIBC", " SIG", 'content":', "Starting ", "Application s", "EngineCore e",
    "annot ", "_size=", "Loading ", "in flashinfer", '"GET /',
)  # fmt: skip
"""Parts that several pieces share, and few lines of a sound log."""
_KEPT = 4096
"""Texts whose meaning is kept: logs repeat themselves."""


class Meaning(NamedTuple):
    """What a text can mean, whatever came before it."""

    signatures: tuple[tuple[Signature, dict[str, str]], ...] = ()
    """In order of precedence, with the named groups of `match`."""
    mark: Mark | None = None
    facts: tuple[str, ...] = ()


_NOTHING = Meaning()


class _Compiled(NamedTuple):
    row: Signature | Mark
    pieces: tuple[str, ...]
    match: re.Pattern[str] | None


class SignatureTable:
    """Made from one or more files; those that come first take precedence."""

    def __init__(self, files: Iterable[SignatureFile]) -> None:
        files = list(files)
        signatures = [_compiled(row) for file in files for row in file.signature]
        marks = [_compiled(row) for file in files for row in file.mark]
        self.rows = (*signatures, *marks)
        self.facts = {
            row.row.name: row.row
            for row in reversed(marks)
            if isinstance(row.row, Mark) and row.row.kind == "fact"
        }
        """Every fact by its name; of several the first."""
        self._conditions = {
            text: re.compile(text)
            for row in signatures
            if isinstance(row.row, Signature)
            for text in (row.row.trace, row.row.frame)
            if text
        }
        telling = [row for row in self.rows if not _says_nothing(row.row)]
        pieces = {piece for row in telling for piece in row.pieces}
        self.needles = tuple(sorted(_needles(pieces) | set(ERROR_PIECES), key=len))
        """Every line that means something, or may be an error, holds one of these."""
        quiet = {piece for row in telling if _may_be_quiet(row.row) for piece in row.pieces}
        self.quiet_needles = tuple(sorted(_needles(quiet) | {"Traceback"}, key=len))
        """The same for lines of level INFO and DEBUG."""
        self._parts = tuple(_needles({piece for row in self.rows for piece in row.pieces}))
        self._by_needle: dict[str, tuple[_Compiled, ...]] = {
            needle: tuple(row for row in self.rows if any(needle in piece for piece in row.pieces))
            for needle in self._parts
        }
        self._order = {id(row): at for at, row in enumerate(self.rows)}
        self._kept: dict[tuple[str, bool], Meaning] = {}

    def meaning(self, text: str, *, quiet: bool = False) -> Meaning:
        """Say what a line's text can mean; only what came before it can tell which.

        `quiet`: the line is of level INFO or DEBUG, which few signatures allow.
        """
        known = self._kept.get((text, quiet))
        if known is None:
            known = self._meaning(text, quiet=quiet)
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[text, quiet] = known
        return known

    def holds(self, condition: str, text: str) -> bool:
        """Whether a signature's `trace` or `frame` is found in a text."""
        return self._conditions[condition].search(text) is not None

    def _meaning(self, text: str, *, quiet: bool) -> Meaning:
        rows = {
            id(row): row
            for needle in self._parts
            if needle in text
            for row in self._by_needle[needle]
        }
        if not rows:
            return _NOTHING
        signatures: list[tuple[Signature, dict[str, str]]] = []
        facts: list[str] = []
        first: Mark | None = None
        for row in sorted(rows.values(), key=lambda row: self._order[id(row)]):
            if quiet and not _may_be_quiet(row.row):
                continue
            if not any(piece in text for piece in row.pieces):
                continue
            found = row.match.search(text) if row.match else None
            if row.match and found is None:
                continue
            if isinstance(row.row, Signature):
                groups = found.groupdict(default="") if found else {}
                signatures.append((row.row, groups))
            elif row.row.kind == "fact":
                facts.append(row.row.name)
            elif first is None:
                first = row.row
        return Meaning(tuple(signatures), first, tuple(facts))

    def __iter__(self) -> Iterator[Signature | Mark]:
        return (row.row for row in self.rows)


def _compiled(row: Signature | Mark) -> _Compiled:
    return _Compiled(row, row.any, re.compile(row.match) if row.match else None)


def _says_nothing(row: Signature | Mark) -> bool:
    """Whether a line of that kind may be left out where nothing waits for the next line."""
    return isinstance(row, Mark) and row.kind in ("idle", "noise")


def _may_be_quiet(row: Signature | Mark) -> bool:
    return isinstance(row, Mark) or row.quiet


def _needles(pieces: set[str]) -> set[str]:
    """Cover every piece by a part that is known to be shared; the others stand for themselves."""
    used: set[str] = set()
    for piece in pieces:
        used.add(next((part for part in _COMMON if part in piece), piece))
    return used
