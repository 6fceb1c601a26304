"""A finished run of one or more tasks, as a table or a data frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...tasks.index import IndexEntry
from ..records.task_run import TaskRun
from .results import LEFT, direction, legend, printed_tables, render, result_rows
from .text import html_lines, html_output, html_table, show_number

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Run:
    """The runs of one call, a task each, and the groups that it named and that have a score."""

    tasks: list[TaskRun] = field(default_factory=list)
    groups: Sequence[IndexEntry] = ()

    def __getitem__(self, task: str) -> TaskRun:
        for run in self.tasks:
            if run.record.task == task:
                return run
        raise KeyError(task)

    def group_scores(self) -> dict[str, float | None]:
        """Return the score of each group by its label, unscaled; None where a result is missing or undefined."""
        scores: dict[str, float | None] = {}
        for score in filter(None, (group.score for group in self.groups)):
            values = [self._as_more_is_better(task, key) for task, key in score.mean_of.items()]
            defined = [value for value in values if value is not None]
            scores[score.label] = sum(defined) / len(values) if len(defined) == len(values) else None
        return scores

    def _as_more_is_better(self, task: str, key: str) -> float | None:
        results = {result.key: result for run in self.tasks if run.record.task == task for result in run.results}
        result = results.get(key)
        if result is None or result.value is None:
            return None
        return 1 - result.value if result.higher_is_better is False else result.value

    def group_lines(self) -> Iterator[str]:
        """Yield each group's score in words."""
        values = self.group_scores()
        for score in filter(None, (group.score for group in self.groups)):
            value = values[score.label]
            shown = "no value: a result is missing" if value is None else f"{show_number(100 * value, 2)} (× 100)"
            yield f"{score.label}: {shown}; mean of {', '.join(f'{task} {key}' for task, key in score.mean_of.items())}"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row a result: task, model, metric, statistic, value, interval, published value, n."""
        import pandas

        return pandas.DataFrame(result_rows(self.tasks))

    def table(self, fmt: str = "github") -> str:
        """Return the results as a table: ``github``, ``latex``, ``csv`` or ``json``."""
        return render(self.tasks, fmt)

    def _repr_html_(self) -> str:
        """Return the tables and their legend, for notebooks."""
        tables = printed_tables(self.tasks, direction)
        return html_output(
            *(html_table(rows, LEFT, title) for title, rows in tables),
            html_lines([*self.group_lines(), *legend(self.tasks)]),
        )

    def __str__(self) -> str:
        """Return the table and its legend."""
        return "\n".join([self.table(), *self.group_lines(), "", *legend(self.tasks)])
