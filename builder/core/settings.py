"""Settings: `config.toml`, `[tool.nightlock]` of the project, `NIGHTLOCK_*`; flags win over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, cast

from pydantic import BaseModel, ConfigDict, Field

from builder.errors import SpecError


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DebianSettings(_Table):
    """Where .debs come from; the machine's own apt sources when empty."""

    mirror: str = ""
    security: str = ""
    snapshot: str = ""
    """Asked last, for files that the mirrors dropped."""
    keyring: str = ""


class EngineSettings(_Table):
    """Which engine builds."""

    host: str = ""
    """As DOCKER_HOST."""
    builder: str = ""
    """A buildx builder's name."""


class SigningSettings(_Table):
    """Who signs what is pushed."""

    key: str = ""
    """A private key of cosign's, or its address at a key service; its password is in
    COSIGN_PASSWORD alone."""


class Settings(_Table):
    """All settings; every one has a default that works."""

    indexes: dict[str, str] = {}
    """Index name → URL, folder or find-links page that takes its place."""
    find_links: list[str] = []
    """Folders or pages that may hold any file a lock names (by sha256)."""
    debian: DebianSettings = DebianSettings()
    engine: EngineSettings = EngineSettings()
    signing: SigningSettings = SigningSettings()
    forges: dict[str, str] = {}
    """`vllm`, `flashinfer` → where their commits are asked for: an address as
    `https://forge.example/api/v3/repos/OWNER/NAME`, the folder of a clone, or `none`."""
    registry: str = ""
    """Repository prefix that images are pushed to, as `registry.example/team`."""
    signatures: list[str] = []
    """Files with more signatures for `diagnose` and smoke, the ones that count first."""
    threads: Annotated[int, Field(ge=1, le=64)] = 8
    """Downloads at once."""


_OTHERS = frozenset({"preflight", "test_state"})
"""Variables of that prefix that are read elsewhere: in images, by the tests."""
_FLAT = {
    "registry": ("registry",),
    "threads": ("threads",),
    "builder": ("engine", "builder"),
    "signing_key": ("signing", "key"),
}


def from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """Read NIGHTLOCK_REGISTRY, _THREADS, _BUILDER, _SIGNING_KEY, _DEBIAN_*, _INDEX_*, _FORGE_*.

    Raises SpecError for another name: a misspelt setting would go unnoticed.
    """
    found: dict[str, object] = {}
    for key, value in environment.items():
        if not key.startswith("NIGHTLOCK_") or not value:
            continue
        name = key.removeprefix("NIGHTLOCK_").lower()
        if name.startswith("index_"):
            indexes = found.setdefault("indexes", {})
            assert isinstance(indexes, dict)  # noqa: S101 - made in the line above
            indexes[name.removeprefix("index_").replace("_", "-")] = value
        elif name.startswith("forge_"):
            _put(found, ("forges", name.removeprefix("forge_")), value)
        elif name.startswith("debian_"):
            _put(found, ("debian", name.removeprefix("debian_")), value)
        elif name in _FLAT:
            _put(found, _FLAT[name], value)
        elif name not in _OTHERS:
            raise SpecError(
                "there is no such setting",
                subject=key,
                action="the settings are NIGHTLOCK_REGISTRY, _THREADS, _BUILDER, _SIGNING_KEY, "
                "_DEBIAN_MIRROR, _DEBIAN_SECURITY, _DEBIAN_SNAPSHOT, _DEBIAN_KEYRING, "
                "_INDEX_<NAME>, _FORGE_<NAME>",
            )
    return found


def source_of(path: Sequence[object], layers: Sequence[tuple[str, Mapping[str, object]]]) -> str:
    """Name the layer (name, settings; the strongest last) that a value at a key path comes from."""
    best, found = 0, layers[-1][0] if layers else ""
    for name, values in layers:
        depth, inside = 0, cast("object", values)
        for part in path:
            if not isinstance(inside, Mapping) or part not in inside:
                break
            depth, inside = depth + 1, inside[part]
        if depth and depth >= best:
            best, found = depth, name
    return found


def index_source(name: str, flags: Sequence[str], environment: Mapping[str, str]) -> str:
    """Say where the place of an index was named: a flag, a variable, or a file."""
    for given in flags:
        if given.partition("=")[0] == name:
            return f"--index {given}"
    variable = f"NIGHTLOCK_INDEX_{name.upper().replace('-', '_')}"
    if environment.get(variable):
        return variable
    return f"indexes.{name} in config.toml or [tool.nightlock]"


def merge(*layers: Mapping[str, object]) -> dict[str, object]:
    """Lay settings over one another, table by table; the last one wins."""
    merged: dict[str, object] = {}
    for layer in layers:
        for key, value in layer.items():
            before = merged.get(key)
            if isinstance(before, dict) and isinstance(value, Mapping):
                merged[key] = merge(before, value)
            else:
                merged[key] = value
    return merged


def _put(target: dict[str, object], path: tuple[str, ...], value: str) -> None:
    *parents, last = path
    for parent in parents:
        child = target.setdefault(parent, {})
        assert isinstance(child, dict)  # noqa: S101 - only tables are put at parents
        target = child
    target[last] = value
