"""JSON Schema as far as smoke needs it: whether an answer has the structure it was held to.

Source: JSON Schema 2020-12, validation vocabulary; the keywords below, no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packaging.version import InvalidVersion, Version
from pydantic import JsonValue

KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const"}
)
"""A schema with another keyword is refused: what is not looked at is not proven."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_STRUCTURED_OUTPUTS = Version("0.10.2")
"""vLLM's first release with the field `structured_outputs`; `guided_json` was dropped in 0.12."""


def unknown_keywords(schema: JsonValue) -> list[str]:
    """Name what `misfits` would not look at."""
    if not isinstance(schema, dict):
        return []
    found = [key for key in schema if key not in KEYWORDS]
    kind = schema.get("type")
    if kind is not None and kind not in _TYPES:
        found.append(f"type {kind!r}")
    properties = schema.get("properties")
    inner = list(properties.values()) if isinstance(properties, dict) else []
    for one in [*inner, schema.get("items")]:
        found += unknown_keywords(one)
    return found


def misfits(schema: Mapping[str, JsonValue], value: JsonValue, at: str = "$") -> list[str]:
    """Say where a value is not what the schema asks for; empty when it is."""
    return list(_misfits(schema, value, at))


def structure_fields(
    schema: Mapping[str, JsonValue], form: str, version: str
) -> dict[str, JsonValue]:
    """Return the fields of a request that hold its answer to a schema.

    `form` `response_format` is OpenAI's own; `extra` is vLLM's: `structured_outputs`, before 0.10.2
    `guided_json`. A version that cannot be read counts as new.
    """
    content: JsonValue = dict(schema)
    if form == "response_format":
        named: JsonValue = {"name": "answer", "schema": content}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    try:
        old = Version(version) < _STRUCTURED_OUTPUTS
    except InvalidVersion:
        old = False
    return {"guided_json": content} if old else {"structured_outputs": {"json": content}}


def _misfits(schema: Mapping[str, JsonValue], value: JsonValue, at: str) -> Iterator[str]:
    kind = schema.get("type")
    if isinstance(kind, str) and not _is(value, kind):
        yield f"{at} is {value!r}, no {kind}"
        return
    if "const" in schema and not _equal(value, schema["const"]):
        yield f"{at} is {value!r}, not {schema['const']!r}"
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_equal(value, one) for one in choices):
        yield f"{at} is {value!r}, none of {choices!r}"
    if isinstance(value, dict):
        yield from _object_misfits(schema, value, at)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        for number, one in enumerate(value):
            yield from _misfits(items, one, f"{at}[{number}]")


def _object_misfits(
    schema: Mapping[str, JsonValue], value: Mapping[str, JsonValue], at: str
) -> Iterator[str]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else []:
        if name not in value:
            yield f"{at} has no {name!r}"
    for name, one in value.items():
        inner = known.get(name)
        if isinstance(inner, dict):
            yield from _misfits(inner, one, f"{at}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{at} has {name!r}, which the schema does not know"


def _is(value: JsonValue, kind: str) -> bool:
    # To Python a bool is an int; to JSON it is not.
    if isinstance(value, bool):
        return kind == "boolean"
    whole = isinstance(value, float) and value.is_integer() and kind == "integer"
    return whole or isinstance(value, _TYPES[kind])


def _equal(one: JsonValue, other: JsonValue) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)
