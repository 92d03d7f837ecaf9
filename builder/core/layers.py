"""The layer plan: which wheels share a layer of the image, so that an update moves few bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

_MOST_BUCKETS = 8


def plan(
    sizes: Mapping[str, int],
    *,
    last: str,
    alone_above: int,
    budget: int,
    previous: Sequence[Sequence[str]] = (),
) -> list[list[str]]:
    """Spread packages over at most `budget` ordered groups.

    `sizes` are bytes of the wheels by package; `last` (vLLM) is the last group, alone. Packages of
    `alone_above` bytes or more get a group each, as long as there is room; those that had one in
    the `previous` plan keep it, the largest newcomers come next. All others share buckets by a hash
    of their name, whose number depends on `budget` alone. So a package that comes, leaves or
    changes moves no other.

    Buckets come after the large groups: small packages change more often, and layers are unpacked
    in order.
    """
    others = {name: size for name, size in sizes.items() if name != last}
    buckets = min(_MOST_BUCKETS, max(1, (budget - 1) // 3))
    room = budget - 1 - buckets
    large = [name for name, size in others.items() if size >= alone_above]
    kept = {group[0] for group in previous if len(group) == 1}
    large.sort(key=lambda name: (name not in kept, -others[name], name))
    alone = sorted(large[:room])
    shared: dict[int, list[str]] = {}
    for name in sorted(others.keys() - set(alone)):
        shared.setdefault(_bucket(name, buckets), []).append(name)
    groups = [[name] for name in alone]
    groups += [shared[number] for number in sorted(shared)]
    if last in sizes:
        groups.append([last])
    return groups


def _bucket(name: str, buckets: int) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % buckets
