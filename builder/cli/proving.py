"""Verbs that look, prove and explain a failure: audit, inspect, smoke, diagnose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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


@verb("audit", needs_project=False, long=True)
def audit(
    context: Context,
    lock: Annotated[
        str, typer.Option("--lock", metavar="IMAGE", help="A lock, with the store's wheels.")
    ] = "",
    wheels: Annotated[
        Path | None, typer.Option("--wheels", metavar="DIR", help="A folder of wheels.")
    ] = None,
    image: Annotated[
        str, typer.Option("--image", metavar="REF", help="An image, or oci:DIR.")
    ] = "",
    target: Annotated[
        list[str] | None, typer.Option("--target", metavar="GPU", help="As sm_120; repeatable.")
    ] = None,
    style: Annotated[
        Literal["text", "json", "html"], typer.Option("--format", help="How to print the matrix.")
    ] = "text",
) -> Outcome[Any]:
    """Say what a lock, wheels or an image hold: kernels, edits, strays, conflicts, secrets."""
    from builder.commands import audit as recipe  # noqa: PLC0415

    return recipe.run(
        context, lock=lock, wheels=wheels, image=image, targets=target or (), format=style
    )


@verb("smoke", long=True)
def smoke(
    context: Context,
    ref: Ref,
    profile: Profile = "",
    image: Of = "",
    out: To = None,
    junit: Xml = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also as one page.")
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option("--evidence", metavar="DIR", help="All that explains the result.")
    ] = None,
    structural_only: Annotated[
        bool,
        typer.Option("--structural-only", help="Look inside only, without a boot or a GPU."),
    ] = False,
    startup_budget: Annotated[
        float | None,
        typer.Option(
            "--startup-budget",
            metavar="SECONDS",
            min=0,
            help="Fail when the first answer takes longer.",
        ),
    ] = None,
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
        html_file=html,
        evidence=evidence,
        structural_only=structural_only,
        startup_budget=startup_budget,
    )


@verb("diagnose", needs_project=False)
def diagnose(
    context: Context,
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="A file, - for stdin, or container:NAME.")
    ] = "",
    container: Annotated[
        str, typer.Option("--container", metavar="NAME", help="Read a container's log.")
    ] = "",
    signatures: Annotated[
        list[Path] | None,
        typer.Option("--signatures", metavar="FILE", help="More signatures, asked first."),
    ] = None,
) -> Outcome[Any]:
    """Name the root cause in a log: evidence, cause, action."""
    from builder.commands import diagnose as recipe  # noqa: PLC0415

    return recipe.run(context, log, container=container, signatures=tuple(signatures or ()))
