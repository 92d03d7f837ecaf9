"""Better groups of wheels by small steps, each of which makes the sum of costs (churn) smaller."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from builder.core.churn import Churn, Load


@dataclass(frozen=True, slots=True)
class Group:
    """Wheels that share a layer while a plan is made."""

    names: tuple[str, ...]
    load: Load
    cost: int

    @classmethod
    def of(cls, churn: Churn, names: Collection[str]) -> Group:
        """Add wheels up."""
        load = churn.load(names)
        return cls(tuple(sorted(names)), load, churn.cost(load))


class Search:
    """Changes groups, one small step at a time, as long as a step makes them cheaper."""

    def __init__(self, churn: Churn, groups: Sequence[Group]) -> None:
        self._churn = churn
        self._groups = sorted(groups, key=lambda group: group.names)

    def run(self) -> list[Group]:
        """Search until no step helps; costs are integers that fall, so it ends."""
        while self._moves() or self._swaps() or self._splits():
            pass
        return self._groups

    def _moves(self) -> bool:
        """Move single wheels to where they save most."""
        before = list(self._groups)
        for name, at in self._placed():
            group = self._groups[at]
            if len(group.names) == 1:
                continue
            rest, own = self._without(group, name), self._churn.load([name])
            more, to = min(
                (
                    (self._churn.together(other.load, own) - other.cost, n)
                    for n, other in enumerate(self._groups)
                    if n != at
                ),
                default=(group.cost, at),
            )
            if more < group.cost - rest.cost:
                self._groups[at], self._groups[to] = rest, self._with(self._groups[to], name)
        return self._groups != before

    def _swaps(self) -> bool:
        """Let two wheels of two groups change places."""
        cost = self._churn.together
        rows = [
            (name, at, self._churn.load([name]), self._without(self._groups[at], name).load)
            for name, at in self._placed()
        ]
        for number, (one, a, own, rest) in enumerate(rows):
            for two, b, other, remains in rows[:number]:
                if a == b:
                    continue
                now = self._groups[a].cost + self._groups[b].cost
                if cost(rest, other) + cost(remains, own) < now:
                    first = self._without(self._groups[a], one)
                    second = self._without(self._groups[b], two)
                    self._groups[a] = self._with(first, two)
                    self._groups[b] = self._with(second, one)
                    return True
        return False

    def _splits(self) -> bool:
        """Join two groups, and give the layer that is free to a wheel of any of them."""
        joins = sorted(
            (self._churn.together(one.load, two.load) - one.cost - two.cost, a, b)
            for a, one in enumerate(self._groups)
            for b, two in enumerate(self._groups[:a])
        )
        for name, at in self._placed():
            group = self._groups[at]
            if len(group.names) == 1:
                continue
            rest, own = self._without(group, name), self._with(None, name)
            saved = group.cost - rest.cost - own.cost
            apart = next((row for row in joins if at not in row[1:]), None)
            pairs = [apart] if apart else []
            pairs += [
                (self._churn.together(rest.load, other.load) - rest.cost - other.cost, at, n)
                for n, other in enumerate(self._groups)
                if n != at
            ]
            more, a, b = min(pairs, default=(saved, at, at))
            if more >= saved:
                continue
            self._groups[at] = rest
            union = Group.of(self._churn, self._groups[a].names + self._groups[b].names)
            self._groups[a], self._groups[b] = union, own
            return True
        return False

    def _placed(self) -> list[tuple[str, int]]:
        """Every wheel and the number of its group, by name."""
        return sorted((name, at) for at, group in enumerate(self._groups) for name in group.names)

    def _without(self, group: Group, name: str) -> Group:
        return Group.of(self._churn, [other for other in group.names if other != name])

    def _with(self, group: Group | None, name: str) -> Group:
        return Group.of(self._churn, [*(group.names if group else ()), name])
