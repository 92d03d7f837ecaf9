"""GPU code of locked wheels, read once a wheel: what was read is kept by the wheel's sha256."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from builder.core import elf
from builder.core.audit.file import Examiner
from builder.core.audit.kernels import Kernels
from builder.core.contents import installed_path
from builder.core.fatbin import Amount, Code
from builder.core.lock import WheelPin
from builder.edge import files
from builder.edge.pool import Stop, each
from builder.edge.store import Store
from builder.edge.zip_stream import BROKEN, stream
from builder.errors import Outside, Refused

_THREADS = 2


def read_kernels(pins: Sequence[WheelPin], store: Store, cache: Path) -> tuple[Kernels, ...]:
    """List every shared object with GPU code in locked wheels, by package and path.

    Raises Outside when a wheel that was not read before is not in the store, Refused when one is
    damaged.
    """

    def read(pin: WheelPin, stop: Stop) -> list[Kernels]:
        kept = cache / pin.sha256[:2] / f"{pin.sha256}.json"
        try:
            return _load(pin.name, json.loads(kept.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError):
            found = _read(pin, store, stop)
            files.write(kept, json.dumps(_rows(found), separators=(",", ":")).encode())
            return found

    order = sorted(pins, key=lambda pin: (-pin.size, pin.name))
    found = [row for rows in each(read, order, threads=_THREADS) for row in rows]
    return tuple(sorted(found, key=lambda row: (row.package, row.path)))


def _read(pin: WheelPin, store: Store, stop: Stop) -> list[Kernels]:
    if not store.has(pin.sha256, pin.size):
        raise Outside(
            f"a locked wheel is not in the store: {pin.file}",
            subject=str(store.root),
            action="run `nightlock fetch` first",
        )
    found = []
    try:
        with store.path(pin.sha256).open("rb") as file, zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                amounts = _scan(file, entry, stop)
                if amounts:
                    path = installed_path(entry.filename)
                    found.append(
                        Kernels(package=pin.name, path=path, size=entry.file_size, code=amounts)
                    )
    except BROKEN as error:
        raise Refused(
            f"the wheel cannot be read: {error}",
            subject=f"{pin.file} ({store.path(pin.sha256)})",
            action="fetch it again: `nightlock fetch`",
        ) from error
    return found


def _scan(file: BinaryIO, entry: zipfile.ZipInfo, stop: Stop) -> tuple[Amount, ...]:
    examiner = Examiner()
    for number, piece in enumerate(stream(file, entry)):
        stop.check()
        if not number and not piece.startswith(elf.MAGIC):
            return ()
        examiner.feed(piece)
    return examiner.facts().code


def _rows(found: Sequence[Kernels]) -> list[object]:
    return [
        [row.path, row.size, [[*_spelled(one.code), one.count, one.size] for one in row.code]]
        for row in found
    ]


def _spelled(code: Code) -> tuple[str, int, str]:
    return code.form, code.sm, code.suffix


def _load(package: str, rows: list[list[object]]) -> list[Kernels]:
    found = []
    for path, size, amounts in rows:
        if not isinstance(path, str) or not isinstance(size, int) or not isinstance(amounts, list):
            raise TypeError("not what this nightlock writes")
        code = tuple(
            Amount(code=Code(form=form, sm=sm, suffix=suffix), count=count, size=bytes_)
            for form, sm, suffix, count, bytes_ in amounts
        )
        found.append(Kernels(package=package, path=path, size=size, code=code))
    return found
