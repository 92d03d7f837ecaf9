"""Programs of builder/runtime/probes/, as text for a container's command line."""

from __future__ import annotations

from importlib import resources


def read(name: str) -> str:
    """Return one program; it fits one argument (128 KiB, execve(2))."""
    return (resources.files("builder.runtime.probes") / f"{name}.py").read_text(encoding="utf-8")
