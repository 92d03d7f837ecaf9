"""A disk of some MB that nobody else sees: a tmpfs in a mount namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_MOUNT = 'mount -t tmpfs -o "size=$1" tiny "$2" && shift 2 && exec "$@"'
_TELL = """
import json, sys
from pathlib import Path
from builder.errors import NightlockError

DISK = Path(sys.argv[1])
def fill(left=0):
    '''Leave so many bytes free.'''
    import shutil
    (DISK / "filler").write_bytes(bytes(shutil.disk_usage(DISK).free - left))
def work():
{body}
try:
    said = work()
except NightlockError as error:
    print(json.dumps([error.kind, error.exit_code, error.what, error.subject, error.action]))
else:
    print(json.dumps([said]))
"""


def on_tiny_disk(
    folder: Path, size: str, body: str, environment: Mapping[str, str] | None = None
) -> list[object]:
    """Run the lines of `body` with a disk of `size` on `folder`; return what they came to.

    They see it as DISK and may `fill(left)` it. An expected error is its kind, exit code, what,
    subject and action; all else is the value they return.
    """
    namespace = ["unshare", "--mount", "--propagation", "private"]
    probe = subprocess.run([*namespace, "true"], capture_output=True, check=False)
    if os.geteuid() != 0 or probe.returncode != 0:
        pytest.skip("mounting a disk needs root with CAP_SYS_ADMIN")
    folder.mkdir(exist_ok=True)
    script = _TELL.format(body="".join(f"    {line}\n" for line in body.strip().splitlines()))
    ended = subprocess.run(
        [*namespace, "sh", "-c", _MOUNT, "sh", size, folder, sys.executable, "-c", script, folder],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == ended.returncode, ended.stderr
    said: list[object] = json.loads(ended.stdout.splitlines()[-1])
    return said
