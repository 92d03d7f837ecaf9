"""Templates that come with nightlock itself, as package data."""

from __future__ import annotations

from importlib import resources


def read_template(name: str) -> str:
    """Read a file of `core/templates/`."""
    return (resources.files("builder.core") / "templates" / name).read_text(encoding="utf-8")
