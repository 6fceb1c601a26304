"""Objects of ``run.json``: their base, their numbers, and those that runs make before they have a record."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
"""How many; a number that JavaScript can hold, too."""
Finite = Annotated[float, Field(gt=-1e100, lt=1e100)]
"""A number that stays finite when it is scaled."""
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _AsWritten:
    """Makes of ``float`` a :data:`Finite` number, which stays an integer if it is one and fits into 64 bits."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        return core_schema.union_schema(
            [
                core_schema.int_schema(strict=True, ge=-(2**63), lt=2**63),
                core_schema.float_schema(strict=True, gt=-1e100, lt=1e100),
            ],
            custom_error_type="number",
            custom_error_message="Input should be a number between -1e100 and 1e100",
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "number"}


Number = Annotated[float, _AsWritten]


class RecordEntry(BaseModel):
    """An object of ``run.json``; keys of later capbench versions are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, protected_namespaces=())

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values, without those that equal their defaults."""
        return self.model_dump(by_alias=True, exclude_defaults=True)


class RecordedSubset(RecordEntry):
    """The part of the documents of which captions are recorded: how many, of how many, and their hash."""

    documents: Annotated[Count, Field(ge=1)]
    of: Annotated[Count, Field(ge=1)]
    hash: Sha256


class RecordedCheck(RecordEntry):
    """A check of the data: what the task expects, and what was found."""

    check: str
    expected: Number
    found: Number | None
    passed: bool
