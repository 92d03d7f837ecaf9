"""builder/schemas/ is generated from the models; what is committed is what they say."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path

from builder import commands
from builder.core.document import Document, Result
from builder.core.spec import ImageSpec

SCHEMAS = Path(__file__).parents[2] / "builder" / "schemas"


def results() -> dict[str, type[Result]]:
    """Every result a command prints, by the verb it is named after."""
    found: dict[str, type[Result]] = {}
    for info in pkgutil.iter_modules(commands.__path__):
        module = importlib.import_module(f"builder.commands.{info.name}")
        for name, value in vars(module).items():
            if inspect.isclass(value) and issubclass(value, Result) and value is not Result:
                words = "".join("-" + c.lower() if c.isupper() else c for c in name)
                if words.endswith("-result"):
                    found[words.strip("-").removesuffix("-result")] = value
    return found


def expected() -> dict[str, str]:
    """File name → schema text."""
    models: dict[str, object] = {"image": ImageSpec.model_json_schema()}
    for verb, model in sorted(results().items()):
        schema = Document[model].model_json_schema(by_alias=True)  # type: ignore[valid-type]
        schema["properties"]["schema"] = {"const": f"nightlock/{verb}/1"}
        models[verb] = schema
    return {f"{name}.json": json.dumps(model, indent=1) + "\n" for name, model in models.items()}


def test_committed_schemas_are_what_the_models_say(update_golden: bool) -> None:
    """One writer (`pytest --update-golden`), one check."""
    wanted = expected()
    if update_golden:
        for path in SCHEMAS.glob("*.json"):
            path.unlink()
        for name, text in wanted.items():
            (SCHEMAS / name).write_text(text)
    found = {path.name: path.read_text() for path in SCHEMAS.glob("*.json")}
    assert wanted == found
