"""The JSON Schema of ``run.json``, which is committed: ``python -m capbench.benchmarks.records.schema`` writes it."""

from __future__ import annotations

import ast
import inspect
import json
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from . import entries, environment, histograms, record

SCHEMA_PATH = Path(__file__).parent / "run.schema.json"


def schema_text() -> str:
    """Return the schema of the model, as the file has it."""
    schema = record.Record.model_json_schema()
    definitions = {"Record": schema, **schema["$defs"]}
    for module in (entries, environment, histograms, record):
        for (model, name), text in _docstrings(module).items():
            if model in definitions:
                field = getattr(module, model).model_fields[name]
                definitions[model]["properties"][field.alias or name]["description"] = text
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "capbench run record (run.json), schema version 1",
    }
    return json.dumps(head | {**schema, **head}, indent=2, ensure_ascii=False) + "\n"


def _docstrings(module: ModuleType) -> dict[tuple[str, str], Any]:
    """Return the texts below the fields of a module's classes, by class and field."""
    return {
        (model.name, field.target.id): inspect.cleandoc(text.value.value).replace("\n", " ")
        for model in ast.parse(inspect.getsource(module)).body
        if isinstance(model, ast.ClassDef)
        for field, text in pairwise(model.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
