"""Two images layer by layer, for `diff`: only layers that differ are fetched, as streams."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from builder.commands.context import Context
from builder.core.image_diff import ImageFacts, LayerFacts, compare_images, differing, to_read
from builder.core.image_diff_result import ImageDiff
from builder.core.layer_entry import Entry
from builder.edge.image_source import ImageSource, open_image
from builder.edge.layer_entries import read_entries
from builder.edge.pool import Stop, each
from builder.errors import BadInput

_THREADS = 2
"""Layers at once: unpacking and hashing is what takes the time."""


def diff_images(context: Context, old: str, new: str, *, read: bool) -> list[ImageDiff]:
    """Compare every platform that both have; with `read` the files of layers that differ too.

    Raises BadInput when they have no platform in common, or one is not there; Refused for a blob
    that is no layer; RegistryError, NetworkError, HashMismatch.
    """
    with open_image(old, os.environ) as before, open_image(new, os.environ) as after:
        sides = [_facts(source) for source in (before, after)]
        common = [platform for platform in sides[0] if platform in sides[1]]
        if not common:
            raise BadInput(
                f"they have no platform in common: {', '.join(sides[0])} and {', '.join(sides[1])}",
                subject=f"{old}, {new}",
                action="name two images for one platform",
            )
        pairs = [(sides[0][platform], sides[1][platform]) for platform in common]
        if not read:
            return [compare_images(*pair) for pair in pairs]
        entries = _entries(context, (before, after), pairs)
        return [compare_images(*pair, entries) for pair in pairs]


def _facts(source: ImageSource) -> dict[str, ImageFacts]:
    found = (ImageFacts.of(one.manifest, one.config, source.name) for one in source.images)
    return {facts.platform: facts for facts in found}


def _entries(
    context: Context,
    sources: tuple[ImageSource, ImageSource],
    pairs: Sequence[tuple[ImageFacts, ImageFacts]],
) -> dict[str, list[Entry]]:
    """Read the layers that differ, of both sides; digest → entries."""
    wanted: dict[str, tuple[ImageSource, LayerFacts]] = {}
    for old, new in pairs:
        for pair in to_read(differing(old, new)):
            for source, layer in zip(sources, pair, strict=True):
                if layer is not None:
                    wanted[layer.digest] = (source, layer)
    total = sum(layer.size for _, layer in wanted.values())
    if not wanted:
        return {}
    with (
        context.output.step("layers", f"reading {len(wanted)} layers, {total / 1e6:,.0f} MB"),
        context.output.bar("layers", total) as bar,
    ):

        def read(row: tuple[ImageSource, LayerFacts], stop: Stop) -> list[Entry]:
            source, layer = row

            def pieces() -> Iterator[bytes]:
                for piece in source.stream(layer.digest):
                    bar.advance(len(piece))
                    yield piece

            return read_entries(pieces(), layer.digest, stop)

        found = each(read, wanted.values(), threads=_THREADS)
    return dict(zip(wanted, found, strict=True))
