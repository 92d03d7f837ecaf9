"""Verbs of locks: lock, fetch, export, diff."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from builder.cli.app import verb
from builder.cli.options import Image

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome


@verb("lock", long=True)
def lock(
    context: Context,
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGE|SET...", help="Names of images/ or sets.toml.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the lock is stale.")
    ] = False,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Only rewrite a lock of the schema before.")
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
    replan: Annotated[
        bool, typer.Option("--replan", help="Plan layers anew, from the locks in git's history.")
    ] = False,
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
        migrate=migrate,
        channel=channel or "",
        commit=commit,
        indexes=tuple(index or ()),
        platforms=tuple(platform or ()),
        upgrade=upgrade,
        upgrade_packages=tuple(upgrade_package or ()),
        import_from=import_from,
        cross_check=cross_check,
        replan=replan,
        out=out,
    )


@verb("plan")
def plan(
    context: Context,
    images: Annotated[
        list[str] | None,
        typer.Argument(metavar="[IMAGE|SET]...", help="Names of images/ or sets.toml; none: all."),
    ] = None,
) -> Outcome[Any]:
    """Print the layers of each lock with their bytes; as JSON also the matrix for CI."""
    from builder.commands import plan as recipe  # noqa: PLC0415

    return recipe.run(context, *(images or ()))


@verb("fetch", long=True)
def fetch(
    context: Context,
    image: Image,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="DIR", help="Also write all that a build needs there."),
    ] = None,
) -> Outcome[Any]:
    """Fill the store with every file a lock names, verified; write an offline bundle."""
    from builder.commands import fetch as recipe  # noqa: PLC0415

    return recipe.run(context, image, bundle=bundle)


@verb("export")
def export(
    context: Context,
    image: Image,
    style: Annotated[
        Literal["requirements", "pylock", "cyclonedx"],
        typer.Option("--format", help="What to write."),
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
    """Write one platform of a lock for others: requirements, PEP 751 pylock, CycloneDX SBOM."""
    from builder.commands import export as recipe  # noqa: PLC0415

    return recipe.run(context, image, style=style, urls=urls, platform=platform, out=out)


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
    files: Annotated[
        bool, typer.Option("--files", help="Of two images, name the files too; reads layers.")
    ] = False,
) -> Outcome[Any]:
    """Say what changed between two locks or images: packages, commits, bytes to pull, files."""
    from builder.commands import diff as recipe  # noqa: PLC0415

    return recipe.run(
        context, old, new, format=style, exit_code=exit_code, image=image, files=files
    )
