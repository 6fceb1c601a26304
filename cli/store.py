"""``bench store``: what the store keeps, and how to make room."""

import argparse
import math
import time
from typing import TYPE_CHECKING

from ..errors import UsageError
from .options import print_table

if TYPE_CHECKING:
    from ..benchmarks.store.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    stats = actions.add_parser("stats", help="entries and size by producer")
    prune = actions.add_parser("prune", help="delete entries; they are computed anew when needed")
    prune.add_argument("--older_than", type=_days, metavar="DAYS", help="only entries made longer ago")
    prune.add_argument("--containing", metavar="TEXT", help="only producers whose fingerprint contains TEXT")
    prune.add_argument("--all", action="store_true", help="everything")
    verify = actions.add_parser("verify", help="look for damage; exit code 1 if there is some")
    for action in (stats, prune, verify):
        action.add_argument("--store", metavar="FILE", help="the file (default: that in $BENCH_CACHE)")


def _days(text: str) -> float:
    days = float(text)
    if not 0 <= days < math.inf:
        raise ValueError
    return days


def run(options: argparse.Namespace) -> int:
    """Run the action; ``verify`` exits 1 if something is damaged."""
    from ..benchmarks.store.sqlite_file import DamagedStoreError
    from ..benchmarks.store.store import Store, parse_store

    named = parse_store(options.store)
    if named.objects is not None:
        raise UsageError(
            f"{named.objects} holds results of shards, which 'bench store' does not manage",
            "Delete files there with the tools of the folder or bucket: results are computed anew when needed.",
        )
    if options.action == "prune" and options.older_than is options.containing is None and not options.all:
        raise UsageError("bench store prune: needs --older_than DAYS, --containing TEXT or --all")
    path = named.file
    if not path.is_file():
        print(f"there is no store at {path}; the first run makes it")
        return 0
    if options.action == "verify":
        try:
            with Store(path, replace_damaged=False) as store:
                faults = store.verify()
        except DamagedStoreError as error:
            faults = [error.message]
        print(*faults, f"delete {path}: what it holds is computed anew" if faults else f"{path} is sound", sep="\n")
        return 1 if faults else 0
    with Store(path, replace_damaged=False) as store:
        if options.action == "stats":
            _print_stats(store)
            return 0
        before = path.stat().st_size
        made_before = None if options.older_than is None else time.time() - options.older_than * 86400
        deleted = store.prune(made_before, options.containing)
        print(f"{deleted:,} entries deleted, {(before - path.stat().st_size) / 1e6:.1f} MB freed")
    return 0


def _producer(fingerprint: dict[str, object]) -> str:
    """Return what a producer calls itself, before its settings."""
    named = [str(fingerprint[key]) for key in ("producer", "adapter", "metric", "pretrained") if key in fingerprint]
    return ", ".join(named) or ", ".join(f"{key}={value}" for key, value in fingerprint.items())[:60]


def _print_stats(store: "Store") -> None:
    print(f"{store.path}: {store.path.stat().st_size / 1e6:.1f} MB")
    rows = [
        {
            "producer": _producer(entry.fingerprint),
            "entries": f"{entry.entries:,}",
            "MB": f"{entry.value_bytes / 1e6:.1f}",
            "newest": time.strftime("%Y-%m-%d", time.localtime(entry.newest)),
        }
        for entry in store.stats()
    ]
    if rows:
        print_table(rows, "plain")
