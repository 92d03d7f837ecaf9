"""Verbs of images: render, build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builder.cli.app import verb
from builder.cli.options import Builder, Emulate, Image, Push, Sign

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome


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
def build(
    context: Context,
    image: Image,
    push: Push = "",
    builder: Builder = "",
    emulate: Emulate = False,
    sign: Sign = "",
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="DIR", help="Take files from there: `fetch --bundle`."),
    ] = None,
) -> Outcome[Any]:
    """Build, label, tag and push a candidate."""
    from builder.commands import build as recipe  # noqa: PLC0415

    return recipe.run(
        context,
        image,
        push=push,
        builder=builder,
        emulate=emulate,
        sign=sign,
        bundle=bundle,
    )
