"""Run while building: take paths from packages that do not own them, so that each has one owner.

    owner.py VENV LIST

LIST has lines `PACKAGE PATH`. The file goes, and its row of the package's RECORD with it; its
owner is installed afterwards, or in a layer of its own.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

OUTSIDE = {"{scripts}": "bin", "{data}": "."}
"""Folders beside the site directory, below the environment."""


def give_up(environment: Path, package: str, path: str) -> None:
    """Remove one path of a package; raises LookupError when it has no such path."""
    (site,) = environment.glob("lib/python3*/site-packages")
    top, _, rest = path.partition("/")
    file = (environment / OUTSIDE[top] / rest) if top in OUTSIDE else site / path
    record = _record(site, package)
    rows = list(csv.reader(record.read_text(encoding="utf-8").splitlines()))
    kept = [row for row in rows if (site / row[0]).resolve() != file.resolve()]
    if len(kept) == len(rows):
        raise LookupError(f"{package} has no {path}")
    # A new file: the old one may be a link into the installer's cache.
    fresh = record.with_name("RECORD.new")
    with fresh.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows(kept)
    fresh.replace(record)
    file.unlink()


def _record(site: Path, package: str) -> Path:
    for record in sorted(site.glob("*.dist-info/RECORD")):
        name = record.parent.name.partition("-")[0]
        if re.sub(r"[-_.]+", "-", name).lower() == package:
            return record
    raise LookupError(f"{package} is not installed in {site}")


def main(environment: str, listing: str) -> int:
    """Give up every path of the list; 1 when one is not there."""
    for line in Path(listing).read_text(encoding="utf-8").splitlines():
        package, _, path = line.partition(" ")
        try:
            give_up(Path(environment), package, path)
        except LookupError as error:
            print(f"{error}: the lock says that another package wins it", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
