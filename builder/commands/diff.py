"""`nightlock diff OLD NEW`: what two nightlies differ in, for somebody who must decide."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from builder.commands.context import Context, Outcome
from builder.commands.lock_source import is_image, read_source
from builder.core.diff import between_images, compare
from builder.core.diff_alarms import alarms
from builder.core.diff_commits import PROJECTS, ends, with_history
from builder.core.diff_result import Commit, CommitRange, DiffResult
from builder.edge import git
from builder.errors import BadInput, LockFileError, Outside

FORMATS = ("text", "markdown", "html")


def run(
    context: Context,
    old: str,
    new: str,
    *,
    format: str = "text",  # noqa: A002 - the option's name
    exit_code: bool = False,
    image: str = "",
    files: bool = False,
) -> Outcome[DiffResult]:
    """Compare two locks; each is a folder, a git revision of a lock, or an image.

    Two images are compared by their locks and then layer by layer; their files too when the locks
    do not explain the difference, since they are equal or not there, or when `files` asks for it.
    With `exit_code` the outcome is not ok when anything differs that changes an image.

    Raises:
        BadInput: one of the two names no lock, or the format is unknown.
        LockFileError: a lock is damaged.

    """
    if format not in FORMATS:
        raise BadInput(
            f"there is no format {format!r}",
            subject="--format",
            action=f"formats: {', '.join(FORMATS)}; --json prints the data",
        )
    both = is_image(context, old) and is_image(context, new)
    try:
        result = _locks(context, old, new, image)
    except LockFileError as error:
        if not both:
            raise
        context.output.note(f"{error.subject}: {error.what}; the layers alone are compared")
        result = between_images([], names=(old, new))
    if both:
        result = _with_images(context, result, old, new, files=files)
    return Outcome(
        result=result,
        text="" if context.output.json else _write(result, format),
        ok=result.same or not exit_code,
        findings=alarms(result),
    )


def _locks(context: Context, old: str, new: str, image: str) -> DiffResult:
    before, after = (read_source(context, text, image) for text in (old, new))
    result = compare(before.lock, after.lock, names=(before.name, after.name))
    return result.model_copy(
        update={
            "old": result.old.model_copy(update={"revision": before.revision}),
            "new": result.new.model_copy(update={"revision": after.revision}),
            "commits": _with_histories(context, result.commits),
        }
    )


def _with_images(
    context: Context, result: DiffResult, old: str, new: str, *, files: bool
) -> DiffResult:
    """Add what differs between the images themselves."""
    # Imported late: locks in folders and revisions need no HTTP.
    from builder.commands.diff_images import diff_images  # noqa: PLC0415

    unexplained = result.old.lock == result.new.lock
    try:
        images = diff_images(context, old, new, read=files or unexplained)
    except (BadInput, Outside) as error:
        if not result.old.lock:
            raise
        context.output.note(f"{error.subject}: {error.what}; the locks alone are compared")
        return result
    same = result.same and all(image.same for image in images)
    return result.model_copy(update={"images": images, "same": same})


def _with_histories(context: Context, ranges: list[CommitRange]) -> list[CommitRange]:
    """Ask for all at once: where no forge answers, each costs seconds."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda commits: _with_history(context, commits), ranges))


def _with_history(context: Context, commits: CommitRange) -> CommitRange:
    """Add titles from the clone or forge of the project; without them when it cannot be asked."""
    place = context.settings.forges.get(commits.project, PROJECTS[commits.project].api)
    first, last = ends(commits)
    if not first or place == "none":
        return commits
    try:
        count, titles = _history(Path(place).expanduser(), place, first, last)
    except Outside as error:
        context.output.detail(str(error))
        return commits
    return with_history(commits, count, titles)


def _history(folder: Path, place: str, first: str, last: str) -> tuple[int, list[Commit]]:
    if folder.is_dir():
        titles = git.commits_between(folder, first, last)
        return len(titles), titles
    # Imported late: a diff without titles must not pay for HTTP.
    from builder.edge.forge import compare as ask  # noqa: PLC0415
    from builder.edge.userconfig import read_user_config  # noqa: PLC0415

    return ask(place, first, last, read_user_config(os.environ))


def _write(result: DiffResult, form: str) -> str:
    # Imported late: each run writes one format, and jinja2 costs 40 ms.
    if form == "html":
        from builder.core.diff_html import html  # noqa: PLC0415
        from builder.edge.templates import read_template  # noqa: PLC0415

        return html(result, read_template("diff.html.j2"))
    if form == "markdown":
        from builder.core.diff_markdown import markdown  # noqa: PLC0415

        return markdown(result)
    from builder.core.diff_text import text  # noqa: PLC0415

    return text(result)
