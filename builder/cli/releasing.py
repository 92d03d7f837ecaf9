"""Verbs that release: quickstart, promote, release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from builder.cli.app import verb
from builder.cli.options import Builder, Image, Push, Ref

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome


@verb("quickstart", long=True)
def quickstart(context: Context) -> Outcome[Any]:
    """Do the main job end to end on the cpu image, into a local registry, and report."""
    from builder.commands import quickstart as recipe  # noqa: PLC0415

    return recipe.run(context)


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
    """Do the whole chain for one image: fetch, build, audit, smoke, promote."""
    from builder.commands import release as recipe  # noqa: PLC0415

    return recipe.run(context, image, push=push, builder=builder)
