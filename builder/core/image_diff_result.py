"""ImageDiff: what two images differ in, layer by layer and file by file, as data."""

from __future__ import annotations

from typing import Literal

from builder.core.document import Result

MOST_PATHS = 1000
"""Paths of one layer that are named; the others are counted."""

Reason = Literal["added", "removed", "files", "order", "compression", "unread"]
"""How a layer differs.

`files`: entries differ. `order`: the same entries, in another order or spelt otherwise in the tar.
`compression`: the same tar, compressed to other bytes. `unread`: nobody looked how.
"""


class ValueChange(Result):
    """One value, before and after; empty: there was none."""

    name: str
    old: str
    new: str


class PathChange(Result):
    """One path of a layer."""

    path: str
    kind: Literal["added", "removed", "changed"]
    fields: list[ValueChange]
    """Of one that changed: `content`, `mode`, `mtime`, `owner`, `target`, `xattr …` and others."""


class LayerChange(Result):
    """One layer that differs."""

    old_number: int
    """Position from 1; 0: the old image has no such layer."""
    new_number: int
    old: str
    """Digest of the blob."""
    new: str
    old_bytes: int
    """Compressed."""
    new_bytes: int
    made_by: str
    """The build step, by the image's history."""
    reason: Reason
    counts: dict[Literal["added", "removed", "changed"], int]
    paths: list[PathChange]
    """At most `MOST_PATHS`, in order of the path."""


class ImageDiff(Result):
    """One platform of two images."""

    platform: str
    old: str
    """Digest of the manifest."""
    new: str
    same: bool
    """The digests are equal."""
    build: str
    """Build id, when both have the same one; then the digests should be equal too."""
    config: list[ValueChange]
    """Labels, environment and all else in config and manifest but the layers."""
    layers: list[LayerChange]
    layer_count: int
    """Of the new image."""
