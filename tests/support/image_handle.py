"""The image that a test session built once and shares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageHandle:
    """Where it is."""

    reference: str
    """`registry/repository:tag`, the immutable one."""
    digest: str
    """Of its manifest, in the registry."""
    registry: str
    """Host and port."""
