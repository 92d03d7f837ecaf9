"""How a recipe becomes a verb: shared options, one call, one document, one exit code."""

from __future__ import annotations

import errno
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from builder.errors import BadInput, DiskFull, Interrupted, NightlockError, Outside, Refused
from builder.output import Output

if TYPE_CHECKING:
    from builder.commands.context import Outcome
    from builder.core.finding import Finding

_COMMON: dict[str, tuple[Any, object]] = {
    "json": (
        Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")],
        False,
    ),
    "verbose": (
        Annotated[bool, typer.Option("--verbose", "-v", help="Say more; tracebacks on errors.")],
        False,
    ),
    "project": (
        Annotated[
            Path | None,
            typer.Option("--project", metavar="DIR", help="Folder that holds images/ and lock/."),
        ],
        None,
    ),
}
_EVENTS: dict[str, tuple[Any, object]] = {
    "events": (
        Annotated[
            Path | None,
            typer.Option("--events", metavar="FILE", help="Append progress as NDJSON lines."),
        ],
        None,
    ),
}

Recipe = Callable[..., "Outcome[Any]"]
"""Takes a Context and its own options, gives an Outcome."""

Run = Callable[[], int]
"""A parsed command line, ready to run; gives the exit code."""


def verb(
    name: str,
    *,
    parent: typer.Typer,
    prefix: str = "",
    needs_project: bool = True,
    long: bool = False,
) -> Callable[[Recipe], Recipe]:
    """Register a recipe as a verb; adds the options every verb has.

    The decorated function is called with a Context and its own options. `long` adds `--events`.
    """
    common = {**_COMMON, **(_EVENTS if long else {})}

    def decorate(recipe: Recipe) -> Recipe:
        def call(**options: Any) -> Run:  # noqa: ANN401 - whatever the verb declares
            shared = {key: options.pop(key) for key in common}
            # Not run in here: Typer has its own mind of Ctrl-C and of readers that leave.
            return functools.partial(
                execute,
                prefix + name,
                functools.partial(recipe, **options),
                needs_project=needs_project,
                **shared,
            )

        # Typer wants real types; Context and Outcome are not imported at start-up.
        names = {**recipe.__globals__, "Context": object, "Outcome": list}
        hints = get_type_hints(recipe, names, include_extras=True)
        own = [
            parameter.replace(annotation=hints[key])
            for key, parameter in list(inspect.signature(recipe).parameters.items())[1:]
        ]
        extra = [
            inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
            )
            for key, (annotation, default) in common.items()
        ]
        call.__doc__ = recipe.__doc__
        call.__signature__ = inspect.Signature([*own, *extra])  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in [*own, *extra]}
        # Given whole: Typer cuts what it takes from the docstring after 45 characters.
        summary = (recipe.__doc__ or "").splitlines()[0]
        parent.command(name, short_help=summary)(call)
        return recipe

    return decorate


def execute(
    name: str,
    recipe: functools.partial[Outcome[Any]],
    *,
    needs_project: bool,
    json: bool,
    verbose: bool,
    project: Path | None,
    events: Path | None = None,
) -> int:
    """Run one recipe, print its answer, and return the exit code."""
    output = Output(json=json, verbose=verbose, events=events)
    try:
        # Late, and inside: pydantic costs 100 ms, in which Ctrl-C must be answered too.
        from builder.commands.context import Context  # noqa: PLC0415
        from builder.core.document import document  # noqa: PLC0415
        from builder.core.places import Places  # noqa: PLC0415
        from builder.edge import project as projects  # noqa: PLC0415

        output.check_events()
        places = Places.from_environment(os.environ)
        folder = _current_folder()
        if needs_project or project is not None:
            folder = projects.find_project(folder, project)
        settings = projects.read_settings(folder, places, os.environ)
        outcome = recipe(Context(project=folder, places=places, settings=settings, output=output))
    except KeyboardInterrupt:
        again = "run it again; what was finished is kept"
        return fail(output, name, Interrupted("interrupted", action=again))
    except NightlockError as error:
        return fail(output, name, error)
    except OSError as error:
        typed = [value for value in recipe.keywords.values() if isinstance(value, Path)]
        known = of_os_error(error, typed)
        if known is None:
            raise
        return fail(output, name, known)
    output.result(outcome.text)
    if not outcome.told:
        _explain(output, outcome.findings)
    output.document(document(name, result=outcome.result, ok=outcome.ok, findings=outcome.findings))
    return 0 if outcome.ok else Refused.exit_code


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise BadInput(
            "the current folder was deleted", action="change into one that exists"
        ) from None


def of_os_error(error: OSError, typed: Sequence[Path]) -> NightlockError | None:
    """Put what the file system refused into words; None when it names no file or is odd.

    A path that was typed (or lies below one, or above) is bad input, any other is the outside.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            "the disk is full",
            subject=str(error.filename or ""),
            action="free some space, or point XDG_CACHE_HOME and XDG_STATE_HOME elsewhere",
        )
    if error.errno not in _REFUSALS or error.filename is None:
        return None
    path = Path(os.fsdecode(error.filename)).absolute()
    what = f"the file system refuses: {error.strerror}"
    for wanted in typed:
        known = wanted.absolute()
        if known == path or known in path.parents or path in known.parents:
            return BadInput(what, subject=str(path), action="name another path, or fix that one")
    return Outside(what, subject=str(path), action="make the path usable for this user")


_REFUSALS = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ELOOP,
        errno.ENAMETOOLONG,
    }
)


def fail(output: Output, name: str, error: NightlockError) -> int:
    """Say an expected error in words and as a document; return its exit code."""
    from builder.core.document import Failure, document  # noqa: PLC0415

    if output.verbose:
        import traceback  # noqa: PLC0415

        output.note("".join(traceback.format_exception(error)).rstrip())
    output.note(f"nightlock: {error}")
    _explain(output, error.findings)
    failure = Failure.of(error)
    output.document(document(name, result=None, ok=False, findings=error.findings, error=failure))
    return error.exit_code


def _explain(output: Output, findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        output.note(f"{finding.severity}: {finding.key}: {finding.subject}: {finding.evidence}")
        output.note(f"  cause: {finding.cause}\n  do: {finding.action}")
