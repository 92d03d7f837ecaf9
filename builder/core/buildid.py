"""The build: BuildKit's options, the command line, and the id of everything that goes into it."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, ValidationError

from builder.core.lock import canonical_json, digest_of

EXPORTER = {
    "type": "image",
    # OCI's media types, since Docker's know no zstd.
    "oci-mediatypes": "true",
    # BuildKit's own level and no other: a layer that lies in its cache keeps the level it was
    # compressed with, so a level named here would make the digest depend on earlier builds.
    # (Of the `cpu` image level 1 takes 58 s instead of 95 s, and 1,051 MB instead of 961 MB.)
    "compression": "zstd",
    # Also for layers that lie in the build cache, compressed in another way.
    "force-compression": "true",
}
"""What determines the bytes of layers and manifest; names and pushing do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One `docker buildx build`, complete."""

    platform: str
    epoch: int
    """Seconds since 1970, for `created`: BuildKit takes SOURCE_DATE_EPOCH as a build argument."""
    name: str
    """Reference of the result, with tag."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Said in the manifest as well, where registries show them without the config."""
    push: bool = False
    cache: bool = True
    builder: str = ""
    contexts: Mapping[str, str] = field(default_factory=dict)
    """Named contexts: name → where it is, relative to the folder."""
    metadata: str = ""
    """File for the digest; empty: not asked for."""

    def arguments(self, context: str) -> list[str]:
        """Spell what follows `docker`."""
        said = {f"annotation.{key}": value for key, value in sorted(self.annotations.items())}
        output = EXPORTER | {"name": self.name} | ({"push": "true"} if self.push else {}) | said
        return [
            "buildx",
            "build",
            *(["--builder", self.builder] if self.builder else []),
            *(
                word
                for name, place in sorted(self.contexts.items())
                for word in ("--build-context", f"{name}={place}")
            ),
            "--platform",
            self.platform,
            "--network",
            "none",
            # Both hold the time of the build, so the digest would differ each time.
            "--provenance=false",
            "--sbom=false",
            "--build-arg",
            f"SOURCE_DATE_EPOCH={self.epoch}",
            *(word for pair in sorted(self.labels.items()) for word in ("--label", "=".join(pair))),
            *([] if self.cache else ["--no-cache"]),
            *(["--metadata-file", self.metadata] if self.metadata else []),
            "--output",
            _csv(f"{key}={value}" for key, value in output.items()),
            context,
        ]

    def text(self) -> str:
        """Spell it for a shell, in the folder that is the context."""
        return shlex.join(["docker", *self.arguments(".")])


def _csv(fields: Iterable[str]) -> str:
    """Spell fields as buildx reads them: one line of CSV (RFC 4180)."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def build_id(lock_digest: str, files: Mapping[str, str], buildkit: str) -> str:
    """Digest of everything that goes into an image.

    `files` maps each rendered file to its digest; wheels are named by the lock. `buildkit` is the
    version that exports: two of them may compress the same layers to other bytes.
    """
    return digest_of(
        canonical_json(
            {
                "lock": lock_digest,
                "files": dict(files),
                "buildkit": buildkit,
                "exporter": EXPORTER,
                # Each label is an annotation too; their values follow from lock and files.
                "annotations": "labels",
            }
        )
    )


class BuildRecord(BaseModel):
    """What a build gave, kept in the state folder."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    build_id: str
    digest: str
    """Of the manifest."""
    reference: str
    """Where it was pushed."""
    stages: tuple[str, ...] = ()
    """Digest of the base, and keys of the groups of wheels: what the engine's cache may hold."""

    @classmethod
    def parse(cls, text: str) -> BuildRecord | None:
        """Read a record; a damaged one counts as none, since building again is always right."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return None

    def text(self) -> str:
        """Spell it as a file."""
        return self.model_dump_json(indent=1) + "\n"
