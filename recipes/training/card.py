"""The model card of a training: what was done, on what, and what came of it."""

from __future__ import annotations

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
        scores: Before and after; see ``side_by_side``.
        versions: Of the libraries.
    """

    model: str
    parameters: int
    data: str
    counts: Mapping[str, int]
    state: State
    seconds: float
    scores: Sequence[Row]
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
    changed = "".join(f" --set {key}={value}" for key, value in loaded.changed.items())
    lines = [
        f"# {name}",
        "",
        recipe.description,
        "",
        f"    bench train {loaded.parsed.path.stem}{changed}",
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
    ]
    if recipe.choices:
        lines += ["What the paper leaves open, and was chosen:", ""]
        lines += [f"- `{key}`: {why}" for key, why in recipe.choices.items()]
        lines.append("")
    return "\n".join(lines)


def _table(scores: Sequence[Row]) -> list[str]:
    if not scores:
        return ["No task judged it.", ""]
    lines = ["| task | metric | statistic | before | after |", "|---|---|---|---|---|"]
    for row in scores:
        cells = [row["task"], row["metric"], row["statistic"], *map(_shown, (row["before"], row["after"]))]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", "Values with 95 % intervals of each by itself.", ""]


def _shown(found: Mapping[str, Any]) -> str:
    if found["value"] is None:
        return "–"
    interval = "" if found["low"] is None else f" [{found['low']:.3f}, {found['high']:.3f}]"
    return f"{found['value']:.3f}{interval}"
