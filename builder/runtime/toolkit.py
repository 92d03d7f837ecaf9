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
NEEDED = ("bin/nvcc", "include/cuda.h", "lib/libcudart.so")
_DECLARED = re.compile(r"CUresult\s+CUDAAPI\s+(?P<name>cu[A-Z]\w*)\s*\(")
_RENAMED = re.compile(
    r"(?m)^[ \t]*#[ \t]*define[ \t]+cu[A-Z]\w*[ \t]+"
    r"(?:__CUDA_API_(?P<threads>PTDS|PTSZ)\()?(?P<name>cu[A-Z]\w*)"
)


def files_below(home: str, wheels: Iterable[Path]) -> dict[str, Path]:
    """Map what wheels install below a folder, as paths relative to it, to the wheels.

    `home` ends in the path inside the wheels: `…/site-packages/nvidia/cu13`.
    """
    inside = _inside(home)
    found = {}
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.startswith(inside) and not name.endswith("/"):
                    found[name.removeprefix(inside)] = path
    return found


def _inside(home: str) -> str:
    return home.partition("/site-packages/")[2] + "/"


def links(home: str, names: Iterable[str]) -> dict[str, str]:
    """Map each link below CUDA_HOME to what it leads to."""
    found = {"lib64": "lib"}
    for name in sorted(names):
        top, _, rest = name.partition("/")
        first = rest.partition("/")[0]
        if not rest or top.startswith("."):
            continue
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


def driver_functions(header: str) -> list[str]:
    """Name every function that a driver of this cuda.h exports, sorted.

    Macros rename most of them: `cuMemAlloc` is `cuMemAlloc_v2`, and some have a second form for
    per-thread streams (`_ptds`, `_ptsz`).
    """
    found = {match["name"] for match in _DECLARED.finditer(header)}
    for match in _RENAMED.finditer(header):
        found.add(match["name"])
        if match["threads"]:
            found.add(f"{match['name']}_{match['threads'].lower()}")
    return sorted(found)


def compile_stub(target: Path, functions: Iterable[str]) -> None:
    """Compile the driver's stand-in, whose every function says that it is one.

    Programs are linked against it. Without a driver, what is linked can be loaded with it: Triton
    does, to ask cuInit, and so do tests that have no GPU.
    """
    source = "".join(f"int {name}() {{ return {STUB_LIBRARY}; }}\n" for name in functions)
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
    found = files_below(home, sorted(Path(wheels).rglob("*.whl")))
    wanted = links(home, found)
    missing = [name for name in NEEDED if name not in found and name not in wanted]
    if missing:
        print(f"no wheel installs {home}/{missing[0]}", file=sys.stderr)
        return 1
    for name, target in sorted(wanted.items()):
        path = Path(out, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    with zipfile.ZipFile(found["include/cuda.h"]) as wheel:
        header = wheel.read(f"{_inside(home)}include/cuda.h").decode()
    functions = driver_functions(header)
    stubs = Path(out, "lib/stubs")
    stubs.mkdir()
    compile_stub(stubs / DRIVER, functions)
    (stubs / "libcuda.so").symlink_to(DRIVER)
    print(f"{len(found)} files of the toolkit, {len(functions)} functions of the driver")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
