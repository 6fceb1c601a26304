"""A finished run of one or more tasks, as a table or a data frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..records.task_run import TaskRun
from .results import LEFT, direction, legend, printed_tables, render, result_rows
from .text import html_lines, html_output, html_table

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Run:
    """The runs of one call, a task each."""

    tasks: list[TaskRun] = field(default_factory=list)

    def __getitem__(self, task: str) -> TaskRun:
        for run in self.tasks:
            if run.record.task == task:
                return run
        raise KeyError(task)

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
        return html_output(*(html_table(rows, LEFT, title) for title, rows in tables), html_lines(legend(self.tasks)))

    def __str__(self) -> str:
        """Return the table and its legend."""
        return "\n".join([self.table(), "", *legend(self.tasks)])
