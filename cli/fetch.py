"""``bench fetch``: gets data, metrics' files and weights, after saying what comes, from where, under which terms.

examples:
  bench fetch detailcaps llava-1.5     all that 'bench run --model llava-1.5 --task detailcaps' needs
  bench fetch capture                  WordNet, NLTK's models, FACTUAL's parser and the text encoder of CAPTURE
  bench fetch capture[parser=spacy]    what the metric reads with these settings
  bench fetch pac-s-vit-b-32           a model's weights, into the cache folder or the hub's cache
  bench fetch OWNER/NAME@REVISION      any model of the hub

A task brings the files of its data card and what its metrics read; models are named besides. First each file is listed
with its size, licence, checksum, origin and place. From a gigabyte on, or where a server states no size, it is asked
whether to go on; --yes goes on. By going on you accept the licences. A download that broke off is resumed by the same
command. What was fetched has its SHA-256 in a file SHA256SUMS next to it ('sha256sum -c SHA256SUMS').

  BENCH_MIRROR=URL     mirror of the web's files: URL/HOST/PATH in place of https://HOST/PATH
  HF_ENDPOINT=URL      mirror of the Hugging Face hub
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BenchError, DataError, UsageError, did_you_mean
from .options import TASK, add_options, tell

if TYPE_CHECKING:
    from ..downloads import Piece, Resource
    from ..tasks.index import IndexEntry, TaskIndex
    from ..tasks.locate import DataLocations
    from ..tasks.sources import DataSource

_MUCH = 1e9
"""Bytes from which on it is asked."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="a task, group or tag, a metric, or a model")
    parser.add_argument("--yes", action="store_true", help="do not ask, however much it is")
    add_options(parser, *TASK, "--allow_outside", "--allow_server")


def run(options: argparse.Namespace) -> int:
    """Fetch all that is missing; exit code 1 if something could not be fetched."""
    from ..benchmarks.inputs.settings import split_metrics
    from ..tasks.index import build_index
    from .options import locations_of

    index = build_index(options.include_path)
    locations = locations_of(options, index)
    wanted: list[Resource | BenchError] = []
    for name in split_metrics(options.names):
        wanted += _resources(name, index, locations)
    return fetch(wanted, yes=options.yes)


def fetch(wanted: Sequence[Resource | BenchError], *, yes: bool) -> int:
    """List what is missing, ask, and fetch it; return 1 if something could not be fetched, else 0.

    Args:
        wanted: Resources, and why others cannot be fetched.
        yes: Do not ask.

    Raises:
        UsageError: It is much, and nobody can be asked.
        DataError: A disk has too little room.
    """
    from ..progress import bars

    errors: list[BenchError] = []
    pieces: list[Piece] = []
    for resource in {getattr(resource, "title", str(resource)): resource for resource in wanted}.values():
        if isinstance(resource, BenchError):
            errors.append(resource)
            continue
        try:
            missing = resource.pieces()
        except BenchError as error:
            errors += error.parts
            continue
        print(f"{resource.title}{'' if missing else ': here'}")
        for piece in missing:
            print(*(f"  {line}" for line in piece.about), sep="\n")
            print(f"    from     {piece.origin}\n    into     {piece.folder}\n    licence  {piece.terms}")
        pieces += missing
    is_agreed = not pieces or _agreed(pieces, yes)
    if pieces and is_agreed:
        progress = bars()
        for piece in pieces:
            try:
                files = piece.fetch(progress)
            except BenchError as error:
                errors += error.parts
            else:
                print(*(f"fetched {file} (SHA-256 {digest})" for file, digest in files.items()), sep="\n", flush=True)
    for error in errors:
        tell(f"not fetched: {error.message}", *(f"    {line}" for line in error.hint.splitlines()))
    return 0 if is_agreed and not errors else 1


def _agreed(pieces: Sequence[Piece], yes: bool) -> bool:
    """Return whether to fetch; where it is much and ``yes`` is not given, the terminal is asked."""
    from ..downloads import in_bytes

    _require_room(pieces)
    known = sum(piece.missing or 0 for piece in pieces)
    is_known = all(piece.missing is not None for piece in pieces)
    total = f"{in_bytes(known)}{'' if is_known else ', and files of unknown size'}"
    print(f"to fetch: {total}", flush=True)
    if yes or (is_known and known < _MUCH):
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{total} would be fetched, and there is no terminal to ask at", "--yes fetches it.")
    return input("Fetch it? [y/N] ").strip().lower() in ("y", "yes")


def _require_room(pieces: Sequence[Piece]) -> None:
    """Raise if a disk has less room than what is known to come needs.

    Raises:
        DataError: The message has the disk's folder and both numbers.
    """
    from ..downloads import in_bytes

    needed: dict[int, int] = defaultdict(int)
    folders: dict[int, Path] = {}
    for piece in pieces:
        folder = next(folder for folder in (piece.folder, *piece.folder.parents) if folder.exists())
        disk = folder.stat().st_dev
        folders.setdefault(disk, folder)
        needed[disk] += (piece.missing or 0) + piece.unpacked
    for disk, folder in folders.items():
        if (free := shutil.disk_usage(folder).free) < needed[disk]:
            raise DataError(
                f"{folder}: {in_bytes(free)} are free, and {in_bytes(needed[disk])} are needed; nothing was fetched",
                "CAPBENCH_DATA, BENCH_CACHE, HF_HOME and NLTK_DATA may name folders of another disk.",
            )


def nothing_to_fetch(source: DataSource) -> DataError:
    """Return the error for data that is not had without its owners."""
    return DataError(f"{source.title}: nothing of it may be fetched without asking its owners.", source.how)


def _resources(name: str, index: TaskIndex, locations: DataLocations) -> Iterator[Resource | BenchError]:
    """Yield what a task, group, tag, metric or model reads; of data that cannot be fetched, why."""
    from ..adapters.aliases import list_aliases, resolve_model
    from ..benchmarks.inputs.settings import read_metric
    from ..benchmarks.running.planned_metrics import build_entry
    from ..downloads import Repository
    from ..metrics import metrics

    if name in index.entries or name in index.tags:
        for entry in index.resolve([name]):
            yield from _resources_of_task(entry, locations)
    elif name.partition("[")[0] in metrics:
        entry = read_metric(name)
        yield from build_entry(entry, entry.arguments).resources()
    elif name in list_aliases() or Path(name).is_dir():
        yield from resolve_model(name).resources()
    elif re.fullmatch(r"[\w.-]+/[\w.-]+(@.+)?", name):
        repository, _, revision = name.partition("@")
        yield Repository(repository, revision or None)
    else:
        known = [*index.entries, *index.tags, *metrics, *list_aliases()]
        hint = "'bench ls tasks', 'bench ls metrics' and 'bench ls models' list them."
        raise UsageError(f"no task, metric or model is called '{name}'.{did_you_mean(name, known)}", hint)


def _resources_of_task(entry: IndexEntry, locations: DataLocations) -> Iterator[Resource | BenchError]:
    from ..access import require_permitted
    from ..benchmarks.running.inspection import ANY_MODELS
    from ..benchmarks.running.plan import plan_task
    from ..hub import asking_nobody
    from ..tasks.sources import load_source, requests_of_card

    with asking_nobody():
        planned = plan_task(entry, ANY_MODELS, (), locations)
    if (source := load_source(planned.task, entry.path)) is not None:
        require_permitted(requests_of_card(planned.task, entry.path))
        if source.downloads:
            yield locations.resource(source)
        elif planned.data is None and not source.generated:
            yield nothing_to_fetch(source)
    for metric in planned.metrics:
        yield from metric.metric.resources()
