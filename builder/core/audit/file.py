"""One file of a tree: what is known of it after its bytes went by once."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from builder.core import elf
from builder.core.elf import ElfFacts, ElfScan, NotReadError
from builder.core.fatbin import RELOCATABLE, Amount, FatbinScan

LARGEST_TEXT = 16 << 20
"""Bytes of a file whose text is kept; records of the largest wheels have some megabytes."""
_KEPT = re.compile(
    r"(?:.*/)?[^/]+\.dist-info/(?:METADATA|RECORD|entry_points\.txt)"
    r"|(?:.*/)?(?:torch|torchaudio|torchvision)/version\.py"
    r"|(?:.*/)?vllm/_version\.py"
    r"|(?:.*/)?pyvenv\.cfg"
    r"|etc/ld\.so\.conf(?:\.d/[^/]+)?"
    r"|var/lib/dpkg/status"
    r"|opt/nightlock/(?:lock/[^/]+|[^/]+\.json)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What one file is."""

    size: int
    """Bytes."""
    sha256: str
    """Bare hex; of a link, of the text it points to."""
    link: str = ""
    """Where a symbolic link points."""
    code: tuple[Amount, ...] = ()
    """GPU code in it, of shared objects and programs."""
    elf: ElfFacts | None = None
    unread: str = ""
    """Why its ELF tables could not be read."""


def is_kept(path: str, size: int) -> bool:
    """Whether the rules want the text of this file; `path` is its place in the tree."""
    return size <= LARGEST_TEXT and _KEPT.fullmatch(path) is not None


def link_facts(target: str) -> FileFacts:
    """Describe a symbolic link."""
    digest = hashlib.sha256(target.encode(errors="surrogateescape")).hexdigest()
    return FileFacts(size=0, sha256=digest, link=target)


class Examiner:
    """Takes a file piece by piece, in order; then `facts` says what it is."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._size = 0
        self._elf: ElfScan | None = None
        self._code: FatbinScan | None = None

    def feed(self, data: bytes) -> None:
        """Look at the next piece; the first one has at least four bytes where the file has."""
        if not self._size and data.startswith(elf.MAGIC):
            self._elf, self._code = ElfScan(), FatbinScan()
        self._size += len(data)
        self._digest.update(data)
        if self._elf is not None and self._code is not None:
            self._elf.feed(data)
            self._code.feed(data)

    def facts(self) -> FileFacts:
        """Say what went by."""
        needs, unread = None, ""
        try:
            needs = self._elf.facts() if self._elf is not None else None
        except NotReadError as error:
            unread = str(error)
        return FileFacts(
            size=self._size,
            sha256=self._digest.hexdigest(),
            code=self._amounts(),
            elf=needs,
            unread=unread,
        )

    def _amounts(self) -> tuple[Amount, ...]:
        if self._elf is None or self._code is None:
            return ()
        return self._code.amounts(self._elf.sections(RELOCATABLE))
