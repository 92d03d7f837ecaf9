"""An image's config, as far as an audit asks (OCI image-spec, config.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from builder.core.manifest import ImageConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What an image says of itself."""

    platform: str
    labels: Mapping[str, str]
    environment: Mapping[str, str]
    history: tuple[str, ...]
    """Commands, oldest first."""


def parse_config(data: bytes, subject: str) -> Config:
    """Read a config; raises RegistryError when it is none."""
    known = ImageConfig.parse(data, subject)
    raw = json.loads(data)
    inner = raw.get("config") or {}
    pairs = (str(text).partition("=") for text in _rows(inner.get("Env")))
    return Config(
        platform=known.platform,
        labels=known.labels,
        environment={name: value for name, _, value in pairs},
        history=tuple(
            str(row.get("created_by", ""))
            for row in _rows(raw.get("history"))
            if isinstance(row, dict)
        ),
    )


def _rows(value: Any) -> list[Any]:  # noqa: ANN401 - whatever the config holds there
    return value if isinstance(value, list) else []
