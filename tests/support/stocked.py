"""A project whose store holds what its lock names: files of the right name and size, no bytes."""

from __future__ import annotations

from pathlib import Path

from builder.core.lock import DebPin, Lock, WheelPin
from builder.core.places import Places
from builder.edge.project import write_lock
from builder.edge.store import Store
from tests.support.small_lock import small_spec_text


def environment(root: Path) -> dict[str, str]:
    """Return variables that keep all places below `root`."""
    return {
        "HOME": str(root),
        "XDG_CACHE_HOME": str(root / "cache"),
        "XDG_CONFIG_HOME": str(root / "config"),
        "XDG_STATE_HOME": str(root / "state"),
    }


def places(root: Path) -> Places:
    """Return the places below `root`."""
    return Places.from_environment(environment(root))


def write_project(root: Path, lock: Lock) -> None:
    """Write images/cpu and lock/cpu."""
    image = root / "images/cpu/image.toml"
    image.parent.mkdir(parents=True)
    image.write_text(small_spec_text())
    write_lock(root, lock)


def stock(store: Store, *pins: DebPin | WheelPin) -> None:
    """Let the store have them; what came in was verified then, so only sizes are looked at."""
    for pin in pins:
        path = store.path(pin.sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(pin.size)


def stock_base_maker(root: Path) -> None:
    """Let the program that makes bases be there, so that no fetch brings it."""
    program = places(root).cache / "tools/mmdebstrap-1/usr/bin/mmdebstrap"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/false\n")
    program.chmod(0o755)
