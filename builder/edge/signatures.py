"""Files of signatures: those that come with nightlock, and an operator's own."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from builder.core.signature import parse_signatures
from builder.core.signature_table import SignatureTable
from builder.edge import files
from builder.errors import SpecError

_ORDER = ("preflight", "boot", "lock", "build", "release", "manifest", "api", "marks")
"""Files of `core/signatures/`, the more specific first."""


def read_table(own: Iterable[Path] = ()) -> SignatureTable:
    """Read all signatures; an operator's files come first, in the order given.

    Raises SpecError when a file cannot be read or holds a value that is not allowed.
    """
    folder = resources.files("builder.core") / "signatures"
    texts = [(files.read_text(path, SpecError, "name a file of signatures"), path) for path in own]
    rows = [parse_signatures(text, str(path)) for text, path in texts]
    for name in _ORDER:
        file = folder / f"{name}.toml"
        rows.append(parse_signatures(file.read_text(encoding="utf-8"), str(file)))
    return SignatureTable(rows)
