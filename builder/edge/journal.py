"""The journal of a moving tag: what is about to be recorded, one file a repository.

records/promoting/<repository's mark>.json   there from before the put until the record is written
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from builder.core.places import Places
from builder.edge import files, records


def begin(places: Places, mark: str, record: Mapping[str, str]) -> None:
    """Note what is about to happen; raises DiskFull, and then nothing may happen."""
    files.write(_path(places, mark), json.dumps(record, sort_keys=True).encode())


def unfinished(places: Places, mark: str) -> dict[str, str]:
    """Read what an earlier run began and did not end; empty when there is nothing (readable)."""
    try:
        record = json.loads(_path(places, mark).read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    named = isinstance(record, dict) and all(isinstance(value, str) for value in record.values())
    return record if named and {"tag", "old", "new"} <= record.keys() else {}


def finish(places: Places, mark: str, record: Mapping[str, str]) -> None:
    """Add the record to promotions.ndjson, once however often this is tried, and end."""
    done = places.state / "records" / "promotions.ndjson"
    lines = done.read_text(encoding="utf-8").splitlines() if done.exists() else []
    if json.dumps(record, ensure_ascii=False, sort_keys=True) not in lines:
        records.append_promotion(places, record)
    forget(places, mark)


def forget(places: Places, mark: str) -> None:
    """End without a record: nothing moved."""
    files.remove(_path(places, mark))


def _path(places: Places, mark: str) -> Path:
    return places.state / "records" / "promoting" / f"{mark}.json"
