"""What is installed as nightlock."""

from __future__ import annotations

from importlib import metadata


def own_version() -> str:
    """Version of the installed distribution; `unknown` when it runs from a bare source tree."""
    try:
        return metadata.version("nightlock")
    except metadata.PackageNotFoundError:
        return "unknown"
