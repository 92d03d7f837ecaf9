"""An image where it lies, in a registry or an OCI layout: manifests, configs, layers as streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from builder.core.manifest import Descriptor, Manifest
from builder.core.reference import ImageRef
from builder.edge.layout import Layout
from builder.edge.registry import Registry
from builder.edge.registry_blob import stream_blob
from builder.errors import BadInput

_SCHEME = "oci:"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformImage:
    """One platform of an image."""

    platform: str
    """As the index says; empty where there is no index."""
    manifest: Manifest
    config: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """An image that was found."""

    name: str
    digest: str
    """Of manifest or index."""
    images: tuple[PlatformImage, ...]
    stream: Callable[[str], Iterator[bytes]]
    """Digest of a layer → its blob, in pieces; raises what reading raises."""


@contextmanager
def open_image(text: str, environment: Mapping[str, str]) -> Iterator[ImageSource]:
    """Find what `text` names: `oci:DIR[:NAME]`, a folder with a layout, or a reference.

    Raises BadInput when there is none; RegistryError, NetworkError, HashMismatch.
    """
    place = text.removeprefix(_SCHEME)
    if text.startswith(_SCHEME) or Layout.is_one(Path(text)):
        folder, name = Path(place), ""
        if not Layout.is_one(folder) and ":" in place:
            before, _, name = place.rpartition(":")
            folder = Path(before)
        if not Layout.is_one(folder):
            raise BadInput(
                "this folder is no OCI layout", subject=str(folder), action="name one as oci:DIR"
            )
        layout = Layout(folder)
        top = layout.manifest(name)
        yield ImageSource(
            name=text,
            digest=top.digest,
            images=_images(top, layout.child, layout.blob, text),
            stream=layout.stream_blob,
        )
        return
    ref = ImageRef.parse(text)
    with Registry.open(ref.registry, environment) as registry:
        top = registry.manifest(ref)
        yield ImageSource(
            name=text,
            digest=top.digest,
            images=_images(
                top,
                lambda row: registry.manifest(ref.with_digest(row.digest)),
                lambda digest: registry.blob(ref, digest),
                text,
            ),
            stream=lambda digest: stream_blob(registry, ref, digest),
        )


def _images(
    top: Manifest,
    child: Callable[[Descriptor], Manifest],
    blob: Callable[[str], bytes],
    subject: str,
) -> tuple[PlatformImage, ...]:
    """Read every platform's manifest and config; attestations are none."""
    rows = (
        [
            (row.platform_name, child(row))
            for row in top.body.manifests
            if row.platform_name in top.platforms
        ]
        if top.is_index
        else [("", top)]
    )
    found = []
    for platform, manifest in rows:
        config = manifest.body.config
        if config is None:
            raise BadInput(
                "the manifest has no config",
                subject=subject,
                action="name a container image, not another artifact",
            )
        found.append(
            PlatformImage(platform=platform, manifest=manifest, config=blob(config.digest))
        )
    return tuple(found)
