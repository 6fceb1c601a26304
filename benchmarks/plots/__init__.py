"""Figures of finished runs, for papers: from ``run.json`` alone, as matplotlib figures or as files.

::

    from pathlib import Path
    from capbench.benchmarks.plots import agreement_figure, read_records, write_figure

    figure = agreement_figure(read_records([Path("runs")]), statistic="kendall_c")
    figure.axes[0].set_title("Mine")
    write_figure(figure, Path("agreement.svg"))

matplotlib comes with ``pip install 'capbench[plot]'``; it is imported when a figure is made.
"""

from .agreement import agreement_figure, rules_figure
from .histograms import length_figure, ratings_figure
from .runs import read_records
from .style import write_figure

__all__ = ["agreement_figure", "length_figure", "ratings_figure", "read_records", "rules_figure", "write_figure"]
