"""Plain data as YAML text, with a comment on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes lists inside of mappings indented, and nothing by reference."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _nothing(dumper: yaml.SafeDumper, _value: None) -> yaml.Node:
    # `cache:` alone, as people write a volume without settings.
    return dumper.represent_scalar("tag:yaml.org,2002:null", "")


_Dumper.add_representer(type(None), _nothing)


def yaml_text(comment: Sequence[str], documents: Sequence[dict[str, Any]]) -> str:
    """Write documents in the order of their keys; quoting is the library's."""
    texts = [
        yaml.dump(
            one,
            Dumper=_Dumper,
            sort_keys=False,
            default_flow_style=False,
            allow_unicode=True,
            width=4096,
        )
        for one in documents
    ]
    return "".join(f"# {line}\n" for line in comment) + "---\n".join(texts)
