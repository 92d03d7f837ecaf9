"""Have the assembler that Triton chooses make code for GPUs, called in the way Triton calls it.

    python -c THIS 120 121

One JSON object a line: `gpu`, `path`, `status`, `said`; or `unknown`, from a Triton that chooses in
another way. No GPU and no driver is asked.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Of an old GPU, which every newer one takes: only the name of the new one is in question.
SOURCE = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"


def chosen(numbers: Sequence[int]) -> list[tuple[str, str]]:
    """Return path and GPU name for each number; raises AttributeError, ImportError, TypeError."""
    compiler = importlib.import_module("triton.backends.nvidia.compiler")
    return [
        (str(compiler.get_ptxas(number).path), str(compiler.sm_arch_from_capability(number)))
        for number in numbers
    ]


def assembled(tools: Sequence[tuple[str, str]]) -> Iterator[dict[str, object]]:
    """Assemble an empty kernel with each."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "k.ptx")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        for path, gpu in tools:
            ran = subprocess.run(
                [path, f"--gpu-name={gpu}", source, "-o", os.path.join(folder, "k.bin")],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            yield {"gpu": gpu, "path": path, "status": ran.returncode, "said": ran.stdout}


def main(numbers: Sequence[str]) -> None:
    """Answer on standard output."""
    try:
        tools = chosen([int(number) for number in numbers])
    except (AttributeError, ImportError, TypeError) as error:
        print(json.dumps({"unknown": str(error)}))
        return
    for row in assembled(tools):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
