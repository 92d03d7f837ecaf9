"""Run while building: lay the CUDA toolkit out as its users look for it.

    toolkit.py OUT HOME WHEELS

The toolkit comes in a dozen wheels that share HOME (`…/nvidia/cu13` in the site directory); OUT
becomes the folder that CUDA_HOME names: links into HOME, and what no wheel holds. FlashInfer and
others link with `-L$CUDA_HOME/lib64 -L$CUDA_HOME/lib64/stubs -lcudart -lcuda`, nvcc itself looks in
`lib64` and `lib64/stubs` beside its `bin`. No file is added to HOME, where every file is listed in
a RECORD. WHEELS is the folder of wheels, whose directories say which files there will be.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

DRIVER = "libcuda.so.1"
STUB_LIBRARY = 34
"""CUDA_ERROR_STUB_LIBRARY of cuda.h: what the toolkit's own stub answers as well."""
_PROGRAM = "nvcc"


def names_below(home: str, wheels: Iterable[Path]) -> list[str]:
    """List what wheels install below a folder, as paths relative to it, sorted.

    `home` ends in the path inside the wheels: `…/site-packages/nvidia/cu13`.
    """
    inside = home.partition("/site-packages/")[2] + "/"
    found = set()
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.startswith(inside) and not name.endswith("/"):
                    found.add(name.removeprefix(inside))
    return sorted(found)


def links(home: str, names: Iterable[str]) -> dict[str, str]:
    """Map each link below CUDA_HOME to what it leads to."""
    found = {"lib64": "lib"}
    for name in names:
        top, _, rest = name.partition("/")
        first = rest.partition("/")[0]
        if top not in ("bin", "lib"):
            found[top] = f"{home}/{top}"
            continue
        # File by file: nvcc looks for `lib64` in `bin/..`, and with a linked `bin` the kernel
        # would take that for the folder of the wheels.
        found[f"{top}/{first}"] = f"{home}/{top}/{first}"
        # Linkers look for `libcudart.so`, the wheels hold `libcudart.so.13`.
        if top == "lib" and (versioned := re.fullmatch(r"(lib.+\.so)\.[\d.]+", first)):
            found.setdefault(f"lib/{versioned[1]}", first)
    return found


def compile_stub(target: Path) -> None:
    """Compile the driver's stand-in: links find it, and a process without driver may ask it.

    Triton loads what TRITON_LIBCUDA_PATH names when there is no driver, and calls cuInit.
    """
    source = f"int cuInit(unsigned flags) {{ (void)flags; return {STUB_LIBRARY}; }}\n"
    subprocess.run(
        [
            *("gcc", "-x", "c", "-", "-o", str(target), "-shared", "-fPIC", "-nostdlib", "-s"),
            f"-Wl,-soname,{DRIVER}",
            # Else it is a hash of paths as well.
            "-Wl,--build-id=none",
        ],
        input=source.encode(),
        check=True,
    )


def main(out: str, home: str, wheels: str) -> int:
    """Write the folder; 1 when no wheel holds a toolkit."""
    names = names_below(home, sorted(Path(wheels).rglob("*.whl")))
    if f"bin/{_PROGRAM}" not in names:
        print(f"no wheel installs {home}/bin/{_PROGRAM}", file=sys.stderr)
        return 1
    for name, target in sorted(links(home, names).items()):
        path = Path(out, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    stubs = Path(out, "lib/stubs")
    stubs.mkdir()
    compile_stub(stubs / DRIVER)
    (stubs / "libcuda.so").symlink_to(DRIVER)
    print(f"{len(names)} files of the toolkit below {home}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
