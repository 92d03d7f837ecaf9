"""Records of what was built here: one file per build id, under `state/builds`."""

from __future__ import annotations

from pathlib import Path

from builder.core.buildid import BuildRecord
from builder.edge import files


def read(folder: Path, build_id: str) -> BuildRecord | None:
    """Return what was built under this id; a damaged record counts as none."""
    try:
        return BuildRecord.parse(_path(folder, build_id).read_text())
    except FileNotFoundError:
        return None


def read_all(folder: Path) -> list[BuildRecord]:
    """Return all records, without damaged ones."""
    texts = [path.read_text() for path in sorted(folder.glob("*.json"))]
    return [record for record in map(BuildRecord.parse, texts) if record is not None]


def write(folder: Path, record: BuildRecord) -> None:
    """Remember a build; the last one under an id stays."""
    files.write(_path(folder, record.build_id), record.text().encode())


def _path(folder: Path, build_id: str) -> Path:
    return folder / f"{build_id.removeprefix('sha256:')}.json"
