"""Room on disks: the bytes that a build takes, and how programs say that there are none left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from builder.core.lock import digest_of

DISK_FULL = (
    r"no space left on device|disk quota exceeded|don't have enough free space"
    r"|wrote only \d+ of \d+ bytes"
)
"""What programs say in English: the C library's words, apt's, tar's; case does not matter."""

_BASE_COMPRESSED = 0.35
"""Bytes of zstd layer per byte of base.tar; Debian 12 with a compiler: 0.32."""

_UNITS = ("", "K", "M", "G", "T", "P")
_TOTAL = re.compile(r"^Total:\s*([0-9.]+)([kKMGTP]?)B\s*$", re.MULTILINE)


def build_bytes(*, context: int, wheels: int, installed: int, base: int) -> int:
    """Bytes the engine needs to build, unpack and push one image.

    `context` is the build folder; `wheels` are packed, those of stages that the engine has to
    run; `installed` is what they hold; `base` is base.tar, 0 when it is there already. The
    context is copied; stages are filled, copied into layers, and layers unpacked to be run; the
    compressed layers lie in the engine and in a registry on the same disk. `cpu`, measured: 13 GB.
    """
    # Wheels are compressed already: as zstd layers they take about what they took.
    layers = wheels + int(base * _BASE_COMPRESSED)
    return context + 3 * installed + 2 * base + 2 * layers


def stage_key(wheels: Iterable[str]) -> str:
    """Name a stage by the wheels it installs (sha256, hex), in any order."""
    return digest_of("\n".join(sorted(wheels)).encode())


def cached_stages(
    sizes: Mapping[str, int], earlier: Iterable[frozenset[str]], cached: int
) -> frozenset[str]:
    """Return the stages that the engine's cache holds from one earlier build.

    `sizes` maps the stages of this build to the bytes they fill, `earlier` are those of builds of
    this machine, `cached` is the size of the build cache. A cache that is smaller than what the
    stages hold was pruned: then none counts, and the disk has to have room for all.
    """
    best = max(
        (frozenset(sizes) & stages for stages in earlier),
        key=lambda stages: sum(sizes[stage] for stage in stages),
        default=frozenset[str](),
    )
    return best if sum(sizes[stage] for stage in best) <= cached else frozenset()


def parse_total(said: str) -> int:
    """Read the bytes of the last `Total:` line of `docker buildx du`; 0 when there is none.

    Sizes are decimal, as go-units' HumanSize writes them: `28.45GB`.
    """
    found = _TOTAL.findall(said)
    if not found:
        return 0
    number, unit = found[-1]
    return int(float(number) * 1000 ** _UNITS.index(unit.upper()))


def disk_full_line(said: str) -> str:
    """Return the first line that says that a disk is full; empty when none does.

    `said` is the output of a program that ran in an English locale, or an engine's message.
    """
    lines = (line.strip() for line in said.splitlines())
    return next((line for line in lines if re.search(DISK_FULL, line, re.IGNORECASE)), "")
