"""What the pages say."""

import html
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from finished_runs import make_record, write_record
from made_records import agreement_record
from PIL import Image
from rated_task import run_rated
from task_keys import CAPTIONING
from tiny_images import noise_video
from viewed_runs import METRIC, ROWS, Viewed, caption

import capbench
from capbench.atomic_files import draft_beside
from capbench.benchmarks.comparing.comparison import CompareSettings, compare_runs
from capbench.benchmarks.inputs.task_images import Picture
from capbench.benchmarks.records.progress_file import progress_written
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.tables.pages.charts import scatter
from capbench.benchmarks.view.compare_pages import compare_page
from capbench.benchmarks.view.filters import FilterError
from capbench.benchmarks.view.finding import Pictures, Runs, comparable
from capbench.benchmarks.view.sample_list import samples_page
from capbench.benchmarks.view.sample_pages import explain, picture, sample_page, scatter_page
from capbench.benchmarks.view.samples import RunSamples, most_apart, relative_ranks
from capbench.benchmarks.view.site import (
    NoSuchPageError,
    Site,
    about_page,
    index_page,
    run_page,
    suite_page,
    suites_page,
)
from capbench.benchmarks.view.words import mark_words, word_differences
from capbench.errors import DataError, MetricError
from capbench.progress import silent
from capbench.tasks.locate import DataLocations

KEPT = Path(__file__).parents[3] / "results" / "runs"


def text_of(answer: Any) -> str:
    """Return the text of a page, as people read it."""
    assert answer.status_code == 200, answer.text
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", answer.text).split()))


def test_all_runs_are_listed_by_task_with_their_numbers(client: Any, viewed: Viewed) -> None:
    page = text_of(client.get("/"))
    assert "3 runs of 2 tasks." in page
    value = viewed.first.record.results["capture"].value
    assert f"{value:.4f}" in page
    assert "τ-b" in page
    assert "Compare the two newest" in page
    text = text_of(client.get("/", params={"q": "rated"}))
    assert "1 run of 1 task matching “rated”" in text


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
    # Copies, of one model with the same results, are not compared.
    assert [run.model for run in comparable(runs[0], runs)] == [runs[2].model, runs[3].model]
    assert [runs[at].name for at in (0, 2)] == ["twin, 2023-11-14 22:13", "alone [num_beams=7], 2023-11-14 22:13"]


def test_a_list_of_800_runs_is_searched_newest_first_and_a_small_page(tmp_path: Path) -> None:
    for number in range(800):
        keys = {"model": f"model-{number // 20}", "date": 1.7e9 + 86_400 * (number * 7 % 800)}
        record = make_record(f"task_{number % 20:02}", "generate_until", values={"cider": 0.4, "meteor": 0.3}, **keys)
        write_record(tmp_path, str(number), record)
    site = Site(Runs([tmp_path]), Pictures(DataLocations()))
    page = index_page(site, {})
    assert "800 runs of 20 tasks." in page and len(page) < 250_000
    for table in page.split("<tbody>")[1:]:
        began = re.findall(r"<small>(\d[^<]+) UTC", table)
        assert len(began) == 40 and began == sorted(began, reverse=True)
    searched = index_page(site, {"q": "Model-31 task_07 METEOR"})
    assert re.findall(r'<a href="/runs/[^"]+">([^<]+)', searched) == ["model-31"]
    assert "1 run of 1 task matching" in searched


def test_about_this_run_has_what_decides_the_numbers_and_what_they_cost(client: Any, viewed: Viewed) -> None:
    record, page = viewed.first.record, client.get(f"/runs/{viewed.first.key}/about").text
    sections = page.partition("<main")[2].split("</h2>")
    titles = " ".join(section.rpartition(">")[2] for section in sections[:-1])
    assert titles == "Model Settings Protocol Metrics Cost Software and machine"
    model, settings, protocol, metrics, cost, software = (
        dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]*)</dd>", section)) for section in sections[1:]
    )
    assert model["prompt"] == "Describe it. (not used: the captions are from a file)" and model["model"].startswith(
        "adapter: captions; sha256: "
    )
    assert settings["task"] == "captioned, version 1.0" and settings["documents"] == f"{ROWS} of {ROWS}"
    assert settings["fingerprint"] == record.fingerprint and settings["resamples"] == "100"
    assert settings["run"] == viewed.first.key and settings["encoder"] == "–"
    assert protocol["output_type"] == "generate_until"
    assert metrics["cider"].startswith("metric: Cider; variant: d;") and METRIC in map(html.unescape, metrics)
    assert "tokenizer: tokenizer" not in page and settings["subset"] == "no" and "usage" not in settings["generation"]
    assert float(cost["all, seconds"]) >= 0 and "cider, seconds" in cost and "capbench" in software
    # The page of results names the main ones, and leads to the rest.
    results = client.get(f"/runs/{viewed.first.key}").text
    assert "<dt>prompt</dt><dd>Describe it. (not used" in results and "<dt>fingerprint</dt>" not in results


def test_a_video_is_shown_as_frames_that_move_on_the_page_of_its_sample(tmp_path: Path) -> None:
    captioned = CAPTIONING | {"task": "clips", "video_folder": "clips", "metric_list": ["length"]}
    (tmp_path / "clips").mkdir()
    noise_video(tmp_path / "clips/a.mp4", 1, 20)
    (tmp_path / "clips.yaml").write_text(json.dumps(captioned))
    (tmp_path / "rows.jsonl").write_text(json.dumps({"image": "a.mp4", "references": ["x"]}))
    (tmp_path / "captions.jsonl").write_text(json.dumps({"id": "0", "caption": "noise"}))
    options = {"include_path": [tmp_path], "resamples": 0, "output_path": tmp_path / "runs"}
    capbench.evaluate(f"captions:{tmp_path / 'captions.jsonl'}", "clips", **options)
    site = Site(Runs([tmp_path / "runs"]), Pictures(DataLocations(), [tmp_path]))
    (run,) = site.runs.all()[0]
    assert f'<img class="large" src="/runs/{run.key}/pictures/0"' in sample_page(site, run.key, "0", {})
    shown = picture(site, run.key, "0")
    assert isinstance(shown, Picture) and shown.media_type == "image/webp"
    assert Image.open(io.BytesIO(shown.content)).n_frames == 16  # type: ignore[attr-defined]


def test_a_run_that_cannot_be_read_is_listed_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{", encoding="utf-8")
    runs, faults = Runs([tmp_path]).all()
    assert runs == []
    ((folder, reason),) = faults
    assert folder == str(tmp_path / "broken")
    assert "not valid JSON" in reason


def test_runs_in_progress_are_shown_and_deleted_ones_say_so(tmp_path: Path) -> None:
    write_record(tmp_path, "run", make_record(kind="generate_until", values={"cider": 0.4}))
    site = Site(Runs([tmp_path]), Pictures(DataLocations(), []))
    with progress_written(draft_beside(tmp_path / "task"), silent, task="small", model="<i>x") as progress:
        assert "data-live" in index_page(site, {}) and "&lt;i&gt;x" in index_page(site, {})
        progress("cider")(3, 5)
    assert "<td>cider</td>" in index_page(site, {})
    shutil.rmtree(next(tmp_path.glob(".draft-*")))
    (run,) = site.runs.all()[0]
    assert "data-live" not in index_page(site, {}) and "links to" not in run_page(site, run.key)
    shutil.rmtree(run.folder)
    for page in (run_page, about_page):
        with pytest.raises(NoSuchPageError, match="moved or deleted"):
            page(site, run.key)


def test_a_run_shows_every_number_and_what_it_can_be_held_against(client: Any, viewed: Viewed) -> None:
    answer = client.get(f"/runs/{viewed.first.key}")
    page = text_of(answer)
    for result in viewed.first.record.results.values():
        assert result.label[0] in page
        assert f"{result.value:.4f}" in page or f"{result.value:.2f}" in page
    assert f"/compare?a={viewed.first.key}&amp;b={viewed.second.key}" in answer.text
    assert f"{viewed.first.folder} --export run.html" in page and f'download="{viewed.first.key}.html"' in answer.text
    assert "Written by bench view --export" in text_of(client.get(f"/runs/{viewed.first.key}/export"))
    assert "Compare two of its metrics" not in page
    assert "Compare two of its metrics" in text_of(client.get(f"/runs/{viewed.rated.key}"))
    assert viewed.rated.model == "no model"


@pytest.mark.parametrize(("sort", "reverse"), [("capture", False), ("-capture", True), ("ratings", False)])
def test_lists_are_sorted_over_all_pages(client, viewed, monkeypatch, sort: str, reverse: bool) -> None:
    monkeypatch.setattr("capbench.benchmarks.view.sample_list.PAGE", 10)
    run = viewed.rated if sort == "ratings" else viewed.first
    numbers = RunSamples(run.folder, run.record).numbers(sort.removeprefix("-"))
    address, order = f"/runs/{run.key}/samples?sort={sort}", []
    while address:
        page = client.get(address).text
        order += [
            int(number) for number in re.findall(r'<th scope="row"[^>]*><a href="/runs/[^"/]+/samples/(\d+)', page)
        ]
        further = re.search(r'rel="next" href="([^"]+)"', page)
        address = html.unescape(further[1]) if further else ""
    assert sorted(order) == list(range(ROWS))
    values = numbers[order].tolist()
    assert values == sorted(values, reverse=reverse)


def test_a_sample_shows_image_texts_and_every_metric_with_its_rank(client: Any, viewed: Viewed) -> None:
    samples = RunSamples(viewed.rated.folder, viewed.rated.record)
    answer = client.get(f"/runs/{viewed.rated.key}/samples/6")
    page = text_of(answer)
    assert f'src="/runs/{viewed.rated.key}/pictures/6"' in answer.text
    assert caption(6) in page and caption(7) in page
    values = samples.numbers(METRIC)
    assert f"{values[6]:.4f}" in page
    equal = (values == values[6]).sum()
    assert f"{(values > values[6]).sum() + 1} of {ROWS}" + (f", shared by {equal}" if equal > 1 else "") in page
    assert "rank 1 is the best Metric" in page
    assert "rank 1 is the best, of length the highest" in text_of(client.get(f"/runs/{viewed.first.key}/samples/6"))
    assert "human rating 3.5000" in page and "ratings 3, 4" in page


def test_a_sample_shows_all_models_with_their_scores_and_the_words_that_each_has_alone(client: Any, viewed: Viewed):
    answer = client.get(f"/runs/{viewed.first.key}/samples/1?sort=-meteor&q=length+>+1")
    table = answer.text.partition('id="models"')[2].partition("</section>")[0]
    for run in (viewed.first, viewed.second):
        score = RunSamples(run.folder, run.record).numbers("meteor")[1]
        state = r"\?sort=-meteor&amp;q=length\+%3E\+1"
        assert re.search(rf'href="/runs/{run.key}/samples/1{state}".*{score:.4f}', table)
    assert f"/compare?sample=1&amp;a={viewed.first.key}&amp;b={viewed.second.key}&amp;x=meteor#sample-1" in table
    assert "<ins>small</ins>" in table
    # Nobody else has run the task of ratings.
    assert "All models" not in client.get(f"/runs/{viewed.rated.key}/samples/1").text


def test_samples_that_could_not_be_used_are_listed_with_the_reason(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"image": "i", "candidate": "c d"}
    rows = [plain | {"id": f"r{n}", "references": ["cd"[n % 2]], "ratings": [n % 3] * (n % 2 + 1)} for n in range(9)]
    rows[4]["references"], rows[7]["candidate"] = [], ""
    run_rated(tmp_path, rows, {"output_path": tmp_path / "runs"}, metric_list=["rouge_l", "cider"])
    site = Site(Runs([tmp_path / "runs"]), Pictures(DataLocations()))
    (run,) = site.runs.all()[0]
    samples = site.runs.samples(run)
    assert [row["id"] for row in samples.rows(samples.order(query="failure").tolist())] == ["r4"]
    assert samples.order("rouge_l").tolist()[-1] == samples.order(query="failure")[0]
    shown = [sample_page(site, run.key, at, {}) for at in "67"] + [samples_page(site, run.key, {"q": "empty"})]
    assert ["(empty caption)" in page for page in shown] == [True, False, True]
    page = run_page(site, run.key)
    assert re.findall(r'href="[^"]+/samples\?q=([^"]+)">([^<]+)<', page) == [
        ("failure", "1"), ("id+%3D+%22r4%22", "r4"), ("empty", "1"), ("id+%3D+%22r7%22", "r7"),
        ("failure", "Samples with failures"),
    ]  # fmt: skip
    # A row weighs as often as it was rated.
    assert explain(run.record, "cider", samples.rows([0])[0], samples).value > 0


def test_explanation_that_does_not_give_the_recorded_score_is_not_shown(viewed: Viewed) -> None:
    row = RunSamples(viewed.first.folder, viewed.first.record).rows([2])[0]
    for metric in ("meteor", "capture", METRIC):
        with pytest.raises(MetricError, match=r"recomputed score is 0\.\d+, but the recorded score is 0\.\d+"):
            explain(viewed.first.record, metric, {**row, metric: row[metric] - 0.001})
        with pytest.raises(MetricError, match="no score of this metric"):
            explain(viewed.first.record, metric, {**row, metric: None})
        with pytest.raises(MetricError, match="no caption with references"):
            explain(viewed.first.record, metric, {metric: 0.5})
    with pytest.raises(MetricError, match="more than 200,000 characters"):
        explain(viewed.first.record, "meteor", {**row, "candidate": "a " * 100_000})


def test_scores_of_a_run_are_explained_with_its_settings_and_frequencies(viewed: Viewed, tmp_path: Path) -> None:
    names = ["capture[parser=grammar,synonyms=false,soft=false,of=recall]", "cider[variant=plain]", "bleu_2"]
    options = {"include_path": [viewed.folder / "tasks"], "resamples": 0, "output_path": tmp_path, "metrics": names}
    capbench.evaluate("captions", "captioned", model_args={"path": str(viewed.folder / "plain.jsonl")}, **options)
    (run,) = Runs([tmp_path]).all()[0]
    samples = RunSamples(run.folder, run.record)
    for row in samples.rows([0, 7, 20]):
        _, cider, _ = (explain(run.record, name, row, samples) for name in names)
        assert np.mean([part.value for part in cider.parts]) == pytest.approx(row[names[1]], abs=1e-9)


def test_a_scatter_has_a_point_a_sample_that_leads_to_it(client: Any, viewed: Viewed) -> None:
    answer = client.get(f"/runs/{viewed.rated.key}/scatter", params={"x": "ratings", "y": METRIC})
    point = r'<a href="/runs/[^"]+/samples/(\d+)" aria-label="Sample [^"]+" tabindex="-1"><title>([^<]+)</title><circle'
    drawn = {int(at): html.unescape(named) for at, named in re.findall(point, answer.text)}
    ids = RunSamples(viewed.rated.folder, viewed.rated.record).column("id").to_pylist()
    assert drawn == dict(enumerate(ids))
    assert f"{ROWS} samples; points have horizontal jitter" in text_of(answer)
    of_metrics = client.get(f"/runs/{viewed.rated.key}/scatter", params={"x": "length", "y": METRIC}).text
    assert len(re.findall(r'/samples/\d+\?a=[^"]+&amp;x=length&amp;y=', of_metrics)) > ROWS
    page = text_of(answer)
    assert "ROUGE-L against human rating" in page and "Ranked higher by human rating" in page
    assert "Ranked higher by ROUGE-L" in page and "better half by human rating, worst by ROUGE-L first" in page
    assert re.search(rf"human rating 3.5000, rank 1 of {ROWS}, shared by \d+; ROUGE-L 0\.\d+, rank \d+ of {ROWS}", page)


def test_two_runs_have_the_verdict_of_compare_and_the_largest_difference_first(client: Any, viewed: Viewed) -> None:
    keys = {"a": viewed.first.key, "b": viewed.second.key, "x": "capture"}
    answer = client.get("/compare", params=keys)
    page = text_of(answer)
    (comparison,) = compare_runs([viewed.first.folder, viewed.second.folder], CompareSettings(metrics=("capture",)))
    pair = comparison.pairs[0]
    assert "is ahead of" in page
    assert f"by {pair.value:.4f} in mean of CAPTURE" in page
    assert f"{pair.p_holm:.4f}" in page or "p < 0.0001" in page
    scores = [RunSamples(run.folder, run.record).numbers("capture") for run in (viewed.first, viewed.second)]
    gaps = np.abs(scores[0] - scores[1])
    shown = [int(number) for number in re.findall(r'<h3><a href="[^"]+/samples/(\d+)', answer.text)]
    assert gaps[shown].tolist() == np.sort(gaps)[::-1][:12].tolist()
    assert re.search(r"<ins>[^<]+</ins>", answer.text) and " references</summary>" in answer.text
    ahead = client.get("/compare", params={**keys, "by": "second"})
    shown = [int(number) for number in re.findall(r'<h3><a href="[^"]+/samples/(\d+)', ahead.text)]
    gains = scores[1] - scores[0]
    assert gains[shown].tolist() == np.sort(gains)[::-1][:12].tolist()
    # Nobody's caption is better for being longer.
    by_length = text_of(client.get("/compare", params={**keys, "x": "length"}))
    assert [page.count(".jsonl better"), page.count(".jsonl has more")] == [14, 0]
    assert [by_length.count(".jsonl better"), by_length.count(".jsonl has more")] == [0, 14]


def test_a_sample_of_a_comparison_has_its_place_there_and_leads_back_to_it(client: Any, viewed: Viewed) -> None:
    keys = {"a": viewed.first.key, "b": viewed.second.key, "x": "capture", "by": "second", "page": "2"}
    links = re.findall(r'<h3><a href="([^"]+)"', client.get("/compare", params=keys).text)
    answer = client.get(html.unescape(links[1]))
    assert f"14 of {ROWS} samples with scores on both sides, sorted by difference in score" in text_of(answer)
    assert [links[0], links[2]] == re.findall(r'rel="(?:prev|next)" href="([^"]+)"', answer.text)
    (back,) = re.findall(r'href="([^"]+)" rel="up">Comparison<', answer.text)
    number = re.findall(r"/samples/(\d+)", links[1])[0]
    assert back.endswith(f"#sample-{number}") and f'<li id="sample-{number}">' in client.get(html.unescape(back)).text
    matches = client.get(html.unescape(re.findall(r'href="([^"]+)">matches<', answer.text)[0]))
    assert f"14 of {ROWS} samples with scores" in text_of(matches)
    assert all("matches=" in to for to in re.findall(r'rel="(?:prev|next)" href="([^"]+)"', matches.text))
    elsewhere = f"/runs/{viewed.rated.key}/samples/0"
    assert "samples with scores" not in text_of(client.get(elsewhere, params=keys).raise_for_status())
    # So does *compare* of a sample, whatever page of the comparison has it.
    for sample in range(0, ROWS, 5):
        page = client.get(f"/runs/{viewed.first.key}/samples/{sample}").text
        (to,) = re.findall(r'href="(/compare[^"]+)" aria-label="Compare with', page)
        assert f'<li id="sample-{sample}">' in client.get(html.unescape(to)).text


def test_of_many_samples_the_verdict_is_by_influence_functions_and_says_so(client, viewed, monkeypatch) -> None:
    keys = {"a": viewed.first.key, "b": viewed.second.key, "x": "length"}
    monkeypatch.setattr("capbench.benchmarks.view.compare_pages.MANY", ROWS + 1)
    assert "influence" not in text_of(client.get("/compare", params=keys))
    monkeypatch.setattr("capbench.benchmarks.view.compare_pages.MANY", ROWS)
    page = text_of(client.get("/compare", params={**keys, "x": "capture"}))
    assert "Intervals and p-values use influence functions" in page


def test_two_metrics_of_a_run_are_held_against_each_other_by_ranks(client: Any, viewed: Viewed) -> None:
    keys = {"a": viewed.rated.key, "b": viewed.rated.key, "x": "length", "y": METRIC}
    page = text_of(client.get("/compare", params=keys))
    assert "sorted by difference in relative rank" in page
    assert "τ-b" in page
    same = text_of(client.get("/compare", params={**keys, "y": "length"}))
    assert "a comparison needs two metrics or more" in same


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


def test_a_run_that_logged_scores_says_why_it_shows_no_texts(client: Any, viewed: Viewed) -> None:
    site = Site(Runs([KEPT]), Pictures(DataLocations()))
    key = next(run.key for run in site.runs.all()[0] if run.record.task == "flickr8k_expert")
    pages = (
        run_page(site, key), samples_page(site, key, {}), sample_page(site, key, "1", {}), scatter_page(site, key, {}),
    )  # fmt: skip
    assert [page.count("logged scores only") for page in pages] == [1] * 4
    assert "logged scores only" not in client.get(f"/runs/{viewed.first.key}").text


def test_runs_that_are_written_meanwhile_appear(tmp_path: Path, viewed: Viewed) -> None:
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
    read = [runs.samples(path) for path in several]
    # The four that were read last are kept.
    assert [runs.samples(path) is kept for path, kept in zip(several[:0:-1], read[:0:-1], strict=True)] == [True] * 4
    assert runs.samples(several[0]) is not read[0]


def test_runs_with_different_metrics_are_compared_by_a_mean_that_both_have(tmp_path: Path, viewed: Viewed) -> None:
    captions = {"path": str(viewed.folder / "plain.jsonl")}
    options = {"include_path": [viewed.folder / "tasks"], "resamples": 0, "output_path": tmp_path / "runs"}
    for metrics in (["rep_1", "bleu_4", "length"], ["bleu_4", "length"], ["incorrect_ending"]):
        capbench.evaluate("captions", "captioned", model_args=captions, metrics=metrics, **options)
    site = Site(Runs([tmp_path / "runs"]), Pictures(DataLocations()))
    last, second, first = site.runs.all()[0]
    page = compare_page(site, {"a": first.key, "b": second.key})
    assert re.findall(r'<option value="(\w+)"( selected)?>(BLEU-4|length)<', page) == [
        ("bleu_4", "", "BLEU-4"), ("length", " selected", "length"),
    ]  # fmt: skip
    assert 'value="rep_1"' not in page
    assert "The two have the same scores." in page and str(tmp_path) not in page
    with pytest.raises(DataError, match="have no scores of the same metric"):
        compare_page(site, {"a": first.key, "b": last.key})


# -- Samples are searched, sorted and read over the parts of their file


@pytest.fixture
def samples(tmp_path: Path) -> RunSamples:
    """Seven samples, in parts of three."""
    texts, numbers = pyarrow.list_(pyarrow.string()), pyarrow.list_(pyarrow.float64())
    columns = {
        "id": [f"id {row}" for row in range(7)], "candidate": ["Ein Baum", "zwei", None, "drei BÄUME", "x.y", "x", ""],
        "references": pyarrow.array([["a"], [], None, ["b", "Baum b"], ["c"], ["c", None], ["d"]], texts),
        "ratings": pyarrow.array([[1, 2], [], None, [3, None], [4], [5, 5], [float("nan")]], numbers),
        "cider": pyarrow.array([0.5, None, 0.1, 0.9, 0.5, 0.3, float("inf")], pyarrow.float64()),
        "length": pyarrow.array([1.0, 2, 3, 4, 5, 6, 7]), "scores.cider": pyarrow.array([[1.0]] * 7),
        "failure": [None, "metric: why", None, None, None, None, None],
    }  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "samples.parquet", row_group_size=3)
    return RunSamples(tmp_path, Record(agreement_record({"cider": None})))


def test_ratings_are_means_of_those_that_were_given(samples: RunSamples):
    np.testing.assert_array_equal(samples.numbers("ratings"), [1.5, np.nan, np.nan, 3, 4, 5, np.nan])


def test_equal_scores_keep_the_order_of_the_run_and_missing_ones_come_last(samples: RunSamples):
    assert samples.order("cider").tolist() == [2, 5, 0, 4, 3, 6, 1]
    assert samples.order("cider", descending=True).tolist() == [6, 3, 0, 4, 5, 2, 1]
    assert samples.order().tolist() == list(range(7))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"baum"', [0, 3]), ("baum and length > 1", [3]), ("'bäume'", [3]), ('"x."', [4]), ('"why"', [1]),
        ("references contains baum", [3]), ("candidate = x", [5]), ("candidate != 'x' and length > 4", [4, 6]),
        ("cider < 0.5", [2, 5]), ("cider != 0.5", [2, 3, 5]), ("`ratings` >= 4", [4, 5]), ("length=1", [0]),
        ("failure", [1]), ("not failure and length < 3", [0]), ("failure contains metric", [1]), ("empty", [6]),
        ("length < 2 or length > 5 and cider > 0", [0, 5]), ("(length < 2 or length > 5) and cider > 0", [0, 5]),
        ("not (length < 6 or empty)", [5]), ("  ", list(range(7))),
        ("CIDEr < 0.5", [2, 5]), ("`CIDEr` < 0.5", [2, 5]), ("human rating >= 4", [4, 5]), ("Caption = x", [5]),
        ("`Human Rating` >= 4", [4, 5]), ("candidate = x-y or Length = 1", [0]), ("References contains 'baum'", [3]),
        ("length = 1".ljust(1_000), [0]), ("not " * 20 + "empty", [6]), ("(" * 20 + "empty" + ")" * 20, [6]),
    ],
)  # fmt: skip
def test_a_filter_selects_samples_of_every_part(samples: RunSamples, query: str, expected: list[int]):
    assert samples.order(query=query).tolist() == expected


@pytest.mark.parametrize(("query", "message"), [
    ("cidr < 1", "character 1: the samples have no column 'cidr'. Did you mean 'cider'"),
    ("cider < 1 andd length", "character 11: expected 'and', 'or' or the end, found 'andd'"),
    ("cider < 'a'", "character 9: expected a number, as 'cider' holds numbers, found ''a''"),
    ("length > 3 and", "character 15: expected a column, or a text in quotation marks, found the end"),
    ("(length > 3", "character 12: expected '\\)', found the end"),
    ("cider", "character 6: expected '<', '<=', .* after 'cider', found the end"),
    ("references = a", "holds lists of texts: compare it by 'contains'"), ("not " * 21 + "empty", "at most 20 levels"),
    ("(" * 21 + "empty" + ")" * 21, "at most 20 levels"),
    ("length = 1".ljust(1_001), "the filter has 1,001 characters; at most 1,000 are read"),
    ("cider < 1 & length", "character 11: expected a column, a number or a text in quotation marks, found '&'"),
    ("candidate contains and (", "character 24: expected 'and', 'or' or the end, found '\\('"),
    ("dog = 1", "no column 'dog'.\nColumns: ratings, .*failure, empty. A text or an id stands in .*: \"dog\""),
    ("id = 39_2", "found '39_2'\nA text or an id stands in .*: \"39_2\""), ("human < 1", "Did you mean 'human rating'"),
    ("not length contains 1", "character 12: expected '<', '<=', .* after 'length', found 'contains'"),
])  # fmt: skip
def test_a_filter_that_cannot_be_read_is_an_error_that_names_the_place(samples: RunSamples, query: str, message: str):
    with pytest.raises(FilterError) as raised:
        samples.order(query=query)
    assert re.search(message, str(raised.value), re.DOTALL)


def test_presets_and_bars_lead_to_the_samples_that_they_name(client: Any, viewed: Viewed):
    address = f"/runs/{viewed.first.key}/samples"
    page = client.get(address, params={"sort": "meteor"}).text
    links = {name: html.unescape(to) for to, name in re.findall(r'<li><a href="([^"]+)"[^>]*>([^<]+)</a></li>', page)}
    assert '<option value="meteor" selected>METEOR, worst first<' in page and ">CIDEr, best first<" in page
    assert {"worst by METEOR", "best by METEOR", "metrics disagree", "models disagree", "grid"} < links.keys()
    scores = [RunSamples(run.folder, run.record).numbers("meteor") for run in (viewed.first, viewed.second)]
    bars = re.findall(
        r'<a href="([^"]+)" data-low="([^"]+)" data-high="([^"]+)" aria-label="[^:]+: (\d+) samples', page
    )
    assert sum(int(count) for *_, count in bars) == ROWS
    for to, low, high, count in bars:
        assert ((scores[0] >= float(low)) & (scores[0] < float(high))).sum() == int(count)
        assert text_of(client.get(html.unescape(to))).count(f"{count} of {ROWS} samples with meteor >= {low}") == 1
    # A narrower choice of a metric takes the place of the wider one, and other conditions stay.
    narrowed = client.get(address, params={"sort": "meteor", "q": "length > 1 and meteor >= 0 and meteor < 2"}).text
    assert 'data-rest="length &gt; 1 and "' in narrowed
    disagree = client.get(links["models disagree"]).text
    values = [float(value) for value in re.findall(r'<td class="number by key">([\d.]+)', disagree)]
    assert len(values) == ROWS and values == sorted(values, reverse=True) != sorted(values)
    assert 'aria-label="Distribution of disagreement of models"' in disagree
    assert re.search(r"<small>METEOR: [^<]+ 0\.\d+, [^<]+ 0\.\d+</small>", disagree)
    # Of a sample on which metrics disagree, the two furthest apart are named with their ranks.
    first = client.get(links["metrics disagree"]).text.partition("<tbody>")[2].partition("</tr>")[0]
    apart, *places = re.findall(r'(?<=by key">)[\d.]+|<small>.+? rank [^<]+', first)
    ranks = [re.findall(r"(?:rank|shared by) (\d+)", place) for place in places]
    high, low = (int(rank) + (int(*equal or [1]) - 1) / 2 for rank, *equal in ranks)
    assert low - high == pytest.approx(float(apart) * (ROWS - 1), abs=0.01)
    assert client.get(links["grid"]).text.count('<img class="small"') == ROWS
    page = client.get(address, params={"q": "meteo < 2"}).text
    assert "no column &#39;meteo&#39;. Did you mean" in page and f">{ROWS} samples<" in page
    assert "metrics_disagree, models_disagree" in page.partition('role="alert"')[2].partition("</p>")[0]
    assert "models_disagree" not in client.get(f"/runs/{viewed.rated.key}/samples", params={"q": "meteo < 2"}).text
    answers = [client.get(address, params={"q": f"{name} > 0.1"}).text for name in ("METEOR", "`meteor`", "meteor")]
    assert len({re.search(r"[\d,]+ of", answer)[0] for answer in answers}) == 1
    assert " with baum in any text" in client.get(address, params={"q": "baum"}).text
    assert " with empty</p>" in client.get(address, params={"q": "empty"}).text
    assert "relative rank (0 to 1) of the models" in client.get(address, params={"sort": "-models_disagree"}).text
    assert client.get(f"/runs/{viewed.rated.key}/samples?sort=-models_disagree").status_code == 404


def test_rows_come_as_they_were_asked_for(samples: RunSamples):
    assert [row["id"] for row in samples.rows([6, 0, 4, 0])] == ["id 6", "id 0", "id 4", "id 0"]
    assert samples.rows([]) == []


def test_of_a_choice_each_caption_has_its_votes_its_system_and_its_scores(tmp_path: Path) -> None:
    capbench.evaluate(None, "shapes_battles", metrics=["rouge_l"], limit=2, resamples=0, output_path=tmp_path)
    site = Site(Runs([tmp_path]), Pictures(DataLocations()))
    page = sample_page(site, site.runs.all()[0][0].key, "1", {})
    said = (
        r'background\.<small>(<mark class="true">preferred</mark> )?system <b>wrong_\d\d</b>; ROUGE-L <b>(0\.\d+)</b>'
    )
    (left, right) = re.findall(said, page)
    assert [left[0], bool(right[0])] == ["", True] and left[1] < right[1] and "Agreement with the preference" in page


def test_a_rank_counts_finite_scores_from_the_best(samples: RunSamples):
    assert samples.rank("cider", 3) == (2, 1, 5)
    assert samples.rank("cider", 4) == (3, 2, 5)
    assert samples.rank("cider", 1) is None
    assert samples.rank("length", 6) == (1, 1, 7)


def test_disagreements_are_of_both_kinds():
    x, y = np.array([1.0, 2, 3, 4, np.nan]), np.array([4.0, 2, 3, 1, 0])
    assert most_apart(x, y, 2) == [3]
    assert most_apart(y, x, 2) == [0]


def test_one_value_alone_has_a_place():
    drawn = scatter(np.array([0.0]), np.array([5.0]))
    assert len(drawn.points) == drawn.total == 1
    assert scatter(np.array([np.nan]), np.array([5.0])).points == ()


def test_ties_stand_in_one_place():
    assert relative_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == pytest.approx([2.5 / 3, 0, 2.5 / 3, 1 / 3])
    assert relative_ranks(np.array([1.0, 1.0])).tolist() == [0.5, 0.5]


def test_words_that_one_caption_has_alone_are_told():
    first, second = word_differences("A boy, running fast .", "a girl running very fast.")
    assert first == [("A", True), ("boy,", False), ("running", True), ("fast", True), (".", False)]
    assert second == [("a", True), ("girl", False), ("running", True), ("very", False), ("fast.", True)]
    assert word_differences("", "") == ([], [])

    assert mark_words(["A red dog .", "a blue cat dog"], ["the dog", "a red cat"]) == [
        [("A", False, False), ("red", False, True), ("dog .", False, False)],
        [("a", False, False), ("blue", True, True), ("cat", False, True), ("dog", False, False)],
    ]
    assert mark_words(["red"], []) == [[("red", False, False)]]
