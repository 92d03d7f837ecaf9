"""The words of a diff that its text, markdown and HTML share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from builder.core import amount
from builder.core.diff_alarms import reason
from builder.core.diff_result import (
    CommitRange,
    DiffResult,
    Fact,
    FileRef,
    Kind,
    LayerPull,
    PackageChange,
    Pull,
)

MARKS: dict[Kind, str] = {
    "added": "+",
    "removed": "-",
    "upgraded": "↑",
    "downgraded": "↓",
    "re-hashed": "!",
    "moved": "~",
}
KINDS: tuple[Kind, ...] = ("re-hashed", "removed", "downgraded", "added", "upgraded", "moved")
"""In the order of what matters most to somebody who decides."""
size = amount.size
MOST_COMMITS = 40
"""Titles shown; the JSON document has all that were given."""


def headline(result: DiffResult) -> str:
    """Name the two sides."""
    return f"{result.old.name} → {result.new.name}"


def moved(old: str, new: str) -> str:
    """Spell two versions, or the one that there is."""
    return f"{old} → {new}" if old and new and old != new else new or old


def silent(result: DiffResult) -> bool:
    """Whether there is nothing at all to say."""
    images = any(not image.same for image in result.images)
    return result.same and not result.facts and not result.metadata and not images


def groups(result: DiffResult) -> list[tuple[str, list[PackageChange]]]:
    """Group the package changes as they are shown, companions first; empty groups are left out."""
    found = [
        ("Companions", [change for change in result.packages if change.companion]),
        ("Packages", [change for change in result.packages if not change.companion]),
        ("Debian packages", result.debs),
        ("Build tools", result.tools),
    ]
    return [(title, by_weight(changes)) for title, changes in found if changes]


def by_weight(changes: Iterable[PackageChange]) -> list[PackageChange]:
    """Put what matters most first."""
    return sorted(changes, key=lambda change: KINDS.index(change.kind))


def counts(changes: Iterable[PackageChange]) -> str:
    """Count changes by kind: `2 removed, 31 upgraded`."""
    kinds = [change.kind for change in changes]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in KINDS if kind in kinds)


def distance(commits: CommitRange) -> str:
    """Say how far a project moved: `31 commits`; empty when nothing tells."""
    if commits.count is None:
        return "back to an older one" if commits.backwards else ""
    plural = "" if commits.count == 1 else "s"
    return f"{commits.count} commit{plural}{' back' if commits.backwards else ''}"


def unlisted(commits: CommitRange) -> int:
    """Count the commits whose titles are not shown, of a range that has titles."""
    if not commits.commits:
        return 0
    return max(commits.count or 0, len(commits.commits)) - len(commits.commits[:MOST_COMMITS])


def fact_name(fact: Fact) -> str:
    """Name a value of the header, with its platform."""
    return f"{fact.name} ({fact.platform})" if fact.platform else fact.name


def fact_values(fact: Fact) -> str:
    """Say how it changed."""
    note = "" if fact.counts else " (recorded only)"
    return f"{fact.old or 'none'} → {fact.new or 'none'}{note}"


def pull_line(pull: Pull) -> str:
    """Say what an operator pulls on one platform."""
    base = "the base is unchanged"
    if pull.base_changed:
        base = f"the base too ({size(pull.base)})" if pull.base else "the base image too"
    return (
        f"{size(pull.pull)} of {size(pull.total)}: "
        f"{len(pull.layers)} of {pull.layer_count} wheel layers, {base}"
    )


def layer_cause(layer: LayerPull) -> str:
    """Say which packages make a layer new."""
    names = layer.changed or layer.packages
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return shown if layer.changed else f"{shown} (other packages beside them than before)"


def notes(change: PackageChange, result: DiffResult) -> list[str]:
    """Say what the version numbers do not: platforms, files, indexes, who misses it."""
    found = []
    if change.platforms != result.platforms:
        found.append(f"only {', '.join(change.platforms)}")
    if change.pinned is False and change.kind != "removed":
        found.append("vLLM's metadata does not pin it")
    found.extend(_file_notes(change))
    if change.kind == "removed":
        found.extend(
            reason(user)
            for package in result.dropped
            if package.name == change.name and package.version == change.old
            for user in package.users
        )
    return found


def metadata_rows(result: DiffResult) -> list[tuple[str, str]]:
    """Say which other metadata changed, as subject and change; who gave a hash is only counted."""
    rows = [
        (
            f"{change.name} {change.field}".strip(),
            f"{change.old or 'none'} → {change.new or 'none'}",
        )
        for change in result.metadata
        if change.counts
    ]
    quiet = len({change.name for change in result.metadata if not change.counts})
    if quiet:
        plural = "" if quiet == 1 else "s"
        rows.append(
            ("who gave the hash", f"another source for {quiet} package{plural} (recorded only)")
        )
    return rows


def requirement_lines(lines: list[str]) -> list[str]:
    """Leave out what only extras ask for, but say how many there are."""
    plain = [line for line in lines if "extra ==" not in line]
    rest = len(lines) - len(plain)
    return [*plain, f"({rest} under extras)"] if rest else plain


def _file_notes(change: PackageChange) -> Iterator[str]:
    for file in change.files:
        if file.old is None or file.new is None:
            continue
        if change.kind == "re-hashed":
            yield (
                f"other bytes under the same name, {file.platform}: "
                f"{file.old.sha256[:12]}… → {file.new.sha256[:12]}…"
            )
        elif change.kind == "moved" and file.old.file != file.new.file:
            yield f"file {_build(file.old, change.old)} → {_build(file.new, change.new)}"
    first = change.files[0]
    if first.old and first.new and first.old.index != first.new.index:
        yield f"from {first.old.index} → {first.new.index}"


def _build(file: FileRef, version: str) -> str:
    """Cut what both file names share: distribution, version and extension."""
    return file.file.partition(f"-{version}-")[2].removesuffix(".whl") or file.file
