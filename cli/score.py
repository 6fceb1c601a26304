"""``bench score``: captions in a file, outside any task."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic_files import written_whole
from ..errors import UsageError, writing
from ..paths import is_file
from .options import ENGINE, JUDGE, PERMISSIONS, add_options, execution_of, tell

if TYPE_CHECKING:
    from ..benchmarks.running.score_table import ScoreTable

_EPILOG = """\
A row of FILE (.jsonl, .json, .csv, .tsv, .parquet) holds 'candidate' or 'caption' and, for most metrics,
'references' (a list of texts; in csv one text, or a JSON list), for CHAIR 'objects' (a list of names), for metrics
that look at images 'image' (a path below here, or below FILE's folder; --allow_outside names others), and may hold
'id'. So what 'bench import' writes can be scored, where the other harness logged references.

example:
  bench score captions.jsonl --metrics bleu_4,cider,meteor --output scores.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", type=Path)
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
    from ..benchmarks.running.planned_metrics import look_at_images
    from ..benchmarks.tables.text import csv_text
    from ..progress import bars
    from ..rows import read_rows

    if options.output and options.output.suffix not in (".csv", ".jsonl", ".parquet"):
        raise UsageError(f"--output {options.output}: expected a name ending in .csv, .jsonl or .parquet")
    names, rows = split_metrics(options.metrics or []), read_rows(options.file)
    folder = options.file.parent
    same = ("model", "model_args", "judge", "judge_args", "store", "strict", "empty_caption")
    result = score(
        _with_paths(rows, folder) if look_at_images(names) else rows,
        names,
        # The reader reports a missing file.
        allow_outside=[*([folder] if folder.is_dir() else []), *options.allow_outside],
        engine=execution_of(options, has_models=bool(options.model or options.judge)),
        progress=bars(),
        **{name: getattr(options, name) for name in same},
    )
    tell(
        *(f"{outcome(failure)}: {describe(failure)}" for failure in result.failures),
        *(f"counted as empty: {describe(empty)}" for empty in result.empty),
        *(f"remark: {describe(remark)}" for remark in result.remarks),
        *(f"metric {metric} failed: {reason}" for metric, reason in result.metric_errors.items()),
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


def _with_paths(rows: Iterable[Any], folder: Path) -> Iterator[Any]:
    """Yield rows; the path of an image in the folder of their file is prefixed with that folder."""
    for row in rows:
        image = row.get("image") if isinstance(row, dict) else None
        if isinstance(image, str) and not is_file(Path(image)) and is_file(folder / image):
            row = {**row, "image": str(folder / image)}
        yield row


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
