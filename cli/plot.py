"""``bench plot``: figures of finished runs, for papers.

KIND is one of
  agreement   agreement with human judgement (or accuracy) by metric, with confidence intervals and published values
  ratings     distributions of scores by human rating, a panel a metric
  length      scores against the number of words in the caption, a panel a metric
  checklist   how often metrics notice that captions were changed, rule by rule, a panel a metric

RUN is the folder of a finished run, as 'bench run' prints it, or a folder with runs below it. Only run.json is
read. Of runs with the same task and metric, the newest is shown.

examples:
  bench plot agreement runs -o agreement.svg --statistic kendall_c
  bench plot ratings runs/flickr8k_expert -o ratings.png --metrics cider,meteor --width double
  bench plot length RUN -o length.pdf

docs/plots.md shows how to read them. Needs matplotlib: pip install 'capbench[plot]'
"""

import argparse
from functools import partial
from pathlib import Path

from ..errors import UsageError
from .options import add_options, tell

KINDS = ("agreement", "ratings", "length", "checklist")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help="see below")
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="folder of a run, or of runs")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", type=Path, help="file ending with .png, .svg or .pdf"
    )
    parser.add_argument(
        "--statistic",
        metavar="NAME",
        default="",
        help="statistic of an agreement plot, such as kendall_c or accuracy.HM (default: the task's first)",
    )
    add_options(parser, "--metrics", help="metrics to show, by comma or space")
    parser.add_argument(
        "--width",
        choices=("single", "double"),
        default="single",
        help="columns of a page to fill: single, 3.3 in (default), or double, 6.9 in",
    )


def run(options: argparse.Namespace) -> int:
    """Write the figure and print its file; what is left out goes to stderr."""
    from ..benchmarks.inputs.settings import split_metrics
    from ..benchmarks.plots import (
        agreement_figure,
        length_figure,
        ratings_figure,
        read_records,
        rules_figure,
        write_figure,
    )
    from ..benchmarks.plots.style import require_writable

    require_writable(options.output)
    if options.statistic and options.kind != "agreement":
        raise UsageError(f"--statistic goes with agreement plots; {options.kind} plots show scores", "Leave it out.")
    metrics = split_metrics(options.metrics or [])
    notes: list[str] = []
    records = read_records(options.runs, notes)
    draw = {
        "agreement": partial(agreement_figure, statistic=options.statistic),
        "ratings": ratings_figure,
        "length": length_figure,
        "checklist": rules_figure,
    }[options.kind]
    figure = draw(records, metrics=metrics, width=options.width, notes=notes)
    write_figure(figure, options.output)
    tell(*(f"bench: {note}" for note in notes))
    print(options.output)
    return 0
