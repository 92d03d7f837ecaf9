"""Verbs that look and prove: inspect, smoke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from builder.cli.app import verb
from builder.cli.options import Of, Profile, Ref, To, Xml

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome


@verb("inspect", needs_project=False)
def inspect(
    context: Context,
    ref: Ref,
    platform: Annotated[
        str, typer.Option("--platform", metavar="OS/ARCH", help="Which image of an index.")
    ] = "",
) -> Outcome[Any]:
    """Say what an image is, without pulling it: versions, lock, sizes, what is attached."""
    from builder.commands import inspect as recipe  # noqa: PLC0415

    return recipe.run(context, ref, platform=platform)


@verb("smoke", long=True)
def smoke(
    context: Context,
    ref: Ref,
    profile: Profile = "",
    image: Of = "",
    out: To = None,
    junit: Xml = None,
    structural_only: Annotated[
        bool,
        typer.Option("--structural-only", help="Look inside only, without a boot or a GPU."),
    ] = False,
) -> Outcome[Any]:
    """Look inside an image, boot it under testcontainers, ask it real questions, write receipts."""
    from builder.commands import smoke as recipe  # noqa: PLC0415

    return recipe.run(
        context,
        ref,
        profile=profile,
        image=image,
        out=out,
        junit_file=junit,
        structural_only=structural_only,
    )
