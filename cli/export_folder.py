"""``bench export hub`` and ``bench export data``: what recipes trained and made, for others."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import UsageError
from .options import refuse

FORMATS = ("hub", "data")
SHARDS = ("webdataset", "parquet")


def export_folder(options: argparse.Namespace) -> int:
    """Push the folder of a training to the hub, or write that of a pipeline as shards."""
    kind, *folders = options.inputs
    needed, usage = {
        "hub": (options.to, "bench export hub FOLDER --to OWNER/NAME"),
        "data": (options.format and options.output, "bench export data FOLDER --format FORMAT --output DIR"),
    }[kind]
    if len(folders) != 1 or not needed:
        raise UsageError(f"bench export {kind}: names one folder, and where it goes.", usage)
    refuse(
        (kind == "data" and (options.to or options.dry_run), "--to and --dry_run go with 'hub'", usage),
        (kind == "hub" and (options.format or options.output), "--format and --output go with 'data'", usage),
    )
    return (_push if kind == "hub" else _write)(Path(folders[0]).expanduser(), options)


def _push(folder: Path, options: argparse.Namespace) -> int:
    from ..hub import upload
    from ..recipes.training.publishing import files_for_hub

    files = files_for_hub(folder)
    for name, content in sorted(files.items()):
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        print(f"{size:>15,}  {name}")
    if not options.dry_run:
        message = f"{folder.absolute().name}, trained by capbench"
        print(upload(options.to, "model", files, options.private, message))
    return 0


def _write(folder: Path, options: argparse.Namespace) -> int:
    from ..recipes.data_synthesis.exporting import export_rows

    total = export_rows(folder, options.format, options.output)
    print(f"{total:,} rows: {options.output}")
    return 0
