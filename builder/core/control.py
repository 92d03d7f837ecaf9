"""Debian control data: the stanzas of Packages, Release and .deb files (deb822, Policy §5.1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from builder.core.lock import DebPin

Stanza = dict[str, str]
"""Field → value, continuation lines joined by newlines, in the order of the file."""


def parse_stanza(text: str) -> Stanza:
    """Read one paragraph; comment lines are noise."""
    fields: Stanza = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t"):
            if name:
                fields[name] += "\n" + line[1:].rstrip()
            continue
        name, colon, value = line.partition(":")
        if colon:
            fields[name] = value.strip()
    return fields


def parse_stanzas(text: str) -> Iterator[Stanza]:
    """Read the paragraphs of a file, which blank lines part."""
    for block in re.split(r"\n(?:[ \t]*\n)+", text):
        stanza = parse_stanza(block)
        if stanza:
            yield stanza


def parse_print_uris(text: str) -> dict[str, str]:
    """Read `apt-get --print-uris`: sha256 → URI, in its order.

    A line is `'URI' file size SHA256:hex` (apt-get(8)).
    """
    lines = (
        re.fullmatch(r"'(\S+)' \S+ \d+ SHA256:([0-9a-f]{64})", line) for line in text.split("\n")
    )
    return {match[2]: match[1] for match in lines if match}


def whole_paragraphs(pieces: Iterable[bytes]) -> Iterator[str]:
    """Join pieces of a file of paragraphs, so that no paragraph is cut between two.

    An index has 50 MB, and several times that as one text of Python's.
    """
    rest = b""
    for piece in pieces:
        whole, gap, after = piece.rpartition(b"\n\n")
        if not gap:
            rest += piece
            continue
        yield (rest + whole + gap).decode(errors="replace")
        rest = after
    if rest:
        yield rest.decode(errors="replace")


def pins_of_index(packages: str, suite: str, wanted: Collection[str]) -> Iterator[DebPin]:
    """Read the pins of the wanted sha256 values from a Packages file of `suite`."""
    # An index has 60,000 paragraphs and 50 MB: only the wanted ones are parsed.
    for match in re.finditer(r"^SHA256: ([0-9a-f]{64})$", packages, re.MULTILINE):
        if match[1] in wanted:
            start = packages.rfind("\n\n", 0, match.start()) + 1
            end = packages.find("\n\n", match.end())
            yield pin_of(parse_stanza(packages[start : end if end >= 0 else None]), suite)


def pin_of(stanza: Stanza, suite: str) -> DebPin:
    """Make the pin of one paragraph of a Packages file."""
    return DebPin(
        name=stanza["Package"],
        version=stanza["Version"],
        architecture=stanza["Architecture"],
        sha256=stanza["SHA256"],
        size=int(stanza["Size"]),
        path=stanza["Filename"].removeprefix("./"),
        suite=suite,
        # `Source: glibc (2.36-1)` where its version differs; absent where it is the package itself.
        source=stanza.get("Source", stanza["Package"]).split(" ", 1)[0],
    )


def packages_index(controls: Iterable[tuple[DebPin, str]]) -> str:
    """Write the Packages file of a flat archive: each .deb's own control data plus its pin."""
    paragraphs = []
    for pin, control in sorted(controls):
        own = control.strip("\n")
        paragraphs.append(
            f"{own}\nFilename: ./{pin.file}\nSize: {pin.size}\nSHA256: {pin.sha256}\n"
        )
    return "\n".join(paragraphs)
