"""The command line: every verb with its options; each calls one recipe.

Everything heavy is imported inside the verb that needs it, so that `--help` stays instant.
"""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from builder import invoke
from builder.errors import BadInput, Interrupted, NightlockError
from builder.output import Output, close_streams

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
verb = functools.partial(invoke.verb, parent=app)
engine_verb = functools.partial(invoke.verb, parent=engine_app, prefix="engine-")

# Typer keeps its own copy of click and exports one leaf of its exceptions; this is their base.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]


# Arguments and options that several verbs share.
Image = Annotated[str, typer.Argument(metavar="IMAGE", help="Name of a folder under images/.")]
Builder = Annotated[str, typer.Option("--builder", metavar="NAME", help="A buildx builder.")]
Ref = Annotated[str, typer.Argument(metavar="REF", help="An image reference.")]
Profile = Annotated[str, typer.Option("--profile", metavar="NAME", help="In images/profiles/.")]
Of = Annotated[str, typer.Option("--image", metavar="NAME", help="Whose profile to take.")]
To = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Copy the report there.")]
Xml = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also as JUnit XML.")]
Push = Annotated[str, typer.Option("--push", metavar="REPO", help="Repository to push to.")]


@verb("quickstart", long=True)
def quickstart(context: Context) -> Outcome[Any]:
    """Do the main job end to end on the cpu image, into a local registry, and report."""
    from builder.commands import quickstart as recipe  # noqa: PLC0415

    return recipe.run(context)


@verb("lock", long=True)
def lock(
    context: Context,
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGE|SET...", help="Names of images/ or sets.toml.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the lock is stale.")
    ] = False,
    channel: Annotated[
        Literal["nightly", "release"] | None,
        typer.Option("--channel", help="Take vLLM from there instead of image.toml's."),
    ] = None,
    commit: Annotated[
        str, typer.Option("--commit", metavar="SHA", help="This vLLM nightly, 7 to 40 digits.")
    ] = "",
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
    import_from: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Prefer the pins of a requirements.txt."),
    ] = None,
    cross_check: Annotated[
        Literal["pip-tools", "pip-lock"] | None,
        typer.Option(
            "--cross-check",
            metavar="[=pip-tools|pip-lock]",
            help="Ask a second resolver, in the image's base; bare: pip-tools.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write there, not to lock/IMAGE.")
    ] = None,
) -> Outcome[Any]:
    """Choose vLLM, resolve, hash everything, plan layers, write lock/IMAGE/."""
    from builder.commands import lock as recipe  # noqa: PLC0415

    return recipe.run(
        context,
        *images,
        check=check,
        channel=channel or "",
        commit=commit,
        indexes=tuple(index or ()),
        platforms=tuple(platform or ()),
        upgrade=upgrade,
        upgrade_packages=tuple(upgrade_package or ()),
        import_from=import_from,
        cross_check=cross_check,
        out=out,
    )


@verb("fetch", long=True)
def fetch(context: Context, image: Image) -> Outcome[Any]:
    """Fill the store with every file a lock names, verified."""
    from builder.commands import fetch as recipe  # noqa: PLC0415

    return recipe.run(context, image)


@verb("export")
def export(
    context: Context,
    image: Image,
    style: Annotated[
        Literal["requirements", "pylock"], typer.Option("--format", help="What to write.")
    ] = "requirements",
    urls: Annotated[
        bool, typer.Option("--urls", help="Name each file's address; a pylock always does.")
    ] = False,
    platform: Annotated[
        str, typer.Option("--platform", metavar="OS/ARCH", help="Which, of several.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write there, not to stdout.")
    ] = None,
) -> Outcome[Any]:
    """Write one platform of a lock for pip, uv and others: requirements or PEP 751 pylock."""
    from builder.commands import export as recipe  # noqa: PLC0415

    return recipe.run(context, image, style=style, urls=urls, platform=platform, out=out)


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
    ref: Ref,
    profile: Profile = "",
    image: Of = "",
    out: To = None,
    junit: Xml = None,
) -> Outcome[Any]:
    """Boot an image under testcontainers, ask it real questions, write a receipt."""
    from builder.commands import smoke as recipe  # noqa: PLC0415

    return recipe.run(context, ref, profile=profile, image=image, out=out, junit_file=junit)


@verb("promote")
def promote(
    context: Context,
    ref: Ref,
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


@verb("diff", needs_project=False)
def diff(
    context: Context,
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="A lock folder, REV:lock/IMAGE, or an image.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The same.")],
    style: Annotated[
        Literal["text", "markdown", "html"], typer.Option("--format", help="How to print it.")
    ] = "text",
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 1 when they differ.")
    ] = False,
    image: Annotated[
        str, typer.Option("--image", metavar="NAME", help="Which lock of a bare revision.")
    ] = "",
) -> Outcome[Any]:
    """Say what changed between two locks: packages, commits, alarms, bytes to pull."""
    from builder.commands import diff as recipe  # noqa: PLC0415

    return recipe.run(context, old, new, format=style, exit_code=exit_code, image=image)


@verb("explain", needs_project=False)
def explain(
    context: Context,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="A finding's key, or a case as C35.")
    ] = "",
) -> Outcome[Any]:
    """Explain one finding: what it means, why it happens, what to do."""
    from builder.commands import explain as recipe  # noqa: PLC0415

    return recipe.run(context, key)


@engine_verb("start", needs_project=False)
def engine_start(context: Context) -> Outcome[Any]:
    """Use the engine that answers, or unpack and start a private one with a registry."""
    from builder.commands import engine as recipe  # noqa: PLC0415

    return recipe.start(context)


@engine_verb("stop", needs_project=False)
def engine_stop(
    context: Context,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete its images.")] = False,
) -> Outcome[Any]:
    """Stop the private engine and give the network back as it was found."""
    from builder.commands import engine as recipe  # noqa: PLC0415

    return recipe.stop(context, purge=purge)


@engine_verb("status", needs_project=False)
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
    arguments = _with_values(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        parsed = typer.main.get_command(app).main(
            arguments, prog_name="nightlock", standalone_mode=False
        )
        status = parsed() if callable(parsed) else int(parsed or 0)
    except _ClickError as error:
        status = _usage(arguments, error)
    except (KeyboardInterrupt, typer.Abort):
        status = _report(arguments, Interrupted("interrupted", action="run it again"))
    except OSError as error:
        status = _refused_by_the_system(arguments, error)
    except Exception as error:  # noqa: BLE001 - the one place where bugs are reported
        status = _bug(arguments, error)
    close_streams()
    sys.exit(status)


def _with_values(arguments: Sequence[str]) -> list[str]:
    """Complete options whose value may be left out: Typer has no such thing.

    As everywhere, such a value is given with `=`; what follows after a space is an argument.
    """
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    return [
        "--cross-check=pip-tools" if text == "--cross-check" and number < end else text
        for number, text in enumerate(arguments)
    ]


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _usage(arguments: list[str], error: Exception) -> int:
    shown = getattr(error, "format_message", lambda: str(error))()
    command = getattr(getattr(error, "ctx", None), "command_path", "nightlock")
    if type(error).__name__ == "NoArgsIsHelpError":
        Output().result(shown)
        return BadInput.exit_code
    return _report(arguments, BadInput(shown, action=f"`{command} --help` lists what there is"))


def _refused_by_the_system(arguments: list[str], error: OSError) -> int:
    """Leave with 4 when a stream cannot be written (`>/dev/full`): it is the outside."""
    known = invoke.of_os_error(error, [])
    if known is None:
        return _bug(arguments, error)
    with suppress(OSError):
        return invoke.fail(Output(), "nightlock", known)
    return known.exit_code


def _bug(arguments: list[str], error: Exception) -> int:
    import traceback  # noqa: PLC0415

    Output().note("".join(traceback.format_exception(error)).rstrip())
    bug = NightlockError(
        f"a bug in nightlock: {type(error).__name__}: {error}",
        subject="nightlock " + " ".join(arguments),
        action="report it with the traceback above",
    )
    bug.kind = "bug"
    return _report(arguments, bug)


def _report(arguments: list[str], error: NightlockError) -> int:
    """Say what went wrong outside of any recipe; the document is of the verb that was typed."""
    words = [word for word in arguments if not word.startswith("-")]
    typed = "-".join(words[: 2 if words[:1] == ["engine"] else 1])
    known = {command.name or "" for command in app.registered_commands}
    known |= {f"engine-{command.name}" for command in engine_app.registered_commands}
    name = typed if typed in known else "nightlock"
    return invoke.fail(Output(json="--json" in arguments), name, error)
