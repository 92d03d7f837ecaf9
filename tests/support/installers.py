"""Stock pip and stock uv, asked to take a platform's file of a lock as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from builder.core.wheel_target import WheelTarget
from builder.edge import uv

_CONFIGURED = ("PIP_", "UV_", "VIRTUAL_ENV")


def run_pip(
    target: WheelTarget, links: Path, requirements: Path
) -> subprocess.CompletedProcess[str]:
    """Run stock pip for the target, without any configuration: a dry run reads and hashes all."""
    tags = sorted({(tag.abi, tag.platform) for tag in target.ranks})
    options = [
        *(word for abi in sorted({abi for abi, _ in tags}) for word in ("--abi", abi)),
        *(word for name in sorted({name for _, name in tags}) for word in ("--platform", name)),
        *("--python-version", target.python, "--implementation", "cp"),
        # `pip install` compares Requires-Python with its own Python, not with the target's.
        *("--ignore-requires-python", "--only-binary", ":all:", "--dry-run"),
    ]
    program = [sys.executable, "-m", "pip", "--isolated", "install"]
    return _run(program, options, links, requirements, links.with_name("nowhere"))


def run_uv(
    target: WheelTarget, links: Path, requirements: Path, into: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run stock uv for the target, without any configuration.

    A dry run looks for the files; their bytes are hashed only on the way `into` a folder.
    """
    options = ["--python-version", target.python, "--python-platform", target.uv_platform]
    options += ["--python", sys.executable, *([] if into else ["--dry-run"])]
    if into:
        # Nothing of this machine's cache, or no byte would be hashed.
        options += ["--cache-dir", str(into.with_name("cache")), "--link-mode", "hardlink"]
    program = [uv.program(), "--no-config", "pip", "install"]
    return _run(program, options, links, requirements, into or links.with_name("nowhere"))


def _run(
    program: list[str], options: list[str], links: Path, requirements: Path, into: Path
) -> subprocess.CompletedProcess[str]:
    """Run either with the words that both know, as the lock's format promises."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_CONFIGURED)
    }
    return subprocess.run(
        [
            *program,
            *("--require-hashes", "--no-deps", "--no-index"),
            *("--find-links", str(links), "-r", str(requirements)),
            # Only with a folder of its own is another target allowed.
            *("--target", str(into)),
            *options,
        ],
        env={**environment, "PIP_CONFIG_FILE": os.devnull},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
