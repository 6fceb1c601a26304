"""A run says the same whatever its shards, the order in which they are scored, and where texts and scores lie."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from in_shards import AnyOrder, Fragile, LongestOf, Picky, RankOf, run_in_shards
from task_keys import AGREEMENT, CAPTIONING, write_task

from capbench.adapters import Caption, Captioned, Captioner, CaptionRequest
from capbench.benchmarks.inputs.settings import RunSettings
from capbench.benchmarks.running.execution import Execution
from capbench.metrics import metrics

pytestmark = pytest.mark.costly

ROWS = 80
WORDS = ["dog", "boat", "child", "horse", "street", "table", "river", "train"]
OWN = {"picky": Picky, "longest_of": LongestOf, "rank_of": RankOf, "fragile": Fragile}


@pytest.fixture(scope="module", autouse=True)
def _own_metrics() -> Iterator[None]:
    """Metrics of these tests have names as long as these run."""
    with pytest.MonkeyPatch.context() as patch:
        for name, metric in OWN.items():
            patch.setitem(metrics._entries, name, metric)
        yield


def caption(number: int) -> str:
    """A caption; every 11th stands again and again, and some are strange, odd, empty or without spaces."""
    if number % 11 == 0:
        return "the same dog stands beside the river"
    if number % 17 == 3:
        return "an odd dog that stands again"
    if number % 13 == 5:
        return ""
    if number % 19 == 7:
        return "一只狗站在河边看着一艘船"
    strange = "strange " if number % 23 == 9 else ""
    return f"a {strange}{WORDS[number % 8]} {number} stands beside the {WORDS[number // 8 % 8]}"


def references(number: int) -> list[str]:
    """Those of an image; ten images share captions and references of others."""
    same = number if number % 11 and number % 17 != 3 else number % 3
    return [f"one {WORDS[same % 8]} is next to a {WORDS[same // 8 % 8]}", f"a {WORDS[same // 3 % 8]} by the river"]


RATED = AGREEMENT | {
    "task": "cut",
    "doc_to_id": "id",
    "doc_to_human": "ratings",
    "protocol": {"raters": "flatten"},
    "metric_list": ["length", "bleu_4", "rouge_l", "cider", "picky", "rank_of", "longest_of"],
    "statistics": ["kendall_b", "kendall_c", "pearson"],
}


def rated() -> Iterator[dict[str, Any]]:
    """Rated captions of images, which have several; some rows cannot be used."""
    for number in range(ROWS):
        repeats = number % 11 == 0 or number % 17 == 3
        yield {
            "id": f"row {number if number != 50 else 49}",
            "image": f"{number % 3 if repeats else number % 20}.jpg",
            "candidate": caption(number),
            "references": [] if number == 33 else references(number),
            "ratings": [number % 5, None if number % 7 == 0 else number % 4][: 1 + number % 2],
        }


def same_in_any_shards(
    folder: Path, places: Sequence[str] = ("files",), **run: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return record and samples of a run in one shard, which are those of shards in memory or in files."""
    call = {"tasks": "cut", "include_path": [folder], **run.pop("call", {})}
    whole = run_in_shards(call, folder / "whole", **run)
    executions = {
        "here": Execution(shard_rows=7),
        "files": Execution(AnyOrder(seed=7), folder=folder / "shards", shard_rows=7),
    }
    for name in places:
        cut = run_in_shards(call, folder / name, executions[name], **run)
        assert cut[0] == whole[0], name
        assert cut[1:] == whole[1:], name
    return whole[:2]


def test_rated_captions(tmp_path: Path):
    write_task(tmp_path, rated(), RATED)
    record, samples = same_in_any_shards(tmp_path, ["here", "files"])

    assert record["metric_errors"] == []
    failure_of = {(failure["stage"], failure["reason"]): failure for failure in record["failures"]}
    # An item that stands in several shards, under other ids, is told once.
    odd = failure_of["metric", "picky: is odd"]
    odd_items = {(n % 3, caption(n)) for n in range(ROWS) if n % 17 == 3}
    assert odd["count"] == len(odd_items) == 3 < sum(n % 17 == 3 for n in range(ROWS))
    assert odd["samples"] == ["row 3", "row 20", "row 37"]
    assert failure_of["metric", "rank_of: is odd"]["samples"] == odd["samples"]
    remarks = {remark["reason"]: remark for remark in record["remarks"]}
    assert remarks["is strange"]["samples"] == ["row 9", "row 32", "row 78"]
    unspaced = next(remark for reason, remark in remarks.items() if "without spaces" in reason)
    assert unspaced["samples"] == ["row 7", "row 26", "row 45", "row 64"]
    assert [row["count"] for row in record["empty_captions"]] == [sum(n % 13 == 5 and n % 11 > 0 for n in range(ROWS))]
    assert len(samples) == ROWS
    assert sum(sample["cider"] is not None for sample in samples) == ROWS - 2


@pytest.mark.parametrize("raters", ["mean", "per_rater_mean"])
def test_several_raters(tmp_path: Path, raters: str):
    rows = [{**row, "ratings": [n % 5, n % 3, None if n % 4 else 2]} for n, row in enumerate(rated())]
    task = {**RATED, "protocol": {"raters": raters}, "metric_list": ["length", "cider"]}
    write_task(tmp_path, rows, task)
    record, _ = same_in_any_shards(tmp_path)
    assert all(interval["n"] > ROWS / 2 for interval in record["intervals"].values())


def test_caption_that_is_a_reference(tmp_path: Path):
    rows = [{**row, "candidate": references(n)[0] if n % 9 == 0 else row["candidate"]} for n, row in enumerate(rated())]
    write_task(tmp_path, rows, {**RATED, "protocol": {"rated_reference": "drop_pair"}, "metric_list": ["cider"]})
    record, _ = same_in_any_shards(tmp_path)
    assert record["ruled_out"] > 3


PAIRS = {
    "task": "cut",
    "output_type": "preference",
    "doc_to_id": "id",
    "doc_to_image": "image",
    "doc_to_candidates": "captions",
    "doc_to_target": "references",
    "doc_to_preferred": "preferred",
    "doc_to_category": "category",
    "protocol": {"drawn_references": 2, "draws": 3},
    "metric_list": ["length", "bleu_4", "cider", "picky", "rank_of"],
}


def pairs() -> Iterator[dict[str, Any]]:
    for number in range(ROWS):
        texts = [caption(n) or "no caption" for n in (number, number * 7 + 1)]
        yield {
            "id": f"pair {number}",
            "image": f"{number % 9}.jpg",
            "captions": [texts[0], texts[0]] if number % 12 == 0 else texts,
            "references": [*references(number), *references(number + 5), f"reference {number % 4}"],
            "preferred": 2 if number == 30 else number % 2,
            "category": ["animals", "vehicles", "\ud800"][number % 3 if number > 40 else number % 2],
            "pair": f"of {number // 2 * 5 % 40}",
        }


@pytest.mark.parametrize("of_parts", [False, True])
def test_preferred_captions(tmp_path: Path, of_parts: bool):
    rows = [{**row, "category": "one", "preferred": 0} for row in pairs()] if of_parts else pairs()
    task = {**PAIRS, "doc_to_pair": "pair"} if of_parts else PAIRS
    write_task(tmp_path, rows, task)
    record, samples = same_in_any_shards(tmp_path)

    # Documents of a pair stand far from each other.
    assert len(samples) == (8 if of_parts else ROWS)
    assert record["metric_errors"] == []
    if not of_parts:
        accuracies = record["results"]["cut"]
        assert len([name for name in accuracies if name.startswith("cider") and "stderr" not in name]) == 4


class Narrator(Captioner):
    """Says of a document what :func:`caption` does; fails on some, does not see some."""

    keep = False
    batch_size = 3

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "narrator"}

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        numbers = [int(request.id.split()[1]) for request in requests]
        answers = {at: Caption(caption(number), tokens=5, cut=number % 2 == 0) for at, number in enumerate(numbers)}
        failures = {at: "the model stumbled" for at, number in enumerate(numbers) if number % 16 == 4}
        unseen = {at: "cannot be read" for at, number in enumerate(numbers) if number % 16 == 6}
        known = {at: answer for at, answer in answers.items() if at not in failures and at not in unseen}
        yield Captioned(known, failures, unseen)


SHOWN = CAPTIONING | {
    "task": "cut",
    "doc_to_id": "id",
    "doc_to_text": "Describe {{image}}.",
    "metric_list": ["length", "bleu_4", "cider", "picky", "rank_of", "longest_of"],
}


def shown() -> Iterator[dict[str, Any]]:
    for number in range(ROWS):
        image = number % 3 if number % 11 == 0 else number % 30
        yield {"id": f"image {number}", "image": f"{image}.jpg", "references": references(number)}


@pytest.mark.parametrize("aggregate", ["", "categories"])
def test_captions_of_a_model(tmp_path: Path, aggregate: str):
    kinds = {"doc_to_category": "{{ image[0] }}", "protocol": {"aggregate": aggregate}} if aggregate else {}
    write_task(tmp_path, shown(), {**SHOWN, **kinds})
    record, samples = same_in_any_shards(tmp_path, ["here"], call={"model": Narrator()})
    assert record["metric_errors"] == []
    count_of = {failure["reason"]: failure["count"] for failure in record["failures"]}
    assert (count_of["the model stumbled"], count_of["cannot be read"]) == (5, 5)
    assert record["generation"]["captions"] > 50
    assert len(samples) == ROWS


def test_captions_that_are_recorded_of_a_part(tmp_path: Path):
    write_task(tmp_path, shown(), {**SHOWN, "metric_list": ["bleu_4", "cider"]})
    lines = [
        json.dumps({"id": f"image {number}", "caption": caption(number)})
        for number in range(ROWS + 2)
        if number % 4 and not 20 <= number < 40
    ]
    (tmp_path / "captions.jsonl").write_text("\n".join([*lines, "no row"]))
    record, _ = same_in_any_shards(
        tmp_path,
        call={"model": f"captions:{tmp_path / 'captions.jsonl'}"},
        settings=RunSettings(subset=True, resamples=20),
    )
    assert record["subset"]["of"] == ROWS
    assert record["subset"]["documents"] == 45


def write_fragile(folder: Path, breaks: Callable[[int], bool]) -> Mapping[str, Any]:
    rows = [{**row, "candidate": f"break {n}" if breaks(n) else f"caption {n}"} for n, row in enumerate(rated())]
    write_task(folder, rows, {**RATED, "metric_list": ["fragile", "length"]})
    return {"tasks": "cut", "include_path": [folder]}


def test_metric_that_raises_in_a_shard_costs_that_shard_alone(tmp_path: Path):
    call = write_fragile(tmp_path, lambda number: number == 25)
    for name, executor in (("here", None), ("files", AnyOrder())):
        execution = Execution(executor, folder=tmp_path / "shards", shard_rows=10)
        record, samples, _ = run_in_shards(call, tmp_path / name, execution)
        assert record["metric_errors"] == []
        (failure,) = [failure for failure in record["failures"] if failure["stage"] == "metric"]
        assert failure["count"] == 10
        assert re.search(r"RuntimeError: it is broken \(.*in_shards\.py:\d+\)$", failure["reason"])
        lost = [row for row in samples if row["length"] is not None and row["fragile"] is None]
        assert [row["id"] for row in lost] == failure["samples"]
        assert all("it is broken" in row["failure"] for row in lost)


def test_shard_without_scores_is_no_part_of_a_mean(tmp_path: Path):
    write_task(tmp_path, shown(), {**SHOWN, "metric_list": ["fragile"]})
    captions = ["break" if number == 25 else "caption" + "s" * (number % 3) for number in range(ROWS)]
    lines = [json.dumps({"id": f"image {number}", "caption": text}) for number, text in enumerate(captions)]
    (tmp_path / "captions.jsonl").write_text("\n".join(lines))
    call = {"tasks": "cut", "include_path": [tmp_path], "model": f"captions:{tmp_path / 'captions.jsonl'}"}
    record, _, _ = run_in_shards(call, tmp_path / "runs", Execution(shard_rows=10))
    ((key, interval),) = record["intervals"].items()
    mean = record["results"]["cut"][f"{key},none"]
    assert mean == pytest.approx(sum(map(len, captions[:20] + captions[30:])) / 70)
    assert 7 < interval["low"] < mean < interval["high"] < 9


def test_metric_that_raises_everywhere_has_failed(tmp_path: Path):
    call = write_fragile(tmp_path, lambda number: True)
    for size in (10_000, 10):
        record, _, _ = run_in_shards(call, tmp_path / str(size), Execution(shard_rows=size))
        ((metric, reason),) = [(error["metric"], error["reason"]) for error in record["metric_errors"]]
        assert metric == "fragile"
        assert "it is broken" in reason
