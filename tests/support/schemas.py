"""Documents against the schemas that nightlock ships."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "builder" / "schemas"


def breaches(verb: str, document: dict[str, Any]) -> list[str]:
    """Say where a document breaks builder/schemas/VERB.json; empty when it fits."""
    schema = json.loads((SCHEMAS / f"{verb}.json").read_text())
    Draft202012Validator.check_schema(schema)
    found = Draft202012Validator(schema).iter_errors(document)
    return sorted(f"{error.json_path}: {error.message[:200]}" for error in found)
