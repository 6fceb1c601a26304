"""Makes leaderboards of made-up runs: valid records, histograms, samples with hostile captions, no model."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from finished_runs import make_record
from PIL import Image

from capbench.benchmarks.leaderboard.board import (
    Board,
    BoardRow,
    BoardRun,
    Cell,
    Column,
    OmittedRun,
    PrintedValue,
    RankTable,
    SuiteCell,
    SuiteTable,
    TaskTable,
)
from capbench.benchmarks.records.record import Record

HOSTILE = (
    "<img src=x onerror=\"window.ran='image'\">", "</script><script>window.ran='script'</script>",
    "\"><svg onload=window.ran='svg'> & 'quoted'\u2028", "</title></style><style>body{display:none}</style>",
)  # fmt: skip
"""Texts that would run or break something if they were put into a page as markup."""

METRICS = ("bleu_4", "rouge_l", "meteor", "cider", "clip_s", HOSTILE[0])
STATISTICS = ("kendall_b", "kendall_c")
SAMPLES = 60
PICTURE = "pictures/0123456789abcdef.jpg"


def label(name: str) -> str:
    """Return a metric's or statistic's name as tables print it."""
    known = {"kendall_b": "τ-b", "kendall_c": "τ-c", "cider": "CIDEr"}
    return known.get(name, name if "<" in name else name.upper().replace("_", "-"))


def record(task: str, model: str | None, keys: list[tuple[str, str]], seed: int) -> dict[str, Any]:
    """Return the record of a run with a value for each (metric, statistic)."""
    random = np.random.default_rng(seed)
    metrics = list(dict.fromkeys(metric for metric, _ in keys))
    values = {f"{metric}.{statistic}": round(float(random.uniform(0.2, 0.6)), 6) for metric, statistic in keys}
    content = make_record(
        task,
        values=values,
        model=model,
        alias=alias(task),
        date=1795177793.5 + seed,
        beside={key: {"value": 0.4, "printed": "40.0", "scale": 100, "paper": "pacspp", "table": 1} for key in values},
        metrics={metric: {"metric": label(metric), "aggregation": "mean"} for metric in metrics},
        metric_errors=[{"metric": "spice", "reason": HOSTILE[1]}],
        failures=[{"stage": "image", "reason": HOSTILE[2], "count": 2, "samples": ["a", HOSTILE[0]]}],
        ruled_out=158,
        data_checks=[{"check": "rows", "expected": 16992, "found": 16992, "passed": True}],
        timings={"data": 0.2, "metrics": 1.5, "each_metric": dict.fromkeys(metrics, 0.3)},
        store={"found": 10, "computed": 2},
        histograms={} if model else {metric: histogram(random) for metric in metrics[-2:]},
        samples="full",
        redistribution="full",
        pictures={},
    )
    for metric, statistic in keys:
        # Names of metrics hold points, too.
        names = {"metric": metric, "statistic": statistic, "label": [label(metric), label(statistic)]}
        content["intervals"][f"{metric}.{statistic}"] |= {**names, "n": 16992}
    content["n-samples"] = {task: {"original": 5822, "effective": 5664}}
    content["configs"][task]["metric_list"] = [{"metric": "cider"}]
    groups = {metric: "ab"[place % 2] for place, metric in enumerate(metrics)}
    content["significance"] = {"kendall_b": {"alpha": 0.05, "resamples": 1000, "seed": 1234, "groups": groups}}
    return content


def histogram(random: np.random.Generator) -> dict[str, Any]:
    """Return a histogram of scores that rise with the rating."""
    edges = np.linspace(0.0, 1.0, 21)
    ratings = [1.0, 2.0, 3.0, 4.0]
    rows = [np.histogram(random.normal(0.2 + 0.13 * rating, 0.14, 300).clip(0, 1), edges)[0] for rating in ratings]
    words = [random.multinomial(240, np.full(20, 0.05)) for _ in range(5)]
    return {
        "edges": edges.tolist(),
        "counts": np.sum(rows, axis=0).tolist(),
        "by_rating": {"ratings": ratings, "counts": [row.tolist() for row in rows]},
        "by_words": {"edges": [1, 5, 9, 13, 17, 21], "counts": [row.tolist() for row in words]},
    }


def write_samples(folder: Path, metrics: list[str], seed: int) -> None:
    """Write ``samples.parquet`` with hostile ids, captions and references among others."""
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "id": [f"sample {place}" for place in range(SAMPLES - 1)] + [HOSTILE[2]],
        "image": [f"{place}.jpg" for place in range(SAMPLES)],
        "candidate": [HOSTILE[place % 4] + f" caption {place}" for place in range(SAMPLES)],
        "references": [[HOSTILE[1], f"reference {place}"] for place in range(SAMPLES)],
    }
    for metric in metrics:
        scores: list[float | None] = random.uniform(size=SAMPLES).round(6).tolist()
        scores[3] = None
        columns[metric] = pyarrow.array(scores, pyarrow.float64())
    folder.mkdir(parents=True, exist_ok=True)
    # Several row groups, as large files have.
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "samples.parquet", row_group_size=16)


def jpeg() -> bytes:
    """Return a small JPEG file."""
    content = io.BytesIO()
    Image.new("RGB", (48, 32), (40, 90, 150)).save(content, "JPEG")
    return content.getvalue()


def alias(task: str) -> str:
    """Return the name of a made-up task in tables."""
    return task if "<" in task else task.replace("_", " ").capitalize()


def make_board(folder: Path, tasks: int = 3, models: int = 4) -> Board:
    """Return a leaderboard: an agreement task with hostile metrics, the others of models × metrics.

    Args:
        folder: Where the runs' folders are; only runs of the first task have samples there.
        tasks: How many, two or more.
        models: Runs of each task but the first, which has one.
    """
    runs = [_agreement_run(folder)]
    tables = [_agreement_table(runs[0])]
    for place in range(1, tasks):
        of_table = list(_model_runs(folder, f"captions_{place:02}", models, place))
        runs += of_table
        tables.append(_model_table(of_table))
    names = [row.name for row in tables[1].rows if row.kind == "measured"]
    ranks = RankTable(
        "model",
        (("Captions 01", "CIDEr"), ("Captions 02", "CIDEr"), (HOSTILE[0], "CIDEr")),
        {name: (place + 1, len(names) - place, None) for place, name in enumerate(names)},
        {(0, 1): -1.0, (0, 2): None, (1, 2): 0.33},
    )
    left_out = (OmittedRun("captions_01/" + HOSTILE[0], "its record was changed by hand: " + HOSTILE[1]),)
    return Board(tuple(tables), (_suite(runs[0]),), (ranks,), tuple(runs), left_out)


def _cell(run: BoardRun, key: str, everyone: list[float], printed: bool, letters: str = "") -> Cell:
    """Return the cell of a result of a run, with its rank among some values."""
    result = run.record.results[key]
    assert result.value is not None
    assert result.interval is not None
    rank = sorted(everyone, reverse=True).index(result.value) + 1
    beside = PrintedValue(0.4, "40.0", "PAC-S++", 1) if printed else None
    group = letters[rank % 2] if letters else ""
    return Cell(result.value, result.interval.low, result.interval.high, result.n, beside, group, rank)


def _agreement_run(folder: Path) -> BoardRun:
    keys = [(metric, statistic) for metric in METRICS for statistic in STATISTICS]
    key = "ratings/no-model/20261120T122949-a3d4ca58"
    write_samples(folder / key, list(METRICS), 1)
    (folder / key / "pictures").mkdir()
    (folder / key / PICTURE).write_bytes(jpeg())
    pictures = {f"sample {place}": PICTURE for place in range(40)}
    content = record("ratings", None, keys, 1) | {"pictures": pictures}
    return BoardRun(key, folder / key, Record(content), ("50 of 400 documents (--limit)", HOSTILE[0]))


def _agreement_table(run: BoardRun) -> TaskTable:
    columns = tuple(Column(statistic, label(statistic), 100.0, 2, True) for statistic in STATISTICS)
    rows = []
    values = {key: result.value or 0.0 for key, result in run.record.results.items()}
    ranked = sorted(METRICS, key=lambda metric: -values[f"{metric}.kendall_b"])
    for metric in ranked:
        cells = [
            _cell(run, f"{metric}.{statistic}", [values[f"{other}.{statistic}"] for other in METRICS], True, "ab")
            for statistic in STATISTICS
        ]
        model = "openai-clip-vit-b-32" if metric == "clip_s" else ""
        rows.append(BoardRow(label(metric), model, "measured", run.key, tuple(cells), run.marks))
    without = Cell(None, reason="SPICE needs CoreNLP, which is not installed")
    rows.append(BoardRow("SPICE", "", "measured", run.key, (without, None)))
    only = Cell(None, published=PrintedValue(0.466, "46.6", "PAC-S++", 1))
    rows.append(BoardRow("LEIC", HOSTILE[3], "published", "", (only, None)))
    about = "Agreement with human ratings of captions. " + HOSTILE[1]
    return TaskTable(
        "ratings", "Ratings", "1.0", about, "metric", columns, tuple(rows), ("Ratings of three people each.",)
    )


def _model_runs(folder: Path, task: str, models: int, seed: int) -> Iterator[BoardRun]:
    names = [f"model-{place:02}" for place in range(models)]
    names[-1] = HOSTILE[1]
    for place, model in enumerate(names):
        keys = [(metric, "mean") for metric in METRICS[:5]]
        key = f"{task}/{model}/20261120T1229{place:02}-{seed:08x}"
        content = record(task, model, keys, 1000 * seed + place)
        # A record of an older version has none of the newer keys.
        for name in ("significance", "histograms", "samples", "redistribution", "pictures"):
            del content[name]
        yield BoardRun(key, folder / f"{task}-{place}", Record(content))


def _model_table(runs: list[BoardRun]) -> TaskTable:
    task = runs[0].record.task
    columns = tuple(Column(metric, label(metric), 100.0, 2, True) for metric in METRICS[:5])
    every = {column.key: [run.record.results[f"{column.key}.mean"].value or 0.0 for run in runs] for column in columns}
    rows = []
    for run in runs:
        cells = [_cell(run, f"{key}.mean", values, key == "cider") for key, values in every.items()]
        rows.append(BoardRow(run.record.model_name or "", "", "measured", run.key, tuple(cells)))
    return TaskTable(task, alias(task), "1.0", "Captions of images.", "model", columns, tuple(rows))


def _suite(run: BoardRun) -> SuiteTable:
    cells = (
        SuiteCell("43.89", "43.9", "-0.01", run.key, ""),
        SuiteCell("", "35.5", "", "", "not a metric of capbench " + HOSTILE[0]),
        None,
    )
    return SuiteTable(
        "pacspp_table1",
        "Agreement with human ratings (PAC-S++, Table 1).",
        ("Ratings τ-b", "Ratings τ-c", HOSTILE[0]),
        (("CIDEr", cells), (HOSTILE[1], cells)),
        "The paper says w = 2.5.",
    )
