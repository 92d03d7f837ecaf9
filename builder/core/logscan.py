"""Bytes of a log, cut anywhere, to the lines that can mean something; constant memory.

Nearly all lines of a long log are the same but for numbers. A line without its digits is its
shape; whether a shape can mean something is asked once and remembered, so that most lines cost one
look-up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from builder.core.logline import MAX_LINE

_DIGITS = b"0123456789"
_CUT = 4 * MAX_LINE
"""Bytes of one line that are kept: a character has four at most."""
_QUIET = re.compile(
    rb"(?:[\[ :.,TZ+-]{0,48} )?(?:\((?:APIServer|EngineCore|Worker|VllmWorker)[^()]{0,60}\) ?)?"
    rb"(?:INFO|DEBUG)(?: +- :: +\[|: {1,8}(?!\[))"
)
"""Shape of a line of level INFO or DEBUG, in its common forms."""
QUOTING = ("Received request ", "Added request ", "Generated response ")
"""How lines of level INFO begin that hold what people ask and are answered (vllm/entrypoints/
logger.py); whatever those say, it is not about the server."""
_QUOTING = re.compile(rb"[^\]]*\] (?:%s)" % b"|".join(text.encode() for text in QUOTING))
_CODE = re.compile(rb"(?:[^\s].{0,200}?[\])Z|:])? {4,}[^ ]")
"""Shape of a line of code under a traceback's frame: indented behind whatever stands before it."""
_LEVEL = b"ERROR"
_SHAPES = 20_000
_LONG = 1000
"""Bytes of a shape above which it is not remembered."""


NOT_HUNGRY, TRACEBACK, ALL = 0, 1, 2
"""Lines that a reader wants although they hold nothing that could mean something: none, those of a
traceback but for the code it quotes, all."""


class Reader(Protocol):
    """Who is given the lines."""

    hunger: int
    """One of `NOT_HUNGRY`, `TRACEBACK`, `ALL`."""

    def take(self, number: int, line: str) -> None:
        """Take a line that can mean something; numbers rise, and some are left out."""


class LogScan:
    """Cuts what comes into lines and gives the reader those it needs."""

    def __init__(self, reader: Reader, needles: Sequence[str], quiet: Sequence[str]) -> None:
        self._reader = reader
        self._needles = _encoded(needles)
        self._quiet = _encoded(quiet)
        self._shapes: dict[bytes, int] = {}
        self._rest = b""
        self.lines = 0
        self.size = 0
        """Bytes taken."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self.size += len(data)
        block, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._keep(data)
            return
        self._scan(self._rest + block)
        self._rest = b""
        self._keep(rest)

    def end(self) -> None:
        """Take what stands after the last newline as a line."""
        if self._rest:
            self._scan(self._rest)
            self._rest = b""

    def _keep(self, piece: bytes) -> None:
        if len(self._rest) < _CUT:
            self._rest += piece[: _CUT - len(self._rest)]

    def _scan(self, block: bytes) -> None:
        reader, shapes = self._reader, self._shapes
        lines = block.split(b"\n")
        number = self.lines
        self.lines += len(lines)
        for at, shape in enumerate(block.translate(None, _DIGITS).split(b"\n")):
            wanted = shapes.get(shape)
            if wanted is None:
                wanted = self._wanted(shape, lines[at])
            if wanted <= reader.hunger:
                reader.take(number + at + 1, lines[at][:_CUT].decode(errors="replace"))

    def _wanted(self, shape: bytes, line: bytes) -> int:
        """Say how hungry the reader must be to want a line of this shape."""
        short = len(shape) <= _LONG
        head = shape if short else line[:_CUT].translate(None, _DIGITS)
        quiet = _QUIET.match(head)
        wanted = TRACEBACK
        if quiet is None:
            # The level of a logged traceback stands before each line of code in it, too.
            code = _CODE.match(head) is not None
            skipped = _LEVEL if code else b""
            if any(needle in head for needle in self._needles if needle != skipped):
                wanted = NOT_HUNGRY
            elif code:
                wanted = ALL
        elif not _QUOTING.match(head, quiet.end()) and any(n in head for n in self._quiet):
            wanted = NOT_HUNGRY
        if short:
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            self._shapes[shape] = wanted
        return wanted


def _encoded(needles: Sequence[str]) -> tuple[bytes, ...]:
    return tuple({needle.encode().translate(None, _DIGITS): None for needle in needles})
