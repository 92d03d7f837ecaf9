"""Compare two images: which layers differ, and in which files; and what else their configs say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from builder.core.image_diff_result import (
    MOST_PATHS,
    ImageDiff,
    LayerChange,
    PathChange,
    Reason,
    ValueChange,
)
from builder.core.labels import BUILD_ID
from builder.core.layer_entry import Entry, by_path
from builder.core.manifest import Manifest
from builder.errors import RegistryError


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """One layer as manifest and config describe it."""

    number: int
    """From 1."""
    digest: str
    size: int
    diff_id: str
    """Digest of the tar; that of the blob where the config names none."""
    made_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """One platform of an image."""

    digest: str
    platform: str
    layers: tuple[LayerFacts, ...]
    values: Mapping[str, str]
    """Everything else, flat: `label NAME`, `env NAME`, `config.Entrypoint`, `annotation NAME`."""

    @classmethod
    def of(cls, manifest: Manifest, config: bytes, subject: str) -> ImageFacts:
        """Join a manifest and its config's bytes; raises RegistryError when they are none."""
        try:
            raw = json.loads(config)
            rootfs, history = raw.pop("rootfs", None) or {}, raw.pop("history", None) or []
            diff_ids = [str(one) for one in rootfs.get("diff_ids") or []]
            steps = [
                str(row.get("created_by", "")) for row in history if not row.get("empty_layer")
            ]
            platform = f"{raw['os']}/{raw['architecture']}"
            values = dict(_flat(raw)) | dict(_steps(history))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise RegistryError(
                "not an image config",
                subject=subject,
                action="check that the reference names a container image, not another artifact",
            ) from None
        for name, value in (manifest.body.annotations or {}).items():
            values[f"annotation {name}"] = value
        values["manifest type"] = manifest.media_type
        layers = tuple(
            LayerFacts(
                number=number,
                digest=row.digest,
                size=row.size,
                diff_id=diff_id or row.digest,
                made_by=made_by or "",
            )
            for number, (row, diff_id, made_by) in enumerate(
                zip_longest(manifest.body.layers, diff_ids, steps), start=1
            )
            if row is not None
        )
        return cls(digest=manifest.digest, platform=platform, layers=layers, values=values)


Pair = tuple[LayerFacts | None, LayerFacts | None]
"""A layer of the old image and the one in its place; None: there is none."""


def differing(old: ImageFacts, new: ImageFacts) -> list[Pair]:
    """Pair the layers that differ; one more in the middle makes none of the others differ."""
    pairs: list[Pair] = []
    sides = [[layer.diff_id for layer in image.layers] for image in (old, new)]
    matcher = SequenceMatcher(None, sides[0], sides[1], autojunk=False)
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        both: list[Pair] = list(
            zip_longest(old.layers[old_from:old_to], new.layers[new_from:new_to])
        )
        pairs += both if kind != "equal" else [pair for pair in both if _recompressed(pair)]
    return pairs


def to_read(pairs: Sequence[Pair]) -> list[Pair]:
    """Leave out what needs no look: the same tar, compressed in another way."""
    return [pair for pair in pairs if not _recompressed(pair)]


def compare_images(
    old: ImageFacts,
    new: ImageFacts,
    entries: Mapping[str, Sequence[Entry]] | None = None,
) -> ImageDiff:
    """Compare; `entries` holds those of the layers in `to_read` by digest, None: nobody looked."""
    return ImageDiff(
        platform=new.platform,
        old=old.digest,
        new=new.digest,
        same=old.digest == new.digest,
        build=_build(old, new),
        config=list(_values(old.values, new.values)),
        layers=[_layer(pair, entries) for pair in differing(old, new)],
        layer_count=len(new.layers),
    )


def _recompressed(pair: Pair) -> bool:
    old, new = pair
    return (
        old is not None
        and new is not None
        and old.diff_id == new.diff_id
        and old.digest != new.digest
    )


def _build(old: ImageFacts, new: ImageFacts) -> str:
    ids = {image.values.get(f"label {BUILD_ID}", "") for image in (old, new)}
    return ids.pop() if len(ids) == 1 else ""


def _layer(pair: Pair, entries: Mapping[str, Sequence[Entry]] | None) -> LayerChange:
    old, new = pair
    changes: list[PathChange] = []
    if _recompressed(pair):
        reason: Reason = "compression"
    elif entries is None:
        reason = "unread"
    else:
        changes = list(
            _paths(
                by_path(entries[old.digest]) if old else {},
                by_path(entries[new.digest]) if new else {},
            )
        )
        reason = "files" if changes else "order"
    if reason != "compression" and (old is None or new is None):
        reason = "removed" if new is None else "added"
    kinds = [change.kind for change in changes]
    return LayerChange(
        old_number=old.number if old else 0,
        new_number=new.number if new else 0,
        old=old.digest if old else "",
        new=new.digest if new else "",
        old_bytes=old.size if old else 0,
        new_bytes=new.size if new else 0,
        made_by=(new or old or _NONE).made_by,
        reason=reason,
        counts={kind: kinds.count(kind) for kind in sorted(set(kinds))},
        paths=changes[:MOST_PATHS],
    )


_NONE = LayerFacts(number=0, digest="", size=0, diff_id="", made_by="")


def _paths(old: Mapping[str, Entry], new: Mapping[str, Entry]) -> Iterator[PathChange]:
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before is None or after is None:
            yield PathChange(path=path, kind="added" if before is None else "removed", fields=[])
        elif before.fields != after.fields:
            fields = list(_values(before.fields, after.fields))
            yield PathChange(path=path, kind="changed", fields=fields)


def _values(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[ValueChange]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, ""), new.get(name, "")
        if before != after:
            yield ValueChange(name=name, old=before, new=after)


def _steps(history: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for number, row in enumerate(history, start=1):
        for key, value in row.items():
            yield f"history {number} {key}", value if isinstance(value, str) else json.dumps(value)


def _flat(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if key != "config" or not isinstance(value, dict):
            yield key, value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            continue
        for name, inner in value.items():
            if name == "Labels":
                yield from ((f"label {label}", str(text)) for label, text in (inner or {}).items())
            elif name == "Env":
                for row in inner or []:
                    variable, _, text = str(row).partition("=")
                    yield f"env {variable}", text
            else:
                yield (
                    f"config {name}",
                    inner if isinstance(inner, str) else json.dumps(inner, sort_keys=True),
                )
