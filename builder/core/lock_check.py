"""Whether the parts of a lock agree with each other; each problem is one sentence."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from builder.core.lock_header import Header
from builder.core.pins import DebPin, WheelPin, is_package
from builder.errors import LockFileError

SIBLING = re.compile(r"linux-(amd64|arm64)\.(txt|debs\.txt|meta\.json)", re.ASCII)
"""Names of the files beside lock.toml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The parsed lines of one platform."""

    wheels: Sequence[WheelPin]
    debs: Sequence[DebPin]
    meta: Mapping[str, object]


def header_problems(header: Header) -> Iterator[str]:
    """Compare the tables of lock.toml with its list of files."""
    if not is_package(header.image):
        yield f"image: {header.image!r:.80} is not the name of an image"
    if header.channel not in ("release", "nightly"):
        yield f"channel: {header.channel!r:.80} is neither `release` nor `nightly`"
    platforms = platforms_of(header)
    if not platforms:
        yield "[files] names no platform"
    for platform in platforms:
        stem = platform.replace("/", "-")
        if f"{stem}.meta.json" not in header.files:
            yield f"[files] lacks {stem}.meta.json"
        if platform not in header.layers:
            yield f"[layers] lacks {platform}"
    yield from _base_problems(header, platforms)
    known = set(platforms)
    named = {
        "files": {platform_of(name) for name in header.files},
        "layers": header.layers.keys(),
        "tools": header.tools.keys(),
        "base.debs": header.base.debs.keys(),
        "base.images": header.base.images.keys(),
    }
    for table, keys in named.items():
        if strange := sorted(set(keys) - known):
            yield f"[{table}] names {', '.join(strange)}, which has no list of wheels"


def _base_problems(header: Header, platforms: Iterable[str]) -> Iterator[str]:
    for platform in platforms:
        name = f"{platform.replace('/', '-')}.debs.txt"
        debs, digest = header.files.get(name), header.base.debs.get(platform)
        if debs != digest:
            yield f"[base.debs] of {platform} is {digest or 'missing'}, the file {debs or 'too'}"
        if header.base.image and platform not in header.base.images:
            yield f"[base.images] lacks {platform}"


def content_problems(header: Header, platform: str, content: Content) -> Iterator[str]:
    """Compare one platform's lines with lock.toml and with each other."""
    pins = {pin.name: pin for pin in content.wheels}
    yield from _twice(f"{platform}: pinned twice", (pin.name for pin in content.wheels))
    keys = (f"{pin.name}:{pin.architecture}" for pin in content.debs)
    yield from _twice(f"{platform}: .deb pinned twice", keys)
    if platform in header.layers:
        groups = header.layers[platform]
        placed = [name for group in groups for name in group]
        yield from _twice(f"{platform}: in two layers", placed)
        if lost := sorted(pins.keys() - set(placed)):
            yield f"{platform}: in no layer: {', '.join(lost)}"
        if strange := sorted(set(placed) - pins.keys()):
            yield f"{platform}: in a layer, and not pinned: {', '.join(strange)}"
        if not all(groups):
            yield f"{platform}: an empty layer"
    leader = pins.get(header.vllm.package)
    if leader is None:
        yield f"{platform}: {header.vllm.package}, which is vLLM, is not pinned"
    elif leader.version != header.vllm.version:
        yield f"{platform}: vLLM is {leader.version}, [vllm] says {header.vllm.version}"
    yield from _tool_problems(platform, header.tools.get(platform, ()))


def _tool_problems(platform: str, lines: Iterable[str]) -> Iterator[str]:
    names = []
    for line in lines:
        try:
            names.append(WheelPin.parse(line).name)
        except LockFileError as error:
            yield f"[tools] of {platform}: {error.what}"
            return
    yield from _twice(f"[tools] of {platform}: pinned twice", names)


def _twice(words: str, names: Iterable[str]) -> Iterator[str]:
    if found := sorted(name for name, count in Counter(names).items() if count > 1):
        yield f"{words}: {', '.join(found)}"


def platforms_of(header: Header) -> list[str]:
    """OCI platforms that have a list of wheels."""
    return [
        platform_of(name)
        for name in header.files
        if re.fullmatch(r"linux-[a-z0-9]+\.txt", name, re.ASCII)
    ]


def platform_of(name: str) -> str:
    """OCI platform of a sibling file."""
    return name.partition(".")[0].replace("-", "/", 1)


def parse_meta(data: bytes) -> dict[str, object]:
    """Read meta.json; raises ValueError with the reason when it is not what `nightlock` writes."""
    try:
        meta = json.loads(data.decode(), parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(meta, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - the data's type, not an argument's
    for package, row in meta.items():
        if not isinstance(row, dict) or not all(_is_plain(value) for value in row.values()):
            raise ValueError(f"{package!r:.80}: not a row of texts and lists of texts")
        if not _is_text_lists(row.get("wins", {})):
            raise ValueError(f"{package!r:.80}: wins: not package → paths")
        if "requires_dist" in row and not _is_texts(row["requires_dist"]):
            raise ValueError(f"{package!r:.80}: requires_dist: not a list of texts")
    return meta


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str) or _is_texts(value) or _is_text_lists(value)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_text_lists(value: object) -> bool:
    return isinstance(value, dict) and all(_is_texts(item) for item in value.values())
