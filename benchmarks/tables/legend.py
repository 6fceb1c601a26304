"""What the columns, letters and names of a table of results stand for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..records.task_run import TaskRun


def legend(runs: Sequence[TaskRun]) -> list[str]:
    """Return the lines that stand under the table of some runs; only what is in it is explained.

    Args:
        runs: The runs; those of protocols whose results are of rules have tables that say it themselves.
    """
    shown = [run for run in runs if run.results and not run.record.protocol.by_rule]
    return list(dict.fromkeys(line for part in (_values, _columns, _terms, _counts) for line in part(shown)))


def _values(runs: Sequence[TaskRun]) -> Iterator[str]:
    """Yield which way is better, and where values end as they are shown."""
    results = [result for run in runs for result in run.results]
    arrows = {True: "↑ more is better", False: "↓ less is better"}
    if said := [text for up, text in arrows.items() if any(one.higher_is_better is up for one in results)]:
        yield "; ".join(said)
    scales = {one.scale for one in results} - {1.0}
    if scales:
        times = ", ".join(f"{one:g}" for one in sorted(scales))
        yield f"values are shown × {times}; csv, json and records hold them as computed"
    tops: dict[str, str] = {}
    for run in runs:
        for result in run.results:
            of_model = run.record.protocol.subject == "model"
            name = result.label[0] if of_model else result.label[1].removesuffix(result.category).rstrip()
            _, top = run.record.ends_of(result.metric, result.statistic)
            # Most end at one, or at 100 %.
            far = f"up to {top * result.scale:,g} as shown" if top != 1 else ""
            tops[name] = "no upper end, shown as computed" if math.isinf(top) else far
    for said in dict.fromkeys(filter(None, tops.values())):
        yield f"{', '.join(name for name, top in tops.items() if top == said)}: {said}"


def _columns(runs: Sequence[TaskRun]) -> Iterator[str]:
    """Yield what stands in the columns of intervals, letters and published values."""
    results = [(run, result) for run in runs for result in run.results]
    if any(one.interval and one.interval.low is not None for _, one in results):
        drawn = " or ".join(dict.fromkeys(run.record.protocol.resampled for run in runs))
        yield f"95% CI: a resample draws whole {drawn}"
    alphas = {one.alpha for run in runs for one in run.record.significance.values()}
    if alphas and any(run.record.letters(one) for run, one in results):
        yield (
            "Group: metrics of a task that share a letter do not differ "
            f"(p ≥ {', '.join(f'{one:g}' for one in sorted(alphas))} after Holm; 'bench compare RUN')"
        )
    papers = dict.fromkeys(f"{one.paper}, Table {one.table}" for run in runs for one in run.published.values())
    if papers:
        has_difference = any(one.value is not None and one.key in run.published for run, one in results)
        difference = "; Diff: ours less that" if has_difference else ""
        yield f"Published: what {'; '.join(papers)} prints{difference}"
    if any(one.best_alone for _, one in results):
        yield "No image: what the best rule reaches that does not look at the image (the rule)"


def _terms(runs: Sequence[TaskRun]) -> Iterator[str]:
    """Yield what labels and categories stand for."""
    for run in runs:
        labels = {one.label[0] for one in run.results}
        yield from (f"{term}: {what}" for term, what in run.record.protocol.terms.items() if term in labels)
        categories = {one.category for one in run.results}
        named: Mapping[str, str] = run.record.config.get("category_names", {})
        yield from (f"{name}: {what}" for name, what in named.items() if name in categories)


def _counts(runs: Sequence[TaskRun]) -> Iterator[str]:
    """Yield what is counted, where it is not documents."""
    for counted in dict.fromkeys(run.record.protocol.counted for run in runs):
        of = ", ".join(
            f"{run.record.alias} has {run.record.documents.effective:,} documents"
            for run in runs
            if run.record.protocol.counted == counted
            and any(one.n != run.record.documents.effective for one in run.results)
        )
        if of:
            yield f"n: {counted}; {of}"
