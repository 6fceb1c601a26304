"""The model card of a training: what was done, on what, and what came of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .checkpoints import State
from .judging import Row
from .schema import LoadedRecipe


@dataclass(frozen=True)
class Facts:
    """What is known of a training.

    Attributes:
        model: What was trained.
        parameters: How many numbers of it.
        data: Hash of the rows.
        counts: Of the rows.
        state: Where it ended.
        seconds: Of all steps.
        scores: Before and after; see ``compared``.
        noticed: What the metrics of the reward notice; see ``noticed``.
        versions: Of the libraries.
    """

    model: str
    parameters: int
    data: str
    counts: Mapping[str, int]
    state: State
    seconds: float
    scores: Sequence[Row]
    noticed: Sequence[Row]
    versions: Mapping[str, str]


def model_card(loaded: LoadedRecipe, facts: Facts, name: str) -> str:
    """Return the card as Markdown.

    Args:
        loaded: The recipe.
        facts: What is known.
        name: Of the result.
    """
    recipe = loaded.recipe
    kept = f"those of step {facts.state.best_step}, validation loss {facts.state.best:.4f}" if (
        recipe.stop.keep == "best" and facts.state.best is not None
    ) else "the last"  # fmt: skip
    changed = "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in loaded.changed.items())
    lines = [
        f"# {name}",
        "",
        *([recipe.description, ""] if recipe.description else []),
        f"    bench train {shlex.quote(loaded.named)}{changed}",
        f"    bench run --model {name} --task TASK",
        "",
        f"- **Method**: {recipe.paper or recipe.recipe}",
        f"- **Start**: {facts.model}; {facts.parameters:,} numbers were trained.",
        f"- **Data**: {', '.join(f'{count:,} {what}' for what, count in facts.counts.items() if count)}; "
        f"hash {facts.data[:16]} (names and texts, not pixels).",
        f"- **Steps**: {facts.state.step:,} in {facts.seconds:,.0f} s ({facts.state.ended}); kept are {kept}. "
        f"Seed {recipe.seed}.",
        f"- **Made with**: {', '.join(f'{one} {version}' for one, version in facts.versions.items())}.",
        "",
        *_table(facts.scores),
        *_noticed(facts.noticed),
    ]
    if recipe.choices:
        lines += ["What the paper leaves open, and was chosen:", ""]
        lines += [f"- `{key}`: {why}" for key, why in recipe.choices.items()]
        lines.append("")
    return "\n".join(lines)


def _table(scores: Sequence[Row]) -> list[str]:
    if not scores:
        return ["No task judged it.", ""]
    has_changes = any(row["difference"] for row in scores)
    heads = ["task", "metric", "statistic", "before", "after", *(["change", ""] if has_changes else [])]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in scores:
        cells = [row["task"], row["metric"], row["statistic"], *map(_shown, (row["before"], row["after"]))]
        if has_changes:
            cells += [_shown(row["difference"], "+") if row["difference"] else "", _direction(row)]
        lines.append(f"| {' | '.join(cells)} |")
    told = "Values with 95 % intervals of each by itself."
    if has_changes:
        told += (
            " The change is that of the same documents, with the interval of the paired bootstrap: what it leaves "
            "open is neither higher nor lower."
        )
    return [*lines, "", told, ""]


def _direction(row: Row) -> str:
    """Return where a metric went, and whether the training was paid for it."""
    said = ["**the reward**"] if row["rewarded"] else []
    change = row["difference"]
    if change and change["low"] is not None and not change["low"] <= 0 <= change["high"]:
        said.append("higher" if change["low"] > 0 else "lower")
        if row["higher_is_better"] is False:
            said[-1] += " (worse)" if change["low"] > 0 else " (better)"
    return ", ".join(said)


def _noticed(found: Sequence[Row]) -> list[str]:
    """Return what the metrics of the reward notice: a row a rule, a column a metric."""
    if not found:
        return []
    names = list(dict.fromkeys(row["metric"] for row in found))
    by_rule: dict[str, dict[str, Row]] = {}
    for row in found:
        by_rule.setdefault(row["rule"], {})[row["metric"]] = row
    lines = ["What the metrics of the reward notice of captions that rules changed (docs/checklist.md):", ""]
    lines += [f"| rule | {' | '.join(names)} | n |", f"|---|{'---|' * len(names)}---|"]
    for rule, rows in by_rule.items():
        cells = [_shown(rows[name]) if name in rows else "–" for name in names]
        lines.append(f"| {rule} | {' | '.join(cells)} | {max(row['n'] for row in rows.values())} |")
    return [*lines, ""]


def _shown(found: Mapping[str, Any], sign: str = "") -> str:
    if found["value"] is None:
        return "–"
    interval = "" if found["low"] is None else f" [{found['low']:{sign}.3f}, {found['high']:{sign}.3f}]"
    return f"{found['value']:{sign}.3f}{interval}"
