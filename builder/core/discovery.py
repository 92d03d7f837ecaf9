"""Discovery: the newest nightly that is complete, and a reason for everything passed over.

Pure: `next_pages` says what to read next, given what was read; `conclude` decides when nothing is
left to read. Candidates are the commits of the rolling pages, of the forge's history around them,
and of the lock; complete is a commit with a fitting wheel for every wanted platform and variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from packaging.version import Version

from builder.core.channel_age import (
    MAX_AGE,
    closed_findings,
    left_over,
    siblings,
    stall_findings,
    stalled,
)
from builder.core.distribution import parse_version
from builder.core.finding import Finding
from builder.core.history import History, newest_first
from builder.core.keys import finding
from builder.core.nightly import (
    METADATA,
    ROLLING,
    NightlyWheel,
    Page,
    folder,
    is_commit,
    is_dirty,
    package_folders,
)
from builder.core.nightly_set import CommitSet, Rules, Skip, Want, gather, skips_of, unfit
from builder.errors import NightlockError, NotOffered, Refused

DEPTH = 20
"""Commits of the history that are looked up on either side of the rolling page's (upstream's own
search goes back as far: `WHEEL_SEARCH_DEPTH` in setup.py)."""
BATCH = 8
"""Pages that are asked for at once."""

Pages = Mapping[str, Page | None]
"""Path below the index's root → what is there; None: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is searched, and what is known before the first page."""

    rules: Rules
    place: str
    """The index, for messages."""
    now: datetime
    """With a time zone."""
    history: History = field(default_factory=History)
    previous: str = ""
    """Full commit the lock has; empty without one."""
    previous_version: str = ""
    """Its version: whether it is newer than the rolling page's is asked before it is read."""
    commit: str = ""
    """Full commit that was asked for; empty: the newest."""
    max_age: timedelta = MAX_AGE

    @property
    def variants(self) -> tuple[str, ...]:
        """Wanted variants, each once."""
        return tuple(dict.fromkeys(want.variant for want in self.rules.wants))


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The commit to lock, its wheels, and what was passed over."""

    commit: str
    """40 hex digits."""
    public: Version
    """Its version without commit and variant."""
    wheels: Mapping[Want, NightlyWheel]
    skipped: tuple[Skip, ...] = ()
    """Newer commits, files and folders that were not taken; newest commits first."""
    findings: tuple[Finding, ...] = ()
    """Warnings: stalled channels, and the skips that should not be."""
    dated: datetime | None = None
    """When the commit landed, else when its page was made."""

    def wheel(self, platform: str, variant: str) -> NightlyWheel:
        """Find the wheel of a platform; KeyError for one that was not wanted."""
        for want, wheel in self.wheels.items():
            if (want.platform, want.variant) == (platform, variant):
                return wheel
        raise KeyError(platform, variant)


def next_pages(query: Query, pages: Pages) -> list[str]:
    """Say which pages to read next, at most some at once; none when `conclude` can decide."""
    if not query.commit and (todo := _unread(ROLLING, query, pages)):
        return todo
    wheels = _wheels(query, pages)
    todo = []
    for commit in _ordered(query, pages, wheels):
        if gather(commit, wheels, query.rules).complete:
            break
        todo += _unread(commit, query, pages)
        if len(todo) >= BATCH:
            break
    return todo if todo or query.commit else channel_pages(query, pages)


def channel_pages(query: Query, pages: Pages) -> list[str]:
    """Say which pages to read next to know how old a channel is; none when `channel_age` can."""
    paths = [folder(ROLLING, variant) for variant in dict.fromkeys(("", *query.variants))]
    if todo := [path for path in paths if path not in pages]:
        return todo
    # Who is newer is worth asking only when something stands still.
    if stalled(query.variants, pages, query.history, query.now, query.max_age):
        return [path for path in siblings(pages, query.rules.package) if path not in pages]
    return []


def channel_age(query: Query, pages: Pages) -> tuple[Finding, ...]:
    """Report the wanted variants that stand still, were left over, or are gone (C66)."""
    old = left_over(query.variants, pages, query.history)
    return (
        *stall_findings(query.variants, pages, query.history, query.now, query.max_age),
        *(skip.finding() for skip in old if not skip.quiet),
        *closed_findings(query.variants, pages, query.rules.package),
    )


def conclude(query: Query, pages: Pages) -> Discovery:
    """Choose the newest complete commit.

    Raises:
        Refused: none is complete; its findings say what is missing.
        NotOffered: the index has nothing at all.

    """
    wheels = _wheels(query, pages)
    passed: list[CommitSet] = []
    for commit in _ordered(query, pages, wheels):
        one = gather(commit, wheels, query.rules, _folders(commit, pages))
        if one.complete and one.public is not None:
            skips = _skips(query, pages, wheels, [*passed, one])
            return Discovery(
                commit=commit,
                public=one.public,
                wheels=one.wheels,
                skipped=(*_passed_over(passed), *skips),
                findings=_findings(query, pages, [*_passed_over(passed), *skips]),
                dated=query.history.date(commit) or _generated(commit, pages),
            )
        passed.append(one)
    raise _refusal(query, pages, wheels, passed)


def known_commits(query: Query, pages: Pages) -> set[str]:
    """Collect every full commit that anything names."""
    found = {query.commit, query.previous, *(one.sha for one in query.history.commits)}
    for page in pages.values():
        if page is not None:
            found |= {page.commit, *(wheel.commit for wheel in page.wheels)}
    return {sha for sha in found if is_commit(sha)}


def _unread(base: str, query: Query, pages: Pages) -> list[str]:
    """Pages of `nightly` or of a commit that were not read yet."""
    wanted = query.variants
    # Commits that only the history names are often unpublished: one request has to do.
    guess = base in (ROLLING, query.commit, query.previous)
    todo = []
    for variant in dict.fromkeys(("", *wanted) if base == ROLLING else wanted):
        path = folder(base, variant)
        if path not in pages:
            todo.append(path)
            continue
        if variant not in wanted:
            continue
        page = pages[path]
        package = query.rules.package
        if page is not None:
            below = package_folders(page, package)
        else:
            below = [f"{path}{package}/"] if guess else []
            # What there is instead is worth telling.
            todo += [root for root in (folder(base, ""),) if guess and root not in pages]
        for inner in below:
            found = pages.get(inner)
            if inner not in pages:
                todo.append(inner)
            elif (found is None or not found.wheels) and inner + METADATA not in pages:
                todo.append(inner + METADATA)
    return list(dict.fromkeys(todo))


def _wheels(query: Query, pages: Pages) -> list[NightlyWheel]:
    """All wheels; those of a plain folder with their full commit, where one is known."""
    known = known_commits(query, pages)
    found = []
    for page in pages.values():
        for wheel in page.wheels if page is not None else ():
            fitting = [sha for sha in known if wheel.short and sha.startswith(wheel.short)]
            if not wheel.commit and len(fitting) == 1:
                found.append(replace(wheel, commit=fitting[0]))
            else:
                found.append(wheel)
    return found


def _ordered(query: Query, pages: Pages, wheels: Sequence[NightlyWheel]) -> list[str]:
    """Candidate commits, the newest first."""
    if query.commit:
        return [query.commit]
    root = pages.get(folder(ROLLING, ""))
    rolling = root.commit if root is not None else ""
    commits = {wheel.commit for wheel in wheels} | {query.previous}
    commits |= {page.commit for page in pages.values() if page is not None}
    commits |= set(query.history.around(rolling, DEPTH))
    versions: dict[str, Version] = {}
    for wheel in wheels:
        if unfit(wheel, query.rules) is None:
            versions[wheel.commit] = max(wheel.public, versions.get(wheel.commit, wheel.public))
    if before := parse_version(query.previous_version):
        versions.setdefault(query.previous, Version(before.public))
    return newest_first(filter(is_commit, commits), versions, query.history, rolling)


def _folders(commit: str, pages: Pages) -> tuple[str, ...]:
    """Folders of a commit, as its own page or the rolling one lists them."""
    for path in (folder(commit, ""), folder(ROLLING, "")):
        page = pages.get(path)
        if page is not None and page.commit in (commit, "") and page.folders:
            return tuple(sorted(page.folders))
    return ()


def _passed_over(passed: Sequence[CommitSet]) -> list[Skip]:
    return [
        Skip(
            subject=one.named,
            key="nightly-missing-for-platform",
            reason=one.lack,
            commit=one.commit,
            quiet=not one.published,
        )
        for one in passed
    ]


def _skips(
    query: Query, pages: Pages, wheels: Sequence[NightlyWheel], seen: Sequence[CommitSet]
) -> list[Skip]:
    """Files and folders that were passed over, of the commits that were looked at."""
    commits = {one.commit for one in seen} | {""}
    files = skips_of((wheel for wheel in wheels if wheel.commit in commits), query.rules)
    folders = [
        Skip(
            subject=f"{page.path}{name}/",
            key="commit-identity",
            reason="holds builds of a tree with local changes",
            commit=page.commit,
        )
        for page in pages.values()
        if page is not None and page.commit in commits
        for name in page.folders
        if is_dirty(name)
    ]
    old = [] if query.commit else left_over(query.variants, pages, query.history)
    return [*files, *sorted(folders, key=lambda skip: skip.subject), *old]


def _findings(query: Query, pages: Pages, skips: Sequence[Skip]) -> tuple[Finding, ...]:
    old: list[Finding] = []
    if not query.commit:
        old = stall_findings(query.variants, pages, query.history, query.now, query.max_age)
    return (*old, *(skip.finding() for skip in skips if not skip.quiet))


def _generated(commit: str, pages: Pages) -> datetime | None:
    dates = [
        page.generated
        for page in pages.values()
        if page is not None and page.commit == commit and page.generated is not None
    ]
    return min(dates, default=None)


def _refusal(
    query: Query, pages: Pages, wheels: Sequence[NightlyWheel], passed: Sequence[CommitSet]
) -> NightlockError:
    skips = _skips(query, pages, wheels, passed)
    found = [one for one in passed if one.published]
    action = "wait for the missing upload and lock again, or choose another one with --commit"
    error: NightlockError
    if found:
        rows = "; ".join(f"{one.named} {one.lack}" for one in found)
        which = "that commit is not complete" if query.commit else "no nightly is complete"
        because = "".join(f"; {skip}" for skip in skips if not skip.quiet)
        error = Refused(
            f"{which}: {rows}{because}; the lock stays as it is", subject=query.place, action=action
        )
    elif query.commit:
        error = Refused(
            f"the index has no wheel of commit {query.commit}: it was never published, or not yet",
            subject=query.place,
            action="choose another commit; not every one on main is built",
        )
    elif skips:
        error = Refused(
            f"no nightly can be taken: {'; '.join(map(str, skips))}",
            subject=query.place,
            action=action,
        )
    else:
        error = NotOffered(
            f"the nightly index has no wheel of {query.rules.package}",
            subject=query.place,
            action="check the address: `nightly/` should lie below it",
        )
    missing = [
        finding(
            "nightly-missing-for-platform", subject=one.named, evidence=f"{one.named} {one.lack}"
        )
        for one in found
    ]
    error.findings = (*missing, *_findings(query, pages, skips))
    return error
