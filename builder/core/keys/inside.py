"""Keys of the structural test: what an image shows when it is looked at from inside."""

from __future__ import annotations

from builder.core.keys.key import Key

KEYS: tuple[Key, ...] = (
    Key(
        key="package-missing",
        title="a package that the lock names is not in the image",
        kind="build",
        severity="error",
        cause="It was uninstalled in a later layer, or a layer was left out.",
        action="Build the image from its lock again; take no package away from a built image.",
    ),
    Key(
        key="import-failed",
        title="a module of the stack cannot be imported",
        kind="build",
        severity="error",
        cause="A library it is linked against is missing or of another version, a companion does "
        "not fit, or the processor lacks an instruction it was compiled for.",
        action="Read the evidence: it ends with what Python said. `nightlock audit` names wrong "
        "libraries, `nightlock lock --check` wrong companions.",
        seen="vllm-project/vllm#56829 vllm-project/vllm#49804",
    ),
    Key(
        key="structural-not-run",
        title="the structural test got no answer from inside the image",
        kind="build",
        severity="error",
        cause="The image's entrypoint or interpreter does not start, or ended in the middle.",
        action="Start the image by hand with `python -c 'print(1)'` as its arguments, then build "
        "it again from its lock.",
    ),
)
"""In the order they are met."""
