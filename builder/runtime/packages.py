"""Run while building, after dpkg: make what it wrote a function of the packages alone.

    packages.py MARK

MARK is a file older than the first call of dpkg. Only what changed since is touched, since all
else would be copied into the layer: caches, logs, backups, locks and byte code go, the rest gets
one time.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator

TIME = 315532800
"""1980-01-01, as in the layers above."""
_GONE = re.compile(
    r"""
      .*\.pyc                                    # with times of sources inside
    | /var/(log|cache)/.*
    | /etc/(passwd|group|shadow|gshadow|subuid|subgid)- | /etc/\.pwd\.lock
    | /var/lib/dpkg/(lock|lock-frontend|triggers/Lock|available|.*-old|updates/.*)
    | /var/lib/apt/extended_states | /var/lib/dbus/machine-id
    """,
    re.VERBOSE,
)
_EMPTIED = ("/etc/machine-id",)
_SHADOW = "/etc/shadow"


def mounted() -> set[str]:
    """Paths that are another file system's: the engine's, and the build's own mounts."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        rows = [line.split()[4] for line in file]
    return {row.encode().decode("unicode_escape") for row in rows} - {"/"}


def changed(root: str, since: int, left_out: set[str]) -> Iterator[str]:
    """Yield what changed since that time (ns), a folder after what is in it."""
    for folder, folders, files in os.walk(root, topdown=False):
        if any((folder + "/").startswith(path + "/") for path in left_out):
            continue
        for name in sorted(files + [name for name in folders if _is_link(folder, name)]):
            path = os.path.join(folder, name)
            if path not in left_out and os.lstat(path).st_ctime_ns >= since:
                yield path
        if folder != root and os.lstat(folder).st_ctime_ns >= since:
            yield folder


def _is_link(folder: str, name: str) -> bool:
    return os.path.islink(os.path.join(folder, name))


def clean(path: str, name: str) -> None:
    """Take out or rewrite one changed entry; `name` is its path in the image."""
    status = os.lstat(path)
    if stat.S_ISDIR(status.st_mode):
        if os.path.basename(path) == "__pycache__" and not os.listdir(path):
            os.rmdir(path)
    elif _GONE.fullmatch(name):
        os.unlink(path)
    elif name in _EMPTIED:
        os.truncate(path, 0)
    elif name == _SHADOW:
        _undate(path)


def _undate(path: str) -> None:
    """Give the day of the last password change (shadow(5), third field) the one time."""
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(":") for line in file]
    for row in rows:
        if len(row) > 2 and row[2]:
            row[2] = str(TIME // 86400)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(":".join(row) + "\n" for row in rows)


def main(mark: str, root: str = "/") -> int:
    """Settle what changed below `root` since `mark` was made."""
    since, left_out = os.lstat(mark).st_ctime_ns, mounted() | {mark}
    for path in list(changed(root, since, left_out)):
        clean(path, "/" + os.path.relpath(path, root))
    count = 0
    for path in list(changed(root, since, left_out)):
        os.utime(path, (TIME, TIME), follow_symlinks=False)
        count += 1
    print(f"{count} files and folders of packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
