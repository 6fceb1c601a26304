"""What the pages say."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from finished_runs import make_record, write_record
from rated_task import run_rated
from viewed_runs import METRIC, ROWS, Viewed, caption

from capbench.benchmarks.comparing.comparison import CompareSettings, compare_runs
from capbench.benchmarks.view.finding import Pictures, Runs
from capbench.benchmarks.view.matches import Explainer
from capbench.benchmarks.view.samples import RunSamples
from capbench.benchmarks.view.site import Site, index_page, suite_page, suites_page
from capbench.errors import MetricError
from capbench.tasks.locate import DataLocations

KEPT = Path(__file__).parents[3] / "results" / "runs"


def text_of(answer: Any) -> str:
    """Return the text of a page, as people read it."""
    assert answer.status_code == 200, answer.text
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", answer.text).split()))


def samples_of(answer: Any) -> list[int]:
    """Return the numbers of the samples that a list leads to, in order."""
    return [int(one) for one in re.findall(r'<h2><a href="/runs/[^"/]+/samples/(\d+)', answer.text)]


def next_of(answer: Any, relation: str = "next") -> str:
    """Return where a page leads on."""
    found = re.search(rf'rel="{relation}" href="([^"]+)"', answer.text)
    return html.unescape(found[1]) if found else ""


def test_all_runs_are_listed_by_task_with_their_numbers(client: Any, viewed: Viewed) -> None:
    page = text_of(client.get("/"))
    assert "3 runs of 2 tasks." in page
    value = viewed.first.record.results["capture"].value
    assert value is not None
    assert f"{value:.4f}" in page
    assert "τ-b" in page
    assert "Compare the two newest" in page
    found = text_of(client.get("/", params={"q": "rated"}))
    assert "1 run of 1 task that match “rated”" in found


def test_runs_of_one_model_are_told_apart_by_their_decoding(tmp_path: Path) -> None:
    same = [("same", {"num_beams": beams, "top_p": 0.5}) for beams in (3, 5)]
    for number, (model, settings) in enumerate([*same, ("alone", {"num_beams": 7}), ("twin", {}), ("twin", {})]):
        keys = {"model": model, "generation_kwargs": settings, "date": 1.7e9 + number}
        write_record(tmp_path, str(number), make_record(kind="generate_until", values={"cider": 0.4}, **keys))
    site = Site(Runs([tmp_path]), Pictures(DataLocations(), []))
    page = index_page(site, {})
    assert re.findall(r">(\w+)</a><small>(\w*?=?\d)[<,]", page) == [("same", "num_beams=5"), ("same", "num_beams=3")]
    assert "top_p" not in page
    # By itself a run is called by all that was set, and by when it began.
    runs, _ = site.runs.all()
    assert [run.model for run in runs] == [
        "twin", "twin", "alone [num_beams=7]", "same [num_beams=5, top_p=0.5]", "same [num_beams=3, top_p=0.5]",
    ]  # fmt: skip
    assert [runs[at].name for at in (0, 2)] == ["twin, 2023-11-14 22:13", "alone [num_beams=7], 2023-11-14 22:13"]


def test_a_run_that_cannot_be_read_is_listed_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{", encoding="utf-8")
    runs, faults = Runs([tmp_path]).all()
    assert runs == []
    ((folder, reason),) = faults
    assert folder == str(tmp_path / "broken")
    assert "it is no JSON" in reason


def test_a_run_shows_every_number_and_what_it_can_be_held_against(client: Any, viewed: Viewed) -> None:
    answer = client.get(f"/runs/{viewed.first.key}")
    page = text_of(answer)
    for result in viewed.first.record.results.values():
        assert result.value is not None
        assert result.label[0] in page
        assert f"{result.value:.4f}" in page or f"{result.value:.2f}" in page
    assert f"/compare?a={viewed.first.key}&amp;b={viewed.second.key}" in answer.text
    assert "Two of its metrics" not in page
    assert "Two of its metrics" in text_of(client.get(f"/runs/{viewed.rated.key}"))
    assert viewed.rated.model == "no model"


@pytest.mark.parametrize(("sort", "reverse"), [("capture", False), ("-capture", True), ("ratings", False)])
def test_lists_are_sorted_over_all_pages(client: Any, viewed: Viewed, sort: str, reverse: bool) -> None:
    run = viewed.rated if sort == "ratings" else viewed.first
    numbers = RunSamples(run.folder, run.record).numbers(sort.removeprefix("-"))
    address, found = f"/runs/{run.key}/samples?sort={sort}", []
    while address:
        answer = client.get(address)
        found += samples_of(answer)
        address = next_of(answer)
    assert sorted(found) == list(range(ROWS))
    values = numbers[found].tolist()
    assert values == sorted(values, reverse=reverse)


def test_a_search_finds_ids_captions_and_references_capital_or_not(client: Any, viewed: Viewed) -> None:
    def found(query: str) -> list[int]:
        answer = client.get(f"/runs/{viewed.rated.key}/samples", params={"q": query})
        assert f"with “{query}”" in text_of(answer)
        return samples_of(answer)

    assert found("ROW 32") == [32]
    assert found("a RED circle is to the left of a large") == [
        row for row in range(ROWS)
        if "a red circle is to the left of a large" in (caption(row) + caption(row + 1)).lower()
    ]  # fmt: skip
    assert found(".*") == []
    assert found("onload") == [row for row in range(ROWS) if row % 4 == 2 or row == 7][:24]


def test_samples_are_followed_in_the_order_of_their_list(client: Any, viewed: Viewed) -> None:
    listed = client.get(f"/runs/{viewed.first.key}/samples", params={"sort": "-meteor", "q": "red"})
    order = samples_of(listed)
    address = html.unescape(re.search(r'<h2><a href="([^"]+)"', listed.text)[1])  # type: ignore[index]
    seen = []
    for _ in range(5):
        answer = client.get(address)
        seen.append(int(re.search(r"/samples/(\d+)", address)[1]))  # type: ignore[index]
        assert "by METEOR, highest first" in text_of(answer)
        assert "with “red”" in text_of(answer)
        address = next_of(answer)
    assert seen == order[:5]
    assert f"/samples/{order[4]}?" in next_of(client.get(address), "prev")
    back = html.unescape(re.search(r'href="([^"]+)" rel="up"', answer.text)[1])  # type: ignore[index]
    assert samples_of(client.get(back)) == order


def test_a_sample_shows_image_texts_and_every_metric_with_its_rank(client: Any, viewed: Viewed) -> None:
    samples = RunSamples(viewed.rated.folder, viewed.rated.record)
    answer = client.get(f"/runs/{viewed.rated.key}/samples/6")
    page = text_of(answer)
    assert f'src="/runs/{viewed.rated.key}/pictures/6"' in answer.text
    assert caption(6) in page
    assert caption(7) in page
    values = samples.numbers(METRIC)
    assert f"{values[6]:.4f}" in page
    assert f"{(values > values[6]).sum() + 1} of {ROWS}" in page
    assert "human rating 3.5000" in page
    assert "ratings 3, 4" in page


def test_samples_that_could_not_be_used_are_listed_with_the_reason(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"image": "i", "candidate": "a b", "references": ["a b"]}
    rows = [plain | {"id": f"r{row}", "ratings": [row % 3]} for row in range(9)]
    rows[4]["references"] = []
    run_rated(tmp_path, rows, {"output_path": tmp_path / "runs"}, metric_list=["rouge_l"])
    site = Site(Runs([tmp_path / "runs"]), Pictures(DataLocations()))
    (run,) = site.runs.all()[0]
    samples = site.runs.samples(run)
    assert [row["id"] for row in samples.rows(samples.order(failed=True).tolist())] == ["r4"]
    assert samples.order("rouge_l").tolist()[-1] == samples.order(failed=True)[0]


def test_what_capture_and_meteor_matched_is_marked(client: Any, viewed: Viewed) -> None:
    for metric, how in (("capture", "equal"), ("meteor", "exact")):
        answer = client.get(f"/runs/{viewed.first.key}/samples/2?matches={metric}")
        assert re.search(rf'<mark class="{how}" title="{how}">[^<]*circle', answer.text, re.IGNORECASE)
        assert "Reference 2: " in text_of(answer)
        made = "F1 of objects, attributes and relations, weighted 5 : 5 : 2" in text_of(answer)
        assert made == (metric == "capture")
        assert "Left out" not in text_of(answer), "nothing was, so there is no table of it"
    answer = client.get(f"/runs/{viewed.first.key}/samples/2")
    assert "matches=capture#matches" in answer.text
    assert "matches=length" not in answer.text


def test_matches_that_do_not_give_the_recorded_score_are_not_shown(viewed: Viewed) -> None:
    row = RunSamples(viewed.first.folder, viewed.first.record).rows([2])[0]
    explained = Explainer().explain(viewed.first.record, "meteor", row)
    assert max(one.value for one in explained.of_references) == pytest.approx(row["meteor"], abs=1e-9)
    for metric in ("meteor", "capture"):
        with pytest.raises(MetricError, match=r"this machine comes to 0\.\d+, the run to 0\.\d+"):
            Explainer().explain(viewed.first.record, metric, {**row, metric: row[metric] - 0.001})
        with pytest.raises(MetricError, match="no score of this metric"):
            Explainer().explain(viewed.first.record, metric, {**row, metric: None})
        with pytest.raises(MetricError, match="no texts to mark"):
            Explainer().explain(viewed.first.record, metric, {metric: 0.5})


def test_number_of_capture_that_a_run_recorded_is_the_one_that_is_explained(viewed: Viewed) -> None:
    import capbench

    capture = "capture[parser=grammar,synonyms=false,soft=false,of={}]"
    names = [capture.format(one) for one in ("recall", "object_precision")]
    captions = {"path": str(viewed.folder / "plain.jsonl")}
    given = {"include_path": [viewed.folder / "tasks"], "resamples": 0, "output_path": viewed.folder / "of"}
    run = capbench.evaluate("captions", "captioned", model_args=captions, metrics=names, **given)["captioned"]
    (row,) = run.samples.slice(7, 1).to_pylist()
    recall, precision = (Explainer().explain(run.record, name, row) for name in names)
    assert recall.made.endswith("the recall of objects, attributes and relations, weighted 5 : 5 : 2")
    assert precision.made.endswith("the precision of objects")
    assert np.mean([one.value for one in recall.of_references]) == pytest.approx(row[names[0]], abs=1e-9)


def test_a_scatter_has_a_point_a_sample_that_leads_to_it(client: Any, viewed: Viewed) -> None:
    answer = client.get(f"/runs/{viewed.rated.key}/scatter", params={"x": "ratings", "y": METRIC})
    point = r'<a href="/runs/[^"]+/samples/(\d+)" aria-label="Sample \d+" tabindex="-1"><circle'
    assert list(map(int, re.findall(point, answer.text))) == list(range(ROWS))
    assert f"{ROWS} samples; points are spread a little" in text_of(answer)
    assert "ROUGE-L against human rating" in text_of(answer)


def test_two_runs_have_the_verdict_of_compare_and_the_largest_difference_first(client: Any, viewed: Viewed) -> None:
    keys = {"a": viewed.first.key, "b": viewed.second.key, "x": "capture"}
    answer = client.get("/compare", params=keys)
    page = text_of(answer)
    (made,) = compare_runs([viewed.first.folder, viewed.second.folder], CompareSettings(metrics=("capture",)))
    pair = made.pairs[0]
    assert "is ahead of" in page
    assert f"by {pair.value:.4f} in mean of CAPTURE" in page
    assert f"{pair.p_holm:.4f}" in page or "p < 0.0001" in page
    scores = [RunSamples(run.folder, run.record).numbers("capture") for run in (viewed.first, viewed.second)]
    gaps = np.abs(scores[0] - scores[1])
    shown = [int(one) for one in re.findall(r'<h3><a href="[^"]+/samples/(\d+)', answer.text)]
    assert gaps[shown].tolist() == np.sort(gaps)[::-1][:12].tolist()
    assert re.search(r"<ins>[^<]+</ins>", answer.text)
    ahead = client.get("/compare", params={**keys, "by": "second"})
    shown = [int(one) for one in re.findall(r'<h3><a href="[^"]+/samples/(\d+)', ahead.text)]
    gains = scores[1] - scores[0]
    assert gains[shown].tolist() == np.sort(gains)[::-1][:12].tolist()
    # Nobody's caption is better for being longer.
    by_length = text_of(client.get("/compare", params={**keys, "x": "length"}))
    assert [page.count(".jsonl better"), page.count(".jsonl has more")] == [14, 0]
    assert [by_length.count(".jsonl better"), by_length.count(".jsonl has more")] == [0, 14]


def test_of_many_samples_the_verdict_is_by_influence_functions_and_says_so(
    client: Any, viewed: Viewed, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"a": viewed.first.key, "b": viewed.second.key, "x": "length"}
    monkeypatch.setattr("capbench.benchmarks.view.compare_pages.MANY", ROWS + 1)
    assert "influence" not in text_of(client.get("/compare", params=keys))
    monkeypatch.setattr("capbench.benchmarks.view.compare_pages.MANY", ROWS)
    page = text_of(client.get("/compare", params={**keys, "x": "capture"}))
    assert "Intervals and p are by influence functions" in page
    folders = [viewed.first.folder, viewed.second.folder]
    (made,) = compare_runs(folders, CompareSettings(metrics=("capture",), intervals="influence"))
    low, high = made.pairs[0].interval.low, made.pairs[0].interval.high
    assert low is not None and high is not None
    assert f"[{low:.4f}, {high:.4f}]".replace("-", "−") in page


def test_two_metrics_of_a_run_are_held_against_each_other_by_ranks(client: Any, viewed: Viewed) -> None:
    keys = {"a": viewed.rated.key, "b": viewed.rated.key, "x": "length", "y": METRIC}
    page = text_of(client.get("/compare", params=keys))
    assert "by the difference of ranks" in page
    assert "τ-b" in page
    same = text_of(client.get("/compare", params={**keys, "y": "length"}))
    assert "a comparison takes two metrics or more" in same


@pytest.mark.parametrize(
    "path",
    [
        "/runs/nothing", "/runs/{first}/samples?page=9", "/runs/{first}/samples?page=x",
        "/runs/{first}/samples?sort=ciderr",
        "/runs/{first}/samples/36", "/runs/{first}/samples/1?matches=length", "/runs/{first}/scatter?x=ciderr",
        "/compare", "/compare?a={first}&b={rated}", "/suites/nothing", "/suites/pacspp_table1", "/runs/{first}/more",
    ],
)  # fmt: skip
def test_an_address_that_leads_nowhere_says_so(client: Any, viewed: Viewed, path: str) -> None:
    answer = client.get(path.format(first=viewed.first.key, rated=viewed.rated.key))
    assert answer.status_code == 404
    assert "No such page" in answer.text


def test_a_suite_stands_beside_its_published_table() -> None:
    site = Site(Runs([KEPT]), Pictures(DataLocations()))
    assert 'href="/suites/pacspp_table1"' in suites_page(site)
    page = suite_page(site, "pacspp_table1")
    assert "32.3" in page
    key = next(run.key for run in site.runs.all()[0] if run.record.task == "flickr8k_expert")
    assert f'<a href="/runs/{key}">' in page
    assert "not run" in page


def test_runs_that_are_written_meanwhile_appear(tmp_path: Path, viewed: Viewed) -> None:
    import shutil

    runs = Runs([tmp_path])
    assert runs.all()[0] == []
    shutil.copytree(viewed.folder / "runs" / "rated", tmp_path / "rated")
    (run,) = runs.all()[0]
    assert run.key == "--".join(run.folder.resolve().parts[-3:])
    assert runs.get(run.key) == run
    assert runs.get("nothing") is None
    for number in range(4):
        shutil.copytree(viewed.folder / "runs" / "rated", tmp_path / f"rated {number}")
    several, _ = runs.all()
    read = [runs.samples(one) for one in several]
    # The four that were read last are kept.
    assert [runs.samples(one) is kept for one, kept in zip(several[:0:-1], read[:0:-1], strict=True)] == [True] * 4
    assert runs.samples(several[0]) is not read[0]
