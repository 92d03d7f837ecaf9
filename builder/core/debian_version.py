"""Order of Debian versions (Debian Policy §5.6.12, deb-version(7)), without dpkg."""

from __future__ import annotations

import re

Key = tuple[int, tuple[tuple[tuple[int, ...], int], ...], tuple[tuple[tuple[int, ...], int], ...]]
"""Epoch, upstream version, revision; compares as dpkg does."""

_END = ((0,), 0)


def version_key(version: str) -> Key:
    """Give the key that sorts versions as `dpkg --compare-versions` does."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    if not dash:
        upstream, revision = rest, ""
    return int(epoch) if epoch.isdecimal() else 0, _part(upstream), _part(revision)


def _part(text: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Cut into runs of non-digits and digits, compared in turn; the end sorts between `~` and all.

    An absent number is 0, so `1.0` and `1.` are the same version.
    """
    pairs = [
        ((*(_weight(character) for character in letters), 0), int(digits or "0"))
        for letters, digits in re.findall(r"([^0-9]*)([0-9]*)", text)
    ]
    # The first pair stays, so that all second ones begin with a non-digit or are the end.
    while len(pairs) > 1 and pairs[-1] == _END:
        pairs.pop()
    return (*pairs, _END)


def _weight(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256
