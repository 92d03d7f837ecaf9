"""NVIDIA's own reader of GPU code, from its wheel on PyPI: the independent check."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

_ROW = re.compile(rb"^Fatbin (elf|ptx) code:\n=+\narch = sm_(\w+)$", re.MULTILINE)


def install(folder: Path, *requirements: str) -> None:
    """Install wheels for Python 3.13 on Linux into a folder, without what they require."""
    subprocess.run(
        [
            *(find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--target", str(folder)),
            *("--python-version", "3.13", "--python-platform", "x86_64-manylinux_2_39"),
            *requirements,
        ],
        check=True,
    )


@dataclass(frozen=True, slots=True)
class Cuobjdump:
    """The program."""

    path: Path

    @classmethod
    def installed(cls, folder: Path) -> Cuobjdump:
        """Install it into a folder."""
        install(folder, "nvidia-cuda-cuobjdump")
        (path,) = folder.glob("nvidia/*/bin/cuobjdump")
        path.chmod(0o755)
        return cls(path)

    def code(self, file: Path) -> dict[str, int]:
        """Count a file's entries by architecture, as `sm_120f` and `compute_80`."""
        done = subprocess.run([self.path, file], capture_output=True, check=False)
        rows = _ROW.findall(done.stdout)
        assert rows or b"does not contain device code" in done.stderr, done.stderr
        return dict(
            Counter(
                f"{'sm' if kind == b'elf' else 'compute'}_{name.decode()}" for kind, name in rows
            )
        )
