"""A lock in others' words: a requirements file for pip and uv, a pylock (PEP 751)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w
from packaging.markers import Marker
from packaging.pylock import Package, PackageWheel, Pylock
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from builder.core.lock import Lock, PlatformLock, WheelPin
from builder.core.target import MACHINES


def requirements(content: PlatformLock, urls: Mapping[str, str] | None = None) -> str:
    """Write a requirements file for `--require-hashes`: the lock's own lines.

    With `urls` (package → address) every line names the file itself, so that no index is asked.
    """
    if urls is None:
        return "".join(pin.line() + "\n" for pin in sorted(content.wheels))
    return "".join(_direct(pin, urls[pin.name]) + "\n" for pin in sorted(content.wheels))


def _direct(pin: WheelPin, url: str) -> str:
    return (
        f"{pin.name} @ {url} --hash=sha256:{pin.sha256}"
        f"  # {pin.version} {pin.file} {pin.size} {pin.index}"
    )


def pylock(lock: Lock, platform: str, urls: Mapping[str, str]) -> str:
    """Write one platform as a pylock: one wheel a package, with its sha256, size and address.

    What PEP 751 has no word for (the index's name, the lock's digest) is in `tool.nightlock`.
    """
    content = lock.platforms[platform]
    python = lock.header.target.python
    document = Pylock(
        lock_version=Version("1.0"),
        created_by="nightlock",
        requires_python=SpecifierSet(f"=={python}.*"),
        environments=[
            Marker(
                f"sys_platform == 'linux' and platform_machine == '{MACHINES[platform]}' and "
                f"implementation_name == 'cpython' and python_version == '{python}'"
            )
        ],
        packages=[
            _package(pin, urls[pin.name], content.meta.get(pin.name))
            for pin in sorted(content.wheels)
        ],
        tool={
            "nightlock": {
                "image": lock.header.image,
                "lock": lock.digest,
                "platform": platform,
                "vllm": lock.header.vllm.model_dump(),
            }
        },
    )
    document.validate()
    return tomli_w.dumps(_plain(document.to_dict()))


def _package(pin: WheelPin, url: str, meta: object) -> Package:
    known = meta if isinstance(meta, Mapping) else {}
    python = str(known.get("requires_python", ""))
    return Package(
        name=canonicalize_name(pin.name),
        version=Version(pin.version),
        requires_python=SpecifierSet(python) if python else None,
        wheels=[PackageWheel(name=pin.file, url=url, size=pin.size, hashes={"sha256": pin.sha256})],
        tool={
            "nightlock": {
                "index": pin.index,
                **({"hash-from": str(known["hash_from"])} if "hash_from" in known else {}),
            }
        },
    )


def _plain(value: Any) -> Any:  # noqa: ANN401 - TOML's own types
    """Sequences as lists: tomli_w writes nothing else."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
