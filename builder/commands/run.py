"""`nightlock run PROFILE`: a run file pinned to a digest, in the format of whoever runs it."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from builder.commands.context import Context, Outcome
from builder.core.document import Result
from builder.core.reference import ImageRef
from builder.core.runfile.pins import Pin, find_pins, moved
from builder.core.runfile.spec import Form, Gpus, RunSpec, Volume, describe
from builder.core.runfile.write import write
from builder.edge import files, profiles, runfiles
from builder.edge.project import find_project
from builder.edge.registry import Registry
from builder.errors import BadInput


class RunResult(Result):
    """What was written, or moved."""

    file: str
    """Where it was written; empty for standard output."""
    format: str
    """Empty for `--update`, which keeps whatever the file is."""
    image: str
    """Pinned."""
    text: str
    """The whole file."""
    changed: bool
    diff: str
    """Of `--update`: what moved, as a unified diff."""


class Choice(BaseModel):
    """What the operator chose for one host."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = ""
    gpus: str = ""
    cdi: bool = False
    hosts: tuple[str, ...] = ()
    name: str = ""
    env_file: str = ""
    bind: str = "127.0.0.1"
    port: int = 0
    mounts: tuple[str, ...] = ()


def run(
    context: Context,
    profile: str,
    *,
    image: str,
    form: Form,
    choice: Choice,
    out: Path | None = None,
) -> Outcome[RunResult]:
    """Write one run file; to `out`, or as the answer.

    Raises BadInput for an unknown profile, a folder that is no absolute path, or what the format
    cannot say; SpecError for a bad profile; NetworkError when a tag has to be looked up.
    """
    ref = ImageRef.parse(image)
    digest = ref.digest or _digest(ref)
    # Late, since moving a digest needs no project.
    project = find_project(context.project, None)
    spec = _spec(project, profile, ref.with_digest(digest), choice)
    text = write(spec, form)
    if out is not None:
        # A script is made to be started.
        files.write(out, text.encode(), mode=0o755 if form == "docker" else 0o644)
    result = RunResult(
        file=str(out or ""), format=form, image=spec.image, text=text, changed=True, diff=""
    )
    return Outcome(result=result, text=f"wrote {out}" if out is not None else text.rstrip("\n"))


def update(context: Context, file: Path, *, image: str = "") -> Outcome[RunResult]:
    """Move the digest of a run file to where its tag points now, and change nothing else.

    `image` names another tag or digest of the same repository.

    Raises BadInput when the file pins no image, several, or none that follows a tag.
    """
    text = runfiles.read(file)
    if text is None:
        raise BadInput("not a text file", subject=str(file), action="name a run file")
    wanted = ImageRef.parse(image) if image else None
    pin = _chosen(find_pins(text), wanted, file)
    target = wanted or ImageRef.parse(f"{pin.name}:{pin.tag}")
    digest = target.digest or _digest(target)
    after = moved(text, pin, digest)
    changes = "".join(
        difflib.unified_diff(
            text.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"{file} (before)",
            f"{file} (after)",
            n=1,
        )
    )
    if after != text:
        runfiles.write_back(file, after)
    result = RunResult(
        file=str(file),
        format="",
        image=f"{pin.name}@{digest}",
        text=after,
        changed=after != text,
        diff=changes,
    )
    context.output.detail(f"{target} is {digest}")
    said = changes.rstrip("\n") or f"{file}: {pin.name}:{pin.tag} still is {digest[:19]}…"
    return Outcome(result=result, text=said)


def _digest(ref: ImageRef) -> str:
    with Registry.open(ref.registry, os.environ) as registry:
        digest = registry.find_digest(ref)
    if not digest:
        raise BadInput(
            "the registry has no such image",
            subject=str(ref),
            action="check repository and tag; `nightlock build IMAGE --push REPO` pushes one",
        )
    return digest


def _chosen(pins: list[Pin], wanted: ImageRef | None, file: Path) -> Pin:
    if wanted is not None:
        pins = [pin for pin in pins if ImageRef.parse(pin.name).name == wanted.name]
        missing = f"the file pins no image of {wanted.name}"
    else:
        missing = "the file pins no image that follows a tag"
        pins = [pin for pin in pins if pin.tag]
    if len(pins) == 1:
        return pins[0]
    if not pins:
        raise BadInput(
            missing,
            subject=str(file),
            action="write `name@sha256:…  # tag`, or give --image REF with the tag to follow",
        )
    raise BadInput(
        f"the file pins several images: {', '.join(pin.name for pin in pins)}",
        subject=str(file),
        action="give --image REF to say which",
    )


def _spec(project: Path, name: str, ref: ImageRef, choice: Choice) -> RunSpec:
    profile, _ = profiles.load_profile(project, name)
    if choice.model and not choice.model.startswith("/"):
        raise BadInput(
            "the model's folder is not an absolute path",
            subject=choice.model,
            action="give the path on the host that will run the file",
        )
    return describe(
        profile,
        name=choice.name or f"vllm-{name}",
        profile_name=name,
        image=ref.pinned,
        tag=ref.tag,
        hosts=[profiles.load_host(project, host) for host in choice.hosts],
        model=choice.model,
        gpus=_gpus(choice, profile.run.gpus),
        secrets=choice.env_file,
        address=choice.bind,
        host_port=choice.port,
        volumes=[_volume(text) for text in choice.mounts],
    )


def _gpus(choice: Choice, count: int) -> Gpus:
    if not choice.gpus:
        return Gpus(count=count, cdi=choice.cdi)
    if choice.gpus.isdigit():
        number = int(choice.gpus)
        if number != count:
            raise BadInput(
                f"the profile shards its model over {count} GPUs",
                subject=f"--gpus {number}",
                action="give as many, or write a profile of its own",
            )
        return Gpus(count=number, cdi=choice.cdi)
    chosen = tuple(part.strip() for part in choice.gpus.removeprefix("device=").split(","))
    if len(chosen) != count or len(set(chosen)) != count or not all(chosen):
        raise BadInput(
            f"the profile wants {count} different GPUs",
            subject=f"--gpus {choice.gpus}",
            action="name each once, by UUID as `nvidia-smi -L` prints it",
        )
    return Gpus(count=count, chosen=chosen, cdi=choice.cdi)


def _volume(text: str) -> Volume:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or not target.startswith("/") or mode not in ("", "ro", "rw"):
        raise BadInput(
            "not a mount", subject=text, action="write /on/the/host:/in/the/container[:ro]"
        )
    return Volume(source=source, target=target, read_only=mode == "ro")
