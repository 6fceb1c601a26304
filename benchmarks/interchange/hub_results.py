"""Uploads finished runs as a data set to the Hugging Face hub.

The data set has a configuration ``results``, the flat table, and with samples one configuration per task,
``samples_TASK``. It is a folder for ``datasets.load_dataset``: Parquet files, and a card whose header lists them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ...atomic_files import temporary_folder
from ...errors import DataError
from ...hub import upload
from ...rows import BadRow
from ..records.task_run import TaskRun
from ..tables.pages.rendering import text_templates
from ..tables.results import COLUMNS, to_arrow
from .lm_eval_results import model_of


def write_dataset(runs: Sequence[TaskRun], folder: Path, repository: str, samples: bool = False) -> list[BadRow]:
    """Write the files of the data set.

    Args:
        runs: The runs.
        folder: The output folder.
        repository: ``OWNER/NAME``, for the card.
        samples: Whether to include captions, references and scores of captions, for runs whose data may be
            redistributed (``redistribution`` of the record is not ``scores``).

    Returns:
        The runs without samples, with the reason.
    """
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(to_arrow(runs), folder / "results.parquet")
    tables: dict[str, list[pyarrow.Table]] = {}
    without = []
    for run in runs if samples else ():
        try:
            if run.record.redistribution == "scores":
                raise DataError("its data may not be redistributed (redistribution: scores)")
            table = run.samples
        except DataError as error:
            without.append(BadRow(str(run.folder), error.message.removeprefix(f"{run.folder}: ")))
            continue
        for name, value in (("fingerprint", run.record.fingerprint), ("model", model_of(run))):
            table = table.append_column(name, pyarrow.array([value] * len(table), pyarrow.string()))
        tables.setdefault("samples_" + re.sub(r"[^\w.-]", "_", run.record.task), []).append(table)
    for name, parts in tables.items():
        # Metrics may differ between runs of a task; missing values are null.
        whole = pyarrow.concat_tables(parts, promote_options="permissive")
        pyarrow.parquet.write_table(whole, folder / f"{name}.parquet", compression="zstd")
    configs: list[dict[str, Any]] = [
        {"config_name": name, "data_files": [{"split": "train", "path": f"{name}.parquet"}]}
        for name in ("results", *tables)
    ]
    configs[0]["default"] = True
    head = {"pretty_name": repository.rpartition("/")[2], "tags": ["capbench", "evaluation"], "configs": configs}
    card = text_templates(Path(__file__).parent / "templates", cell=_cell, model_of=model_of).get_template("card.md")
    text = card.render(
        head=yaml.safe_dump(head, sort_keys=False, allow_unicode=True),
        runs=runs,
        columns=COLUMNS,
        samples=list(tables),
        repository=repository,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
    return without


def push(runs: Sequence[TaskRun], repository: str, private: bool, samples: bool) -> tuple[str, list[BadRow]]:
    """Upload the data set in one commit; creates the repository if it does not exist.

    Args:
        runs: The runs.
        repository: ``OWNER/NAME``.
        private: Whether a new repository is private; does not affect an existing one.
        samples: See ``write_dataset``.

    Returns:
        The URL of the commit, and the runs without samples, with the reason.

    Raises:
        DataError: There is no token, or the hub cannot be reached or refuses.
    """
    with temporary_folder() as folder:
        without = write_dataset(runs, folder, repository, samples)
        files: dict[str, Path | bytes] = {path.name: path for path in sorted(folder.iterdir())}
        return upload(repository, "dataset", files, private, f"Results of {len(runs)} runs by capbench"), without


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
