"""Locked .debs as one set: their digest, where each may be fetched, what moved between two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from builder.core.lock import DebPin, Lock, digest_of


def architecture_of(platform: str) -> str:
    """Debian's name for an OCI platform; they agree for `linux/amd64` and `linux/arm64`."""
    return platform.split("/")[1]


def debs_text(pins: Iterable[DebPin]) -> bytes:
    """Write debs.txt: sorted, one a line."""
    return "".join(pin.line() + "\n" for pin in sorted(pins)).encode()


def debs_digest(pins: Iterable[DebPin]) -> str:
    """Digest of debs.txt, which determines the root file system."""
    return digest_of(debs_text(pins))


def by_release(pins: Iterable[DebPin]) -> dict[str, tuple[DebPin, ...]]:
    """Part .debs by the release of Debian their suites belong to; each file once."""
    found: dict[str, dict[str, DebPin]] = {}
    for pin in pins:
        codename = pin.suite.removesuffix("-updates").removesuffix("-security")
        found.setdefault(codename, {})[pin.sha256] = pin
    return {codename: tuple(rows.values()) for codename, rows in sorted(found.items())}


def release_of(lock: Lock, platform: str) -> str:
    """Codename of Debian below an image; empty for a base image that got no .debs."""
    return lock.header.base.debian or next(iter(by_release(lock.platforms[platform].debs)), "")


def candidates(
    pin: DebPin, archives: Mapping[str, Sequence[str]], snapshot: str = ""
) -> tuple[str, ...]:
    """List where to ask for a .deb, in order: its suite's archive, the other ones, a snapshot.

    `archives` maps suites to addresses. The security archive keeps under `pool/updates/` what a
    point release moves to `pool/`. In `snapshot`, `{archive}` stands for `debian` or
    `debian-security`.
    """
    own = list(archives.get(pin.suite, ()))
    others = [address for suite in archives for address in archives[suite] if address not in own]
    urls = [f"{address}/{pin.path}" for address in own]
    for address in others:
        urls += [f"{address}/{path}" for path in (pin.path, _moved(pin.path))]
    if snapshot:
        name = "debian-security" if pin.suite.endswith("-security") else "debian"
        urls.append(f"{snapshot.replace('{archive}', name).rstrip('/')}/{pin.path}")
    return tuple(dict.fromkeys(urls))


def _moved(path: str) -> str:
    if path.startswith("pool/updates/"):
        return "pool/" + path.removeprefix("pool/updates/")
    return path.replace("pool/", "pool/updates/", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebChange:
    """One package that moved between two sets; an empty version means it is not there."""

    name: str
    architecture: str
    old: str
    new: str

    @property
    def kind(self) -> str:
        """`added`, `removed`, `changed`; `rebuilt`: other bytes under the same version."""
        if not self.old:
            return "added"
        if not self.new:
            return "removed"
        return "rebuilt" if self.old == self.new else "changed"

    def __str__(self) -> str:
        return f"{self.name}:{self.architecture} {self.old or '(none)'} → {self.new or '(none)'}"


def diff_debs(old: Iterable[DebPin], new: Iterable[DebPin]) -> tuple[DebChange, ...]:
    """Compare two sets by package, sorted by name."""
    before = {(pin.name, pin.architecture): pin for pin in old}
    after = {(pin.name, pin.architecture): pin for pin in new}
    changes = []
    for key in sorted(before.keys() | after.keys()):
        one, two = before.get(key), after.get(key)
        if one is None or two is None or one.sha256 != two.sha256:
            changes.append(
                DebChange(
                    name=key[0],
                    architecture=key[1],
                    old=one.version if one else "",
                    new=two.version if two else "",
                )
            )
    return tuple(changes)


def diff_text(changes: Sequence[DebChange]) -> str:
    """Spell the changes for a person, one a line."""
    if not changes:
        return "no .deb changed"
    counts: dict[str, int] = {}
    for change in changes:
        counts[change.kind] = counts.get(change.kind, 0) + 1
    head = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    return "\n".join([f".debs: {head}", *(f"  {change}" for change in changes)])


def with_debs(lock: Lock, platform: str, pins: Iterable[DebPin]) -> Lock:
    """Put other .debs into a lock; all else stays."""
    debs = tuple(sorted(pins))
    base = lock.header.base
    return replace(
        lock,
        header=lock.header.model_copy(
            update={
                "base": base.model_copy(update={"debs": {**base.debs, platform: debs_digest(debs)}})
            }
        ),
        platforms={**lock.platforms, platform: replace(lock.platforms[platform], debs=debs)},
    )
