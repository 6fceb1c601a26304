"""Published values of papers and released code.

Each file of ``published/`` holds one paper: title, notes on its numbers (suspected misprints too), and a record for
every printed number, in the paper's spelling. Statistics have capbench's names; additional ones
are ``kendall`` (of a variant that the paper does not state), ``accuracy``, those of battles, ``mean`` (a metric's
value for a whole test set), ``mean_delta`` (an average gain) and ``score`` (of a benchmark that is not about captions).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import TaskError, did_you_mean
from ...rows import load_yaml
from ...tasks.schema import PublishedTable

FOLDER = Path(__file__).parent

SPELLINGS = {"ROUGE": "ROUGE-L", "CLIPScore": "CLIP-S"}
"""A paper's spelling of a metric's name to our label, where they differ."""

Table = int | str


@dataclass(frozen=True)
class Published:
    """A printed number and its source.

    Attributes:
        paper: Key of the paper (``"pacspp"``).
        title: Title of the paper.
        citation: The paper in a few words, for the head of a column.
        table: Number of the table; for numbers of released code, the name of the source.
        task: The task in the paper's spelling.
        metric: The metric in the paper's spelling.
        statistic: Our name of the statistic.
        model: The captioner, the metric's encoder, or the setting of an ablation; None where the paper has one number
            of the metric only.
        value: The printed number.
        printed: The number as it is printed (``"32.10"``).
        scale: The printed number is the metric's or statistic's own value times this.
    """

    paper: str
    title: str
    citation: str
    table: Table
    task: str
    metric: str
    statistic: str
    model: str | None
    value: float
    printed: str
    scale: float

    @property
    def decimals(self) -> int:
        """Number of printed decimals; negative where fewer digits are printed (``"1.7e7"`` has -6)."""
        return printed_decimals(self.printed)


def printed_decimals(printed: str) -> int:
    """Return the number of decimals of a printed number; negative for ``"1.7e7"``, 0 for what is no number."""
    try:
        exponent = Decimal(printed.replace(",", "")).as_tuple().exponent
    except InvalidOperation:
        return 0
    return -exponent if isinstance(exponent, int) else 0


@dataclass(frozen=True)
class Paper:
    """A paper and its printed numbers.

    Attributes:
        key: Name of the file.
        title: Title of the paper.
        citation: The paper in a few words.
        notes: What to know about the numbers, suspected misprints among them.
        records: All printed numbers, in the order of the paper.
    """

    key: str
    title: str
    citation: str
    notes: tuple[str, ...]
    records: tuple[Published, ...] = field(repr=False)


def papers() -> list[str]:
    """Return the keys of the papers."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def load(paper: str) -> Paper:
    """Return a paper, read once.

    Args:
        paper: Key of the paper, one of :func:`papers`.

    Raises:
        TaskError: There is no such paper.
    """
    known = papers()
    if paper not in known:
        raise TaskError(
            f"unknown paper '{paper}' of published numbers.{did_you_mean(paper, known)}",
            f"Known papers: {', '.join(known)}.",
        )
    document = load_yaml(FOLDER / f"{paper}.yaml")
    return Paper(
        key=paper,
        title=document["title"],
        citation=document["citation"],
        notes=tuple(document["notes"]),
        records=tuple(_published(document, record) for record in document["records"]),
    )


@cache
def citation(paper: str) -> str:
    """Return a paper's citation; its key if the paper is unknown."""
    return load(paper).citation if paper in papers() else paper


def find(
    paper: str, table: Table, task: str, metric: str, statistic: str, model: str | None = None
) -> Published | None:
    """Return the published value of a paper.

    Args:
        paper: Key of the paper.
        table: Number of the table.
        task: The task in the paper's spelling.
        metric: Label of the metric, ours or in the paper's spelling (:data:`SPELLINGS`).
        statistic: Our name of the statistic.
        model: Captioner, encoder or setting in the paper's spelling; needed where numbers differ in it alone.

    Returns:
        The number, or None if the paper has none for this metric, statistic and model.

    Raises:
        TaskError: The paper, its table or the table's task is not known, or ``model`` is needed.
    """
    in_table = _index(paper).get(table)
    if in_table is None:
        known = ", ".join(str(table) for table in _index(paper))
        raise TaskError(f"paper '{paper}' has no table {table!r}.", f"Its tables: {known}.")
    in_task = in_table.get(task)
    if in_task is None:
        raise TaskError(
            f"table {table} of '{paper}' has no task '{task}'.{did_you_mean(task, in_table)}",
            f"Its tasks: {_listed(in_table)}.",
        )
    label = SPELLINGS.get(metric, metric)
    fits = [row for row in in_task if (SPELLINGS.get(row.metric, row.metric), row.statistic) == (label, statistic)]
    if model is not None:
        fits = [row for row in fits if row.model == model]
    if len(fits) > 1:
        raise TaskError(
            f"table {table} of '{paper}' has {len(fits)} numbers of {metric} ({statistic}) for '{task}'.",
            f"Name the model: {_listed(str(row.model) for row in fits)}.",
        )
    return fits[0] if fits else None


def find_in(
    table: PublishedTable, metric: str, statistic: str, category: str = "", model: str | None = None
) -> Published | None:
    """Return the published value of one of a task's results.

    Args:
        table: The table, as the task names it.
        metric: Label of the metric.
        statistic: The result's name of the statistic.
        category: The result's category; empty for all of the data set.
        model: As in :func:`find`.

    Returns:
        As :func:`find`.

    Raises:
        TaskError: As :func:`find`.
    """
    named = category or "mean"
    return find(
        table.paper,
        table.table,
        table.task.format(category=named),
        table.metrics.get(metric, metric).format(category=named),
        table.statistics.get(statistic, statistic),
        model,
    )


def _published(document: dict[str, Any], entry: dict[str, Any]) -> Published:
    named = {name: document[name] for name in ("paper", "title", "citation")}
    printed = {name: entry[name] for name in ("table", "task", "metric", "statistic", "value", "printed")}
    model = next((entry[kind] for kind in ("model", "encoder", "setting") if kind in entry), None)
    scale = entry.get("scale", document["tables"][entry["table"]]["scale"])
    return Published(**named, **printed, model=model, scale=scale)


@cache
def _index(paper: str) -> dict[Table, dict[str, list[Published]]]:
    index: dict[Table, dict[str, list[Published]]] = {}
    for record in load(paper).records:
        index.setdefault(record.table, {}).setdefault(record.task, []).append(record)
    return index


def _listed(names: Iterable[str]) -> str:
    return "; ".join(f"'{name}'" for name in names)
