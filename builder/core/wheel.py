"""What a wheel says of itself: METADATA, vLLM's commit, and the newest date inside."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from packaging.metadata import RawMetadata, parse_email

from builder.core.contents import Contents
from builder.core.distribution import parse_version

VERSION_FILE = "vllm/_version.py"
"""Where vLLM's build writes its commit (setuptools-scm)."""
TORCH = ("torch", "torchaudio", "torchvision")
"""Packages whose `version.py` says which CUDA they were built with; others have no such file."""
_CUDA = re.compile(r"^cuda(?:\s*:[^=\n]*)?\s*=\s*['\"](?P<cuda>\d+\.\d+)", re.MULTILINE)
_VERSION = re.compile(
    r"^__version__\s*=\s*['\"][^'\"\n]*\+(?:cu(?P<major>\d\d)(?P<minor>\d)|(?P<cpu>cpu))",
    re.MULTILINE,
)
_COMMIT = re.compile(r"^__commit_id__ = commit_id = ['\"]g?([0-9a-f]{7,40})['\"]", re.MULTILINE)
_LONGEST_LICENCE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFacts:
    """What is read from a wheel without having the whole of it."""

    metadata: str
    """Text of METADATA."""
    size: int
    """Bytes of the wheel."""
    newest: int
    """Newest date in its central directory, seconds since 1970; zip dates count as UTC."""
    version_file: str = ""
    """Text of `vllm/_version.py`, where there is one."""
    contents: Contents = ()
    """What it installs where; never empty once its central directory was read."""
    cuda: str | None = None
    """What the `version.py` of a torch package says: `13.0`, or `cpu`; None: it has none."""
    libraries: tuple[str, ...] | None = None
    """CUDA libraries that vLLM's smallest CUDA extension needs (ELF NEEDED); None: not read."""

    @property
    def requires_dist(self) -> list[str]:
        """Requirements, as METADATA spells and orders them."""
        return list(self._raw.get("requires_dist", []))

    @property
    def version(self) -> str:
        """Version that METADATA says; empty where it says none."""
        return self._raw.get("version", "")

    @property
    def requires_python(self) -> str:
        """Pythons it runs on."""
        return self._raw.get("requires_python", "")

    @property
    def licence(self) -> str:
        """The licence: its SPDX expression, else the first line of its text, else a classifier."""
        raw = self._raw
        if expression := raw.get("license_expression"):
            return expression
        lines = [line.strip() for line in raw.get("license", "").splitlines() if line.strip()]
        if lines:
            return lines[0][:_LONGEST_LICENCE]
        kinds = [c for c in raw.get("classifiers", []) if c.startswith("License :: ")]
        return "; ".join(kind.rpartition(" :: ")[2] for kind in kinds)

    @property
    def commit(self) -> str:
        """Commit of vLLM as the wheel has it (an abbreviation), or empty."""
        return commit_in(self.version_file)

    @property
    def _raw(self) -> RawMetadata:
        return parse_email(self.metadata)[0]


def commit_in(version_file: str) -> str:
    """Return the commit (an abbreviation) that the text of `vllm/_version.py` names, or empty."""
    match = _COMMIT.search(version_file)
    return match[1] if match else ""


def cuda_in(package: str, read: Callable[[str], str]) -> str | None:
    """Return the CUDA (`13.0`, or `cpu`) a torch package was built with, by its `version.py`.

    `read` gives the text of a file of the wheel. None: the package is another one, or does not say.
    """
    text = read(f"{package}/version.py") if package in TORCH else ""
    if match := _CUDA.search(text):
        return match["cuda"]
    match = _VERSION.search(text)
    if match is None:
        return None
    return match["cpu"] or f"{match['major']}.{match['minor']}"


def seconds(moment: tuple[int, int, int, int, int, int]) -> int:
    """Turn a zip entry's date and time into seconds since 1970."""
    return calendar.timegm((*moment, 0, 0, 0))


def meta_row(
    facts: WheelFacts,
    hash_from: str,
    wins: Mapping[str, Sequence[str]] | None = None,
    *,
    version: str,
) -> Mapping[str, object]:
    """Lay out one package's row of `meta.json`; `wins`: loser → paths it wins over that package.

    `version` is the file name's; where METADATA says another one, that is what gets installed and
    stands in the row (C14).
    """
    won = {"wins": {loser: list(paths) for loser, paths in wins.items()}} if wins else {}
    inside = facts.version
    differs = inside and parse_version(inside) != parse_version(version)
    return {
        **won,
        **({"metadata_version": inside} if differs else {}),
        "hash_from": hash_from,
        "licence": facts.licence,
        "requires_dist": facts.requires_dist,
        "requires_python": facts.requires_python,
    }
