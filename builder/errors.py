"""Every error nightlock raises on purpose, and the exit code of each.

NightlockError          (never raised itself)
├── Refused         1   the answer is no
│   ├── HashMismatch        bytes are not what the lock names
│   ├── StaleLock           the lock was made from another spec
│   ├── BuildFailed         BuildKit refused or a step failed
│   └── BootFailed          the container exited or never answered
├── BadInput        2   what was typed, or a file a person wrote
│   ├── SpecError           image.toml, policy.toml, profiles, config.toml
│   └── LockFileError       files under lock/
├── Outside         4   the world; trying again may help
│   ├── NetworkError        index, mirror, registry out of reach
│   │   └── NotOffered          it answered, and the answer is no (404, 403, …)
│   ├── DiskFull            not enough room, computed before or met on the way
│   ├── PortTaken           somebody else listens there
│   ├── ToolMissing         a program, a privilege or an engine is not there
│   ├── CommandFailed       a program we ran ended badly
│   ├── EngineError         the engine answered with an error
│   ├── RegistryError       the registry answered with an error
│   └── AptDrift            a locked .deb is on no source any more
└── Interrupted   130   Ctrl-C or SIGTERM

Anything else that escapes is our bug: exit code 3, with the traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from builder.core.finding import Finding
    from builder.core.hash_change import Arrived

_E = TypeVar("_E", bound=BaseException)
_PRECEDENCE = (3, 2, 4, 1)
"""Exit codes, the one that counts most first; all others come last."""
_CREDENTIALS = re.compile(r"\b(https?://)[^/\s@'\"]+@")


def redacted(text: str) -> str:
    """Take credentials out of every web address in a text."""
    return _CREDENTIALS.sub(r"\1", text)


class NightlockError(Exception):
    """Base of all expected errors: what failed, on which input, what to do next."""

    kind = "error"
    exit_code = 3

    def __init__(self, what: str, *, subject: str = "", action: str = "") -> None:
        # Whatever program or library the words came from: no message holds a password.
        what, subject, action = redacted(what), redacted(subject), redacted(action)
        super().__init__(what)
        self.what = what
        """What failed, as one sentence."""
        self.subject = subject
        """The input it failed on: a file with key path, a URL, a reference. JSON: `input`."""
        self.action = action
        """What to do next, as one sentence; empty when nothing helps."""
        self.findings: tuple[Finding, ...] = ()
        """What is known of the cause, for the document; set by who raises."""

    def __str__(self) -> str:
        lines = [self.what]
        if self.subject:
            lines.append(f"  on: {self.subject}")
        if self.action:
            lines.append(f"  do: {self.action}")
        return "\n".join(lines)


class Refused(NightlockError):
    """The answer is no."""

    kind = "refused"
    exit_code = 1


class HashMismatch(Refused):
    """Bytes are not what the lock names."""

    kind = "hash-mismatch"
    arrived: Arrived | None = None
    """What came instead, as far as whoever read it knows."""


class StaleLock(Refused):
    """The lock was made from another spec than the one that stands there now."""

    kind = "stale-lock"


class BuildFailed(Refused):
    """BuildKit refused the Dockerfile, or a step of it failed."""

    kind = "build-failed"


class BootFailed(Refused):
    """The container exited, or never answered; `tail` holds the last lines of its log."""

    kind = "boot-failed"

    def __init__(
        self, what: str, *, subject: str = "", action: str = "", status: int = 0, tail: str = ""
    ) -> None:
        super().__init__(what, subject=subject, action=action)
        self.status = status
        """Exit status of the container; 0 while it runs."""
        self.tail = redacted(tail)

    def __str__(self) -> str:
        quoted = "".join(f"\n  | {line}" for line in self.tail.splitlines())
        return super().__str__() + quoted


class BadInput(NightlockError):
    """What was typed, or a file that a person wrote, cannot be used."""

    kind = "bad-input"
    exit_code = 2


class SpecError(BadInput):
    """A file a person writes has a value that is not allowed."""

    kind = "spec"


class LockFileError(BadInput):
    """A file under lock/ is missing, damaged or was edited."""

    kind = "lock-file"


class Outside(NightlockError):
    """The outside world failed; trying again may help."""

    kind = "outside"
    exit_code = 4


class NetworkError(Outside):
    """An index, mirror or registry is out of reach."""

    kind = "network"


class NotOffered(NetworkError):
    """The server answered, and the answer is a definite no: 404, 403, 410 and the like."""

    kind = "not-offered"

    def __init__(self, what: str, *, subject: str = "", action: str = "", status: int = 0) -> None:
        super().__init__(what, subject=subject, action=action)
        self.status = status
        """HTTP status; 0 when a file on this machine is not there."""


class DiskFull(Outside):
    """There is not enough room."""

    kind = "disk-full"


class PortTaken(Outside):
    """Somebody else listens on the port."""

    kind = "port-taken"


class ToolMissing(Outside):
    """A program, a privilege or an engine is not there."""

    kind = "tool-missing"


class CommandFailed(Outside):
    """A program ended badly; `tail` holds the last lines it wrote."""

    kind = "command-failed"

    def __init__(
        self, what: str, *, subject: str = "", action: str = "", status: int = 0, tail: str = ""
    ) -> None:
        super().__init__(what, subject=subject, action=action)
        self.status = status
        """Exit status; negative: the signal that ended it; 0: it did not end, and we ended it."""
        self.tail = redacted(tail)
        """Last lines of its standard error (or output)."""

    def __str__(self) -> str:
        quoted = "".join(f"\n  | {line}" for line in self.tail.splitlines())
        return super().__str__() + quoted


class EngineError(Outside):
    """The engine answered with an error."""

    kind = "engine"


class RegistryError(Outside):
    """The registry answered with an error."""

    kind = "registry"


class AptDrift(Outside):
    """A locked .deb is on no source any more."""

    kind = "apt-drift"


class Interrupted(NightlockError):
    """Ctrl-C, or SIGTERM from outside."""

    kind = "interrupted"
    exit_code = 130


def worst(errors: Iterable[_E]) -> _E:
    """Return the error whose exit code a command ends with; of equals, the first.

    Our own bugs, then bad input, then the outside world, then a no; an interruption is a
    consequence of another one. ValueError when there are none.
    """
    return min(errors, key=_rank)


def _rank(error: BaseException) -> int:
    code = error.exit_code if isinstance(error, NightlockError) else NightlockError.exit_code
    return _PRECEDENCE.index(code) if code in _PRECEDENCE else len(_PRECEDENCE)
