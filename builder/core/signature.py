"""Signatures: which line of a log names which finding. They are data, in TOML files.

A `[[signature]]` is one finding key, literal pieces of which a line must hold one (`any`), and
conditions that tell look-alikes apart; a `[[mark]]` is what a line says of how far a start came.
The first signature that fits a line counts; an operator's files come before nightlock's own.
"""

from __future__ import annotations

import re
import tomllib
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from builder.core.finding import Severity
from builder.core.keys import KEYS
from builder.errors import SpecError

Role = Literal["cause", "weak", "request", "note"]
"""`cause` ends a start; `weak` counts when nothing more specific came before it; `request` ends one
request; `note` is told and never a root cause."""

Phase = Annotated[str, Field(pattern=r"^[a-z][a-z-]*$")]


def _telling(piece: str) -> str:
    if sum(not letter.isdigit() for letter in piece) < 3:
        raise ValueError("a piece needs three characters that are no digits")
    return piece


Piece = Annotated[str, Field(max_length=200), AfterValidator(_telling)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    any: Annotated[tuple[Piece, ...], Field(min_length=1)]
    """Pieces of text, case matters; a line must hold one of them."""
    match: str = ""
    """Regular expression that the line must also hold; its named groups can be quoted in texts."""

    @model_validator(mode="after")
    def _check(self) -> _Row:
        for name in ("match", "trace", "frame"):
            try:
                re.compile(getattr(self, name, "") or "")
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"{name} is no regular expression: {error}") from None
        return self


class Signature(_Row):
    """One way in which a log names a finding."""

    key: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$")]
    """A finding key; one that `nightlock explain` does not know needs `cause` and `action`."""
    role: Role = "cause"
    severity: Severity | None = None
    """`error` for a cause and what is weak, else the key's own, unless said."""
    quiet: bool = False
    """Whether a line of level INFO or DEBUG may say it: those also quote what people ask."""
    trace: str = ""
    """Regular expression that the line or a path in its traceback must hold."""
    frame: str = ""
    """Regular expression that the path of the traceback's innermost frame must hold."""
    phase: tuple[Phase, ...] = ()
    """The start's last phase must be one of these."""
    after: tuple[Phase, ...] = ()
    """One of these phases must have been reached before."""
    with_: Annotated[tuple[Phase, ...], Field(alias="with")] = ()
    """These facts must have been seen before."""
    without: tuple[Phase, ...] = ()
    """None of these facts may have been seen before."""
    derive: Literal["", "cuda-version", "utilization"] = ""
    """What is computed from the groups: see `core/derived.py`."""
    cause: str = ""
    """Instead of the key's own text; `{group}` stands for what was matched."""
    action: str = ""

    @model_validator(mode="after")
    def _known(self) -> Signature:
        if self.key not in KEYS and not (self.cause and self.action):
            raise ValueError(f"{self.key} is a new key: say its cause and action")
        return self


class Mark(_Row):
    """What a line says of the start, without being a finding."""

    kind: Literal[
        "start",
        "up",
        "phase",
        "fact",
        "signal",
        "observed",
        "broadcast",
        "idle",
        "wrapper",
        "noise",
    ]
    name: str = ""
    """Of a phase or a fact."""
    stalls: str = ""
    """Finding key when the log ends here."""
    hangs: str = ""
    """Finding key when nothing but broadcast lines come after it."""

    @model_validator(mode="after")
    def _complete(self) -> Mark:
        if (self.kind in ("phase", "fact")) != bool(self.name):
            raise ValueError("a phase and a fact have a name, nothing else has")
        unknown = {self.stalls, self.hangs} - {"", *KEYS}
        if unknown:
            raise ValueError(f"no finding key: {', '.join(sorted(unknown))}")
        return self


class SignatureFile(BaseModel):
    """One file of signatures and marks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    signature: tuple[Signature, ...] = ()
    mark: tuple[Mark, ...] = ()


def parse_signatures(text: str, origin: str) -> SignatureFile:
    """Read a file of signatures; SpecError names every value that is not allowed."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not TOML: {error}", subject=origin, action="correct that line") from None
    try:
        return SignatureFile.model_validate(content)
    except ValidationError as error:
        rows = [
            f"{_place(row['loc'])}: {row['msg'].removeprefix('Value error, ')}"
            for row in error.errors(include_url=False)
        ]
        raise SpecError(
            "; ".join(rows),
            subject=origin,
            action="correct the named values; the README shows a signature",
        ) from None


def _place(path: tuple[int | str, ...]) -> str:
    """Spell a key path as `signature[3].match`."""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
