"""Writes the output: a table that recipes and tasks read, or a folder in DCI's layout."""

import base64
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...adapters.images.handles import image_suffix
from ...atomic_files import write_whole, written_whole
from ...errors import DataError
from ...tasks.dci.mask_texts import BASE, entry_key
from .contract import PipelineRow
from .provenance import Shared, own_records
from .schema import Output
from .sources import file_name

_LISTS = ("captions", "negatives", "further_captions", "further_images")
"""Columns that hold lists."""
OF_DCI = ("mask_data", "summaries", "negatives", "clip_scores")
"""Values that DCI's folder holds for each image."""
_PERHAPS_OF_DCI = ("short_caption", "extra_caption", "mask_keys")


def claim(output: Path, mark: str, owner: str, kind: str) -> None:
    """Create an output folder, and mark it.

    Args:
        output: The folder.
        mark: The name of the file with its owner.
        owner: What writes into it.
        kind: What owners are called.

    Raises:
        DataError: It belongs to another owner, or has files of none.
    """
    path = output / mark
    output.mkdir(parents=True, exist_ok=True)
    # A folder with a mark only is free: its owner wrote nothing.
    if any(file != path for file in output.iterdir()):
        if not path.is_file():
            raise DataError(f"{output} has files of no {kind}", "Name an empty folder with --output.")
        if (known := path.read_text(encoding="utf-8").strip()) != owner:
            raise DataError(
                f"{output} holds the output of another {kind}: {known}, not {owner}",
                "Name another folder with --output, or remove this one; only the turns of a loop may change.",
            )
    write_whole(path, f"{owner}\n")


def write_output(
    rows: Iterable[PipelineRow], output: Output, folder: Path, shared: Shared = MappingProxyType({})
) -> Path:
    """Write rows and, below the folder, their images; return the file or folder.

    Args:
        rows: The rows.
        output: What is written.
        folder: Where.
        shared: What records of the rows leave out.

    Raises:
        DataError: A row lacks a value of the output.
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if output.form == "dci":
        return _write_dci(rows, output, folder, shared)
    path = folder / "rows.jsonl"
    with written_whole(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(_values(row, output, folder, shared), ensure_ascii=False)}\n" for row in rows)
    return path


def _values(row: PipelineRow, output: Output, folder: Path, shared: Shared) -> dict[str, Any]:
    values: dict[str, Any] = {"id": row.id}
    if row.image is not None:
        values["image"] = image_below(folder, row)
    for column, key in output.columns.items():
        value = value_at(row, key)
        value = [value] if column in _LISTS and isinstance(value, str) else value
        values[column] = _write_images(row, value, folder) if column == "further_images" else value
    return {**values, "provenance": own_records(row, shared)}


def value_at(row: PipelineRow, key: str) -> Any:
    """Return a value of a row by its dotted path, such as ``summaries.base``.

    Raises:
        DataError: The row has no such value.
    """
    value: Any = row.values
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise DataError(
                f"row {row.id} has no '{key}'; it has {', '.join(row.values)}",
                "Name a value that the data hold or a stage makes.",
            )
        value = value[part]
    return value


def _write_images(row: PipelineRow, encoded: Sequence[str], folder: Path) -> list[str]:
    names: list[str] = []
    for number, image in enumerate(encoded):
        content = base64.b64decode(image)
        path = folder / "further_images" / f"{file_name(row.id)}-{number}{image_suffix(content)}"
        path.parent.mkdir(exist_ok=True)
        write_whole(path, content)
        names.append(path.relative_to(folder).as_posix())
    return names


def image_below(folder: Path, row: PipelineRow) -> str:
    """Return the path of a row's image in a folder, which can then be moved.

    An image of another folder is put into ``images``, under its hash.
    """
    whole, image = folder.absolute(), row.file
    if not image.is_relative_to(whole):
        image = whole / "images" / f"{row.image_digest.split(':')[1].strip()[:16]}{image.suffix.lower()}"
        if not image.exists():
            image.parent.mkdir(exist_ok=True)
            _put(row.file, image)
    return image.relative_to(whole).as_posix()


def _put(image: Path, target: Path) -> None:
    """Put an image where its copy belongs; a hard link, where the file system has them, takes no space."""
    if target.exists() and target.samefile(image):
        return
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(image.resolve())
    except OSError:
        with written_whole(target) as draft:
            shutil.copyfile(image, draft)


def _write_dci(rows: Iterable[PipelineRow], output: Output, folder: Path, shared: Shared) -> Path:
    for name in ("photos", "complete"):
        (folder / name).mkdir(exist_ok=True)
    names: list[str] = []
    for row in rows:
        if row.image is None:
            raise DataError(f"row {row.id} has no image, which DCI's folder requires", "Give images with --data.")
        photo = f"{file_name(row.id)}{row.image.suffix}"
        _put(row.image, folder / "photos" / photo)
        content = {
            "image": photo,
            **{key: row.values[key] for key in _PERHAPS_OF_DCI if key in row.values},
            "mask_data": _described_masks(row),
            **{key: value_at(row, key) for key in OF_DCI[1:]},
            "provenance": own_records(row, shared),
        }
        names.append(f"{file_name(row.id)}.json")
        write_whole(folder / "complete" / names[-1], json.dumps(content, ensure_ascii=False))
    splits = {split: names if split == output.split else [] for split in ("train", "valid", "test")}
    write_whole(folder / "splits.json", json.dumps(splits, indent=1))
    return folder


def _described_masks(row: PipelineRow) -> dict[str, Any]:
    """Return the masks that have negatives and scores; readers require both for every mask."""
    has = set(value_at(row, "negatives")) & set(value_at(row, "clip_scores"))
    if BASE not in has:
        raise DataError(f"row {row.id} has no negatives of the whole image", "Write it with output.form=rows.")
    return {number: mask for number, mask in row.values["mask_data"].items() if entry_key(mask) in has}
