"""`nightlock fetch IMAGE`: fill the store with every file a lock names, verified."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from builder.commands.context import Context, Outcome
from builder.core.debs import by_release
from builder.core.document import Result
from builder.core.lock import DebPin, Lock, WheelPin
from builder.core.manifest import Descriptor
from builder.core.reference import ImageRef
from builder.core.staleness import refuse_stale
from builder.edge import files
from builder.edge import project as projects
from builder.edge.store import Store

if TYPE_CHECKING:
    from builder.edge.base_image import StoredImage


class BundleRow(Result):
    """One bundle that was written."""

    folder: str
    files: int
    bytes: int
    """Of all files; those that lie on the store's own disk are linked, and take no room."""
    commands: dict[str, str]
    """Platform → what builds it, run in its folder."""
    digests: dict[str, str]
    """Platform → digest the image has, where it was built here already."""


class FetchResult(Result):
    """What the store got."""

    image: str
    lock: str
    """Lock digest."""
    store: str
    files: int
    """Files the lock names, each once."""
    bytes_fetched: int
    bytes_present: int
    """Bytes of files that were in the store already."""
    indexes: dict[str, int] = Field(default_factory=dict)
    """Fetched files by the name of their index; `debian` for .debs, `registry` for the base."""
    bundle: BundleRow | None = None
    """What `--bundle` wrote."""


def run(
    context: Context, image: str, *, lock: Lock | None = None, bundle: Path | None = None
) -> Outcome[FetchResult]:
    """Fetch one image's files; `lock` is another lock than the project's own.

    With `bundle` a folder is written from which the image can be built without a network.

    Raises StaleLock when the lock was made from another spec, HashMismatch when a source has other
    bytes than the lock names, NetworkError, AptDrift, DiskFull.
    """
    spec = projects.read_spec(context.project, image)
    if lock is None:
        lock = projects.read_lock_folder(context.lock_folder(image))
    refuse_stale(spec, lock, str(context.lock_folder(image)))
    store = Store(context.places.store)
    wheels = {
        pin.sha256: pin
        for platform, content in lock.platforms.items()
        for pin in (*content.wheels, *lock.tools(platform))
    }
    packages = {pin.sha256: pin for content in lock.platforms.values() for pin in content.debs}
    missing_wheels = [pin for pin in wheels.values() if not store.has(pin.sha256, pin.size)]
    missing_debs = [pin for pin in packages.values() if not store.has(pin.sha256, pin.size)]
    images = _base_images(lock, store)
    parts = {blob.digest: blob for image in images for blob in image.blobs}
    missing_parts = {blob.digest: blob for image in images for blob in image.lacking}
    missing = _bytes(missing_wheels) + _bytes(missing_debs) + _sizes(missing_parts.values())
    total = _bytes(wheels.values()) + _bytes(packages.values()) + _sizes(parts.values())
    if missing:
        files.require_free(store.root, missing, f"fetching {image}")
        count = len(missing_wheels) + len(missing_debs) + len(missing_parts)
        label = f"fetching {count} files, {missing / 1e6:,.0f} MB"
        with context.output.step("fetch", label), context.output.bar("fetch", missing) as bar:
            _fetch_wheels(context, image, lock, store, missing_wheels, bar.advance)
            _fetch_debs(context, lock, store, missing_debs, bar.advance)
            _fetch_bases(lock, images, bar.advance)
    _fetch_base_maker(context, lock, store)
    counts = Counter(pin.index for pin in missing_wheels)
    counts.update({"debian": len(missing_debs)} if missing_debs else {})
    counts.update({"registry": len(missing_parts)} if missing_parts else {})
    written = None
    if bundle is not None:
        # Imported late: it needs all that building needs.
        from builder.commands.bundle import write_bundle  # noqa: PLC0415

        written = write_bundle(context, image, bundle)
    result = FetchResult(
        image=image,
        lock=lock.digest,
        store=str(store.root),
        files=len(wheels) + len(packages) + len(parts),
        bytes_fetched=missing,
        bytes_present=total - missing,
        indexes=dict(sorted(counts.items())),
        bundle=written,
    )
    return Outcome(result=result, text=_text(result))


def _fetch_wheels(
    context: Context,
    image: str,
    lock: Lock,
    store: Store,
    pins: Sequence[WheelPin],
    on_bytes: Callable[[int], None],
) -> None:
    if not pins:
        return
    # Imported late, as below: HTTP and HTML cost 0.4 s, and most calls find everything here.
    from builder.edge import wheelhouse  # noqa: PLC0415
    from builder.edge.reach import open_indexes  # noqa: PLC0415

    settings = context.settings
    with open_indexes(
        settings,
        os.environ,
        connections=2 * settings.threads,
        nightlies=[lock.header.vllm],
    ) as indexes:
        wheelhouse.fetch_wheels(
            pins,
            store,
            indexes,
            image=image,
            threads=settings.threads,
            on_bytes=on_bytes,
        )


def _fetch_debs(
    context: Context,
    lock: Lock,
    store: Store,
    pins: Sequence[DebPin],
    on_bytes: Callable[[int], None],
) -> None:
    if not pins:
        return
    from builder.edge import debs  # noqa: PLC0415

    settings = context.settings
    debian = lock.header.base.debian
    releases: Mapping[str, Sequence[DebPin]] = {debian: pins} if debian else by_release(pins)
    for codename, rows in releases.items():
        debs.fetch_debs(
            rows,
            store,
            debs.archives(codename, settings.debian),
            snapshot=settings.debian.snapshot,
            threads=settings.threads,
            on_bytes=on_bytes,
        )


def _base_images(lock: Lock, store: Store) -> list[StoredImage]:
    """Find the images that are bases; of those not whole in the store, bring the manifest."""
    base = lock.header.base
    if not base.image:
        return []
    from builder.edge import base_image  # noqa: PLC0415
    from builder.edge.registry import Registry  # noqa: PLC0415

    found = [base_image.find_stored(digest, store) for digest in base.images.values()]
    whole = [image for image in found if image is not None]
    if len(whole) == len(found):
        return whole
    ref = ImageRef.parse(base.image)
    with Registry.open(ref.registry, os.environ) as registry:
        return [
            base_image.find_image(registry, ref, digest, store) for digest in base.images.values()
        ]


def _fetch_bases(
    lock: Lock, images: Sequence[StoredImage], on_bytes: Callable[[int], None]
) -> None:
    if not any(image.lacking for image in images):
        return
    from builder.edge import base_image  # noqa: PLC0415
    from builder.edge.registry import Registry  # noqa: PLC0415

    ref = ImageRef.parse(lock.header.base.image)
    with Registry.open(ref.registry, os.environ) as registry:
        for image in images:
            base_image.bring(registry, ref, image, on_bytes)


def _fetch_base_maker(context: Context, lock: Lock, store: Store) -> None:
    """Bring the program that makes a base of .debs, so that `build` asks no network."""
    from builder.edge import mmdebstrap, rootfs  # noqa: PLC0415

    if not lock.header.base.debian:
        return
    records, folder = context.places.state / "base", context.places.cache / "tools"
    wanted = [content.debs for content in lock.platforms.values() if content.debs]
    if all(rootfs.find_base(debs, store, records) for debs in wanted):
        return
    if mmdebstrap.find_mmdebstrap(folder) is None and mmdebstrap.can_make_base() is None:
        with context.output.step("base-maker", "fetching mmdebstrap, which makes the base"):
            mmdebstrap.unpack_mmdebstrap(folder, context.settings.debian)


def _bytes(pins: Iterable[WheelPin | DebPin]) -> int:
    return sum(pin.size for pin in pins)


def _sizes(blobs: Iterable[Descriptor]) -> int:
    return sum(blob.size for blob in blobs)


def _text(result: FetchResult) -> str:
    if result.bundle is None:
        return _fetched(result)
    row = result.bundle
    return (
        f"{_fetched(result)}\n{row.folder}: {row.files} files, {row.bytes / 1e6:,.0f} MB; its "
        "README.md says how to build from it"
    )


def _fetched(result: FetchResult) -> str:
    if not result.bytes_fetched:
        return f"{result.image}: all {result.files} files are in the store"
    parts = ", ".join(f"{count} from {index}" for index, count in result.indexes.items())
    return (
        f"{result.image}: {result.files} files in the store, {result.bytes_fetched / 1e6:,.0f} MB "
        f"fetched ({parts})"
    )
