"""`nightlock quickstart`: the main job on the `cpu` image, into a local registry, then a report."""

from __future__ import annotations

import os
import shlex
import sys
import time

from builder.commands import engine, release
from builder.commands.context import Context, Outcome
from builder.commands.release import ReleaseResult
from builder.core.document import Result
from builder.edge import files, profiles
from builder.edge.engine import Engine, require_engine
from builder.edge.project import read_spec

IMAGE = "cpu"


class QuickstartResult(Result):
    """What was shown, and how to go on."""

    release: ReleaseResult
    engine: str
    """Version of the engine that built and booted."""
    engine_private: bool
    seconds: float
    """From start to report."""
    run_command: str
    """Serves the image without nightlock."""
    ask_command: str
    """Asks it the same question."""
    report: str
    """This result as a file."""


def run(context: Context) -> Outcome[QuickstartResult]:
    """Start an engine where none answers, do the release of `cpu`, and report.

    Raises what `engine start` and `release` raise.
    """
    started = time.monotonic()
    engine.start(context)
    engine_seconds = round(time.monotonic() - started, 3)
    found = require_engine(context.places, context.settings, os.environ)
    released = release.run(context, IMAGE, relock=True).result
    released.phases = {"engine": engine_seconds, **released.phases}
    path = context.places.state / "quickstart.json"
    result = QuickstartResult(
        release=released,
        engine=found.version,
        engine_private=found.private,
        seconds=round(time.monotonic() - started, 1),
        run_command=run_command(context, found, released.reference),
        ask_command=_ASK,
        report=str(path),
    )
    files.write(path, (result.model_dump_json(indent=1) + "\n").encode())
    return Outcome(result=result, text=_text(result))


_ASK = (
    "curl -sS --noproxy '*' --retry 90 --retry-all-errors --retry-delay 2 "
    "http://127.0.0.1:8000/v1/chat/completions "
    "-H 'content-type: application/json' "
    '-d \'{"model": "smoke", "messages": [{"role": "user", '
    '"content": "What is the capital of France? Answer briefly."}]}\''
)


def run_command(context: Context, found: Engine, reference: str) -> str:
    """Spell the `docker run` line with the smoke model and the profile's own arguments.

    Where a umask keeps the model from other users, the container runs as the one who asks.
    """
    smoke = read_spec(context.project, IMAGE).smoke
    assert smoke is not None  # noqa: S101 - release has refused an image without a profile
    bound = profiles.read_profile(context.project, smoke.profile)
    server = bound.profile.server
    docker = ["docker"] if not found.private else [str(found.docker), "-H", found.host]
    command = [*docker, "run", "--rm", "--shm-size", "1g", "-p", "127.0.0.1:8000:8000"]
    if bound.folder is not None:
        command += ["-v", f"{bound.folder}:{bound.profile.model.mount}:ro"]
        if not profiles.readable_by_all(bound.folder):
            command += ["--user", f"{os.getuid()}:{os.getgid()}"]
    for name, value in server.environment.items():
        command += ["-e", f"{name}={value}"]
    return shlex.join([*command, reference, *server.arguments])


def _text(result: QuickstartResult) -> str:
    released = result.release
    name = released.reference.partition("@")[0]
    phases = ", ".join(
        f"{step} {seconds:.0f} s" + (" (there already)" if step in released.reused else "")
        for step, seconds in released.phases.items()
    )
    boot = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in released.boot.items())
    passed = sum(status == "pass" for status in released.checks.values())
    kind = "private" if result.engine_private else "yours"
    lines = [
        f"answer    {released.answer}",
        f"image     {name}:{released.tags[-1]}",
        f"digest    {released.digest}",
        f"tags      {', '.join(released.tags)}",
        f"vLLM      {released.vllm}, lock {released.lock_digest[:19]}",
        f"checks    {passed} of {len(released.checks)} passed; report in {released.folder}",
        f"sizes     {released.image_bytes / 1e6:.0f} MB to pull"
        + f", {released.fetched_bytes / 1e6:.0f} MB fetched now" * bool(released.fetched_bytes),
        f"time      {result.seconds:.0f} s: {phases}",
        f"boot      {boot}",
        f"engine    Docker {result.engine} ({kind})",
    ]
    if released.relocked:
        lines.append(
            f"relocked  {len(released.relocked)} .debs had left Debian's mirrors; "
            "`nightlock lock cpu` locks them for good"
        )
    lines += ["", "Serve it without nightlock:", f"  {result.run_command}"]
    lines += ["Ask it:", f"  {result.ask_command}"]
    if result.engine_private:
        lines.append(f"Give everything back: {sys.argv[0]} engine stop --purge")
    return "\n".join(lines)
