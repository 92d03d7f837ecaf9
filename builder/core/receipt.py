"""Receipts: what was proven about one digest, as an in-toto Statement v1.

Source: in-toto attestation framework, spec/v1/statement.md. The subject is the image's manifest
digest; the bytes are canonical JSON, so that a receipt has one digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from builder.core.lock import canonical_json
from builder.core.timeline import Timeline

STATEMENT: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
PREDICATE: Literal["https://nightlock.org/receipt/v1"] = "https://nightlock.org/receipt/v1"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Subject(_Table):
    """What was proven."""

    name: str
    """Registry and repository; the digest alone decides."""
    digest: dict[str, str]
    """Algorithm → hex."""


class Proof(_Table):
    """One check and how it ended."""

    name: str
    status: str


class Predicate(_Table):
    """Who proved what, on what, from what."""

    kind: str
    """`cpu`, `gpu:sm_120`, `structural`."""
    verdict: str
    """`pass`, `fail` or `inconclusive`."""
    lock: str
    """Lock digest by the image's labels."""
    build: str
    """Build id by the image's labels."""
    profile: str
    profile_digest: str
    checks: tuple[Proof, ...]
    timeline: dict[str, float]
    """Phase → seconds."""
    startup: Timeline = Timeline()
    """Phases of each process, read from the log."""
    machine: dict[str, JsonValue]
    nightlock: str
    finished: str
    """RFC 3339, UTC."""


class Receipt(_Table):
    """A whole statement."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(default=STATEMENT, alias="_type")
    subject: tuple[Subject, ...]
    predicate_type: Literal["https://nightlock.org/receipt/v1"] = Field(
        default=PREDICATE, alias="predicateType"
    )
    predicate: Predicate

    def data(self) -> bytes:
        """Canonical bytes."""
        return canonical_json(self.model_dump(mode="json", by_alias=True))

    @classmethod
    def parse(cls, data: bytes) -> Receipt | None:
        """Read one; None for anything that is not a receipt of this version."""
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            return None

    def proves(self, digest: str) -> bool:
        """Whether this digest is its subject."""
        algorithm, _, value = digest.partition(":")
        return any(subject.digest.get(algorithm) == value for subject in self.subject)


def newest_first(receipts: Iterable[Receipt]) -> list[Receipt]:
    """Sort by when they were finished, each once: a record here and its copy in a registry are one.

    Of those that finished in one second the order stays.
    """
    found = {receipt.data(): receipt for receipt in receipts}
    return sorted(found.values(), key=lambda one: one.predicate.finished, reverse=True)
