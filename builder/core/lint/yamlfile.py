"""YAML with lines: mappings and lists of nodes that know where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from builder.core.lint.place import Word


@dataclass(frozen=True, slots=True)
class Node:
    """One value: a scalar, a list or a mapping; None behaves as an absent one."""

    inner: Any

    @property
    def line(self) -> int:
        """Where it begins, from 1; 0 when it is absent."""
        return 0 if self.inner is None else int(self.inner.start_mark.line) + 1

    @property
    def there(self) -> bool:
        """Whether it is in the file."""
        return self.inner is not None

    def get(self, *path: str) -> Node:
        """Value below a path of keys; an absent node when one is missing."""
        node = self.inner
        for key in path:
            node = dict(_pairs(node)).get(key)
        return Node(node)

    def items(self) -> list[tuple[str, Node]]:
        """Pairs of a mapping, in order; none for another kind."""
        return [(key, Node(value)) for key, value in _pairs(self.inner)]

    def list(self) -> list[Node]:
        """Items of a list; none for another kind."""
        if not isinstance(self.inner, yaml.SequenceNode):
            return []
        return [Node(item) for item in self.inner.value]

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.inner, yaml.SequenceNode)

    @property
    def is_text(self) -> bool:
        """Whether it is a scalar that YAML reads as a string."""
        return isinstance(self.inner, yaml.ScalarNode) and self.inner.tag.endswith(":str")

    @property
    def text(self) -> str:
        """A scalar's text; empty for another kind."""
        return str(self.inner.value) if isinstance(self.inner, yaml.ScalarNode) else ""

    def word(self) -> Word:
        """Give a scalar with its place; `raw` is its spelling where that is on one line."""
        if not isinstance(self.inner, yaml.ScalarNode):
            return Word(text="", line=self.line)
        begin, end = self.inner.start_mark, self.inner.end_mark
        raw = ""
        if begin.line == end.line and begin.buffer is not None:
            raw = begin.buffer[begin.pointer : begin.pointer + end.column - begin.column]
        return Word(text=self.text, line=self.line, raw=raw)


def _pairs(node: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - yaml has no types
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value == "<<":
            # A merge key: what it brings is overridden by what stands beside it.
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in sources:
                yield from _pairs(source)
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value != "<<":
            yield key.value, value


def documents(text: str) -> list[Node]:
    """Every document of a file; raises yaml.YAMLError when it is none."""
    return [Node(node) for node in yaml.compose_all(text, Loader=yaml.SafeLoader)]
