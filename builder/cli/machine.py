"""Verbs of this machine, and of words: engine, doctor, explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from builder.cli.app import group, verb

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome

engine_verb = group(
    "engine",
    about="A private, throwaway Docker Engine and registry, where none answers.",
    short="A private, throwaway Docker Engine: start, stop, status.",
)


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


@verb("explain", needs_project=False)
def explain(
    context: Context,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="A finding's key, or a case as C35; without one all are listed."
        ),
    ] = "",
) -> Outcome[Any]:
    """Explain one finding: what it means, why it happens, what to do."""
    from builder.commands import explain as recipe  # noqa: PLC0415

    return recipe.run(context, key)
