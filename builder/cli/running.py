"""Verbs around serving: run, outdated, lint, model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from builder.cli.app import group, verb
from builder.errors import BadInput

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome


@verb("run", needs_project=False)
def run(
    context: Context,
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="In images/profiles/.")] = "",
    image: Annotated[
        str, typer.Option("--image", metavar="REF", help="What to run; a tag is pinned.")
    ] = "",
    form: Annotated[
        Literal["docker", "compose", "systemd", "quadlet", "kubernetes"],
        typer.Option("--format", help="What to write."),
    ] = "docker",
    model: Annotated[
        str, typer.Option("--model", metavar="DIR", help="The checkpoint, on the host.")
    ] = "",
    gpus: Annotated[
        str, typer.Option("--gpus", metavar="N|UUID,...", help="Which; default: as many as needed.")
    ] = "",
    cdi: Annotated[bool, typer.Option("--cdi", help="Give GPUs by CDI names.")] = False,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="In images/profiles/hosts/ (repeatable)."),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Of container, unit, deployment.")
    ] = "",
    env_file: Annotated[
        str,
        typer.Option("--env-file", metavar="FILE", help="Secrets, on the host; a Secret's name."),
    ] = "",
    bind: Annotated[
        str, typer.Option("--bind", metavar="ADDR", help="Where the port is published.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="On the host.")
    ] = 0,
    mount: Annotated[
        list[str] | None,
        typer.Option("--mount", metavar="SRC:DST[:ro]", help="One more (repeatable)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write there, not to stdout.")
    ] = None,
    update: Annotated[
        Path | None,
        typer.Option("--update", metavar="FILE", help="Move this file's digest, nothing else."),
    ] = None,
) -> Outcome[Any]:
    """Write a run file pinned to a digest, or move the digest of one."""
    from builder.commands import run as recipe  # noqa: PLC0415

    if update is not None:
        return recipe.update(context, update, image=image)
    if not profile or not image:
        raise BadInput(
            "a profile and --image REF are needed",
            action="`nightlock run PROFILE --image REF`, or `nightlock run --update FILE`",
        )
    choice = recipe.Choice(
        model=model,
        gpus=gpus,
        cdi=cdi,
        hosts=tuple(host or ()),
        name=name,
        env_file=env_file,
        bind=bind,
        port=port,
        mounts=tuple(mount or ()),
    )
    return recipe.run(context, profile, image=image, form=form, choice=choice, out=out)


@verb("outdated", needs_project=False)
def outdated(
    context: Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Run files.")],
) -> Outcome[Any]:
    """Say which run files lag behind the tag they follow, and by what."""
    from builder.commands import outdated as recipe  # noqa: PLC0415

    return recipe.run(context, *files)


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


model_verb = group(
    "model",
    about="Checkpoints, before they are served.",
    short="A checkpoint: can it be served, and a corrected copy that can.",
)


@model_verb("check", needs_project=False)
def model_check(
    context: Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The checkpoint.")],
    gpu: Annotated[
        str, typer.Option("--gpu", metavar="SM", help="Architecture of the GPUs.")
    ] = "sm_120",
    gpus: Annotated[
        int, typer.Option("--gpus", metavar="N", min=1, help="How many share its weights.")
    ] = 1,
    memory: Annotated[
        float, typer.Option("--memory", metavar="GIB", min=0, help="What one GPU has.")
    ] = 0,
    vllm: Annotated[
        str, typer.Option("--vllm", metavar="VERSION", help="Default: the newest known.")
    ] = "",
    overlay: Annotated[
        Path | None,
        typer.Option("--overlay", metavar="OUT", help="Write a copy by links, corrected."),
    ] = None,
) -> Outcome[Any]:
    """Say what a checkpoint is and needs, and whether this GPU and vLLM can serve it."""
    from builder.commands import model as recipe  # noqa: PLC0415

    if not re.fullmatch(r"sm_\d{2,3}[af]?", gpu):
        raise BadInput("not an architecture", subject=gpu, action="write it as sm_120")
    return recipe.check(
        context, folder, gpu=gpu, gpus=gpus, memory=memory, vllm=vllm, overlay=overlay
    )
