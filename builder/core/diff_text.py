"""A diff for a terminal: 80 columns, no colour, the decision first and the lists below."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from builder.core import diff_words as words
from builder.core import image_diff_words as image_words
from builder.core.diff_alarms import alarms
from builder.core.diff_commits import short_link
from builder.core.diff_result import (
    CommitRange,
    DiffResult,
    PackageChange,
    Pull,
    RequirementChange,
)
from builder.core.image_diff_result import ImageDiff

WIDTH = 80
_MOST_LAYERS = 5


def text(result: DiffResult) -> str:
    """Write a diff for a terminal."""
    if words.silent(result):
        return "\n".join([*_wrapped(words.headline(result), ""), "no difference"])
    facts = [f"{words.fact_name(fact)}: {words.fact_values(fact)}" for fact in result.facts]
    metadata = [f"{subject}: {change}" for subject, change in words.metadata_rows(result)]
    sections = (
        _head(result),
        [
            line
            for alarm in alarms(result)
            for line in _wrapped(f"! {alarm.key}: {alarm.subject}", "")
        ],
        _titled("Pull", (line for pull in result.pulls for line in _pull(pull))),
        *(
            _titled(f"{title}: {words.counts(changes)}", _packages(changes, result))
            for title, changes in words.groups(result)
        ),
        *(_titled(f"Commits of {row.project}", _titles(row)) for row in result.commits),
        _titled("Settings", facts),
        _titled("Requires-Dist", (line for row in result.requirements for line in _requires(row))),
        _titled("Metadata", metadata),
        *(section for image in result.images for section in _image(image)),
    )
    return "\n\n".join("\n".join(section) for section in sections if section)


def _head(result: DiffResult) -> list[str]:
    lines = _wrapped(words.headline(result), "")
    if result.old.lock and all(commits.project != "vllm" for commits in result.commits):
        lines += _wrapped(f"vllm {words.moved(result.old.vllm, result.new.vllm)}", "")
    lines += [
        part
        for commits in result.commits
        for line in _range(commits)
        for part in _wrapped(line, "")
    ]
    if result.platforms_added:
        lines.append(f"platforms added: {', '.join(result.platforms_added)}")
    if result.platforms_removed:
        lines.append(f"platforms removed: {', '.join(result.platforms_removed)}")
    if result.same and result.old.lock:
        lines.append("nothing differs that changes an image")
    return lines


def _pull(pull: Pull) -> Iterator[str]:
    yield f"{pull.platform}: {words.pull_line(pull)}"
    if pull.reason:
        yield f"  {pull.reason}"
    largest = sorted(pull.layers, key=lambda layer: -layer.bytes)
    for layer in largest[:_MOST_LAYERS]:
        yield f"  layer {layer.number}, {words.size(layer.bytes)}: {words.layer_cause(layer)}"
    if len(largest) > _MOST_LAYERS:
        rest = sum(layer.bytes for layer in largest[_MOST_LAYERS:])
        yield f"  and {len(largest) - _MOST_LAYERS} smaller ones, {words.size(rest)}"


def _range(commits: CommitRange) -> Iterator[str]:
    distance = words.distance(commits)
    yield f"{commits.project} {words.moved(commits.old, commits.new)}" + (
        f": {distance}" if distance else ""
    )
    if commits.compare:
        yield f"  {short_link(commits)}"


def _titles(commits: CommitRange) -> Iterator[str]:
    for commit in commits.commits[: words.MOST_COMMITS]:
        yield f"{commit.sha[:9]} {textwrap.shorten(commit.title, 66, placeholder='…')}"
    if words.unlisted(commits):
        yield f"and {words.unlisted(commits)} more"


def _packages(changes: list[PackageChange], result: DiffResult) -> Iterator[str]:
    width = min(30, max(len(change.name) for change in changes))
    for change in changes:
        mark = words.MARKS[change.kind]
        yield f"{mark} {change.name:<{width}}  {words.moved(change.old, change.new)}"
        yield from (f"    {note}" for note in words.notes(change, result))


def _requires(row: RequirementChange) -> Iterator[str]:
    yield f"{row.name} {words.moved(row.old, row.new)}"
    yield from (f"  - {line}" for line in words.requirement_lines(row.removed))
    yield from (f"  + {line}" for line in words.requirement_lines(row.added))


def _image(image: ImageDiff) -> Iterator[list[str]]:
    config = (image_words.value_line(value) for value in image.config)
    yield _wrapped(image_words.title(image), "")
    yield _titled("Config", config)
    for layer in image.layers:
        paths = [image_words.path_line(path) for path in image_words.shown(layer)]
        if image_words.unshown(layer):
            paths.append(f"and {image_words.unshown(layer)} more")
        title = textwrap.shorten(image_words.layer_title(layer), WIDTH, placeholder=" …")
        yield _titled(title, [image_words.summary(layer), *paths])


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    wrapped = [part for line in lines for part in _wrapped(line, "  ")]
    return [title, *wrapped] if wrapped else []


def _wrapped(line: str, indent: str) -> list[str]:
    """Break at spaces alone: links, versions and names stay whole."""
    own = indent + " " * (len(line) - len(line.lstrip()))
    # A commit's title is a stranger's text: no control character of it reaches the terminal.
    safe = "".join(letter if letter.isprintable() else "?" for letter in line.strip())
    return textwrap.wrap(
        safe,
        WIDTH,
        initial_indent=own,
        subsequent_indent=own + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
