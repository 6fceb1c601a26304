"""The JSON Schema of ``run.json``, which is committed: ``python -m capbench.benchmarks.records.schema`` writes it."""

import ast
import inspect
import json
import textwrap
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from . import entries, environment, histograms, record

SCHEMA_PATH = Path(__file__).parent / "run.schema.json"


def schema_text() -> str:
    """Return the schema of the model, as the file has it."""
    schema = record.Record.model_json_schema()
    definitions = {"Record": schema, **schema["$defs"]}
    for module in (entries, environment, histograms, record):
        for name in definitions.keys() & vars(module).keys():
            model: Any = vars(module)[name]
            for field, text in attribute_docstrings(model).items():
                key = model.model_fields[field].alias or field
                definitions[name]["properties"][key]["description"] = text
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "capbench run record (run.json), schema version 1",
    }
    return json.dumps(head | {**schema, **head}, indent=2) + "\n"


@cache
def attribute_docstrings(model: type) -> dict[str, str]:
    """Return the texts below the annotated attributes of a class, by attribute, each in one line."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(cast("ast.ClassDef", definition).body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
