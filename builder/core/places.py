"""Where things are kept (XDG base directories) and how sockets are named."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders nightlock writes to; made from an environment, never read from it again."""

    config: Path
    """`config.toml` lies here."""
    cache: Path
    """Holds the store; may be deleted, then everything is fetched again."""
    state: Path
    """Records, receipts, the private engine; not reproducible."""
    run: Path
    """Sockets and pid files; short, since a socket path has 107 bytes."""

    @property
    def store(self) -> Path:
        """Content-addressed files: `store/sha256/aa/aabb…`."""
        return self.cache / "store"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Places:
        """Apply the XDG rules: an empty or relative value counts as unset."""
        home = Path(environment.get("HOME") or "/root")

        def base(variable: str, default: str) -> Path:
            value = environment.get(variable, "")
            return Path(value) if value.startswith("/") else home / default

        state = base("XDG_STATE_HOME", ".local/state") / "nightlock"
        # Two state folders must not share a socket; the hash keeps the path short.
        mark = hashlib.sha256(str(state).encode()).hexdigest()[:8]
        return cls(
            config=base("XDG_CONFIG_HOME", ".config") / "nightlock",
            cache=base("XDG_CACHE_HOME", ".cache") / "nightlock",
            state=state,
            run=Path("/run") / f"nightlock-{mark}",
        )
