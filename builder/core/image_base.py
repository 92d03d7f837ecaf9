"""A base that is an image: what a lock takes from it, and what makes it unfit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from builder.core.base_facts import BaseFacts
from builder.core.bypass import check_settings
from builder.core.companion import programs_of
from builder.core.debian import CODENAMES
from builder.core.distribution import Distribution
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.lock import DebPin
from builder.core.spec import ImageSpec
from builder.errors import SpecError

_FAMILY = re.compile(r"vllm.*|torch|torchvision|torchaudio|triton|flashinfer-.+|nvidia-.+|cuda-.+")
"""Packages that must match vLLM, wherever they lie: FlashInfer and loaders look beyond the venv."""
_SEARCH = ("PYTHONPATH", "PYTHONHOME")
"""Variables that put other packages before those of the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBase:
    """One platform of a base image, with the packages that are put on top of it."""

    digest: str
    """Of the platform's manifest."""
    facts: BaseFacts
    debs: tuple[DebPin, ...] = ()
    """Extra packages with all that the base lacks for them."""

    @property
    def glibc(self) -> str:
        """Version of glibc once the extra packages are in, as `2.41`; empty without one."""
        return self._of_deb("libc6") or self.facts.glibc

    @property
    def python(self) -> str:
        """Minor version of the `python3` that PATH finds first; empty: none, or unknown."""
        debian = self._of_deb("python3-minimal")
        folders = {**self.facts.pythons, **({"/usr/bin": debian} if debian else {})}
        if not folders:
            return ""
        # /usr/local comes before /usr in every PATH; what else a base has, it has put first.
        first = next(iter(self.facts.pythons), "/usr/bin")
        return folders[first]

    @property
    def programs(self) -> frozenset[str]:
        """Programs for run-time compilation, of the base and of the extra packages."""
        return frozenset(self.facts.programs) | programs_of(pin.name for pin in self.debs)

    def family(self, package: str) -> list[Distribution]:
        """Its Python packages that must match vLLM, which is the distribution `package`."""
        vllm = canonicalize_name(package)
        found = self.facts.distributions()
        return [one for one in found if one.name == vllm or _FAMILY.fullmatch(one.name)]

    def findings(self, spec: ImageSpec, locked: Iterable[str]) -> list[Finding]:
        """Judge its environment, and what both it and the lock (`locked` names) have.

        What must match vLLM is judged by the companion rules, with `family`.
        """
        family = {one.name for one in self.family(spec.lock.package)}
        names = set(locked) - family
        return [
            *check_settings(self.facts.variables, subject=f"{spec.base.image}: its environment"),
            *(
                finding(
                    "distribution-twice",
                    severity="warning",
                    subject=one.name,
                    evidence=f"{one.spelled}; the lock has it too",
                    cause="The base brings its own copy, which the image's environment does not "
                    "look at; programs of the base do.",
                    action="Nothing, or a base without it: it is pulled twice.",
                )
                for one in self.facts.distributions()
                if one.name in names
            ),
        ]

    def _of_deb(self, name: str) -> str:
        """Upstream `major.minor` of an extra package; empty when it is none of them."""
        versions = (pin.version for pin in self.debs if pin.name == name)
        match = re.match(r"(?:\d+:)?(\d+\.\d+)", next(versions, ""))
        return match[1] if match else ""


def refuse_foreign(spec: ImageSpec, facts: BaseFacts) -> None:
    """Refuse extra packages where Debian's archive is not the base's own; raises SpecError."""
    if not spec.base.packages:
        return
    if not facts.status:
        raise _unfit(
            spec, "base.packages", "the base has no dpkg: it takes no .debs", "leave packages out"
        )
    if facts.release != "debian" or facts.codename not in CODENAMES:
        said = " ".join(word for word in (facts.release, facts.codename) if word) or "nothing"
        raise _unfit(
            spec,
            "base.packages",
            f"its os-release says {said}, and packages come from Debian's archive alone",
            "leave packages out and bring them in the base, or take a base made from Debian",
        )


def refuse_unfit(spec: ImageSpec, platform: str, base: ImageBase) -> None:
    """Refuse a base on which the image cannot be built or run; raises SpecError."""
    facts = base.facts
    if not base.glibc:
        raise _unfit(
            spec,
            "base.image",
            f"no glibc on {platform}: wheels for Linux (manylinux) do not run there",
            "take a base with glibc, as Debian's",
        )
    if base.python != spec.image.python:
        raise _unfit(
            spec,
            "image.python",
            f"{spec.image.python} is asked for, `python3` of the base is "
            f"{base.python or 'missing or of no known version'} ({platform})",
            'add "python3" to base.packages, correct image.python, or take another base',
        )
    if facts.taken:
        raise _unfit(
            spec,
            "base.image",
            f"it holds {', '.join(facts.taken)} already, which this image fills itself",
            "take the base that image was made from",
        )
    if facts.triggers:
        raise _unfit(
            spec,
            "base.image",
            f"it has ONBUILD instructions, which no lock covers: {facts.triggers[0]}",
            "take a base without ONBUILD",
        )
    for name in _SEARCH:
        if facts.variables.get(name) and name not in spec.run.environment:
            raise _unfit(
                spec,
                "base.image",
                f"its environment sets {name}={facts.variables[name]}, which lets the base's "
                "packages in before those of the lock",
                f'set {name} = "" under [run.environment]',
            )


def _unfit(spec: ImageSpec, key: str, what: str, action: str) -> SpecError:
    return SpecError(
        f"{key}: {what}", subject=f"images/{spec.name}/image.toml, {spec.base.image}", action=action
    )
