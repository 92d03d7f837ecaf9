"""Rules on scripts: every `docker run` in them, and what they do to a unit."""

from __future__ import annotations

from builder.core.lint.commandline import run_command, shell_words
from builder.core.lint.container_rules import check_container
from builder.core.lint.place import Notes


def check_shell(text: str, notes: Notes) -> None:
    """Check a shell script, or a file with command lines."""
    commands = shell_words(text, 1)
    legacy = False
    for command in commands:
        box = run_command(command, "shell")
        if box is None:
            continue
        check_container(box, notes)
        runtime = box.runtime is not None and "nvidia" in box.runtime.text
        legacy = legacy or bool(box.gpus) or runtime
        if (
            box.serves_vllm
            and box.restart is not None
            and box.restart.text in ("always", "unless-stopped")
        ):
            notes.add(
                "stop-and-name-conflicts",
                box.restart.line,
                f"--restart {box.restart.text} has no limit: a start that fails after minutes is "
                "tried for ever",
                corrected="--restart on-failure:3",
            )
    if not legacy:
        return
    for command in commands:
        names = [word.text for word in command]
        if "systemctl" in names and "daemon-reload" in names:
            notes.add(
                "daemon-reload-loses-gpu",
                command[0].line,
                "a reload takes the GPU from containers that were started with --gpus",
                corrected="--device nvidia.com/gpu=all instead of --gpus, or reload before the run",
            )
