"""Room on disks: the bytes that a build takes, and how programs say that there are none left."""

from __future__ import annotations

import re

DISK_FULL = (
    r"no space left on device|disk quota exceeded|don't have enough free space"
    r"|wrote only \d+ of \d+ bytes"
)
"""What programs say in English: the C library's words, apt's, tar's; case does not matter."""

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


def disk_full_line(said: str) -> str:
    """Return the first line that says that a disk is full; empty when none does.

    `said` is the output of a program that ran in an English locale, or an engine's message.
    """
    lines = (line.strip() for line in said.splitlines())
    return next((line for line in lines if re.search(DISK_FULL, line, re.IGNORECASE)), "")
