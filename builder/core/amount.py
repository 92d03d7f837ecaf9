"""Amounts of bytes in words."""

from __future__ import annotations


def size(count: int) -> str:
    """Spell bytes for people, in powers of ten."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
