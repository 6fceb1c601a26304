"""The columns of samples whose type follows from their name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

ColumnType = Literal["text", "texts", "numbers", "integer"]
NAMING_COLUMNS = ("id", "image", "system", "category", "failure")
"""Columns of texts that tell samples apart; all others are what the data set, or a model that saw it, says."""
COLUMNS: Mapping[str, ColumnType] = {
    **dict.fromkeys(NAMING_COLUMNS, "text"),
    "candidate": "text",
    **dict.fromkeys(("references", "candidates", "negatives"), "texts"),
    **dict.fromkeys(("ratings", "shares", "scores"), "numbers"),
    "systems": "texts",
    "preferred": "integer",
}
"""Columns whose type the values alone might not tell (``ratings.precision`` has that of ``ratings``).

No metric is called so, as its own name is that of its column.
"""
