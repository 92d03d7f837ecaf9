"""The allow-list: which package may come from which index (C16).

Best match over several indexes is never used; every package has one home, and what came from
another place is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from packaging.version import Version

from builder.core.companion import COMPANIONS, INDEX, JIT_CACHE, LEADER, PROVIDER, home_of
from builder.core.distribution import Distribution
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.spec import GENERAL


def index_of(name: str, version: Version | None, sources: Mapping[str, str]) -> str:
    """Return the name of the one index a package may come from.

    `sources` (image.toml's `[lock.sources]`; names or patterns) wins, then the companions' homes by
    era, then `general`.
    """
    if name in sources:
        return sources[name]
    for pattern, index in sources.items():
        if fnmatchcase(name, pattern):
            return index
    if version is not None:
        package = JIT_CACHE if PROVIDER.fullmatch(name) else name
        if package == LEADER and version.is_devrelease:
            return INDEX
        for row in COMPANIONS:
            if row.package == package:
                return home_of(row, version, "")[0]
    return GENERAL


def check_indexes(
    distributions: Sequence[Distribution], sources: Mapping[str, str]
) -> list[Finding]:
    """Find packages that came from another index than they may; unknown origins are not judged."""
    findings = []
    for one in distributions:
        home = index_of(one.name, one.parsed, sources)
        if one.index and one.index != home:
            findings.append(
                finding(
                    "foreign-index",
                    subject=one.file or one.name,
                    evidence=f"{one.spelled} came from {one.index}; it may come from {home} only",
                )
            )
    return findings
