"""The one JSON document every command prints under `--json`.

`{"schema": "nightlock/<verb>/1", "ok": …, "result": {…}, "findings": […], "error": null | {…}}`
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from builder.core.finding import Finding
from builder.errors import NightlockError

R = TypeVar("R", bound=BaseModel)


class Failure(BaseModel):
    """Why a command could not answer."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    what: str
    input: str
    action: str
    exit: int

    @classmethod
    def of(cls, error: NightlockError) -> Failure:
        """Describe an expected error."""
        return cls(
            kind=error.kind,
            what=error.what,
            input=error.subject,
            action=error.action,
            exit=error.exit_code,
        )


class Document(BaseModel, Generic[R]):
    """Result, findings and error of one command; the schema's name says which and which version."""

    model_config = ConfigDict(extra="forbid")

    schema_: str = Field(alias="schema")
    ok: bool
    result: R | None
    findings: list[Finding]
    error: Failure | None


class Result(BaseModel):
    """Base of every command's result; fields are added, never renamed, within one schema."""

    model_config = ConfigDict(extra="forbid")


def document(
    verb: str,
    *,
    result: Result | None,
    ok: bool,
    findings: list[Finding] | tuple[Finding, ...] = (),
    error: Failure | None = None,
) -> dict[str, Any]:
    """Lay out one document as plain data."""
    return {
        "schema": f"nightlock/{verb}/1",
        "ok": ok,
        "result": None if result is None else result.model_dump(mode="json"),
        "findings": [finding.model_dump(mode="json") for finding in findings],
        "error": None if error is None else error.model_dump(mode="json"),
    }
