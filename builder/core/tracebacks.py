"""Python tracebacks in a log, one a process, while lines of others come between."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from builder.core.logline import LogLine

_FRAME = re.compile(r'\s*File "([^"]+)", line \d+')
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*(?P<name>[A-Z]\w*)(?:: |:?$)")
_NAMED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]?\w*(?:Error|Exception)(?:: |$)")
_TRAMPOLINES = re.compile(
    r"torch/_ops\.py|torch/nn/modules/module\.py|torch/utils/_contextlib\.py|tvm_ffi|<frozen "
    r"|ctypes/__init__\.py|torch/_dynamo/eval_frame\.py|functools\.py|contextlib\.py"
)
"""Frames that only pass a call on: what they call is what failed."""
_PROCESSES = 256
_PATHS = 40
_PATIENCE = 3000
"""Lines without one of its own after which a traceback counts as cut off."""
_NEAR = 60
"""Lines after its end that may still belong to a traceback: messages have several."""

Process = tuple[str, str, int]
"""Source, process and pid of a line."""


@dataclass(slots=True)
class Traceback:
    """Where an exception went through, the innermost last."""

    paths: deque[str] = field(default_factory=lambda: deque(maxlen=_PATHS))
    growing: bool = True
    last: int = 0
    """Number of its last line."""

    @property
    def frame(self) -> str:
        """Path of the innermost frame that does not only pass a call on; empty for none."""
        own = [path for path in self.paths if not _TRAMPOLINES.search(path)]
        return own[-1] if own else ""


class Tracebacks:
    """The last traceback of each process; those of processes long silent are forgotten."""

    def __init__(self) -> None:
        self._of: dict[Process, Traceback] = {}
        self._growing = 0
        self._last = 0

    @property
    def unfinished(self) -> bool:
        """Whether one is being written, so that every line may belong to it."""
        return self._growing > 0

    def follow(self, line: LogLine) -> tuple[bool, bool]:
        """Take the next line: whether it is inside a traceback, and whether it ends one.

        A line that ends one is the exception itself.
        """
        if self._growing and line.number - self._last > _PATIENCE:
            self._abandon()
        process = (line.source, line.process, line.pid)
        text = line.text
        if "Traceback (" in text and text.lstrip().startswith("Traceback (most recent call last)"):
            self._begin(process, line.number)
            return True, False
        if not self._growing:
            return False, False
        now = self._of.get(process)
        if now is None or not now.growing:
            return False, False
        now.last = self._last = line.number
        if text[:1] in (" ", "\t", "|", "+"):
            found = _FRAME.match(text)
            if found:
                now.paths.append(found[1])
            return True, False
        if _EXCEPTION.match(text):
            now.growing = False
            self._growing -= 1
            return True, True
        return False, False

    def near(self, line: LogLine) -> Traceback | None:
        """Return the traceback that a line's process wrote just before."""
        found = self._of.get((line.source, line.process, line.pid))
        return found if found is not None and line.number - found.last <= _NEAR else None

    def _begin(self, process: Process, number: int) -> None:
        before = self._of.pop(process, None)
        if before is not None and before.growing:
            self._growing -= 1
        if len(self._of) >= _PROCESSES:
            gone = self._of.pop(next(iter(self._of)))
            self._growing -= gone.growing
        self._of[process] = Traceback(last=number)
        self._growing += 1
        self._last = number

    def _abandon(self) -> None:
        for one in self._of.values():
            one.growing = False
        self._growing = 0


def is_exception(text: str) -> bool:
    """Whether a line begins with the name of an exception, as the last line of a traceback does."""
    return _NAMED.match(text) is not None
