"""The lock of an image, read back from its registry; nothing but one small layer is pulled."""

from __future__ import annotations

from collections.abc import Mapping

from builder.core.labels import LOCK_DIGEST
from builder.core.lock import Lock
from builder.core.lock_layer import LARGEST, lock_files
from builder.core.manifest import Manifest
from builder.core.reference import ImageRef
from builder.edge.registry import Registry
from builder.errors import LockFileError


def read_image_lock(reference: ImageRef, environment: Mapping[str, str]) -> Lock:
    """Read the lock an image was built from; of several platforms, the first one's.

    Raises:
        BadInput: there is no such image.
        LockFileError: it holds no lock, or another one than its label says.
        NetworkError, RegistryError: the registry does not answer, or says no.

    """
    subject = str(reference)
    with Registry.open(reference.registry, environment) as registry:
        top = registry.manifest(reference)
        manifest = _one_platform(registry, reference, top)
        config = registry.config(reference, manifest)
        # The lock lies in the last layer that builds make; wheels are in larger ones below.
        for layer in reversed(manifest.body.layers):
            if layer.size > LARGEST:
                continue
            files = lock_files(registry.blob(reference, layer.digest), subject)
            if files:
                lock = Lock.parse(files, subject)
                agree(lock, config.labels.get(LOCK_DIGEST, ""), subject)
                return lock
    raise no_lock(subject)


def no_lock(subject: str) -> LockFileError:
    """Say that an image is not one of ours."""
    return LockFileError(
        "the image holds no lock",
        subject=subject,
        action="name an image that nightlock built; others have none",
    )


def _one_platform(registry: Registry, reference: ImageRef, top: Manifest) -> Manifest:
    if not top.is_index:
        return top
    child = top.child(min(top.platforms)) if top.platforms else None
    if child is None:
        raise LockFileError(
            "the index names no platform", subject=str(reference), action="push the image again"
        )
    return registry.manifest(reference.with_digest(child.digest))


def agree(lock: Lock, label: str, subject: str) -> None:
    """Raise LockFileError when the lock inside is another one than the image's label says."""
    if label and label != lock.digest:
        raise LockFileError(
            f"the lock inside has digest {lock.digest}, the image's label says {label}",
            subject=subject,
            action="the image was altered after it was built; build it again",
        )
