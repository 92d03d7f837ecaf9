"""The layer plan: which wheels share a layer of the image, so that an update moves few bytes.

Wanted: ordered groups, at most `budget`, vLLM last and alone, with the least Σ E(g) (see churn).
That is a partition problem without a fast exact answer. `_fresh` starts from one wheel a layer and
joins, again and again, the two layers whose union costs least more; then it moves and swaps single
wheels, or joins two layers to set one wheel free, while that makes the sum smaller. (On random sets
of eight wheels, 99 of 100 such plans are the best one of all.) Layers whose wheels change at the
same upgrades join for nothing; a large wheel that rests is kept from small ones that do not.

Order changes nothing for a store that finds layers by their digest (containerd, Podman). Docker's
older stores find them by the chain of all below, and so pull everything above the first change:
for two neighbours a, b it costs less to have a below when P(a) / ((1 - P(a)) s(a)) is the smaller
one. What is large and rests lies at the bottom, what is small and moves at the top.

A plan that is there is kept (`_kept`): a wheel that changes, comes or leaves moves no other. A
layer that would have to be pulled because of a better plan costs more than the plan gains, so a
new one is made on request alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from fractions import Fraction

from builder.core.churn import Churn
from builder.core.layer_search import Group, Search

_FOR_OTHERS = 8
"""Layers that large wheels leave to the others, where there are as many."""

Groups = Sequence[Sequence[str]]
"""Package names by layer, from the bottom."""


def plan(
    churn: Churn, *, last: str, alone_above: int, budget: int, previous: Groups = ()
) -> list[list[str]]:
    """Spread wheels over at most `budget` ordered groups; `last` (vLLM) is the last one, alone.

    Wheels of `alone_above` bytes or more get a group each, the largest first, as long as a third of
    the layers, or eight, are left for the others. The groups of `previous` stay as they are, also
    in their order: newcomers get groups of their own, above them, while there is room, and join
    where that costs least when there is none. Only a `budget` below their number joins two of them.
    """
    names = [name for name in churn.sizes if name != last]
    large = _large(churn, names, alone_above, budget - 1)
    kept = [here for group in previous if (here := sorted(set(group) & set(names)))]
    if kept:
        groups = _kept(churn, kept, names, large, budget - 1)
    else:
        groups = _ordered(churn, _fresh(churn, names, large, budget - 1))
    return [*groups, [last]] if last in churn.sizes else groups


def _large(churn: Churn, names: Collection[str], alone_above: int, room: int) -> frozenset[str]:
    """Find the wheels that stay alone."""
    found = [name for name in names if churn.sizes[name] >= alone_above]
    found.sort(key=lambda name: (-churn.sizes[name], name))
    return frozenset(found[: room - min(_FOR_OTHERS, max(1, room // 3))])


def group_names(groups: Groups) -> list[str]:
    """Name groups by what they hold alone, so that no group has another name because of one more.

    The name is a stage of the Dockerfile and a folder of wheels.
    """
    return [f"group-{min(group)}" + ("-etc" if len(group) > 1 else "") for group in groups]


def _kept(
    churn: Churn,
    previous: Sequence[Sequence[str]],
    names: Collection[str],
    large: frozenset[str],
    room: int,
) -> list[list[str]]:
    placed = frozenset(name for group in previous for name in group)
    old = [Group.of(churn, group) for group in previous]
    new = [Group.of(churn, [name]) for name in names if name not in placed]
    joined = _joined(churn, [*old, *new], large, room, settled=placed)
    # A group stands where the lowest of its settled wheels stood.
    place = {name: at for at, group in enumerate(previous) for name in group}
    stay, come = [], []
    for group in joined:
        at = min((place[name] for name in group.names if name in place), default=-1)
        if at < 0:
            come.append(list(group.names))
        else:
            stay.append((at, list(group.names)))
    return [group for _, group in sorted(stay)] + _ordered(churn, come)


def _fresh(
    churn: Churn, names: Collection[str], large: frozenset[str], room: int
) -> list[list[str]]:
    single = [Group.of(churn, [name]) for name in names]
    groups = _joined(churn, single, large, room, settled=frozenset())
    closed = [group for group in groups if len(group.names) == 1 and large.issuperset(group.names)]
    search = Search(churn, [group for group in groups if group not in closed])
    return [list(group.names) for group in [*closed, *search.run()]]


def _joined(
    churn: Churn,
    groups: Sequence[Group],
    large: frozenset[str],
    room: int,
    *,
    settled: frozenset[str],
) -> list[Group]:
    """Join two groups at a time until no more than `room` are left.

    Two that hold `settled` wheels are joined only when nothing else is left, and what is large
    joins only when nothing small is; then the pair whose union costs least more; then by name.
    """
    alive: dict[int, Group] = dict(enumerate(groups))
    heap: list[tuple[int, int, tuple[str, ...], tuple[str, ...], int, int]] = []

    def offer(a: int, b: int) -> None:
        one, two = sorted((alive[a], alive[b]), key=lambda group: group.names)
        more = churn.together(one.load, two.load) - one.cost - two.cost
        both_settled = not (settled.isdisjoint(one.names) or settled.isdisjoint(two.names))
        with_large = not large.isdisjoint(one.names + two.names)
        heapq.heappush(heap, (2 * both_settled + with_large, more, one.names, two.names, a, b))

    count = len(groups)
    if count > room:
        for a in alive:
            for b in range(a):
                offer(b, a)
    while len(alive) > max(room, 1):
        *_, a, b = heapq.heappop(heap)
        if a not in alive or b not in alive:
            continue
        union = Group.of(churn, alive.pop(a).names + alive.pop(b).names)
        for other in alive:
            alive[count] = union
            offer(other, count)
            del alive[count]
        alive[count] = union
        count += 1
    return list(alive.values())


def _ordered(churn: Churn, groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """Put what is large and rests at the bottom."""

    def key(group: Sequence[str]) -> tuple[Fraction, str]:
        load = churn.load(group)
        weight = churn.weight(load)
        rests = (churn.total - weight) * load.size
        return Fraction(weight, max(rests, 1)), min(group)

    return [sorted(group) for group in sorted(groups, key=key)]
