"""Verbs around run files: lint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from builder.cli.app import verb

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome


@verb("lint", needs_project=False)
def lint(
    context: Context,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Files or folders; - reads standard input."),
    ],
    fix: Annotated[bool, typer.Option("--fix", help="Correct what is mechanical.")] = False,
    form: Annotated[
        Literal["systemd", "quadlet", "compose", "kubernetes", "dockerfile", "shell"] | None,
        typer.Option("--as", help="What the files are, where it cannot be told."),
    ] = None,
) -> Outcome[Any]:
    """Find what is wrong in units, quadlets, compose files, manifests, Dockerfiles, scripts."""
    from builder.commands import lint as recipe  # noqa: PLC0415

    return recipe.run(context, *files, fix=fix, form=form)
