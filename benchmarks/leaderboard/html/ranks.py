"""Rank stability: the rank of each metric or model by task, and how alike tasks rank."""

from __future__ import annotations

from ..board import RankTable
from .markup import number, scrolling, text

SHADES = 5
"""Number of shades, the strongest for the best ranks."""
MAX_LINES = 16
"""Names up to which lines between their ranks can be told apart; more have the table alone."""
ACROSS, DOWN, HEAD, LETTER = 130, 28, 30, 7.5
"""Distances in the drawing: between tasks, between ranks, room for the tasks' names, and for a letter."""
LETTERS = 20


def rank_section(table: RankTable) -> str:
    """Return the section of a rank table: ranks by task, and tau between tasks."""
    what = "metrics" if table.subject == "metric" else "models"
    name = f"ranks-{table.subject}"
    heads = "".join(
        f'<th scope="col">{text(task)}<small>by {text(column)}</small></th>' for task, column in table.tasks
    )
    last = max((rank for ranks in table.ranks.values() for rank in ranks if rank is not None), default=1)
    ordered = sorted(table.ranks.items(), key=lambda entry: (_mean(entry[1]), entry[0]))
    body = "".join(
        f'<tr><th scope="row">{text(one)}</th>{"".join(_rank(rank, last) for rank in ranks)}</tr>\n'
        for one, ranks in ordered
    )
    ranks = (
        f'<table class="rows heat"><caption>Rank of {what} by task, the steadiest at the top first; 1 is best.'
        f'</caption><thead><tr><th scope="col">{what[:-1].capitalize()}</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )
    return (
        f'<section class="block" id="{name}" aria-labelledby="{name}-h" data-words="rank">'
        f'<h3 id="{name}-h">Ranks of {what}</h3>{_lines(table, what)}'
        f"{scrolling(f'Ranks of {what}', ranks)}{_tau(table, what)}"
        "</section>\n"
    )


def _lines(table: RankTable, what: str) -> str:
    """Return a drawing with a line a name through its ranks, if there are few enough; the table says the same."""
    if not 2 <= len(table.ranks) <= MAX_LINES:
        return ""
    last = max((rank for ranks in table.ranks.values() for rank in ranks if rank is not None), default=1)
    side = round(LETTER * max(len(_cut(name)) for name in table.ranks)) + 32
    width, height = 2 * side + ACROSS * (len(table.tasks) - 1), HEAD + DOWN * last
    heads = "".join(
        f'<text x="{side + ACROSS * place}" y="14" text-anchor="middle">{text(_cut(task))}</text>'
        for place, (task, _) in enumerate(table.tasks)
    )
    drawn = "".join(_line(one, ranks, side) for one, ranks in sorted(table.ranks.items()))
    name = f"lines-{table.subject}"
    label = f"Ranks of {what} by task, as lines"
    drawing = (
        f'<svg class="bump" role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'aria-labelledby="{name}-t"><title id="{name}-t">{label}; the table below says the same</title>'
        f"{heads}{drawn}</svg>"
    )
    return scrolling(label, drawing)


def _line(name: str, ranks: tuple[int | None, ...], side: int) -> str:
    points = [
        (side + ACROSS * place, HEAD + DOWN * (rank - 1) + DOWN // 2, rank)
        for place, rank in enumerate(ranks)
        if rank is not None
    ]
    if not points:
        return ""
    path = "L".join(f"{x} {y}" for x, y, _ in points)
    knots = "".join(
        f'<circle cx="{x}" cy="{y}" r="10"/><text class="rank" x="{x}" y="{y + 4}" text-anchor="middle">{rank}</text>'
        for x, y, rank in points
    )
    (first, top, _), (end, bottom, _) = points[0], points[-1]
    shown = text(_cut(name))
    return (
        f'<g><path d="M{path}"/>{knots}<text x="{first - 16}" y="{top + 4}" text-anchor="end">{shown}</text>'
        f'<text x="{end + 16}" y="{bottom + 4}">{shown}</text></g>'
    )


def _cut(name: str) -> str:
    return name if len(name) <= LETTERS else name[: LETTERS - 1] + "…"


def _mean(ranks: tuple[int | None, ...]) -> float:
    found = [rank for rank in ranks if rank is not None]
    return sum(found) / len(found) if found else float("inf")


def _rank(rank: int | None, last: int) -> str:
    if rank is None:
        return '<td class="empty">–</td>'
    shade = min((rank - 1) * SHADES // max(last, 1), SHADES - 1)
    return f'<td class="h{shade}">{rank}</td>'


def _tau(table: RankTable, what: str) -> str:
    tasks = [task for task, _ in table.tasks]
    heads = "".join(f'<th scope="col">{text(task)}</th>' for task in tasks)

    def cell(row: int, column: int) -> str:
        if row == column:
            return '<td class="empty">·</td>'
        tau = table.tau.get((row, column), table.tau.get((column, row)))
        if tau is None:
            return '<td class="empty">–</td>'
        shade = "cold" if tau < 0 else f"h{min(int((1 - tau) * SHADES), SHADES - 1)}"
        return f'<td class="{shade}">{number(tau, 2)}</td>'

    body = "".join(
        f'<tr><th scope="row">{text(task)}</th>'
        f"{''.join(cell(row, column) for column in range(len(tasks)))}</tr>\n"
        for row, task in enumerate(tasks)
    )
    label = f"How alike two tasks rank {what}"
    return scrolling(
        label,
        f'<table class="heat"><caption>{label}: Kendall’s τ-b, 1 if they rank them the same, −1 if in '
        f'reverse.</caption><thead><tr><th scope="col">Task</th>{heads}</tr></thead><tbody>{body}</tbody></table>',
    )
