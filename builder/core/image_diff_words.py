"""The words for two images that differ, which text, markdown and HTML share."""

from __future__ import annotations

import re

from builder.core.amount import size
from builder.core.image_diff_result import ImageDiff, LayerChange, PathChange, ValueChange

MOST_SHOWN = 20
"""Paths of a layer that are shown; the JSON document has more."""
_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_REASONS = {
    "order": "the same entries, in another order or spelt otherwise in the tar",
    "compression": "the same tar, compressed to other bytes",
    "unread": "it differs; --files reads both and names the files",
}


def title(image: ImageDiff) -> str:
    """Say which images, and how much of them differs."""
    if image.same:
        return f"Image {image.platform}: {image.new}, the same on both sides"
    return (
        f"Image {image.platform}: {len(image.layers)} of {image.layer_count} layers differ, "
        f"{image.old} → {image.new}"
    )


def layer_title(layer: LayerChange) -> str:
    """Name a layer by its place and its step."""
    places = [f"{n}" for n in dict.fromkeys((layer.old_number, layer.new_number)) if n]
    what = {"added": " (only in the new image)", "removed": " (only in the old image)"}
    bytes_ = " → ".join(dict.fromkeys(size(n) for n in (layer.old_bytes, layer.new_bytes) if n))
    step = f": {layer.made_by}" if layer.made_by else ""
    return f"layer {' → '.join(places)}{what.get(layer.reason, '')}, {bytes_}{step}"


def summary(layer: LayerChange) -> str:
    """Say how it differs, in one line."""
    if layer.reason in _REASONS:
        return _REASONS[layer.reason]
    return ", ".join(f"{count} {kind}" for kind, count in layer.counts.items()) or "not read"


def shown(layer: LayerChange) -> list[PathChange]:
    """Cut the list to what a person reads."""
    return layer.paths[:MOST_SHOWN]


def unshown(layer: LayerChange) -> int:
    """Count the others."""
    return sum(layer.counts.values()) - len(shown(layer))


def path_line(change: PathChange) -> str:
    """Say what became of a path."""
    fields = "; ".join(value_line(field) for field in change.fields)
    return f"{_MARKS[change.kind]} /{change.path.lstrip('/')}" + (f": {fields}" if fields else "")


def value_line(value: ValueChange) -> str:
    """Say how one value changed."""
    return f"{value.name} {short(value.old) or 'none'} → {short(value.new) or 'none'}"


def short(text: str) -> str:
    """Cut digests to what tells them apart; the JSON document has them whole."""
    return re.sub(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}", r"\1…", text)
