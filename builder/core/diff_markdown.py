"""A diff for a pull request: markdown as GitHub and GitLab render it, long lists folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from builder.core import diff_words as words
from builder.core import image_diff_words as image_words
from builder.core.diff_alarms import alarms
from builder.core.diff_commits import short_link
from builder.core.diff_result import CommitRange, DiffResult, PackageChange, Pull
from builder.core.image_diff_result import ImageDiff

_FOLD_ABOVE = 12
"""Rows of a table that stay in sight."""


def markdown(result: DiffResult) -> str:
    """Write a diff for a pull request."""
    title = f"### {_code(result.old.name)} → {_code(result.new.name)}"
    if words.silent(result):
        return f"{title}\n\nNo difference."
    parts = [title, _summary(result), _alarms(result)]
    parts += [_packages(name, changes, result) for name, changes in words.groups(result)]
    parts += [_titles(commits) for commits in result.commits]
    parts.append(
        _folded(
            "Layers to pull",
            _table(("Platform", "Layer", "Size", "New"), _layers(result.pulls)),
            sum(len(pull.layers) for pull in result.pulls),
        )
    )
    facts = [(words.fact_name(fact), words.fact_values(fact)) for fact in result.facts]
    parts.append(_section("Settings", _table(("", "Change"), facts), len(facts)))
    requires = [
        (
            f"{_code(row.name)} {_text(words.moved(row.old, row.new))}",
            "<br>".join(
                [f"- {_code(line)}" for line in words.requirement_lines(row.removed)]
                + [f"+ {_code(line)}" for line in words.requirement_lines(row.added)]
            ),
        )
        for row in result.requirements
    ]
    parts.append(
        _section("Requires-Dist", _table(("Package", "Change"), requires, raw=True), len(requires))
    )
    metadata = words.metadata_rows(result)
    parts.append(_section("Metadata", _table(("", "Change"), metadata), len(metadata)))
    parts += [part for image in result.images for part in _image(image)]
    return "\n\n".join(part for part in parts if part)


def _summary(result: DiffResult) -> str:
    lines = [_range(commits) for commits in result.commits]
    if result.old.lock and all(commits.project != "vllm" for commits in result.commits):
        lines.insert(0, f"**vllm** {_code(words.moved(result.old.vllm, result.new.vllm))}")
    if result.same and result.old.lock:
        lines.append("nothing differs that changes an image")
    if result.platforms_added:
        lines.append(f"platforms added: {', '.join(result.platforms_added)}")
    if result.platforms_removed:
        lines.append(f"platforms removed: {', '.join(result.platforms_removed)}")
    lines += [f"{_text(title)}: {words.counts(rows)}" for title, rows in words.groups(result)]
    for pull in result.pulls:
        lines.append(f"to pull on {pull.platform}: {words.pull_line(pull)}")
        lines += [pull.reason] if pull.reason else []
    return "\n".join(f"- {line}" for line in lines)


def _alarms(result: DiffResult) -> str:
    blocks = [
        f"> **{finding.severity}: {finding.key}**: {_text(finding.subject)}  \n"
        f"> {_text(finding.evidence)}  \n"
        f"> {_text(finding.action)}"
        for finding in alarms(result)
    ]
    return "\n>\n".join(blocks)


def _range(commits: CommitRange) -> str:
    line = f"**{commits.project}** {_code(words.moved(commits.old, commits.new))}"
    if distance := words.distance(commits):
        line += f": {distance}"
    return f"{line} ([compare]({short_link(commits)}))" if commits.compare else line


def _titles(commits: CommitRange) -> str:
    page = commits.compare.partition("/compare/")[0]
    rows = [
        f"- [{_code(commit.sha[:9])}]({page}/commit/{commit.sha}) {_text(commit.title)}"
        for commit in commits.commits[: words.MOST_COMMITS]
    ]
    if words.unlisted(commits):
        rows.append(f"- and {words.unlisted(commits)} more")
    return _folded(f"Commits of {commits.project}", "\n".join(rows), len(rows))


def _packages(title: str, changes: list[PackageChange], result: DiffResult) -> str:
    rows = [
        (
            change.kind,
            _code(change.name),
            _text(change.old),
            _text(change.new),
            "<br>".join(map(_text, words.notes(change, result))),
        )
        for change in changes
    ]
    table = _table(("", "Package", "Old", "New", ""), rows, raw=True)
    return _section(title, table, len(rows))


def _layers(pulls: Iterable[Pull]) -> list[tuple[str, ...]]:
    return [
        (pull.platform, str(layer.number), words.size(layer.bytes), words.layer_cause(layer))
        for pull in pulls
        for layer in sorted(pull.layers, key=lambda layer: -layer.bytes)
    ]


def _image(image: ImageDiff) -> Iterator[str]:
    yield f"#### {_text(image_words.title(image))}"
    rows = [
        (value.name, image_words.short(value.old), image_words.short(value.new))
        for value in image.config
    ]
    yield _section("Config", _table(("", "Old", "New"), rows), len(rows))
    for layer in image.layers:
        lines = [f"- {_text(image_words.path_line(path))}" for path in image_words.shown(layer)]
        if image_words.unshown(layer):
            lines.append(f"- and {image_words.unshown(layer)} more")
        title = _text(image_words.layer_title(layer))
        yield f"**{title}**: {image_words.summary(layer)}"
        yield _folded("Files", "\n".join(lines), len(lines))


def _section(title: str, body: str, rows: int) -> str:
    if rows == 0:
        return ""
    return f"#### {title}\n\n{body}" if rows <= _FOLD_ABOVE else _folded(title, body, rows)


def _folded(title: str, body: str, rows: int) -> str:
    if rows == 0:
        return ""
    return f"<details><summary>{title} ({rows})</summary>\n\n{body}\n\n</details>"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, raw: bool = False) -> str:
    """Lay out a table; cells are escaped unless `raw`."""
    lines = [head, tuple("---" for _ in head)]
    lines += [row if raw else tuple(map(_text, row)) for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _text(value: str) -> str:
    """Escape what markdown or HTML would take for markup."""
    escaped = _line(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # `@name` would notify a stranger, `#1` link an issue of another project.
    escaped = re.sub(r"([\\`*_\[\]|~])", r"\\\1", escaped)
    return re.sub(r"([@#])(?=\w)", r"\1<!-- -->", escaped)


def _code(value: str) -> str:
    """Quote as code; versions and requirements hold no backtick, what was typed may."""
    return "`" + _line(value).replace("`", "'").replace("|", "\\|") + "`"


def _line(value: str) -> str:
    """Keep on one line: another one would end the cell or the list."""
    return re.sub(r"\s*[\r\n]\s*", " ", value)
