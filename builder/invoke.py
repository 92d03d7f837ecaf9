"""How a recipe becomes a verb: shared options, one call, one document, one exit code."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_type_hints

import typer

from builder.errors import Interrupted, NightlockError
from builder.output import Output

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome
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
        def call(**options: Any) -> None:  # noqa: ANN401 - whatever the verb declares
            shared = {key: options.pop(key) for key in common}
            execute(
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
    recipe: Callable[[Context], Outcome[Any]],
    *,
    needs_project: bool,
    json: bool,
    verbose: bool,
    project: Path | None,
    events: Path | None = None,
) -> NoReturn:
    """Run one recipe and leave with its exit code."""
    from builder.commands.context import Context  # noqa: PLC0415 - pydantic costs 100 ms
    from builder.core.document import document  # noqa: PLC0415
    from builder.core.places import Places  # noqa: PLC0415
    from builder.edge import project as projects  # noqa: PLC0415

    output = Output(json=json, verbose=verbose, events=events)
    try:
        places = Places.from_environment(os.environ)
        folder = Path.cwd()
        if needs_project or project is not None:
            folder = projects.find_project(folder, project)
        settings = projects.read_settings(folder, places, os.environ)
        outcome = recipe(Context(project=folder, places=places, settings=settings, output=output))
    except NightlockError as error:
        _fail(output, name, error)
    except KeyboardInterrupt:
        _fail(output, name, Interrupted("interrupted"))
    output.result(outcome.text)
    _explain(output, outcome.findings)
    output.document(document(name, result=outcome.result, ok=outcome.ok, findings=outcome.findings))
    raise typer.Exit(0 if outcome.ok else 1)


def _fail(output: Output, name: str, error: NightlockError) -> NoReturn:
    from builder.core.document import Failure, document  # noqa: PLC0415

    if output.verbose:
        import traceback  # noqa: PLC0415

        output.note("".join(traceback.format_exception(error)).rstrip())
    output.note(f"nightlock: {error}")
    _explain(output, error.findings)
    failure = Failure.of(error)
    output.document(document(name, result=None, ok=False, findings=error.findings, error=failure))
    raise typer.Exit(error.exit_code)


def _explain(output: Output, findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        output.note(f"{finding.severity}: {finding.key}: {finding.subject}: {finding.evidence}")
        output.note(f"  cause: {finding.cause}\n  do: {finding.action}")
