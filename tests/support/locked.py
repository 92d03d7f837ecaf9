"""Locked wheels and platforms by hand, for rules that judge what was resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from builder.core.assembly import LockedPlatform, LockedWheel
from builder.core.wheel import WheelFacts
from tests.support.small_lock import pin


def locked_wheel(
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    index: str = "general",
    file: str = "",
) -> LockedWheel:
    """Make one up, with METADATA of its own."""
    made = pin(name, version, 1000, index)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += ["Requires-Python: >=3.9", "Provides-Extra: fast"]
    lines += [f"Requires-Dist: {text}" for text in requires]
    return LockedWheel(
        pin=replace(made, file=file) if file else made,
        facts=WheelFacts(metadata="\n".join([*lines, "", "A text.", ""]), size=1000, newest=1),
        hash_from="index",
    )


def locked_platform(
    *wheels: LockedWheel,
    requirements: Sequence[str] = (),
    constraints: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> LockedPlatform:
    """Put wheels together."""
    return LockedPlatform(
        wheels=wheels,
        requirements=tuple(requirements),
        constraints=tuple(constraints),
        overrides=tuple(overrides),
    )
