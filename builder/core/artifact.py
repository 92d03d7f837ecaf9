"""Artifacts that refer to an image: SBOM, provenance, receipts (OCI image-spec 1.1, `subject`).

A registry lists them by the referrers API; where it has none, an index under the tag
`sha256-<hex>` of the subject is the list (distribution-spec 1.1, "Referrers Tag Schema").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from builder.core.lock import digest_of
from builder.core.manifest import OCI_INDEX, OCI_MANIFEST, Descriptor, Manifest
from builder.errors import RegistryError

EMPTY = b"{}"
"""The config of an artifact that has none (image-spec, "Guidance for an Empty Descriptor")."""
_EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
CYCLONEDX = "application/vnd.cyclonedx+json"
IN_TOTO = "application/vnd.in-toto+json"
PREDICATE_TYPE = "in-toto.io/predicate-type"
"""Annotation by which BuildKit, cosign and others say which statement an artifact holds."""
_TITLE = "org.opencontainers.image.title"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file that is attached to an image."""

    type: str
    """`artifactType`; the file's media type as well."""
    file: str
    """Name that clients save it under."""
    data: bytes
    annotations: Mapping[str, str] = field(default_factory=dict)

    def manifest(self, subject: Manifest) -> Manifest:
        """Write its manifest; the same file for the same subject gives the same bytes."""
        tables = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "artifactType": self.type,
            "config": {"mediaType": _EMPTY_TYPE, "digest": digest_of(EMPTY), "size": len(EMPTY)},
            "layers": [
                {
                    "mediaType": self.type,
                    "digest": digest_of(self.data),
                    "size": len(self.data),
                    "annotations": {_TITLE: self.file},
                }
            ],
            "subject": {
                "mediaType": subject.media_type,
                "digest": subject.digest,
                "size": len(subject.data),
            },
            "annotations": dict(self.annotations),
        }
        return Manifest.parse(_spelled(tables), OCI_MANIFEST, self.file)


def fallback_tag(digest: str) -> str:
    """Spell the tag that lists the referrers of a digest where there is no referrers API."""
    return digest.replace(":", "-")


def is_fallback_tag(tag: str) -> bool:
    """Whether a tag belongs to a digest: a list of referrers, or cosign's `.sig`, `.att`, `.sbom`.

    Such tags live as long as their subject.
    """
    algorithm, _, rest = tag.partition("-")
    return algorithm == "sha256" and len(rest.partition(".")[0]) == 64


def signature_tag(digest: str) -> str:
    """Spell the tag under which cosign 2 keeps the signatures of a digest."""
    return fallback_tag(digest) + ".sig"


def chosen(descriptors: tuple[Descriptor, ...], artifact_type: str) -> tuple[Descriptor, ...]:
    """Keep those of one type; a registry need not filter, even when it was asked to."""
    if not artifact_type:
        return descriptors
    return tuple(one for one in descriptors if one.artifact_type == artifact_type)


def with_referrer(index: Manifest | None, referrer: Manifest, subject: str) -> Manifest | None:
    """Add a referrer to the list under the fallback tag; None when it is in it already.

    What others wrote stays as it is. `subject` is what the tag is for, for messages.

    Raises RegistryError when the tag names something else than an index.
    """
    tables = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}
    if index is not None:
        if not index.is_index:
            raise RegistryError(
                f"{fallback_tag(subject)} is no list of referrers but a {index.media_type}",
                subject=subject,
                action="find out who pushed that tag; it is reserved for what is attached",
            )
        if any(one.digest == referrer.digest for one in index.body.manifests):
            return None
        tables = json.loads(index.data)
    manifests = tables.get("manifests")
    rows = manifests if isinstance(manifests, list) else []
    config = referrer.body.config
    added = {
        "mediaType": referrer.media_type,
        "digest": referrer.digest,
        "size": len(referrer.data),
        "artifactType": referrer.body.artifact_type or (config.media_type if config else ""),
        "annotations": referrer.body.annotations or {},
    }
    return Manifest.parse(_spelled(tables | {"manifests": [*rows, added]}), OCI_INDEX, subject)


def _spelled(tables: Mapping[str, object]) -> bytes:
    return json.dumps(tables, separators=(",", ":"), ensure_ascii=False).encode()
