"""Plain data as YAML text, with a comment on top."""

from __future__ import annotations

import re
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

_OTHERWISE = re.compile(
    r"[-+]?(?:\.?[0-9][0-9_.]*(?:e[-+]?[0-9]+)?|0[xob][0-9a-f_]+|\.inf|\.nan)|y|n|~|=|<<",
    re.IGNORECASE,
)
"""Plain texts that some reader takes for a number or a truth: PyYAML is of YAML 1.1, the Go
programs that read these files take `1e3` and `0o7` of YAML 1.2 as well."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "'" if _OTHERWISE.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


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
