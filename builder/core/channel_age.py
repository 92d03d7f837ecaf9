"""Age of a channel: a page that stands still looks like last night's, so its date is told (C66)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from builder.core.finding import Finding
from builder.core.history import History
from builder.core.keys import finding
from builder.core.nightly import ROLLING, Page, folder, is_dirty, package_folders
from builder.core.nightly_set import Skip

MAX_AGE = timedelta(days=4)
"""Age from which a channel is said to stand still."""


def dated(page: Page, history: History) -> datetime | None:
    """When a page was made, else when its commit was."""
    return page.generated or history.date(page.commit)


def stalled(
    variants: Sequence[str],
    pages: Mapping[str, Page | None],
    history: History,
    now: datetime,
    max_age: timedelta = MAX_AGE,
) -> list[tuple[Page, datetime]]:
    """Find the pages of wanted variants that are older than that, with their dates."""
    listed = (pages.get(folder(ROLLING, variant)) for variant in variants)
    known = ((page, dated(page, history)) for page in listed if page is not None)
    return [(page, when) for page, when in known if when is not None and now - when > max_age]


def siblings(pages: Mapping[str, Page | None], package: str) -> list[str]:
    """Paths of the pages of all variants, that of the default among them."""
    root = pages.get(folder(ROLLING, ""))
    if root is None:
        return []
    packages = set(package_folders(root, package))
    paths = [f"{root.path}{name}/" for name in root.folders if not is_dirty(name)]
    return [root.path, *(path for path in paths if path not in packages)]


def stall_findings(
    variants: Sequence[str],
    pages: Mapping[str, Page | None],
    history: History,
    now: datetime,
    max_age: timedelta = MAX_AGE,
) -> list[Finding]:
    """Report each wanted variant that stands still: its age, its lag, and who is newer."""
    findings = []
    for page, when in stalled(variants, pages, history, now, max_age):
        newer = [
            _sibling(other, moment, pages)
            for other in pages.values()
            if other is not None
            and _is_list(other)
            and (moment := dated(other, history)) is not None
            and moment - when > timedelta(days=1)
        ]
        text = (
            f"channel stalled {(now - when).days} d: {page.path} shows commit {page.commit or '?'} "
        )
        text += f"of {when:%Y-%m-%d}{_lag(page.commit, history)}"
        text += f"; newer: {'; '.join(sorted(newer))}" if newer else ""
        findings.append(finding("channel-stalled", subject=page.path, evidence=text))
    return findings


def closed_findings(
    variants: Sequence[str], pages: Mapping[str, Page | None], package: str
) -> list[Finding]:
    """Report each wanted variant that the channel has no page of any more, and what it has."""
    root = pages.get(folder(ROLLING, ""))
    if root is None:
        return []
    there = ", ".join(sorted(siblings(pages, package)))
    return [
        finding(
            "channel-stalled",
            subject=path,
            evidence=f"{path} is not there; the channel has {there}",
        )
        for path in (folder(ROLLING, variant) for variant in variants)
        if path in pages and pages[path] is None
    ]


def left_over(
    variants: Sequence[str], pages: Mapping[str, Page | None], history: History
) -> list[Skip]:
    """Name the wanted variant folders that show another commit than `nightly` itself does."""
    root = pages.get(folder(ROLLING, ""))
    if root is None or not root.commit:
        return []
    skips = []
    for variant in variants:
        page = pages.get(folder(ROLLING, variant))
        if page is None or page.commit in ("", root.commit):
            continue
        reason = f"shows commit {page.commit}, {root.path} itself {root.commit}"
        first, last = dated(page, history), dated(root, history)
        if first is not None and last is not None:
            age = "older" if first < last else "newer"
            reason += f"; it is {abs(last - first).days} d {age}"
        skips.append(
            Skip(
                subject=page.path,
                key="channel-stalled",
                reason=reason,
                commit=page.commit,
                # With a date it is a finding of its own as soon as it is old.
                quiet=first is not None,
            )
        )
    return skips


def _is_list(page: Page) -> bool:
    """Whether it is the list of a variant: `nightly/`, `nightly/cu130/`."""
    return page.path.startswith(f"{ROLLING}/") and bool(page.folders)


def _sibling(page: Page, when: datetime, pages: Mapping[str, Page | None]) -> str:
    alias = [
        other.path
        for other in pages.values()
        if other is not None
        and other.path != page.path
        and _is_list(other)
        and other.commit == page.commit
        and page.path == folder(ROLLING, "")
    ]
    same = f", the commit of {', '.join(sorted(alias))} too" if alias else ""
    return f"{page.path} of {when:%Y-%m-%d}{same}"


def _lag(commit: str, history: History) -> str:
    if not history.commits:
        return ""
    at = history.position(commit)
    behind = f"{at}" if at is not None else f"more than {len(history.commits)}"
    when = history.commits[0].when
    of = f" of {when:%Y-%m-%d}" if when is not None else ""
    return f", {behind} commits behind the newest{of}"
