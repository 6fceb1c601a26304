"""Runs in which a metric is scores computed elsewhere: a number like any other, whatever the shards and workers."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import task_keys
from in_shards import AnyOrder, run_in_shards

import capbench
from capbench.benchmarks.running import rows as score_rows
from capbench.benchmarks.running.execution import Execution
from capbench.errors import MetricError, TaskError, UsageError
from capbench.metrics.length import Length

ROWS = 40
RATED = {
    "output_type": "agreement",
    "doc_to_id": "id",
    "doc_to_image": "image",
    "doc_to_candidate": "caption",
    "doc_to_human": "rating",
    "metric_list": ["length"],
    "statistics": ["kendall_b", "pearson"],
}
PAIRS = {
    "output_type": "preference",
    "doc_to_id": "id",
    "doc_to_image": "image",
    "doc_to_candidates": "captions",
    "doc_to_preferred": "preferred",
    "metric_list": ["length"],
}


def caption(number: int) -> str:
    """A caption of 2 to 6 words; every 9th stands again and again."""
    return f"dog {0 if number % 9 == 0 else number}" + " runs" * (0 if number % 9 == 0 else number % 5)


def rows() -> list[dict[str, Any]]:
    return [
        {"id": f"r{n}", "image": f"{0 if n % 9 == 0 else n}.jpg", "caption": caption(n), "rating": n % 4 + n % 5}
        for n in range(ROWS)
    ]


def scores(skipped: Callable[[int], bool] = lambda n: False) -> list[dict[str, Any]]:
    """The words of each caption, as if somebody had counted them elsewhere."""
    return [
        {"image": row["image"], "caption": row["caption"], "score": len(row["caption"].split())}
        for n, row in enumerate(rows())
        if not skipped(n)
    ]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_task(
    tmp_path: Path, data: list[dict[str, Any]] | None = None, kind: Mapping[str, Any] = RATED, **keys: Any
) -> None:
    """Write a task ``mine`` with its data beside it."""
    task_keys.write_task(tmp_path, data or rows(), {"task": "mine", **kind, **keys})


def run(folder: Path, *metrics: str, **options: Any) -> Any:
    return capbench.evaluate(tasks="mine", include_path=[folder], metrics=metrics, resamples=20, **options)["mine"]


def values(task_run: Any, metric: str) -> dict[str, float | None]:
    return {result.statistic: result.value for result in task_run.results if result.metric == metric}


def test_run_says_the_same_in_any_shards(tmp_path: Path):
    write_task(tmp_path)
    more = [{"image": "none.jpg", "caption": f"of nobody {n}", "score": 1} for n in range(4)]
    file = write(tmp_path / "words.jsonl", [*more, *scores(lambda n: n in (7, 31))])
    names = [f"recorded[file={file},label=Words,coverage=0.9]", f"recorded[file={file},label=Strict]", "length"]
    call = {"tasks": "mine", "include_path": [tmp_path], "metric_names": names}
    whole = run_in_shards(call, tmp_path / "whole")
    for size, executor in ((7, None), (3, AnyOrder()), (16, AnyOrder())):
        cut = run_in_shards(call, tmp_path / "cut", Execution(executor, shard_rows=size))
        assert cut[0] == whole[0], size
        assert cut[1:] == whole[1:], size
    record = whole[0]
    (failure,) = record["failures"]
    assert (failure["reason"], failure["samples"]) == ("Words: has no score in words.jsonl", ["r7", "r31"])
    (remark,) = record["remarks"]
    assert remark["samples"] == ["Words"]
    # Four of the 42 rows say once more what another says.
    assert remark["reason"] == (
        "leaves 4 of 38 scores of words.jsonl unused, which are of no caption here: rows 1, 2, 3, …"
    )
    (error,) = record["metric_errors"]
    assert error["metric"] == "Strict"
    assert error["reason"].startswith("38 of 40 rows have a score in words.jsonl (coverage 0.9500")


def test_fingerprint_of_a_run_is_of_what_the_file_holds_and_not_of_its_path(tmp_path: Path):
    write_task(tmp_path)
    original = write(tmp_path / "words.jsonl", scores())
    (tmp_path / "elsewhere").mkdir()
    two = write(tmp_path / "elsewhere" / "other.jsonl", scores())
    first, copy = (run(tmp_path, f"recorded[file={file},label=Words]").record for file in (original, two))
    assert copy.fingerprint == first.fingerprint
    write(two, [{**row, "score": row["score"] + 1} for row in scores()])
    assert run(tmp_path, f"recorded[file={two},label=Words]").record.fingerprint != first.fingerprint


def test_several_files_stand_in_one_run_under_labels_of_their_own(tmp_path: Path):
    write_task(tmp_path)
    up = write(tmp_path / "up.jsonl", scores())
    down = write(tmp_path / "down.jsonl", [{**row, "score": -row["score"]} for row in scores()])
    names = [f"recorded[file={up},label=Up]", f"recorded[file={down},label=Down,higher_is_better=false]"]
    done = run(tmp_path, *names)
    assert values(done, "Up")["pearson"] == pytest.approx(-(values(done, "Down")["pearson"] or 0))
    with pytest.raises(TaskError, match=r"lists metric .* twice.*\n.*'label'"):
        run(tmp_path, f"recorded[file={up},label=Up]", f"recorded[file={down},label=Up]")


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_by_id_however_many_rows_have_image_and_caption_in_common(tmp_path, seed: int):
    generator = np.random.default_rng(seed)
    scores, ratings, sides = generator.permutation(12), generator.integers(0, 4, 12), generator.integers(0, 2, 6)
    alike = [{"image": f"{n % 2}.jpg", "caption": f"dog {n % 3}", "captions": ["dog 0", "dog 0"]} for n in range(12)]
    execution = Execution(shard_rows=5 if seed % 2 else None)

    rated = [{**row, "id": f"r{n}", "rating": int(ratings[n])} for n, row in enumerate(alike)]
    write_task(tmp_path, rated, RATED)
    name = f"recorded[file={tmp_path / 'ids.jsonl'},label=Given]"
    write(tmp_path / "ids.jsonl", [{"id": f"r{n}", "score": int(score)} for n, score in enumerate(scores)])
    done = run(tmp_path, name, engine=execution)
    assert values(done, "Given")["pearson"] == pytest.approx(np.corrcoef(scores, ratings)[0, 1])
    assert done.record.remarks == []
    plain = capbench.score(rated, name)
    assert [row["Given"] for row in plain.rows] == scores.tolist()

    pairs = [{**row, "id": f"p{n}", "preferred": int(sides[n])} for n, row in enumerate(alike[:6])]
    write_task(tmp_path, pairs, PAIRS)
    by_side = scores.reshape(6, 2)
    lines = [{"id": f"p{n}|{side}", "score": int(by_side[n, side])} for n in range(6) for side in (0, 1)]
    write(tmp_path / "ids.jsonl", lines)
    right = (by_side[range(6), sides] > by_side[range(6), 1 - sides]).mean()
    assert values(run(tmp_path, name, engine=execution), "Given") == {"accuracy": pytest.approx(right)}


def test_file_of_a_task_lies_beside_it_and_that_of_a_command_where_it_runs(tmp_path, monkeypatch):
    write_task(tmp_path, metric_list=[{"metric": "recorded", "file": "words.jsonl", "label": "Words"}, "length"])
    write(tmp_path / "words.jsonl", scores())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = run(tmp_path)
    assert values(done, "Words") == values(done, "length")
    assert values(run(tmp_path, "Words"), "Words") == values(done, "Words")
    assert {result.label[0] for result in done.results} == {"Words", Length.label}
    assert done.record.remarks == []
    with pytest.raises(MetricError, match=r"metric 'W': words\.jsonl: cannot be read"):
        run(tmp_path, "recorded[file=words.jsonl,label=W]")
    write(tmp_path / "here" / "words.jsonl", [{**row, "score": -row["score"]} for row in scores()])
    other = run(tmp_path, "recorded[file=words.jsonl,label=W]")
    assert values(other, "W")["pearson"] == pytest.approx(-(values(done, "Words")["pearson"] or 0))


def test_task_may_not_read_scores_outside_of_its_folder(tmp_path: Path):
    write(tmp_path / "words.jsonl", scores())
    (tmp_path / "tasks").mkdir()
    write(tmp_path / "tasks" / "rows.jsonl", rows())
    write_task(tmp_path, metric_list=[{"metric": "recorded", "file": "../words.jsonl", "label": "Words"}])
    (tmp_path / "mine.yaml").rename(tmp_path / "tasks" / "mine.yaml")
    with pytest.raises(TaskError, match=r"\.\./words\.jsonl lies outside"):
        run(tmp_path / "tasks")


def test_rows_at_hand_are_found_by_id_or_by_image_and_caption(tmp_path: Path):
    captions = [{"id": row["id"], "image": row["image"], "candidate": row["caption"]} for row in rows()]
    words = [len(row["caption"].split()) for row in rows()]
    file = write(tmp_path / "words.jsonl", scores())
    table = capbench.score(captions, f"recorded[file={file},label=Words]")
    assert [row["Words"] for row in table.rows] == words
    assert table.labels == {"Words": "Words"}
    by_id = [{"id": row["id"], "score": n} for row, n in zip(rows(), words, strict=True)]
    table = capbench.score(captions, f"recorded[file={write(tmp_path / 'ids.jsonl', by_id[:-1])},label=Words]")
    assert table.system == {"Words": None}
    assert table.metric_errors["Words"].startswith("39 of 40 rows have a score")
    with pytest.raises(UsageError, match="two metrics are called 'Words'"):
        capbench.score(captions, [f"recorded[file={file},label=Words]", "recorded[file=a.jsonl,label=Words]"])


@pytest.mark.parametrize(
    ("task", "file", "printed"),
    [("flickr8k_expert", "flickr8k_expert.jsonl", 53.0), ("composite", "composite.jsonl", 63.5)],
)
def test_released_scores_of_fleur_give_the_numbers_of_its_paper(task: str, file: str, printed: float):
    # Lee et al., ACL 2024, Table 1; results/fleur_*.txt of github.com/Yebin46/FLEUR, a row of image, caption, score.
    path = Path(os.environ.get("CAPBENCH_DATA", "")) / "fleur" / file
    if not path.is_file():
        pytest.skip("needs FLEUR's released scores as CAPBENCH_DATA/fleur/TASK.jsonl")
    name = f"recorded[file={path},label=FLEUR,image_names=bare]"
    (done,) = capbench.evaluate(tasks=task, metrics=name, resamples=0).tasks
    assert (values(done, "FLEUR")["kendall_c"] or 0) * 100 == pytest.approx(printed, abs=0.05)
    assert done.record.remarks == []


# -- Scores of pairs that a file lacks: the metric has no number, however many units a run is cut into


RATED_IMAGES = [{"image": f"{n}.jpg", "candidate": f"caption {n % 5}", "rating": n % 3} for n in range(8)]


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[set[int]], str]:
    """Writes images, a task and the scores of its rows but some; returns what the model is called."""
    for row in RATED_IMAGES:
        (tmp_path / row["image"]).write_bytes(row["image"].encode())
    names = {"task": "mine", "doc_to_id": "image", "doc_to_candidate": "candidate"}
    task_keys.write_task(tmp_path, RATED_IMAGES, RATED | names | {"metric_list": ["itm_score", "length"]})

    def write(without: set[int]) -> str:
        pairs = [
            {"image": row["image"], "text": row["candidate"], "score": n}
            for n, row in enumerate(RATED_IMAGES)
            if n not in without
        ]
        (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
        return f"pair_scores:{tmp_path / 'pairs.jsonl'}"

    return write


def test_pair_that_is_missing_in_one_unit_fails_the_metric(recorded: Callable[[set[int]], str], tmp_path: Path):
    call: dict[str, Any] = {"tasks": "mine", "include_path": [tmp_path], "model": recorded({4})}
    for size in (10_000, 3):
        for name, executor in (("here", None), ("files", AnyOrder())):
            execution = Execution(executor, shard_rows=size)
            record, samples, _ = run_in_shards(call, tmp_path / f"{name} {size}", execution)
            ((metric, reason),) = [(error["metric"], error["reason"]) for error in record["metric_errors"]]
            assert metric == "itm_score"
            assert "pairs.jsonl lacks 1 of " in reason
            assert "4.jpg: caption 4" in reason
            assert {row["length"] for row in samples} == {2}
            assert not any(row.get("itm_score") for row in samples)


def test_scored_rows_have_no_number_either(recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(score_rows, "SHARD_OF_IMAGES", 3)
    rows = [{**row, "image": str(tmp_path / row["image"])} for row in RATED_IMAGES]
    model = recorded({4})
    table = capbench.score(rows, ["itm_score", "length"], model=model, allow_outside=[tmp_path])
    assert table.system == {"itm_score": None, "length": 2}
    assert table.counts == {"itm_score": 0, "length": 8}
    assert list(table.metric_errors) == ["itm_score"]
