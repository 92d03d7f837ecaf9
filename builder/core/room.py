"""Bytes that a build takes where the engine keeps its data."""

from __future__ import annotations

_BASE_COMPRESSED = 0.35
"""Bytes of zstd layer per byte of base.tar; Debian 12 with a compiler: 0.32."""


def build_bytes(*, wheels: int, installed: int, base: int) -> int:
    """Bytes the engine needs to build, unpack and push one image.

    `wheels` are packed, with the tools; `installed` is what they hold; `base` is base.tar. The
    context is copied; stages are filled, copied into layers, and layers unpacked to be run; the
    compressed layers lie in the engine and in a registry on the same disk. `cpu`, measured: 13 GB.
    """
    context = wheels + base
    # Wheels are compressed already: as zstd layers they take about what they took.
    layers = wheels + int(base * _BASE_COMPRESSED)
    return context + 3 * installed + 2 * base + 2 * layers
