"""``bench compare``: do the metrics, or the captioners, of finished runs differ?

RUN is the folder of a finished run (run.json and samples.parquet), as 'bench run' prints it. What is compared
follows from the task:
  agreement with ratings     all metrics of all runs, by the task's first statistic (--statistic for another)
  preference, battles        all metrics of all runs, by accuracy
  checklist of changes       all metrics of all runs, by the share of captions that do as they should under the
                             first rule (--statistic falls.negation, equal.synonym for others)
  captions of a model        the models of the runs, by the first metric that is a mean of captions (--metrics
                             for others)
Runs must be of the same task, version and data; only rows that all have a score for count.

examples:
  bench compare runs/flickr8k_expert/no-model/20260101T120000-0a1b2c3d
  bench compare RUN --statistic kendall_c --metrics cider,meteor
  bench compare RUN_OF_ONE_MODEL RUN_OF_ANOTHER --metrics cider,meteor --format latex

docs/compare.md gives formulas and sources.
"""

import argparse
from pathlib import Path

from .options import add_options, positive, share, tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="folder of a finished run")
    parser.add_argument(
        "--statistic", metavar="NAME", default="", help="statistic to compare by (default: the task's first)"
    )
    add_options(parser, "--metrics", help="metrics to compare, separated by commas or spaces")
    parser.add_argument(
        "--alpha", type=share, default=0.05, metavar="A", help="level of the groups; intervals hold 1 - A (0.05)"
    )
    parser.add_argument("--bootstrap", type=positive, default=1000, metavar="N", help="resamples of the images (1000)")
    add_options(parser, "--intervals", "--seed")
    add_options(parser, "--format", help="of the tables")


def run(options: argparse.Namespace) -> int:
    """Print the tables and notes; the notes of other formats go to stderr."""
    from ..benchmarks.comparing.comparison import CompareSettings, compare_runs
    from ..benchmarks.comparing.tables import render_comparisons
    from ..benchmarks.inputs.settings import split_metrics
    from ..progress import bars

    same = {name: getattr(options, name) for name in ("statistic", "alpha", "seed", "intervals")}
    metrics = tuple(split_metrics(options.metrics or []))
    settings = CompareSettings(metrics=metrics, resamples=options.bootstrap, **same)
    comparisons = compare_runs(options.runs, settings, bars())
    for comparison in comparisons:
        of = f" by {comparison.metric}" if comparison.metric else ""
        tell(
            f"{comparison.task}: {len(comparison.compared)} {comparison.subject}s compared{of} "
            f"on {comparison.n:,} rows of {comparison.images:,} {comparison.resampled}"
        )
        if options.format != "github":
            tell(*(f"{comparison.task}: {note}" for note in comparison.notes))
    print(render_comparisons(comparisons, options.format))
    return 0
