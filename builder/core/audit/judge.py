"""All rules, on one tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from builder.core.audit.hygiene import check_caches, check_compat, check_layers
from builder.core.audit.identity import check_baked, check_labels, check_set, check_versions
from builder.core.audit.integrity import Damage, findings_of
from builder.core.audit.kernels import Kernels, check_kernels
from builder.core.audit.secrets import check_secrets
from builder.core.audit.tree import Tree
from builder.core.companions import check
from builder.core.distribution import Distribution, of_lock
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.lock import PlatformLock
from builder.core.overlap import judge as judge_overlaps
from builder.core.overlap import overlaps
from builder.core.spec import ImageSpec, Policy, Winner
from builder.core.target import Target

_ORDER = ("error", "warning", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What a tree is judged by."""

    target: Target
    lock: PlatformLock | None = None
    """What it was made from, where that is known."""
    spec: ImageSpec | None = None
    """The image.toml that this lock was made from, where the project has it."""

    @property
    def policies(self) -> Mapping[str, Policy]:
        """Companions that may be absent; without an image.toml nobody knows, and all may."""
        if self.spec is not None:
            return self.spec.lock.policies
        return {"flashinfer-cubin": "none", "flashinfer-jit-cache": "none"}

    @property
    def winners(self) -> Sequence[Winner]:
        """Who wins a path that several packages ship."""
        if self.spec is not None:
            return self.spec.lock.winners
        if self.lock is None:
            return ()
        return [
            Winner(package=winner, paths=list(paths), reason="the lock says so")
            for winner, losers in self.lock.wins.items()
            for paths in losers.values()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read a second time, since the first look gave a reason to."""

    lines: Mapping[str, str] = field(default_factory=dict)
    """Path of an edited file → the lines that changed."""
    published: frozenset[str] = frozenset()
    """Paths of files that are those of the locked wheel, whatever its RECORD says."""
    contents: Mapping[tuple[int, str], bytes] = field(default_factory=dict)
    """Layer and path → bytes of a file that may hold a credential."""


def judge(
    tree: Tree,
    by: Yardstick,
    rows: Sequence[Kernels],
    damages: Sequence[Damage],
    seen: Seen,
) -> list[Finding]:
    """Judge a tree by every rule; errors first, then by key and subject."""
    found = [
        *_check_packages(tree, by),
        *check_kernels(rows, by.target.gpus),
        *findings_of(tree, damages, seen.lines, seen.published),
        *_check_owners(tree, by.winners),
        *check_versions(tree),
        *check_labels(tree),
        *check_baked(tree, rows),
        *check_compat(tree),
        *check_caches(tree),
        *check_secrets(tree, seen.contents),
        *_unreadable(tree),
    ]
    if by.lock is not None:
        found += check_set(tree, by.lock)
    if tree.image is not None:
        found += check_layers(tree.image)
    return sorted(
        dict.fromkeys(found),
        key=lambda one: (_ORDER.index(one.severity), one.key, one.subject, one.evidence),
    )


def _check_packages(tree: Tree, by: Yardstick) -> list[Finding]:
    """Judge the set of packages as a lock's is; what the lock itself has was decided there."""
    there = [one.distribution for one in tree.imported]
    found = _check(there, by)
    if by.spec is None and by.lock is not None:
        known = {(one.key, one.subject) for one in _check(of_lock(by.lock), by)}
        conflicts = ("dependency-conflict", "companion-missing", "jit-needs-nvcc")
        found = [
            one for one in found if one.key not in conflicts or (one.key, one.subject) not in known
        ]
    return found


def _check(distributions: Iterable[Distribution], by: Yardstick) -> list[Finding]:
    spec = by.spec
    if spec is None:
        return check(distributions, by.target, by.policies)
    # The image itself: what it requires, and which extras it asks for.
    image = Distribution(
        name=f"image-{spec.name}", version="0", requires_dist=tuple(spec.lock.requirements)
    )
    return check(
        [image, *distributions],
        by.target,
        by.policies,
        sources=spec.lock.sources,
        overrides=spec.lock.overrides,
    )


def _check_owners(tree: Tree, winners: Sequence[Winner]) -> list[Finding]:
    contents = {one.name: one.contents for one in tree.packages if one.rows}
    installed = tree.kind == "image"
    # Installing takes a loser's paths from its RECORD, so in an image nothing is left to decide.
    return list(judge_overlaps(overlaps(contents), () if installed else winners).findings)


def _unreadable(tree: Tree) -> list[Finding]:
    return [
        finding(
            "object-unreadable",
            subject=path,
            evidence=facts.unread,
        )
        for path, facts in sorted(tree.files.items())
        if facts.unread
    ]
