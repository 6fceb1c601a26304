"""Makers that are killed within a stage, behind the next, and so on, and behind what is written; then started again.

``make_and_cut`` makes the data in ``FOLDER/MAKER/whole`` at one go, and in ``FOLDER/MAKER/cut`` by as many processes
as it takes. It changes capbench in its process, which a test forks.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forked

from capbench.benchmarks.store.store import Store
from capbench.cli.main import main
from capbench.recipes.making import making
from capbench.recipes.making.contract import MakerModels, RowFile, Stage, stages

ROWS, SHARD = 3, 2
"""Rows of the data, and of a shard, so that each stage has two."""
OUTPUT = "write_output"
"""The step behind the stages that a process ends behind, too."""


def kill_once(folder: Path, name: str, way: str) -> None:
    """End this process where none has ended before."""
    try:
        (folder / f"killed {name}").open("x").write(way)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def watch(folder: Path) -> None:
    """Write down the rows that this process makes, and have one process end within or behind each stage, in turn."""
    make_shard, put, write_rows = making.make_shard, Store.put, RowFile.__init__
    write_output = making.write_output
    begun = ""

    def made(stage: Stage, rows: Any, models: Any) -> Any:
        nonlocal begun
        found = make_shard(stage, rows, models)
        begun = stage.name
        with (folder / "made").open("a", encoding="utf-8") as file:
            file.writelines(f"{stage.name} {row.id}\n" for row in rows)
        return found

    def kept(self: Store, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        put(self, producer, values)
        if "making" in producer and len([*folder.glob("killed *")]) % 2 == 0:
            kill_once(folder, begun, "within")

    def written(self: RowFile, path: Path, rows: Any) -> None:
        write_rows(self, path, rows)
        # The files of stages bear their numbers; of those that were all kept none was begun.
        if path.stem.isdigit() and begun:
            kill_once(folder, begun, "behind")

    def then(*arguments: Any) -> Any:
        result = write_output(*arguments)
        kill_once(folder, OUTPUT, "behind")
        return result

    making.make_shard = made
    Store.put = kept
    RowFile.__init__ = written
    making.write_output = then


def keep_models() -> None:
    """Have a model loaded once; processes that are forked have it."""
    load, loaded = MakerModels.__getitem__, dict[str, Any]()

    def kept(self: MakerModels, role: str) -> Any:
        name = f"{role} {self.named(role).model_dump_json()}"
        if name not in loaded:
            loaded[name] = load(self, role)
        return loaded[name]

    MakerModels.__getitem__ = kept


def run(folder: Path, maker: str, data: str) -> None:
    """Carry out a maker in this process; raise unless it ends well."""
    words = ["make", maker, "--data", data, "--limit", str(ROWS), "--set", "judged.metrics=[length]"]
    assert main([*words, "--output", str(folder / "data"), "--store", str(folder / "store.sqlite")]) == 0


def run_watched(folder: Path, maker: str, data: str) -> None:
    """Carry it out in this process, which ends where none has ended before."""
    watch(folder)
    run(folder, maker, data)


def cut(folder: Path, maker: str, data: str) -> None:
    """Carry out a maker at one go, and by processes that are killed."""
    for name in ("whole", "cut"):
        (folder / name).mkdir(parents=True)
    # What this has imported, loaded and read those that are killed have from the beginning.
    run(folder / "whole", maker, data)
    # Their collectors touch nothing of it, as each page that is touched is copied.
    gc.freeze()
    while ended := forked.carried_out(lambda: run_watched(folder / "cut", maker, data)):
        assert ended == -signal.SIGKILL, ended


def make_and_cut(folder: Path, makers: Mapping[str, str]) -> None:
    """Carry out makers, given with their data, as ``cut`` does."""
    keep_models()
    for kind in map(stages.__getitem__, stages):
        kind.shard = SHARD
    for maker, data in makers.items():
        cut(folder / maker, maker, data)
