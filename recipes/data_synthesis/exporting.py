"""Rows with their images as shards of WebDataset or Parquet, for trainings that stream."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ...atomic_files import draft_beside, put_in_place
from ...boundary import HINT, Boundary
from ...errors import DataError, UsageError
from ...rows import BadRow, read_rows
from ..training.rows import image_fault
from .provenance import FILE

if TYPE_CHECKING:
    import pyarrow

SHARD = 500 << 20
"""Bytes from which on a shard ends."""
_GROUP = 32 << 20
"""Bytes of images from which on a row group of Parquet ends."""
_AT_ONCE = 1_000
"""Rows whose types are looked at together, and the most of a row group."""
_ROWS = "rows.jsonl"
_SUFFIXES = {"webdataset": "tar", "parquet": "parquet"}


def export_rows(folder: Path, form: str, output: Path) -> int:
    """Write the rows of a folder with their images, row by row, and return their number.

    The output is a folder for ``datasets.load_dataset``, with the rows' ``provenance.json``.

    Args:
        folder: What ``bench make`` wrote, with ``rows.jsonl``.
        form: ``webdataset`` or ``parquet``.
        output: The output folder, which must not hold anything.

    Raises:
        UsageError: The output folder holds something.
        DataError: There are no rows, one cannot be read, or rows do not fit together.
    """
    if output.exists() and any(output.iterdir()):
        raise UsageError(f"--output {output}: holds something already", "Name an empty folder.")
    rows = _Rows(folder)
    output.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_beside(output)
    draft.mkdir()
    try:
        total = (_write_tar if form == "webdataset" else _write_parquet)(rows, draft)
        if (folder / FILE).is_file():
            shutil.copyfile(folder / FILE, draft / FILE)
        files = {"split": "train", "path": f"*.{_SUFFIXES[form]}"}
        head = yaml.safe_dump({"tags": ["capbench"], "configs": [{"config_name": "default", "data_files": [files]}]})
        card = f"---\n{head}---\n\n# {output.name}\n\n{total:,} rows by `bench make`; `{FILE}` says what made them.\n"
        (draft / "README.md").write_text(card, encoding="utf-8")
        put_in_place(draft, output)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return total


@dataclass(frozen=True)
class _Rows:
    """The rows of a folder, which are read again for each pass.

    Attributes:
        folder: The folder.
    """

    folder: Path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        file = self.folder / _ROWS
        if not file.is_file():
            raise DataError(f"{self.folder}: has no {_ROWS}", "Name a folder of 'bench make' with output.form=rows.")
        for row in read_rows(file):
            if isinstance(row, BadRow):
                raise DataError(f"{self.folder / row.place}: {row.reason}", "Make the rows again: 'bench make'.")
            yield row

    @cached_property
    def _boundary(self) -> Boundary:
        return Boundary.around(self.folder)

    @cached_property
    def schema(self) -> pyarrow.Schema:
        """The types of all values but images; what is nested is JSON, a string.

        Raises:
            DataError: A column has values of several types.
        """
        import pyarrow

        schema, nested, left = pyarrow.schema([]), set[str](), iter(self)
        while some := list(islice(left, _AT_ONCE)):
            columns = dict.fromkeys(key for row in some for key in row if key not in _IMAGES)
            nested |= {key for row in some for key in columns if _is_nested(row.get(key))}
            try:
                types = [
                    (key, pyarrow.string() if key in nested else pyarrow.array([row.get(key) for row in some]).type)
                    for key in columns
                ]
                kept = pyarrow.schema([field for field in schema if field.name not in nested])
                schema = pyarrow.unify_schemas([kept, pyarrow.schema(types)], promote_options="permissive")
            except pyarrow.ArrowException as error:
                where = f"{self.folder / _ROWS}, rows {some[0].get('id')} to {some[-1].get('id')}"
                raise DataError(f"{where}: {error}", "Give the values of a column one type.") from error
        unknown = {pyarrow.null(): pyarrow.string(), pyarrow.list_(pyarrow.null()): pyarrow.list_(pyarrow.string())}
        return pyarrow.schema([(field.name, unknown.get(field.type, field.type)) for field in schema])

    def values(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a value of its type for each column, None where the row has none."""
        import pyarrow

        values: dict[str, Any] = {}
        for field in self.schema:
            value = row.get(field.name)
            if field.type == pyarrow.string():
                is_text = value is None or isinstance(value, str)
                values[field.name] = value if is_text else json.dumps(value, ensure_ascii=False)
            else:
                # Readers take a column whose first values have no fraction for whole numbers, and cut later ones.
                values[field.name] = pyarrow.scalar(value, field.type).as_py()
        return values

    def image(self, row: Mapping[str, Any], name: str) -> bytes:
        """Return the encoded bytes of an image that a row names.

        Raises:
            DataError: It is missing, or lies outside of the folder.
        """
        path = self.folder / name
        if fault := image_fault(path, self._boundary):
            raise DataError(
                f"row {row.get('id')}: {fault}", HINT if path.exists() else "Make the rows again: 'bench make'."
            )
        return path.read_bytes()


_IMAGES = ("image", "further_images")
"""Columns whose values are paths of images."""


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and any(isinstance(part, Mapping | list) for part in value)
    )


def _write_tar(rows: _Rows, folder: Path) -> int:
    """Write samples ``NUMBER.jpg``, ``NUMBER.json`` and so on; all of them have the same parts, as readers expect."""
    numbers, number, names = count(), -1, list[str]()
    with ExitStack() as stack:
        shard: tarfile.TarFile | None = None
        for number, row in enumerate(rows):
            if shard is None or shard.offset >= SHARD:
                stack.close()
                shard = stack.enter_context(tarfile.open(folder / f"train-{next(numbers):05}.tar", "w"))
            parts = _parts(rows, row)
            names = names or list(parts)
            if list(parts) != names:
                raise DataError(
                    f"row {row.get('id')}: has {', '.join(parts)}, and rows before it {', '.join(names)}; samples of "
                    "WebDataset have the same parts",
                    "--format parquet takes rows with different ones.",
                )
            for name, content in parts.items():
                entry = tarfile.TarInfo(f"{number:09}.{name}")
                entry.size = len(content)
                shard.addfile(entry, io.BytesIO(content))
            # It would keep the entries of all samples.
            shard.members = []  # pyrefly: ignore[missing-attribute] - of typeshed
    return number + 1


def _parts(rows: _Rows, row: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of a sample by what follows their number."""
    images = {"": row["image"]} if row.get("image") else {}
    images |= {f"further_image_{place}.": name for place, name in enumerate(row.get("further_images") or ())}
    encoded = {
        before + (Path(name).suffix[1:].lower().replace("jpeg", "jpg") or "img"): rows.image(row, name)
        for before, name in images.items()
    }
    return {**encoded, "json": json.dumps(rows.values(row), ensure_ascii=False).encode()}


def _write_parquet(rows: _Rows, folder: Path) -> int:
    """Write tables in which ``datasets`` finds images as such."""
    import datasets
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    present = {name for row in rows for name in _IMAGES if name in row}
    features = datasets.Features.from_arrow_schema(rows.schema)
    features |= {
        name: datasets.Image() if name == "image" else datasets.List(datasets.Image()) for name in sorted(present)
    }
    schema = features.arrow_schema
    numbers, total, written = count(), 0, 0
    writer: Any = None
    with ExitStack() as stack:
        for group, size in _groups(rows):
            if writer is None or written >= SHARD:
                stack.close()
                file = folder / f"train-{next(numbers):05}.parquet"
                writer = stack.enter_context(ParquetWriter(file, schema, compression="zstd"))
                written = 0
            writer.write_table(pyarrow.Table.from_pylist(group, schema))
            total, written = total + len(group), written + size
    return total


def _groups(rows: _Rows) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Yield the rows of each row group, with their images, and the size of these in bytes."""
    group, size = list[dict[str, Any]](), 0
    for row in rows:
        encoded = {
            name: {"bytes": rows.image(row, name), "path": Path(name).name}
            for name in filter(None, (row.get("image"), *(row.get("further_images") or ())))
        }
        group.append(
            {
                **rows.values(row),
                "image": encoded.get(row.get("image", "")),
                "further_images": [encoded[name] for name in row.get("further_images") or ()],
            }
        )
        size += sum(len(image["bytes"]) for image in encoded.values())
        if size >= _GROUP or len(group) >= _AT_ONCE:
            yield group, size
            group, size = [], 0
    if group:
        yield group, size
