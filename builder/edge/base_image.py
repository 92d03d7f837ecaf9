"""A base image in the store: its manifest, config and layers, each a file by its digest."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from builder.core.base_facts import VERSION, BaseFacts, is_wanted, read_facts
from builder.core.keys import finding
from builder.core.lock import digest_of
from builder.core.manifest import Descriptor, Manifest
from builder.core.reference import ImageRef
from builder.edge import files
from builder.edge.image_layers import read_tree
from builder.edge.registry import Registry
from builder.edge.store import Store
from builder.errors import BadInput, Refused, RegistryError


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """One platform's image, of which the store has the manifest at least."""

    manifest: Manifest
    blobs: tuple[Descriptor, ...]
    """Config, then layers from the lowest."""
    store: Store

    @property
    def size(self) -> int:
        """Bytes of config and layers, as they are compressed."""
        return sum(blob.size for blob in self.blobs)

    @property
    def lacking(self) -> tuple[Descriptor, ...]:
        """Blobs that are not in the store, each once."""
        every = {blob.digest: blob for blob in self.blobs}.values()
        return tuple(blob for blob in every if not self.store.has(_hex(blob.digest), blob.size))

    @property
    def lacking_bytes(self) -> int:
        """Bytes of those."""
        return sum(blob.size for blob in self.lacking)

    def path(self, digest: str) -> Path:
        """Where one of its blobs lies, or the manifest."""
        return self.store.path(_hex(digest))


def find_platform(registry: Registry, ref: ImageRef, platform: str) -> str:
    """Digest of the manifest that a reference names for one platform now.

    Raises:
        BadInput: the registry has no such image, or it is not for that platform.
        NetworkError, RegistryError, HashMismatch: as `Registry.find_manifest`.

    """
    manifest = registry.find_manifest(ref)
    if manifest is None:
        error = BadInput(
            "the registry has no such image",
            subject=str(ref),
            action="correct `base.image`, or name a base that is still published",
        )
        error.findings = (finding("base-tag-removed", subject=str(ref), evidence=error.what),)
        raise error
    if manifest.is_index:
        child = manifest.child(platform)
        there, digest = manifest.platforms, child.digest if child else ""
    else:
        there = (registry.config(ref, manifest).platform,)
        digest = manifest.digest if platform in there else ""
    if not digest:
        raise BadInput(
            f"the base image is not for {platform}",
            subject=str(ref),
            action=f"it is for {', '.join(there) or 'no platform'}: take another base, or take "
            f"{platform} out of image.platforms",
        )
    return digest


def find_stored(digest: str, store: Store) -> StoredImage | None:
    """Find an image that `bring` brought, by the digest of its manifest; None unless whole."""
    image = _manifest(digest, store)
    return image if image is not None and not image.lacking else None


def find_image(registry: Registry, ref: ImageRef, digest: str, store: Store) -> StoredImage:
    """Bring the manifest alone, by digest; the answer says which blobs the store lacks.

    Raises Refused when the registry has it no more, NetworkError, RegistryError, HashMismatch.
    """
    image = _manifest(digest, store)
    if image is None:
        manifest = registry.find_manifest(ref.with_digest(digest))
        if manifest is None:
            raise _gone(ref, digest)
        with store.partial(_hex(digest)) as scratch:
            files.write(scratch, manifest.data)
            store.keep(scratch, _hex(digest), f"{ref.name}@{digest}")
        image = _of(manifest, str(ref), store)
    return image


def bring(
    registry: Registry, ref: ImageRef, image: StoredImage, on_bytes: Callable[[int], None]
) -> None:
    """Bring what the store lacks of an image, verified.

    Raises NetworkError, RegistryError, HashMismatch, DiskFull.
    """
    store = image.store
    files.require_free(store.root, image.lacking_bytes, f"fetching {ref}")
    for blob in image.lacking:
        with store.partial(_hex(blob.digest)) as scratch:
            # Another process may have brought it while we waited for the room.
            if store.has(_hex(blob.digest), blob.size):
                on_bytes(blob.size)
                continue
            registry.download(ref, blob, scratch, on_bytes)
            store.keep(scratch, _hex(blob.digest), f"{ref.name}@{blob.digest}")


def facts_of(image: StoredImage, platform: str, cache: Path) -> BaseFacts:
    """Read what an image says of itself; `cache` is a folder that keeps the answer.

    Raises RegistryError, Refused when it cannot be read.
    """
    found = find_facts(image.manifest.digest, cache)
    if found is not None:
        return found
    config, *layers = image.blobs
    try:
        raw = json.loads(image.path(config.digest).read_bytes())
        inner = raw.get("config") or {}
        said = f"{raw['os']}/{raw['architecture']}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_image(image.manifest.digest) from error
    if said != platform:
        raise BadInput(
            f"the index says {platform}, its config {said}",
            subject=image.manifest.digest,
            action="take another base: this one was pushed under a wrong platform",
        )
    tree = read_tree([image.path(layer.digest) for layer in layers], is_wanted)
    facts = read_facts(tree, inner, platform)
    files.write(_record(image.manifest.digest, cache), facts.model_dump_json().encode())
    return facts


def find_facts(digest: str, cache: Path) -> BaseFacts | None:
    """Find what `facts_of` read earlier; a damaged record counts as none."""
    try:
        return BaseFacts.model_validate_json(_record(digest, cache).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _record(digest: str, cache: Path) -> Path:
    return cache / f"{_hex(digest)}-{VERSION}.json"


def _manifest(digest: str, store: Store) -> StoredImage | None:
    try:
        data = store.path(_hex(digest)).read_bytes()
    except FileNotFoundError:
        return None
    if digest_of(data) != digest:
        store.path(_hex(digest)).unlink(missing_ok=True)
        return None
    return _of(Manifest.parse(data, "", digest), digest, store)


def _of(manifest: Manifest, subject: str, store: Store) -> StoredImage:
    if manifest.is_index or manifest.body.config is None:
        raise _no_image(subject)
    blobs = (manifest.body.config, *manifest.body.layers)
    return StoredImage(manifest=manifest, blobs=blobs, store=store)


def _no_image(subject: str) -> RegistryError:
    return RegistryError(
        "not an image that can be a base",
        subject=subject,
        action="check that `base.image` names a container image, not another artifact",
    )


def _gone(ref: ImageRef, digest: str) -> Refused:
    error = Refused(
        f"the locked base {digest} is not in its registry any more",
        subject=str(ref),
        action="lock what the tag names now with `nightlock lock --upgrade`, or name a mirror that "
        "still has it as base.image",
    )
    error.findings = (
        finding("base-tag-removed", subject=str(ref), evidence=error.what, action=error.action),
    )
    return error


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
