"""How long the README's first command takes by phase: from nothing, then with nothing changed.

    python tests/bench/quickstart.py

It works in a temporary cache and state folder, so no other engine may run; the row it prints goes
into the table of README.md beside this file. Needs root, PyPI, Debian's archive, 20 GB of disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def nightlock(environment: dict[str, str], *arguments: str) -> dict[str, Any]:
    """Run the command and return its JSON document; its progress goes to our stderr."""
    ran = subprocess.run(
        [sys.executable, "-m", "builder", *arguments, "--json"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        check=False,
    )
    document: dict[str, Any] = json.loads(ran.stdout)
    if ran.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {document['error']}")
    return document["result"]  # type: ignore[no-any-return]


def main() -> None:
    """Measure twice and print one row."""
    with tempfile.TemporaryDirectory(prefix="nightlock-bench-") as folder:
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": f"{folder}/cache",
            "XDG_STATE_HOME": f"{folder}/state",
        }
        try:
            first = nightlock(environment, "quickstart")
            second = nightlock(environment, "quickstart")
        finally:
            nightlock(environment, "engine", "stop", "--purge")
    phases = first["release"]["phases"]
    boot = first["release"]["boot"]
    cells = [
        f"{first['release']['vllm']}",
        *(
            f"{phases[name]:.0f}"
            for name in ("engine", "fetch", "build", "audit", "smoke", "promote")
        ),
        f"{boot['health']:.0f}",
        f"{first['seconds']:.0f}",
        f"{second['seconds']:.1f}",
        f"{second['seconds'] / first['seconds']:.3f}",
        f"{first['release']['image_bytes'] / 1e6:.0f}",
    ]
    sys.stdout.write(f"| {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
