"""``bench score``: captions in a file, outside any task.

A row of FILE (.jsonl, .json, .csv, .tsv, .parquet) holds 'candidate' or 'caption' and, for most metrics,
'references' (a list of texts; in csv one text, or a JSON list), for CHAIR 'objects' (a list of names), for metrics
that look at images 'image' (a path below here, or below FILE's folder; --allow_outside names others), and may hold
'id'. So what 'bench import' writes can be scored, where the other harness logged references.

FILE may also be a JSON object {NAME: caption}, as of CLIPScore, PAC-S and pycocoevalcap, or COCO's result format. Then
--references and --image_dir have the rest, by the same names or image ids.

examples:
  bench score captions.jsonl --metrics bleu_4,cider,meteor --output scores.csv
  bench score cands.json --references refs.json --image_dir images --metrics refclip_s,cider --model NAME
  bench score results.json --references captions_val2014.json --metrics bleu_4,cider,meteor
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic_files import written_whole
from ..errors import DataError, UsageError, writing
from ..paths import is_file
from ..rows import BadRow, Row, load_json, read_rows
from .options import ENGINE, JUDGE, PERMISSIONS, add_options, execution_of, tell

if TYPE_CHECKING:
    from ..benchmarks.running.score_table import ScoreTable


_NAMES = ("image_id", "id", "key")
"""Columns that name the image of a caption, for references and images in other places; first those that COCO has."""
_REFERENCES = ("references", "caption", "value")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument(
        "--references",
        metavar="FILE",
        type=Path,
        help="references by name, in place of those in the rows: {NAME: [text, ...]}, COCO's annotation file, or rows",
    )
    parser.add_argument(
        "--image_dir", metavar="DIR", type=Path, help="folder of images called NAME, with or without a suffix"
    )
    add_options(
        parser,
        "--metrics",
        required=True,
        help="separated by commas or spaces ('bench ls metrics'); NAME[key=value,...] gives settings",
    )
    parser.add_argument("--model", metavar="NAME", help="what encodes images and texts, for metrics that need it")
    add_options(parser, "--model_args", *JUDGE)
    parser.add_argument("--output", metavar="FILE", type=Path, help="write a row a caption to .csv, .jsonl or .parquet")
    add_options(parser, "--format", help="of the table")
    parser.add_argument("--strict", action="store_true", help="stop at the first row that cannot be scored")
    parser.add_argument(
        "--empty_caption",
        choices=("zero", "leave_out"),
        default="zero",
        help="a caption without a word counts as an empty one (zero), or is left out with its references",
    )
    add_options(parser, *PERMISSIONS, "--store", *ENGINE)


def run(options: argparse.Namespace) -> int:
    """Score the rows and print system-level values; exit code 1 if a metric failed."""
    from tabulate import tabulate

    from ..benchmarks.api import score
    from ..benchmarks.inputs.failures import describe, outcome
    from ..benchmarks.inputs.settings import split_metrics
    from ..benchmarks.running.planned_metrics import may_need
    from ..benchmarks.tables.text import csv_text
    from ..progress import bars

    if options.output and options.output.suffix not in (".csv", ".jsonl", ".parquet"):
        raise UsageError(f"--output {options.output}: expected a name ending in .csv, .jsonl or .parquet")
    if options.image_dir and not options.image_dir.is_dir():
        raise UsageError(f"--image_dir {options.image_dir}: there is no such folder")
    names, rows = split_metrics(options.metrics or []), _named(read_rows(options.file))
    folders = [options.image_dir] if options.image_dir else [Path(), options.file.parent]
    references, files = _read_references(options.references) if options.references else ({}, {})
    unused: dict[str, None] = {}
    if options.references and may_need(names, "references"):
        unused = dict.fromkeys(references)
        rows = _with_references(rows, references, unused, options.references.name)
    if may_need(names, "image"):
        rows = _with_paths(rows, folders, _by_stem(options.image_dir) if options.image_dir else {}, files)
    same = ("model", "model_args", "judge", "judge_args", "store", "strict", "empty_caption")
    result = score(
        rows,
        names,
        # The reader reports a missing file.
        allow_outside=[*filter(Path.is_dir, folders), *options.allow_outside],
        engine=execution_of(options, has_models=bool(options.model or options.judge)),
        progress=bars(),
        **{name: getattr(options, name) for name in same},
    )
    of = f"{options.references}: {len(unused):,} of {len(references):,} names have no caption, and are not scored"
    without_caption = [f"{of} (first: {next(iter(unused))})"] if unused else []
    tell(
        *(f"{outcome(failure)}: {describe(failure)}" for failure in result.failures),
        *(f"counted as empty: {describe(empty)}" for empty in result.empty),
        *(f"remark: {describe(remark)}" for remark in result.remarks),
        *result.truncations(),
        *(f"metric {metric} failed: {reason}" for metric, reason in result.metric_errors.items()),
        *without_caption,
    )
    if options.output:
        _write(result, options.output)
    rows = result.summary()
    if options.format == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif options.format == "csv":
        print(csv_text(rows))
    else:
        style = {"github": "github", "latex": "latex_booktabs"}[options.format]
        print(tabulate(rows, headers="keys", tablefmt=style, floatfmt=".6f"), flush=True)
        tell("", "values are unscaled; papers print those of text metrics × 100")
    return 1 if result.metric_errors or None in result.system.values() else 0


def _named(rows: Iterable[Row | BadRow]) -> Iterator[Row | BadRow]:
    """Yield rows, also of a JSON object of captions, or of lists of one as pycocoevalcap has them."""
    for row in rows:
        if not isinstance(row, BadRow) and row.keys() == {"key", "value"}:
            value = row["value"]
            row = {"id": row["key"], "candidate": value[0] if isinstance(value, list) and len(value) == 1 else value}
        yield row


def _first(row: Row, columns: Iterable[str]) -> Any:
    """Return the first value that a row has in some columns; None where it has none."""
    return next((row[column] for column in columns if row.get(column) is not None), None)


def _read_references(path: Path) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return the references of a file by name and, of COCO's annotation file, the names of image files by id.

    Raises:
        DataError: The file is of another form.
    """
    from ..benchmarks.inputs.items import references_of

    content: Any = load_json(path) if path.suffix == ".json" else list(read_rows(path))
    files: dict[str, str] = {}
    if isinstance(content, dict) and isinstance(content.get("annotations"), list):
        images = [image for image in content.get("images", []) if isinstance(image, dict)]
        files = {str(image.get("id")): str(image["file_name"]) for image in images if "file_name" in image}
        content = content["annotations"]
    if isinstance(content, dict):
        content = [{"id": name, "references": texts} for name, texts in content.items()]
    references: dict[str, list[Any]] = {}
    for number, row in enumerate(content if isinstance(content, list) else [content]):
        name = _first(row, _NAMES) if isinstance(row, dict) else None
        texts = references_of(_first(row, _REFERENCES)) if name is not None else None
        if not isinstance(texts, list) or not texts:
            raise DataError(
                f"{path}: entry {number} has no name or no references: {getattr(row, 'reason', row)!r:.80}",
                'It holds {"NAME": ["text", ...], ...}, COCO\'s {"images": [...], "annotations": [...]}, or rows of id '
                "and references.",
            )
        references.setdefault(str(name), []).extend(texts)
    return references, files


def _with_references(
    rows: Iterable[Row | BadRow], references: dict[str, list[Any]], unused: dict[str, None], file: str
) -> Iterator[Row | BadRow]:
    """Yield rows with the references of their names from a file, and drop these names from ``unused``."""
    for row in rows:
        if isinstance(row, BadRow):
            yield row
        elif (name := str(_first(row, _NAMES))) in references:
            unused.pop(name, None)
            yield {"id": name, **row, "references": references[name]}
        else:
            yield BadRow(name, f"has no references in {file}")


def _by_stem(folder: Path) -> dict[str, list[Path]]:
    """Return the files of a folder by their names without suffix, and those of COCO by their image ids."""
    files, of_coco = dict[str, list[Path]](), dict[str, list[Path]]()
    for path in sorted(folder.iterdir()):
        files.setdefault(path.stem, []).append(path)
        if number := re.fullmatch(r"(?:COCO_\w+_)?(\d{12})", path.stem):
            of_coco.setdefault(str(int(number[1])), []).append(path)
    return of_coco | files


def _with_paths(
    rows: Iterable[Row | BadRow], folders: list[Path], by_stem: dict[str, list[Path]], files: dict[str, str]
) -> Iterator[Row | BadRow]:
    """Yield rows with the paths of their images.

    Args:
        rows: The rows.
        folders: Where images are looked for.
        by_stem: The files of ``--image_dir``, in which a row without an image has that of its name.
        files: The name of an image's file by the row's name, as of COCO's annotation file.

    Raises:
        DataError: A name is that of several files.
    """
    for row in rows:
        if not isinstance(row, BadRow):
            image, name = row.get("image"), _first(row, _NAMES)
            if image is None and by_stem and name is not None:
                image = files.get(str(name), str(name))
            if isinstance(image, str):
                path = _located(image, folders, by_stem)
                row = {**row, "image": str(path)}
                if by_stem and not is_file(path):
                    row = BadRow(str(name or image), f"has no image '{image}' in --image_dir {folders[0]}")
        yield row


def _located(image: str, folders: list[Path], by_stem: dict[str, list[Path]]) -> Path:
    if path := next((folder / image for folder in folders if is_file(folder / image)), None):
        return path
    matches = by_stem.get(image) or [folders[0] / image]
    if len(matches) > 1:
        names = ", ".join(path.name for path in matches)
        raise DataError(f"--image_dir {folders[0]}: image '{image}' may be any of {names}", "Name it with its suffix.")
    return matches[0]


def _write(result: ScoreTable, path: Path) -> None:
    from ..benchmarks.tables.text import csv_lines

    with writing(f"--output {path}"), written_whole(path) as draft:
        if path.suffix == ".parquet":
            _write_parquet(result, draft)
            return
        with draft.open("w", encoding="utf-8", newline="") as file:
            if path.suffix == ".jsonl":
                # Not by pandas, which rounds to ten digits.
                file.writelines(json.dumps(row) + "\n" for row in result)
            else:
                file.writelines(line + "\n" for line in csv_lines(result))


def _write_parquet(result: ScoreTable, path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    texts = [(name, pyarrow.string()) for name in ("id", "image", "candidate")]
    schema = pyarrow.schema([*texts, *((name, pyarrow.float64()) for name in result.system)])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for piece in result.pieces():
            writer.write_table(pyarrow.table(dict(piece), schema))
