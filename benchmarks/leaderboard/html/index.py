"""The leaderboard's first page: every table, and what is needed to read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..board import TOP_ROWS, Board, BoardRun, Cell, Column, LeftOut, Printed, TaskTable
from .charts import bubbles
from .markup import date, document, ident, link, marks, model_of, scrolling, text
from .ranks import rank_section
from .suites import suite_section
from .task_tables import Span, bar, measured, task_section

MAX_CHART_RUNS = 8
"""Runs whose scores are drawn against ratings here; the pages of the others have theirs."""
MAX_CHARTS_OF_RUN = 6


def index_page(board: Board, pages: Mapping[str, str], task_pages: Mapping[str, str]) -> bytes:
    """Return ``index.html``.

    Args:
        board: What to show.
        pages: Path of each run's page, by the key of the run.
        task_pages: Path of the page with all rows of a table, by its anchor, where the first page shows the top alone.
    """
    sections = [
        ("reading", "How to read it", _reading()),
        ("tasks", "Tasks", _tasks(board, pages, task_pages)),
        ("suites", "Published tables", "".join(suite_section(table, pages) for table in board.suites)),
        ("ranks", "Rank stability", _ranks(board)),
        ("scores", "Scores and human ratings", _scores(board.runs, pages)),
        ("runs", "Runs", _runs_elsewhere(board) if task_pages else run_list(board.runs, pages)),
        ("left-out", "Runs left out", _left_out(board.left_out)),
    ]
    shown = [(name, head, body) for name, head, body in sections if body]
    main = []
    for name, head, body in shown:
        lazy = ' class="lazy"' if name == "tasks" and len(board.tables) > 8 else ""
        filters = controls(board.tables) if name == "tasks" else ""
        main.append(
            f'<section id="{name}" aria-labelledby="{name}-h"{lazy}><h2 id="{name}-h">{head}</h2>'
            f"{filters}{body}</section>\n"
        )
    body = (
        '<a class="skip" href="#main">Skip to the tables</a>\n'
        f"{_head(board)}"
        f'<div class="frame">{_contents(board, [(name, head) for name, head, _ in shown])}'
        f'<main id="main" tabindex="-1">\n{_noscript()}{"".join(main)}</main></div>\n'
        '<footer class="foot">Made by <code>bench leaderboard build</code> from the records of the runs alone. '
        'The same numbers as text are in <a href="README.md">README.md</a>.</footer>'
    )
    return document("capbench leaderboard", body, scripts=["tables.js"])


def _tasks(board: Board, pages: Mapping[str, str], task_pages: Mapping[str, str]) -> str:
    return "".join(
        task_section(table.top(), pages, _all_rows(table, task_pages[table.anchor]))
        if table.anchor in task_pages
        else task_section(table, pages)
        for table in board.tables
    )


def _all_rows(table: TaskTable, address: str) -> str:
    if len(table.rows) <= TOP_ROWS:
        return f"<p>{link(address, 'The table and its runs on a page of their own')}</p>"
    shown = f"All {len(table.rows):,} rows, of which these are the first {TOP_ROWS}, and their runs"
    return f"<p>{link(address, shown)}</p>"


def _runs_elsewhere(board: Board) -> str:
    return (
        f"<p>{len(board.runs):,} runs: each task's page lists its own. "
        '<a href="leaderboard.json">leaderboard.json</a> lists all.</p>'
    )


def _noscript() -> str:
    return (
        '<noscript><p class="small muted">Without script, tables can be read but not sorted or filtered; '
        '<a href="README.md">README.md</a> holds them as text.</p></noscript>\n'
    )


def _head(board: Board) -> str:
    tasks = len({table.task for table in board.tables})
    counts = [
        (tasks, "task" if tasks == 1 else "tasks"),
        (len(board.runs), "run" if len(board.runs) == 1 else "runs"),
        (len(board.suites), "published table" if len(board.suites) == 1 else "published tables"),
    ]
    listed = "".join(f"<div><dt>{name}</dt><dd>{count:,}</dd></div>" for count, name in counts)
    return (
        '<header class="top"><div class="bar"><span class="brand">capbench</span>'
        '<button type="button" class="button theme" id="theme">Theme</button></div>'
        "<h1>Caption evaluation leaderboard</h1>"
        '<p class="lead">How well models caption, how far caption metrics agree with people, and how finely '
        "CLIP models see: measured by one harness, with confidence intervals, beside what papers print.</p>"
        f'<dl class="counts">{listed}</dl></header>\n'
    )


def _contents(board: Board, sections: Sequence[tuple[str, str]]) -> str:
    def items(entries: list[tuple[str, str]]) -> str:
        listed = "".join(f'<li><a href="#{name}">{text(shown)}</a></li>' for name, shown in entries)
        return f"<ul>{listed}</ul>"

    aliases = [table.alias for table in board.tables]
    tasks = [
        (
            "task-" + ident(table.anchor),
            table.alias if aliases.count(table.alias) == 1 else f"{table.alias} ({table.version})",
        )
        for table in board.tables
    ]
    others = [(name, head) for name, head in sections if name != "tasks"]
    by_task = f"<h2>Tasks</h2>{items(tasks)}" if tasks else ""
    return f'<nav class="contents" aria-label="Contents">{by_task}<h2>More</h2>{items(others)}</nav>'


def _reading() -> str:
    column = Column("", "", 100.0, 2, True)
    printed = Printed(0.415, "41.5", "", "")
    cell = Cell(0.4189, 0.4020, 0.4360, 1000, printed)
    span = Span(0.38, 0.45)
    first = measured(Cell(0.4189, rank=1, group="a"), column, None)
    second = measured(Cell(0.4153, rank=2, group="ab"), column, None)
    both = measured(Cell(0.4189, published=printed), column, None)
    entries = [
        (
            first,
            "Best of its column, in bold. Letters: two values of a column that share none differ "
            "significantly.",
        ),
        (
            bar(cell, span),
            "The value (dot), its 95% bootstrap interval (line) and the printed value (tick), all "
            "of a column on one range, which the column’s head names. Numbers of the interval stand below.",
        ),
        (second, "Second best, underlined."),
        (both, "What a paper prints for the same thing, and the measured value minus it."),
        (
            '<span class="tag">published only</span>',
            "A paper’s row that nobody here has run; it has no rank.",
        ),
        (marks(["50 of 400 documents"]), "A run to compare with care, and why."),
    ]
    listed = "".join(f"<div><dt>{shown}</dt><dd>{meaning}</dd></div>" for shown, meaning in entries)
    return (
        "<p>Each task has a table. Where people rated captions, rows are metrics and columns say how far a metric "
        "agrees with them; elsewhere rows are models. <i>n</i> is the number of rows behind a value. Names lead "
        f'to the runs, with all their settings.</p><dl class="legend">{listed}</dl>'
    )


def controls(tables: Sequence[TaskTable]) -> str:
    """Return what filters the rows of some tables."""
    tasks = {table.task: table.alias for table in tables}
    choices = "".join(f'<option value="{text(task)}">{text(alias)}</option>' for task, alias in tasks.items())
    return (
        '<div class="controls" role="search" aria-label="Rows of all tables">'
        '<label class="wide" for="filter">Filter rows by task, metric or model'
        '<input type="search" id="filter" autocomplete="off" spellcheck="false"></label>'
        f'<label for="task">Task<select id="task"><option value="">All tasks</option>{choices}</select></label>'
        '<label class="tick" for="printed"><input type="checkbox" id="printed" checked>Published rows</label>'
        '<output id="count" for="filter task printed" aria-live="polite"></output></div>\n'
    )


def _ranks(board: Board) -> str:
    if not board.ranks:
        return ""
    return (
        "<p>Whether what is best on one task is best on another: ranks among what all these tasks have measured."
        f"</p>{''.join(map(rank_section, board.ranks))}"
    )


def chart_runs(runs: Sequence[BoardRun]) -> list[BoardRun]:
    """Return the runs whose scores are drawn against ratings: unmarked ones first, a task as often as another."""
    seen: dict[str, int] = {}
    order: list[tuple[bool, int, int]] = []
    for place, run in enumerate(runs):
        if any(one.ratings for one in run.record.histograms.values()):
            task = run.record.task
            seen[task] = seen.get(task, 0) + 1
            order.append((bool(run.marks), seen[task], place))
    chosen = sorted(place for *_, place in sorted(order)[:MAX_CHART_RUNS])
    return [runs[place] for place in chosen]


def _scores(runs: Sequence[BoardRun], pages: Mapping[str, str]) -> str:
    blocks = []
    for place, run in enumerate(chart_runs(runs)):
        found = {name: one for name, one in run.record.histograms.items() if one.ratings}
        charts = "".join(
            bubbles(run.record.metric_label(metric), one, f"scatter-{place}-{number}")
            for number, (metric, one) in enumerate(list(found.items())[:MAX_CHARTS_OF_RUN])
        )
        alias = text(run.record.alias)
        more = len(found) - MAX_CHARTS_OF_RUN
        rest = f"; {more} more metrics there" if more > 0 else ""
        blocks.append(
            f'<section class="block" aria-labelledby="scores-{place}"><h3 id="scores-{place}">{alias}</h3>'
            f'<p class="small muted">Run {link(pages[run.key], text(_short_key(run)))}{rest}{marks(run.marks)}</p>'
            f'<div class="charts">{charts}</div></section>\n'
        )
    if not blocks:
        return ""
    return (
        "<p>What a metric gives to captions that people rated alike. The area of a circle is the number of "
        "captions; the line joins the mean score of each rating. A metric that agrees with people climbs to the "
        f"right.</p>{''.join(blocks)}"
    )


def _short_key(run: BoardRun) -> str:
    return run.key.rsplit("/", 1)[-1]


def run_list(runs: Sequence[BoardRun], pages: Mapping[str, str]) -> str:
    """Return the table of runs, each with a link to its page."""

    def rows() -> Iterator[str]:
        for run in runs:
            record = run.record
            model, samples = model_of(run), record.documents.effective
            labels = dict.fromkeys(one.label[0] for one in record.results.values())
            words = " ".join([record.alias, record.task, model, *labels, *run.marks])
            yield (
                f'<tr data-task="{text(record.task)}" data-words="{text(words)}"><th scope="row">'
                f"{link(pages[run.key], text(_short_key(run)))}{marks(run.marks)}</th>"
                f"<td>{text(record.alias)}</td><td>{text(model)}</td><td>{date(run)}</td>"
                f'<td class="number" data-v="{samples}">{samples:,}</td></tr>\n'
            )

    if not runs:
        return "<p>No run is shown yet.</p>"
    heads = "".join(
        f'<th scope="col" data-sort="text" aria-sort="none"><button type="button">{name}</button></th>'
        for name in ("Run", "Task", "Model", "Date (UTC)")
    )
    table = (
        f'<table class="rows"><caption>{len(runs):,} runs, each with its settings on a page of its own</caption>'
        f'<thead><tr>{heads}<th scope="col" class="number" data-sort="desc" aria-sort="none">'
        f'<button type="button">Documents</button></th></tr></thead><tbody>{"".join(rows())}</tbody></table>'
    )
    return f'<div class="block" data-words="">{scrolling("Runs", table)}</div>'


def _left_out(left_out: Sequence[LeftOut]) -> str:
    if not left_out:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{text(one.key)}</th><td>{text(one.reason)}</td></tr>\n' for one in left_out
    )
    table = (
        '<table class="rows"><caption>Runs that no table is made from, and why</caption><thead><tr>'
        f'<th scope="col">Run</th><th scope="col">Why</th></tr></thead><tbody>{rows}</tbody></table>'
    )
    return scrolling("Runs left out", table)
