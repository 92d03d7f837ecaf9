"""Manifests, indexes and image configs as a registry keeps them (OCI image-spec 1.1, Docker v2.2).

The bytes are the truth: they are kept as they came, since the digest is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.core.lock import digest_of
from builder.errors import RegistryError

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
MEDIA_TYPES = (OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST)
"""What we accept; without it a registry converts to the oldest format it knows."""
_CONFIGS = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
"""What only images have."""


class Descriptor(BaseModel):
    """A pointer to content: what it is, its digest and its size."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    media_type: str = Field(alias="mediaType")
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    size: int
    """Bytes."""
    platform: dict[str, Any] = {}
    annotations: dict[str, str] = {}
    artifact_type: str = Field(default="", alias="artifactType")

    @property
    def platform_name(self) -> str:
        """`os/architecture`, empty where none is given."""
        if not self.platform:
            return ""
        return f"{self.platform.get('os', '')}/{self.platform.get('architecture', '')}"


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    media_type: str = Field(default="", alias="mediaType")
    artifact_type: str = Field(default="", alias="artifactType")
    subject: Descriptor | None = None
    config: Descriptor | None = None
    layers: tuple[Descriptor, ...] = ()
    manifests: tuple[Descriptor, ...] = ()
    annotations: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest or an index, with its exact bytes."""

    data: bytes
    media_type: str
    body: _Body

    @classmethod
    def parse(cls, data: bytes, content_type: str, subject: str) -> Manifest:
        """Read one; the registry's Content-Type wins unless it is a generic one.

        Raises RegistryError when the bytes are no manifest.
        """
        try:
            body = _Body.model_validate_json(data)
        except (ValidationError, RecursionError) as error:
            raise RegistryError(
                f"not a manifest: {_problem(error)}",
                subject=subject,
                action="check that the reference names an image",
            ) from None
        stated = content_type.partition(";")[0].strip()
        media_type = stated if stated in MEDIA_TYPES else body.media_type or OCI_MANIFEST
        return cls(data=data, media_type=media_type, body=body)

    @property
    def digest(self) -> str:
        """The sha256 of the bytes, whatever a header said."""
        return digest_of(self.data)

    @property
    def is_index(self) -> bool:
        """Whether it lists manifests of several platforms."""
        return self.media_type in (OCI_INDEX, DOCKER_LIST)

    @property
    def is_image(self) -> bool:
        """Whether it is an image or an index of some; an artifact has a config of another kind."""
        config = self.body.config
        return self.is_index or (config is not None and config.media_type in _CONFIGS)

    @property
    def compressed_bytes(self) -> int:
        """What a pull of all layers and the config moves."""
        config = self.body.config.size if self.body.config else 0
        return config + sum(layer.size for layer in self.body.layers)

    def child(self, platform: str) -> Descriptor | None:
        """Find the manifest of `os/architecture` in an index."""
        found = (child for child in self.body.manifests if child.platform_name == platform)
        return next(found, None)

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms of an index; attestation entries (`unknown/unknown`) are none."""
        names = (child.platform_name for child in self.body.manifests)
        return tuple(name for name in names if name and "unknown" not in name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """What an image says of itself."""

    platform: str
    labels: Mapping[str, str]
    created: str = ""
    """RFC 3339, as the builder wrote it; empty when it did not."""

    @classmethod
    def parse(cls, data: bytes, subject: str) -> ImageConfig:
        """Read an image config; raises RegistryError when it is none."""
        try:
            raw = json.loads(data)
            inner = raw.get("config") or {}
            labels = inner.get("Labels") or {}
            labels = {str(key): str(value) for key, value in labels.items()}
            platform = f"{raw['os']}/{raw['architecture']}"
            created = str(raw.get("created") or "")
            # JSON can spell half a surrogate pair, which no file or terminal takes.
            "".join((platform, created, *labels, *labels.values())).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise RegistryError(
                "not an image config",
                subject=subject,
                action="check that the reference names a container image, not another artifact",
            ) from None
        return cls(platform=platform, labels=labels, created=created)


def _problem(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    first = error.errors(include_url=False, include_input=False)[0]
    return str(first["msg"])
