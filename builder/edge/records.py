"""Records in the state folder: reports, receipts, logs and moved tags, by image digest.

records/sha256-<hex>/smoke/<id>/   report.json, receipt.json, junit.xml, server.log, report.html
                                   evidence/ of what did not pass
records/sha256-<hex>/audit         which nightlock found this image clean
records/promotions.ndjson          one line a moved tag: before, after, by which receipts
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from builder.core.places import Places
from builder.core.receipt import Receipt
from builder.core.smoke import SmokeReport, junit, receipt_of
from builder.edge import files


def digest_folder(places: Places, digest: str) -> Path:
    """Where everything about one digest lies."""
    return places.state / "records" / digest.replace(":", "-")


def smoke_folder(places: Places, digest: str, run: str) -> Path:
    """Where one smoke lies; `run` sorts by time."""
    return digest_folder(places, digest) / "smoke" / run


def write_report(folder: Path, report: SmokeReport, evidence: Mapping[str, bytes]) -> None:
    """Write report, receipt, JUnit file and further files as one folder, whole or not at all.

    A boot that never answered has no receipt: nothing was proven either way.
    """
    with files.fresh_folder(folder) as scratch:
        files.write(scratch / "report.json", report.text().encode())
        files.write(scratch / "junit.xml", junit(report).encode())
        for name, data in evidence.items():
            files.write(scratch / name, data)
        if not report.failure:
            files.write(scratch / "receipt.json", receipt_of(report).data())


def reports(places: Places, digest: str) -> Iterator[SmokeReport]:
    """Yield every smoke report of a digest, newest first; what cannot be read is left out."""
    for path in _newest_first(places, digest, "report.json"):
        try:
            yield SmokeReport.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue


def all_reports(places: Places) -> Iterator[SmokeReport]:
    """Yield every smoke report of every digest; what cannot be read is left out."""
    for folder in sorted((places.state / "records").glob("sha256-*")):
        yield from reports(places, folder.name.replace("-", ":", 1))


def receipts(places: Places, digest: str) -> Iterator[Receipt]:
    """Yield every receipt of a digest, newest first; what cannot be read is left out."""
    for path in _newest_first(places, digest, "receipt.json"):
        receipt = Receipt.parse(path.read_bytes())
        if receipt is not None:
            yield receipt


def find_report(places: Places, digest: str, profile_digest: str) -> SmokeReport | None:
    """Return the newest report of this digest under this profile, if it passed.

    A later fail of the same profile takes an earlier pass back.
    """
    mine = (r for r in reports(places, digest) if r.profile_digest == profile_digest)
    newest = next(mine, None)
    return newest if newest is not None and newest.verdict == "pass" else None


def folder_of(places: Places, report: SmokeReport) -> Path:
    """Find the folder a report was written to; that of its digest when it is gone."""
    found = _newest_first(places, report.digest, "report.json")
    place = digest_folder(places, report.digest)
    return next((path.parent for path in found if path.read_text() == report.text()), place)


def is_clean(places: Places, digest: str, nightlock: str) -> bool:
    """Whether this version of nightlock has audited a digest and found it clean."""
    try:
        return (digest_folder(places, digest) / "audit").read_text() == nightlock
    except (OSError, UnicodeDecodeError):
        return False


def write_clean(places: Places, digest: str, nightlock: str) -> None:
    """Remember that."""
    files.write(digest_folder(places, digest) / "audit", nightlock.encode())


def append_promotion(places: Places, record: Mapping[str, object]) -> None:
    """Add one line to the record of moved tags; on the disk before this returns."""
    path = places.state / "records" / "promotions.ndjson"
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.full_disk_explained(path), path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _newest_first(places: Places, digest: str, name: str) -> list[Path]:
    folder = digest_folder(places, digest) / "smoke"
    return sorted(folder.glob(f"[!.]*/{name}"), reverse=True)
