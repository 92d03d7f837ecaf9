"""The command line: options in, one recipe called, one exit code out.

Everything heavy is imported inside the verb that needs it, so that `--help` stays instant.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_type_hints

import typer

from builder.errors import BadInput, Interrupted, NightlockError
from builder.output import Output

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome

app = typer.Typer(
    name="nightlock",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Lock, build, boot and prove vLLM nightly images before a tag moves.",
    epilog="Exit: 0 yes, 1 no, 2 bad input, 3 our bug, 4 the outside world, 130 interrupted.",
)
engine_app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="A private, throwaway Docker Engine and registry, where none answers.",
)
app.add_typer(
    engine_app, name="engine", short_help="A private, throwaway Docker Engine: start, stop, status."
)

# Typer keeps its own copy of click and exports one leaf of its exceptions; this is their base.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]

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
    name: str, *, parent: typer.Typer = app, needs_project: bool = True, long: bool = False
) -> Callable[[Recipe], Recipe]:
    """Register a recipe as a verb; adds the options every verb has.

    The decorated function is called with a Context and its own options. `long` adds `--events`.
    """
    common = {**_COMMON, **(_EVENTS if long else {})}

    def decorate(recipe: Recipe) -> Recipe:
        def call(**options: Any) -> None:  # noqa: ANN401 - whatever the verb declares
            shared = {key: options.pop(key) for key in common}
            execute(
                name if parent is app else f"engine-{name}",
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
    for finding in outcome.findings:
        output.note(f"{finding.severity}: {finding.key}: {finding.subject}: {finding.evidence}")
        output.note(f"  cause: {finding.cause}\n  do: {finding.action}")
    output.document(document(name, result=outcome.result, ok=outcome.ok, findings=outcome.findings))
    raise typer.Exit(0 if outcome.ok else 1)


def _fail(output: Output, name: str, error: NightlockError) -> NoReturn:
    from builder.core.document import Failure, document  # noqa: PLC0415

    if output.verbose:
        import traceback  # noqa: PLC0415

        output.note("".join(traceback.format_exception(error)).rstrip())
    output.note(f"nightlock: {error}")
    output.document(document(name, result=None, ok=False, error=Failure.of(error)))
    raise typer.Exit(error.exit_code)


# Arguments and options that several verbs share.
Image = Annotated[str, typer.Argument(metavar="IMAGE", help="Name of a folder under images/.")]
Builder = Annotated[str, typer.Option("--builder", metavar="NAME", help="A buildx builder.")]
Push = Annotated[str, typer.Option("--push", metavar="REPO", help="Repository to push to.")]


@verb("quickstart", long=True)
def quickstart(context: Context) -> Outcome[Any]:
    """Do the main job end to end on the cpu image, into a local registry, and report."""
    from builder.commands import quickstart as recipe  # noqa: PLC0415

    return recipe.run(context)


@verb("lock", long=True)
def lock(
    context: Context,
    image: Image,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the lock is stale.")
    ] = False,
    index: Annotated[
        list[str] | None,
        typer.Option("--index", metavar="NAME=URL-or-folder", help="Replace an index."),
    ] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option("--platform", metavar="OS/ARCH", help="Only this platform (repeatable)."),
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Let everything move, not only what must.")
    ] = False,
    upgrade_package: Annotated[
        list[str] | None,
        typer.Option("--upgrade-package", metavar="NAME", help="Let this move (repeatable)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write there, not to lock/IMAGE.")
    ] = None,
) -> Outcome[Any]:
    """Resolve an image, hash everything, plan its layers, write lock/IMAGE/."""
    from builder.commands import lock as recipe  # noqa: PLC0415

    return recipe.run(
        context,
        image,
        check=check,
        indexes=tuple(index or ()),
        platforms=tuple(platform or ()),
        upgrade=upgrade,
        upgrade_packages=tuple(upgrade_package or ()),
        out=out,
    )


@verb("fetch", long=True)
def fetch(context: Context, image: Image) -> Outcome[Any]:
    """Fill the store with every file a lock names, verified."""
    from builder.commands import fetch as recipe  # noqa: PLC0415

    return recipe.run(context, image)


@verb("render")
def render(
    context: Context,
    image: Image,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write.")],
    no_base: Annotated[
        bool, typer.Option("--no-base", help="Only what needs no store: Dockerfile, lock.")
    ] = False,
) -> Outcome[Any]:
    """Write one folder that plain `docker buildx build` builds without any network."""
    from builder.commands import render as recipe  # noqa: PLC0415

    return recipe.run(context, image, out=out, base=not no_base)


@verb("build", long=True)
def build(context: Context, image: Image, push: Push = "", builder: Builder = "") -> Outcome[Any]:
    """Build, label, tag and push a candidate."""
    from builder.commands import build as recipe  # noqa: PLC0415

    return recipe.run(context, image, push=push, builder=builder)


@verb("smoke", long=True)
def smoke(
    context: Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="An image reference.")],
    profile: Annotated[
        str, typer.Option("--profile", metavar="NAME", help="A file under images/profiles/.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write the report there.")
    ] = None,
) -> Outcome[Any]:
    """Boot an image under testcontainers, ask it real questions, write a receipt."""
    from builder.commands import smoke as recipe  # noqa: PLC0415

    return recipe.run(context, ref, profile=profile, out=out)


@verb("promote")
def promote(
    context: Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="An image reference.")],
    tags: Annotated[list[str], typer.Argument(metavar="TAG...", help="Moving tags.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would move.")] = False,
) -> Outcome[Any]:
    """Move tags to a digest that was proven."""
    from builder.commands import promote as recipe  # noqa: PLC0415

    return recipe.run(context, ref, tuple(tags), dry_run=dry_run)


@verb("release", long=True)
def release(context: Context, image: Image, push: Push = "", builder: Builder = "") -> Outcome[Any]:
    """Do the whole chain for one image: fetch, build, smoke, promote."""
    from builder.commands import release as recipe  # noqa: PLC0415

    return recipe.run(context, image, push=push, builder=builder)


@verb("start", parent=engine_app, needs_project=False)
def engine_start(context: Context) -> Outcome[Any]:
    """Use the engine that answers, or unpack and start a private one with a registry."""
    from builder.commands import engine as recipe  # noqa: PLC0415

    return recipe.start(context)


@verb("stop", parent=engine_app, needs_project=False)
def engine_stop(
    context: Context,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete its images.")] = False,
) -> Outcome[Any]:
    """Stop the private engine and give the network back as it was found."""
    from builder.commands import engine as recipe  # noqa: PLC0415

    return recipe.stop(context, purge=purge)


@verb("status", parent=engine_app, needs_project=False)
def engine_status(context: Context) -> Outcome[Any]:
    """Say which engine and registry are in use."""
    from builder.commands import engine as recipe  # noqa: PLC0415

    return recipe.status(context)


@verb("doctor", needs_project=False)
def doctor(context: Context) -> Outcome[Any]:
    """Say what this machine has and lacks, one line and one fix each."""
    from builder.commands import doctor as recipe  # noqa: PLC0415

    return recipe.run(context)


def _version(value: bool) -> None:
    if value:
        Output().result(f"nightlock {metadata.version('nightlock')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Lock, build, boot and prove vLLM nightly images before a tag moves."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        status = typer.main.get_command(app).main(
            arguments, prog_name="nightlock", standalone_mode=False
        )
    except _ClickError as error:
        status = _usage(arguments, error)
    except (KeyboardInterrupt, typer.Abort):
        status = Interrupted.exit_code
    except BrokenPipeError:
        # The reader left (`| head`); Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except Exception as error:  # noqa: BLE001 - the one place where bugs are reported
        status = _bug(arguments, error)
    sys.exit(status or 0)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _usage(arguments: list[str], error: Exception) -> int:
    shown = getattr(error, "format_message", lambda: str(error))()
    command = getattr(getattr(error, "ctx", None), "command_path", "nightlock")
    if type(error).__name__ == "NoArgsIsHelpError":
        Output().result(shown)
        return BadInput.exit_code
    _report(arguments, BadInput(shown, action=f"`{command} --help` lists what there is"))
    return BadInput.exit_code


def _bug(arguments: list[str], error: Exception) -> int:
    import traceback  # noqa: PLC0415

    Output().note("".join(traceback.format_exception(error)).rstrip())
    bug = NightlockError(
        f"a bug in nightlock: {type(error).__name__}: {error}",
        subject="nightlock " + " ".join(arguments),
        action="report it with the traceback above",
    )
    bug.kind = "bug"
    _report(arguments, bug)
    return NightlockError.exit_code


def _report(arguments: list[str], error: NightlockError) -> None:
    output = Output(json="--json" in arguments)
    output.note(f"nightlock: {error}")
    if output.json:
        from builder.core.document import Failure, document  # noqa: PLC0415

        words = [word for word in arguments if not word.startswith("-")]
        verb_name = "-".join(words[: 2 if words[:1] == ["engine"] else 1]) or "nightlock"
        output.document(document(verb_name, result=None, ok=False, error=Failure.of(error)))
