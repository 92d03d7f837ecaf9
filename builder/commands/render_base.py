"""The base's part of a build folder: base.tar made of .debs, or an image as an OCI layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builder.commands.context import Context
from builder.core.install_order import install_order
from builder.core.lock import DebPin, Lock, digest_of
from builder.core.oci_layout import blob_name, layout_texts
from builder.edge import base_image, mmdebstrap, rootfs
from builder.edge.debs import missing
from builder.edge.store import Store
from builder.errors import Outside

_MOUNTED = "/mnt"
"""Where the template mounts `debs/`."""
_UNPACKED = 3
"""Bytes of files per byte of compressed layer: Debian 12 with a compiler 3.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFiles:
    """What a build folder holds of its base."""

    digest: str
    """Of base.tar, or of the image's manifest."""
    size: int
    """Bytes of the root file system, of an image by its compressed layers."""
    links: Mapping[str, Path]
    """Name in the folder → file of the store."""
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """Small files beside them."""

    @property
    def digests(self) -> dict[str, str]:
        """What the build id takes of it: the digest, and small files."""
        name = "base.tar" if "base.tar" in self.links else "base"
        return {name: self.digest} | {name: digest_of(data) for name, data in self.texts.items()}


def find_or_make_base(context: Context, lock: Lock, platform: str) -> BaseFiles:
    """Return the base of a lock: base.tar, made now or earlier, or the image as fetched.

    Raises Outside when something is not in the store, and what `rootfs.make_base` raises.
    """
    if lock.header.base.image:
        return _image(context, lock, platform)
    root = _root(context, lock, platform)
    digest = f"sha256:{root.sha256}"
    return BaseFiles(digest=digest, size=root.size, links={"base.tar": root.path})


def _root(context: Context, lock: Lock, platform: str) -> rootfs.Base:
    store, records = Store(context.places.store), context.places.state / "base"
    debs = lock.platforms[platform].debs
    found = rootfs.find_base(debs, store, records)
    if found is not None:
        return found
    tools = context.places.cache / "tools"
    program = mmdebstrap.find_mmdebstrap(tools)
    if program is None:
        program = mmdebstrap.unpack_mmdebstrap(tools, context.settings.debian)
    with context.output.step("base", f"making the root file system from {len(debs)} .debs"):
        return rootfs.make_base(
            lock.header.base.debian,
            debs,
            store,
            records,
            program,
            waiting=context.output.note,
        )


def _image(context: Context, lock: Lock, platform: str) -> BaseFiles:
    store = Store(context.places.store)
    digest = lock.header.base.images[platform]
    image = base_image.find_stored(digest, store)
    debs = lock.platforms[platform].debs
    absent = [pin.name for pin in missing(debs, store)]
    if image is None or absent:
        parts = [*([] if image else [f"the base image {digest}"]), *absent]
        raise Outside(
            f"not in the store: {', '.join(parts[:5])}",
            subject=str(store.root),
            action=f"run `nightlock fetch {lock.header.image}` first",
        )
    names = {digest: image.path(digest)}
    names |= {blob.digest: image.path(blob.digest) for blob in image.blobs}
    layout = layout_texts(image.manifest, platform)
    return BaseFiles(
        digest=digest,
        size=_UNPACKED * image.size,
        links={
            **{f"base/{blob_name(name)}": path for name, path in names.items()},
            **{f"debs/{pin.file}": store.path(pin.sha256) for pin in debs},
        },
        texts={
            **{f"base/{name}": data for name, data in layout.items()},
            **({"debs/order.txt": _order(debs, store)} if debs else {}),
        },
    )


def _order(debs: tuple[DebPin, ...], store: Store) -> bytes:
    rows = install_order(mmdebstrap.read_controls(debs, store))
    return "".join(" ".join(f"{_MOUNTED}/{file}" for file in row) + "\n" for row in rows).encode()
