"""lock.toml: the header of a lock."""

from __future__ import annotations

import hashlib
import tomllib
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.core.pins import RELOCK
from builder.errors import LockFileError

FIRST_SCHEMA = 1
"""The first that any lock was written in."""
SCHEMA = 1
"""What locks are written in. Schema N reads N-1: its tables are those of N with what N added left
out, so every field that a new schema adds has a default that says what the old one meant."""

_Word = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""Text on one line."""
_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
_Platform = Annotated[str, Field(pattern=r"^linux/(amd64|arm64)$")]
_Package = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class VllmTable(_Table):
    """Which vLLM this is."""

    package: _Package
    version: _Word
    commit: Annotated[str, Field(pattern=r"^[0-9A-Za-z]{0,64}$")]
    """40 hex where the index names it, else the abbreviation inside the wheel."""
    variant: _Word = ""


class TargetTable(_Table):
    """What was resolved for."""

    python: _Word
    glibc: _Word
    cuda: _Word = ""


class BaseLock(_Table):
    """The base, by what determines it."""

    debian: _Word = ""
    image: _Word = ""
    debs: dict[_Platform, _Digest] = {}
    """Platform → digest of its .debs.txt (a `debian` base is a function of that file)."""
    images: dict[_Platform, _Digest] = {}
    """Platform → manifest digest (an `image` base)."""


class ResolverTable(_Table):
    """Who resolved; recorded, never makes a lock stale."""

    name: _Word
    version: _Word


class Header(_Table):
    """lock.toml."""

    schema_version: int = Field(default_factory=lambda: SCHEMA)
    image: str
    spec: _Digest
    """Digest of the spec it was made from."""
    channel: str
    epoch: Annotated[int, Field(ge=0, le=1 << 33)]
    """`created` of the image, seconds since 1970: the newest date inside vLLM's wheel."""
    vllm: VllmTable
    target: TargetTable
    companions: dict[_Package, _Word] = {}
    """Package → version, of those that must match vLLM."""
    base: BaseLock
    tools: dict[_Platform, list[_Word]] = {}
    """Platform → wheel lines of what builds need and images do not hold."""
    layers: dict[_Platform, list[list[_Package]]] = {}
    """Platform → ordered groups of package names; vLLM is the last, alone."""
    resolver: ResolverTable
    files: dict[
        Annotated[str, Field(pattern=r"^linux-(amd64|arm64)\.(txt|debs\.txt|meta\.json)$")], _Digest
    ] = {}
    """Sibling file → digest."""

    @property
    def older(self) -> bool:
        """Whether it was written in the schema before; it keeps its bytes, and so its digest."""
        return self.schema_version < SCHEMA

    def migrated(self) -> Header:
        """Say the same in today's schema."""
        return self.model_copy(update={"schema_version": SCHEMA})


def parse_header(data: bytes, where: str) -> Header:
    """Read lock.toml; every problem of its values in one LockFileError."""
    subject = f"{where}/lock.toml"
    version: object = None
    try:
        raw = tomllib.loads(data.decode())
        version = raw.get("schema_version")
        _refuse_schema(version, subject)
        return Header.model_validate(raw)
    except ValidationError as error:
        rows = [
            f"{'.'.join(map(str, row['loc']))}: {row['msg']}"
            for row in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        old = f"schema {version} lacks or has what {SCHEMA} cannot read: "
        said = old if version != SCHEMA else ""
        raise LockFileError(said + "; ".join(rows), subject=subject, action=RELOCK) from None
    except ValueError as error:
        # Also UnicodeDecodeError, and integers of thousands of digits.
        raise LockFileError(f"not TOML: {error}", subject=subject, action=RELOCK) from None
    except RecursionError:
        raise LockFileError(
            "not TOML of ours: nested too deeply", subject=subject, action=RELOCK
        ) from None


def _refuse_schema(version: object, subject: str) -> None:
    """Raise LockFileError for a schema that is neither this one nor the one before."""
    read = range(max(FIRST_SCHEMA, SCHEMA - 1), SCHEMA + 1)
    if type(version) is int and version in read:
        return
    newer = type(version) is int and version > SCHEMA
    raise LockFileError(
        f"schema_version is {version!r}, this nightlock reads {' and '.join(map(str, read))}",
        subject=subject,
        action=f"use the newer nightlock that wrote it, or {RELOCK}" if newer else RELOCK,
    )


def digest_of(data: bytes) -> str:
    """`sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()
