"""One commit of the nightly index against what is wanted: which wheel for each, what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from builder.core.distribution import Content, Distribution, of_metadata
from builder.core.finding import Finding
from builder.core.identity import check_files, check_identity, promised_glibc
from builder.core.keys import finding
from builder.core.nightly import NightlyWheel
from builder.core.pick import best, rank
from builder.core.pins import WheelPin
from builder.core.target import Target
from builder.core.wheel import WheelFacts
from builder.core.wheel_target import WheelTarget
from builder.errors import BadInput

_CUDA = re.compile(r"cu\d{3}")


@dataclass(frozen=True, kw_only=True)
class Want:
    """One wheel that a lock needs."""

    variant: str
    """Folder of the index: `cu130`, `cpu`; empty: the default build."""
    platform: str
    """As `linux/arm64`."""
    target: WheelTarget

    def __str__(self) -> str:
        return f"{self.variant or 'the default variant'} for {self.platform}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Something that was not taken, and why."""

    subject: str
    """A file, a folder of the index, or a commit."""
    key: str
    """Finding key."""
    reason: str
    """Reads on after the subject: `has no wheel of …`."""
    commit: str = ""
    quiet: bool = False
    """Nothing is wrong: a commit that was not published (yet)."""

    def __str__(self) -> str:
        return f"{self.subject} {self.reason}"

    def finding(self) -> Finding:
        """Say it as a finding: it was passed over, so a warning."""
        return finding(self.key, severity="warning", subject=self.subject, evidence=str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSet:
    """What one commit has of what is wanted; complete when nothing is missing."""

    commit: str
    public: Version | None
    """Public version of its wheels; None when it has none that could be taken."""
    wheels: Mapping[Want, NightlyWheel]
    missing: tuple[Want, ...]
    offered: tuple[str, ...] = ()
    """File names of all it has where wheels are wanted, for messages."""
    folders: tuple[str, ...] = ()
    """Folders it has, where they were read, for messages."""

    @property
    def complete(self) -> bool:
        """Whether every wanted wheel is there, all of one version."""
        return not self.missing

    @property
    def published(self) -> bool:
        """Whether the index has anything of it at all."""
        return bool(self.offered or self.folders)

    @property
    def named(self) -> str:
        """Version and commit, for messages."""
        short = self.commit[:9]
        return f"{self.public} ({short})" if self.public else short

    @property
    def lack(self) -> str:
        """What is missing, and what there is instead."""
        if not self.published:
            return "has no page in the index: not published (yet)"
        wanted = ", ".join(map(str, self.missing))
        there = ", ".join(self.offered[:8]) + (", …" if len(self.offered) > 8 else "")
        folders = f"the folders {', '.join(self.folders)}"
        return f"has no wheel of {wanted}; it has {there or folders}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for every commit of one search."""

    package: str
    wants: tuple[Want, ...]
    keep: frozenset[str] = frozenset()
    """Files the lock has, which are kept where they still fit."""
    rejected: Mapping[str, Skip] = field(default_factory=dict)
    """File → why it was found unfit once its METADATA was read."""


def gather(
    commit: str, wheels: Iterable[NightlyWheel], rules: Rules, folders: tuple[str, ...] = ()
) -> CommitSet:
    """Choose a wheel of one commit for each want, all of one public version.

    Several versions can lie in one commit's folder (a release beside its release candidate): the
    newest that is complete, or of the incomplete ones the one that lacks least.
    """
    mine = sorted(
        (one for one in wheels if one.commit == commit),
        # Of one file listed twice the link into the commit's own folder, which stays.
        key=lambda one: (f"/{commit}/" not in one.candidate.url, one.candidate.url, one.page),
    )
    fit = [one for one in mine if unfit(one, rules) is None]
    choices = [
        CommitSet(commit=commit, public=public, wheels=chosen, missing=_lacking(rules, chosen))
        for public in {one.public for one in fit}
        if (chosen := _chosen([one for one in fit if one.public == public], rules))
    ]
    offered = tuple(sorted({one.file for one in mine}))
    if not choices:
        known = max((one.public for one in mine), default=None)
        return CommitSet(
            commit=commit,
            public=known,
            wheels={},
            missing=rules.wants,
            offered=offered,
            folders=folders,
        )
    newest = max(choices, key=lambda one: (-len(one.missing), one.public or Version("0")))
    return CommitSet(
        commit=commit,
        public=newest.public,
        wheels=newest.wheels,
        missing=newest.missing,
        offered=offered,
        folders=folders,
    )


def unfit(wheel: NightlyWheel, rules: Rules) -> Skip | None:
    """Say why a wheel can be taken for nothing: it does not name its commit, or another one."""
    if wheel.file in rules.rejected:
        return rules.rejected[wheel.file]
    why = _identity(wheel, rules.package)
    if not why and wheel.candidate.yanked is not None:
        return _skip(wheel, "nightly-missing-for-platform", "was withdrawn by its publisher")
    return _skip(wheel, "commit-identity", why) if why else None


def unsuited(wheel: NightlyWheel, want: Want) -> Skip | None:
    """Say why a wheel that lies where it is wanted does not do; None for another machine's."""
    why = _other_variant(wheel, want)
    if why:
        return _skip(wheel, "nightly-missing-for-platform", why)
    machine = want.target.machine
    if not any(tag.endswith(f"_{machine}") or tag == "any" for tag in wheel.platform_tags):
        return None
    if rank(wheel.file, want.target) is not None:
        return None
    promised = promised_glibc(_distribution(wheel))
    if promised and _pair(promised) > _pair(want.target.glibc):
        return _skip(
            wheel,
            "manylinux-floor",
            f"needs glibc {promised}, the base of {want.platform} has {want.target.glibc}",
        )
    return _skip(wheel, "wheel-not-for-target", f"does not fit {want.target}")


def skips_of(wheels: Iterable[NightlyWheel], rules: Rules) -> list[Skip]:
    """List the files that were passed over, each once, sorted."""
    found: set[Skip] = set()
    for wheel in wheels:
        skip = unfit(wheel, rules)
        if skip is not None:
            found.add(skip)
            continue
        wants = [want for want in rules.wants if wheel.variant in (None, want.variant)]
        found |= {skip for want in wants if (skip := unsuited(wheel, want)) is not None}
    return sorted(found, key=lambda skip: (skip.subject, skip.key, skip.reason))


def check_wheel(wheel: NightlyWheel, want: Want, facts: WheelFacts, package: str) -> list[Finding]:
    """Compare a wheel's METADATA and `_version.py` with its file name and commit (C14, C19)."""
    target = Target(
        python=want.target.python,
        glibc=want.target.glibc,
        platform=want.platform,
        package=package,
        commit=wheel.commit,
    )
    try:
        one = of_metadata(
            facts.metadata, file=wheel.file, content=Content(commit=facts.commit or None)
        )
    except BadInput as error:
        return [
            finding(
                "filename-metadata-version-differ", subject=wheel.file, evidence=str(error.what)
            )
        ]
    return [*check_identity([one], target), *check_files([one], target)]


def check_taken(chosen: str, index: str, taken: WheelPin) -> list[Finding]:
    """Refuse a resolution that took another vLLM than the chosen file of its index (C09)."""
    if (taken.file, taken.index) == (chosen, index):
        return []
    return [
        finding(
            "stable-outranks-nightly",
            subject=taken.file,
            evidence=f"the resolver took it from {taken.index}; chosen was {chosen} of {index}",
        )
    ]


def _chosen(wheels: Sequence[NightlyWheel], rules: Rules) -> dict[Want, NightlyWheel]:
    chosen = {}
    for want in rules.wants:
        files: dict[str, NightlyWheel] = {}
        for one in wheels:
            if one.variant in (None, want.variant) and not _other_variant(one, want):
                files.setdefault(one.file, one)
        kept = next((file for file in sorted(files) if file in rules.keep), "")
        found = best((one.candidate for one in files.values()), want.target, kept)
        if found is not None:
            chosen[want] = files[found.file]
    return chosen


def _lacking(rules: Rules, chosen: Mapping[Want, NightlyWheel]) -> tuple[Want, ...]:
    return tuple(want for want in rules.wants if want not in chosen)


def _identity(wheel: NightlyWheel, package: str) -> str:
    if not wheel.commit:
        return "lies where nothing says its full commit; give it with --commit, or name a clone"
    if wheel.page_commit and wheel.page_commit != wheel.commit:
        return f"is of commit {wheel.commit}, on a page of commit {wheel.page_commit}"
    target = Target(package=package, commit=wheel.commit)
    for row in check_identity([_distribution(wheel)], target):
        return row.evidence.partition(f"{wheel.version} ")[2] or row.evidence
    if wheel.version.is_devrelease and not wheel.short:
        return "does not name the commit it was built from"
    return ""


def _other_variant(wheel: NightlyWheel, want: Want) -> str:
    """Say that a wheel is of another variant than the one wanted; empty when it may be it.

    The alias folder of the default build lists wheels without a suffix, whatever it is called
    today; other builds carry theirs. Which CUDA is inside is looked up in the libraries (C10).
    """
    label = wheel.label
    if label == want.variant or (not label and _CUDA.fullmatch(want.variant)):
        return ""
    return f"is {label or 'the default variant'}, wanted is {want}"


def _skip(wheel: NightlyWheel, key: str, reason: str) -> Skip:
    return Skip(subject=wheel.file, key=key, reason=reason, commit=wheel.commit)


def _distribution(wheel: NightlyWheel) -> Distribution:
    name = parse_wheel_filename(wheel.file)[0]
    return Distribution(name=name, version=str(wheel.version), file=wheel.file)


def _pair(glibc: str) -> tuple[int, ...]:
    return tuple(int(part) for part in glibc.split("."))
