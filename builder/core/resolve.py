"""What the resolver is given and what it answers: a small pyproject in, a pylock (PEP 751) out."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import tomli_w
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from builder.core.lock import WheelPin
from builder.core.simple import Candidate, file_of
from builder.core.wheel_target import WheelTarget
from builder.errors import NightlockError, Refused

OUTPUT = "pylock.lock.toml"
"""Name of the resolver's output; a second dot is not allowed in it (PEP 751)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One resolution, as files: nothing else may influence it."""

    target: WheelTarget
    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    pages: Mapping[str, str]
    """Package → URL of the one index it may come from; nothing else comes from there."""
    preferences: tuple[WheelPin, ...] = ()
    """Versions to keep where nothing speaks against it."""

    def files(self) -> dict[str, str]:
        """Write the files of the resolver's working folder."""
        return {
            "pyproject.toml": self._project(),
            "constraints.txt": _lines(self.constraints),
            "overrides.txt": _lines(self.overrides),
            OUTPUT: self._previous(),
        }

    def _project(self) -> str:
        pages = dict(sorted(self.pages.items()))
        return tomli_w.dumps(
            {
                "project": {
                    "name": "nightlock-image",
                    "version": "0",
                    "requires-python": f"=={self.target.python}.*",
                    "dependencies": list(self.requirements),
                },
                "tool": {
                    "uv": {
                        "package": False,
                        "sources": {name: {"index": f"of-{name}"} for name in pages},
                        # `explicit`: only what `sources` binds may come from it.
                        "index": [
                            {"name": f"of-{name}", "url": url, "explicit": True}
                            for name, url in pages.items()
                        ],
                    }
                },
            }
        )

    def _previous(self) -> str:
        """Write an earlier output, from which uv takes versions as preferences."""
        packages = [{"name": pin.name, "version": pin.version} for pin in sorted(self.preferences)]
        return tomli_w.dumps(
            {"lock-version": "1.0", "created-by": "nightlock", "packages": packages}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """One package of the answer, with every wheel of it that fits the platform."""

    name: str
    version: str
    wheels: tuple[Candidate, ...]


def parse_pylock(text: str, place: str) -> list[Resolved]:
    """Read the resolver's answer; `place` is the general index, for messages.

    Raises Refused when a package has anything but wheels.
    """
    resolved = []
    for package in tomllib.loads(text).get("packages", []):
        wheels = [
            Candidate(
                file=wheel.get("name") or file_of(wheel["url"]),
                url=wheel["url"],
                place=place,
                sha256=wheel["hashes"]["sha256"],
                size=wheel.get("size"),
            )
            for wheel in package.get("wheels", [])
        ]
        if not wheels:
            raise Refused(
                f"{package['name']} has no wheel for the target",
                subject=package["name"],
                action="only wheels are locked: another version, or another index for it",
            )
        resolved.append(
            Resolved(
                name=canonicalize_name(package["name"]),
                version=package["version"],
                wheels=tuple(wheels),
            )
        )
    return resolved


def unnamed(requirements: Iterable[str], bound: Iterable[str]) -> set[str]:
    """Find the bound packages that no requirement names.

    uv's sources hold for direct requirements only, so these have to be named as well.
    """
    named = {canonicalize_name(Requirement(text).name) for text in requirements}
    return {name for name in bound if name not in named}


def placeholder(candidate: Candidate) -> str:
    """Stand-in for the sha256 of a file that no index gives.

    uv copies fragments into its answer unverified, and would fetch the whole file twice for one
    that is missing; the real one is computed by us for the one file that is chosen.
    """
    return hashlib.sha256(f"no sha256 given: {candidate.file}".encode()).hexdigest()


_UNREACHABLE = re.compile(r"Failed to fetch: `?(?P<url>[a-z]+://[^\s`]+)")


def explain(tail: str, index: str, where: str) -> NightlockError | None:
    """Turn uv's last words into an error in ours; None when they are about something else."""
    if _UNREACHABLE.search(tail) or "Could not connect" in tail:
        return None
    text = " ".join(line.strip() for line in tail.splitlines())
    text = re.sub(r"\bcause: ", "", text.replace("error: ", ""))
    match = re.search(r"(Because .*?)(?:\s*hint: (.*))?$", text)
    if match is None:
        return None
    said = match[1].replace("nightlock-image", "the image")
    said = said.replace("was not found in the package registry", f"was not found on {index}")
    said = re.sub(r",? we can conclude that your requirements are unsatisfiable", "", said)
    hint = match[2] or ""
    if "no usable wheels" in said or "has no wheels" in said or "platform" in said:
        what = "no wheel fits the target"
    else:
        what = "the requirements cannot be met"
    return Refused(
        f"{what}: {said.strip()} {hint}".strip(),
        subject=where,
        action="change `lock.requirements`, `lock.constraints` or `lock.overrides` of image.toml",
    )


def unreachable_url(tail: str) -> str:
    """URL that uv could not fetch, without credentials; empty when that was not the trouble."""
    match = _UNREACHABLE.search(tail)
    return re.sub(r"//[^/@]*@", "//", match["url"]) if match else ""


def _lines(rows: Iterable[str]) -> str:
    return "".join(row + "\n" for row in rows)
