"""A bundle: one folder with all that a build needs, for a machine with an engine and no network.

README.md, SHA256SUMS      how to check and to build it, with or without nightlock
bundle.json                what it is; read by `nightlock build --bundle`
linux-amd64/               the build folder, as `nightlock render` writes it
debs/                      the .debs that base.tar was made of
project/                   images/ and lock/, for nightlock
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal

import jinja2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.core.lock import canonical_json
from builder.errors import BadInput

SCHEMA: Literal["nightlock/bundle/1"] = "nightlock/bundle/1"
NAME = "bundle.json"
SUMS = "SHA256SUMS"

_Sha256 = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BundledPlatform(_Table):
    """One platform of a bundle."""

    folder: str
    """Its build folder."""
    command: str
    """Builds it, run inside that folder."""
    base: _Sha256
    base_size: int
    """Of base.tar in bytes; 0 for a base that is an image."""
    buildkit: str
    """Version the command was written for; empty: no engine answered, so it names no build id."""
    build_id: str
    digest: str
    """Digest of the image, where it was built already; empty: not known."""


class Bundle(_Table):
    """bundle.json."""

    schema_: Literal["nightlock/bundle/1"] = Field(default=SCHEMA, alias="schema")
    image: str
    lock: _Sha256
    nightlock: str
    """Version that wrote it; another one may render another Dockerfile."""
    platforms: dict[str, BundledPlatform]

    def data(self) -> bytes:
        """Spell it as a file."""
        return canonical_json(self.model_dump(mode="json", by_alias=True))

    @classmethod
    def parse(cls, data: bytes, subject: str) -> Bundle:
        """Read one; raises BadInput when it is none, or of a later nightlock."""
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            raise BadInput(
                "not a bundle that this nightlock can read",
                subject=subject,
                action="name a folder that `nightlock fetch IMAGE --bundle DIR` wrote",
            ) from None


def sums(digests: Mapping[str, str]) -> bytes:
    """Write SHA256SUMS: name → bare hex, as `sha256sum --check` reads it."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())).encode()


def parse_sums(text: str, subject: str) -> dict[str, str]:
    """Read SHA256SUMS; raises BadInput for a line that is none, or leads out of the folder."""
    found = {}
    for line in text.splitlines():
        digest, _, name = line.partition("  ")
        path = PurePosixPath(name)
        wrong = len(digest) != 64 or set(digest) - set("0123456789abcdef") or not name
        if wrong or path.is_absolute() or ".." in path.parts:
            raise BadInput(
                f"not a line of checksums: {line[:100]!r}",
                subject=subject,
                action="write the bundle again",
            )
        found[name] = digest
    return found


def stored(names: Iterable[str], bundle: Bundle) -> list[str]:
    """Choose the files that belong into a store: wheels, tools, bases and .debs."""
    tops = [f"{row.folder}/{part}" for row in bundle.platforms.values() for part in _LARGE]
    return [name for name in names if name.startswith(("debs/", *tops))]


_LARGE = ("wheels/", "tools/", "base.tar", "base/", "debs/")


def readme(bundle: Bundle, template: str) -> bytes:
    """Say how to check the bundle and to build from it; `template` is `bundle.md.j2`."""
    # Not HTML: escaping would damage the commands.
    engine = jinja2.Environment(  # noqa: S701
        undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    return engine.from_string(template).render(bundle=bundle).encode()
