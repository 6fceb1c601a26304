"""``bench import``: captions that other harnesses recorded, for ``--model captions:FILE``.

formats (detected from the file by default):
  lmms-eval    sample log, DATE_samples_TASK.jsonl (--log_samples)
  lm-eval      sample log, samples_TASK_DATE.jsonl (--log_samples)
  vlmevalkit   table of predictions: .xlsx (pip install "capbench[xlsx]"), .tsv or .json; no pickles
  coco         COCO result file: [{"image_id": ..., "caption": ...}, ...]

An output row holds id, caption and, where the file has them, image, references and logged_METRIC, the harness's
value of that caption. The harness's value over all captions is read from its results file in the same folder
(DATE_results.json, results_DATE.json, NAME_score.json), and printed for comparison with ours.

examples:
  bench import logs/model/20260101_120000_samples_coco2014_cap_val.jsonl -o captions.jsonl
  bench import vlmevalkit outputs/model_COCO_VAL.xlsx --key image_path -o captions.jsonl
  bench run --model captions:captions.jsonl --task coco_caption

More: docs/interchange.md
"""

import argparse
from pathlib import Path

from ..errors import UsageError
from .options import tell, tell_rows

_NAMED = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "bench import [FORMAT] FILE [FILE ...] -o captions.jsonl [--key FIELD]"
    parser.add_argument("inputs", nargs="+", metavar="[FORMAT] FILE", help="auto (default), a format, and the files")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="captions to write (.jsonl)")
    parser.add_argument(
        "--key",
        default="",
        metavar="FIELD",
        help="field that is the id of a document, where the one that was chosen is not the task's",
    )


def run(options: argparse.Namespace) -> int:
    """Write the captions; print how many, what was left out, and the harness's values."""
    from ..benchmarks.interchange.import_captions import FORMATS, import_captions, write_captions

    first, *rest = options.inputs
    fmt, names = (first, rest) if first in (*FORMATS, "auto") else ("auto", options.inputs)
    if not names:
        raise UsageError(f"bench import {first}: names no file", "bench import [FORMAT] FILE ... -o FILE")
    if options.output.suffix not in (".jsonl", ".ndjson"):
        raise UsageError(f"-o {options.output}: expected a name ending in .jsonl")
    files = [Path(name).expanduser() for name in names]
    if options.output.exists() and any(f.exists() and options.output.samefile(f) for f in files):
        raise UsageError(f"-o {options.output}: is one of the files that are read")
    imported = import_captions(files, fmt, options.key)
    write_captions(imported, options.output)
    for kind, rows in (("left out", imported.bad_rows), ("duplicate", imported.duplicates), ("note", imported.remarks)):
        tell_rows(kind, rows[:_NAMED])
        tell(*([f"{kind}: {len(rows) - _NAMED:,} more"] if len(rows) > _NAMED else []))
    for path, name in imported.formats.items():
        print(f"{path}: {FORMATS[name].label}")
    print(
        f"{options.output}: {len(imported.rows):,} captions, {imported.empty:,} of them empty; "
        f"{len(imported.duplicates):,} duplicates and {len(imported.bad_rows):,} other rows left out"
    )
    others = f" ({', '.join(imported.other_keys)} would do, too: --key)" if imported.other_keys else ""
    print(f"ids: {imported.key}{others}")
    if imported.logged:
        values = ", ".join(f"{name} {value:.6g}" for name, value in imported.logged.items())
        print(f"logged there: {values}")
    print(f"next: bench run --model captions:{options.output} --task TASK    ('bench ls tasks')")
    return 0
