"""``bench compare``: what is compared, what is printed, what is refused."""

import csv
import io
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from finished_runs import seal
from scipy.stats import binomtest, kendalltau, pearsonr, t

import capbench
from capbench.benchmarks.records.samples import scores_alone
from capbench.benchmarks.statistics.bootstrap import least_p
from capbench.cli.main import main

WORDS = ["a", "dog", "runs", "over", "the", "green", "grass", "near", "one", "old", "red", "house"]
REFERENCE = " ".join(WORDS)


def rated_rows(images: int = 30) -> list[dict]:
    """Return two captions an image: the more of the reference's words, the higher three raters put it."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(2 * images):
        right, wrong = int(generator.integers(0, 11)), int(generator.integers(0, 10))
        caption = [*WORDS[: right + 1], *["blue"] * wrong]
        ratings = [float(right + generator.normal()) for _ in range(3)]
        row = {"id": f"r{number}", "image": f"{number // 2}.jpg", "candidate": " ".join(caption)}
        rows.append({**row, "references": [REFERENCE], "rating": ratings})
    return rows


@pytest.fixture
def rate(bench, write_task, copy_of_run, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that runs the rated task with some metrics and gives the run's folder."""

    def run(metrics: str, output: str = "runs", rows: Sequence[dict] = (), limit: int = 0, **keys) -> Path:
        tasks = write_task(**{"statistics": ["kendall_c", "pearson"], "scale": 100, **keys})
        (tasks / "rows.jsonl").write_text("\n".join(map(json.dumps, rows or rated_rows())))
        arguments = ("--metrics", metrics, *(["--limit", limit] if limit else []))
        key = "rate", metrics, rows, limit, keys
        return copy_of_run(key, tmp_path / output, lambda folder: run_of(bench, folder, *arguments))

    return run


@pytest.fixture
def caption(bench, write_captioning_task, copy_of_run, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that scores a model's captions and gives the run's folder."""

    def run(model: str, captions: dict[str, str], references: str = REFERENCE, **keys) -> Path:
        tasks = write_captioning_task(**{"metric_list": ["rouge_l", "length", "bleu_2"], **keys})
        documents = [{"id": f"d{n}", "image": f"{n}.jpg", "references": [references]} for n in range(30)]
        (tasks / "rows.jsonl").write_text("\n".join(map(json.dumps, documents)))
        path = tmp_path / f"{model}.jsonl"
        path.write_text("\n".join(json.dumps({"id": i, "caption": c}) for i, c in captions.items()))
        arguments = ("--subset", "--model", f"captions:{path}")
        key = "caption", model, captions, references, keys
        return copy_of_run(key, tmp_path / "runs", lambda folder: run_of(bench, folder, *arguments))

    return run


def run_of(bench, output: Path, *arguments: object) -> None:
    options = ("--task", "small", "--include_path", Path("tasks").resolve(), "--output_path", output)
    bench("run", *options, "--bootstrap", 0, *arguments).succeeded()


def captions(right: int, spread: int = 4, seed: int = 0) -> dict[str, str]:
    """Return 30 captions with about so many words of the reference."""
    lengths = right + np.random.default_rng(seed).integers(0, spread, size=30)
    return {f"d{n}": " ".join(WORDS[: length + 1]) for n, length in enumerate(lengths)}


def rewrite(run: Path, change: Callable[[dict], object] = lambda record: None, **columns: Sequence) -> Path:
    """Change the record and some columns of a run's samples, as if they had been written so."""
    record = json.loads((run / "run.json").read_text())
    change(record)
    samples = pyarrow.parquet.read_table(run / "samples.parquet")
    for name, values in columns.items():
        if name in samples.column_names:
            samples = samples.drop_columns([name])
        samples = samples.append_column(name, pyarrow.array(values))
    pyarrow.parquet.write_table(samples, run / "samples.parquet")
    return seal(run, record)


def as_json(done) -> dict:
    assert done.code == 0, done.err
    (comparison,) = json.loads(done.out)
    return comparison


def by_name(comparison: dict) -> dict[str, dict]:
    return {row["name"]: row for row in comparison["compared"]}


# -- metrics against ratings


def test_two_tables_rank_the_metrics_and_test_every_pair(bench, rate):
    done = bench("compare", rate("length,rouge_l,bleu_1"), "--bootstrap", 200).succeeded()
    ranking, pairs, _ = (block.splitlines() for block in done.out.strip().split("\n\n"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (ranking[0], *ranking[2:])]
    assert cells[0] == ["Task", "Metric", "τ-c", "95% CI", "Group", "n"]
    assert [row[1] for row in cells[1:]] == ["ROUGE-L", "BLEU-1", "length"]
    assert [row[4] for row in cells[1:]] == ["a", "ab", "b"]
    assert {row[5] for row in cells[1:]} == {"180"}
    header = [cell.strip() for cell in pairs[0].strip("|").split("|")]
    assert header == ["Pair", "Difference", "95% CI", "p", "p (Holm)"]
    assert [line.split("|")[1].strip() for line in pairs[2:]] == [
        "ROUGE-L - BLEU-1",
        "ROUGE-L - length",
        "BLEU-1 - length",
    ]
    assert "small: 3 metrics compared on 180 rows of 30 images" in done.err


def test_values_are_those_of_scipy_on_the_rows_that_the_protocol_gives(bench, rate):
    run = rate("length,rouge_l")
    samples = pyarrow.parquet.read_table(run / "samples.parquet").to_pydict()
    for statistic, oracle in (
        ("kendall_c", lambda x, y: kendalltau(x, y, variant="c").statistic),
        ("kendall_b", lambda x, y: kendalltau(x, y).statistic),
        ("pearson", lambda x, y: pearsonr(x, y).statistic),
    ):
        comparison = as_json(bench("compare", run, "--statistic", statistic, "--format", "json", "--bootstrap", 20))
        for name, row in by_name(comparison).items():
            flat = [(s, r) for s, rs in zip(samples[name], samples["ratings"], strict=True) for r in rs]
            assert row["value"] == pytest.approx(oracle(*zip(*flat, strict=True)))
        (pair,) = comparison["pairs"]
        assert pair["value"] == pytest.approx(comparison["compared"][0]["value"] - comparison["compared"][1]["value"])


def test_metrics_of_several_runs_are_compared_and_equal_ones_listed_once(bench, rate):
    runs = rate("length,rouge_l"), rate("rouge_l,bleu_1", output="other")
    done = bench("compare", *runs, "--format", "json", "--bootstrap", 20)
    assert list(by_name(as_json(done))) == ["rouge_l", "bleu_1", "length"]
    assert "rouge_l has the same scores in" in done.err


def test_metrics_of_one_name_with_other_scores_are_told_apart_by_run(bench, rate):
    first, second = rate("length,rouge_l"), rate("rouge_l", output="other")
    rewrite(second, rouge_l=np.random.default_rng(0).random(60))
    first, second = first.rename(first.parent / "monday"), second.rename(second.parent / "tuesday")
    comparison = as_json(bench("compare", first, second, "--format", "json", "--bootstrap", 20))
    assert set(by_name(comparison)) == {"rouge_l [monday]", "rouge_l [tuesday]", "length"}
    asked = bench("compare", first, second, "--metrics", "rouge_l", "--bootstrap", 20)
    assert "| ROUGE-L [monday]" in asked.out
    assert "length" not in asked.out


def test_csv_has_a_row_a_metric_and_a_row_a_pair_and_latex_a_table_of_each(bench, rate):
    run = rate("length,rouge_l")
    assert bench("compare", run, "--format", "latex", "--bootstrap", 50).out.count("\\toprule") == 2
    done = bench("compare", run, "--format", "csv", "--statistic", "pearson", "--bootstrap", 50)
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["kind"], row["first"], row["second"]) for row in rows] == [
        ("metric", "rouge_l", ""),
        ("metric", "length", ""),
        ("pair", "rouge_l", "length"),
    ]
    assert 0 <= float(rows[2]["p_williams"]) <= 1
    assert rows[0]["group"] == "a"


def test_a_level_that_the_resamples_cannot_reach_is_said(bench, rate):
    done = bench("compare", rate("length,rouge_l"), "--alpha", "0.01", "--bootstrap", 50)
    assert "99% CI" in done.out
    assert "no p can fall below 0.0292 after Holm's correction" in done.out


# -- captioners


def test_captioners_are_compared_by_metrics_that_all_runs_have(bench, caption):
    runs = caption("good", captions(7)), caption("bad", captions(3), metric_list=["rouge_l"])
    bench("compare", *runs, "--metrics", "length", "--bootstrap", 20).failed(
        2, "metric 'length' is not in all of the runs", "Metrics of all runs: rouge_l."
    )


def test_label_of_two_metrics_is_refused_with_their_names(bench, caption):
    two = [{"metric": "bleu_2"}, {"metric": "bleu_2", "name": "mine"}]
    runs = [caption(model, captions(words), metric_list=two) for model, words in (("good", 7), ("bad", 3))]
    bench("compare", *runs, "--metrics", "BLEU-2").failed(2, "'BLEU-2' is the label of bleu_2 and mine alike")
    for name in ("mine", "bleu_2"):
        comparison = as_json(bench("compare", *runs, "--metrics", name, "--format", "json", "--bootstrap", 20))
        assert comparison["metric"] == name


def test_captioners_are_compared_by_the_mean_over_documents_that_all_have(bench, caption):
    good, bad = captions(7), captions(3, seed=1)
    del bad["d0"]
    runs = caption("good", good), caption("bad", bad)
    done = bench("compare", *runs, "--format", "json", "--bootstrap", 200)
    comparison = as_json(done)
    assert (comparison["subject"], comparison["metric"], comparison["statistic"], comparison["n"]) == (
        "model", "rouge_l", "mean", 29
    )  # fmt: skip
    assert [row["name"] for row in comparison["compared"]] == ["good", "bad"]
    table = pyarrow.parquet.read_table(runs[0] / "samples.parquet").to_pydict()
    kept = [s for i, s in zip(table["id"], table["rouge_l"], strict=True) if i != "d0"]
    assert comparison["compared"][0]["value"] == pytest.approx(np.mean(kept))
    assert comparison["pairs"][0]["p"] == pytest.approx(least_p(200, 29))
    assert "29 documents were scored in all runs (they scored 30, 29)" in done.err


def test_pairs_of_long_names_are_numbered_and_the_least_p_is_an_upper_bound(bench, caption):
    runs = caption("a-captioner-with-a-long-name", captions(7)), caption("bad", captions(3, seed=1))
    done = bench("compare", *runs, "--metrics", "length", "--bootstrap", 50).succeeded()
    assert "1. a-captioner-with-a-long-name" in done.out and "2. bad" in done.out
    (pair,) = (line for line in done.out.splitlines() if line.startswith("| 1 - 2 "))
    # None of 50 resamples scatters as far as the difference: p is 1 of 51, by Student's t of 30 documents, which Holm's
    # correction of one pair keeps.
    assert [cell.strip() for cell in pair.strip("|").split("|")][3:] == ["≤0.0292", "≤0.0292"]


def test_captioners_can_be_compared_by_several_metrics(bench, caption, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    runs = caption("good", captions(7), scale=100), caption("bad", captions(3, seed=1), scale=100)
    done = bench("compare", *runs, "--metrics", "length,bleu_2", "--bootstrap", 50).succeeded()
    first, _, second, _, _ = done.out.strip().split("\n\n")
    # The mean of 8 to 11 words; the scale of 100 does not apply to a count.
    good = [cell.strip() for cell in first.splitlines()[2].split("|")]
    assert good[2:4] == ["length", "good"]
    assert 8 <= float(good[4]) <= 11
    assert "corpus" in second
    labelled = bench("compare", *runs, "--metrics", "BLEU-2", "--bootstrap", 50).succeeded()
    assert labelled.out.partition("\n\n")[0] == second
    runs = (caption(name, captions(words), metric_list=["bleu_2", "rouge_l"]) for name, words in (("a", 7), ("b", 3)))
    assert "ROUGE-L" in bench("compare", *runs, "--bootstrap", 50).succeeded().out


def test_corpus_values_of_captioners_differ_by_the_jackknifes_interval(bench, caption):
    runs = caption("good", captions(7)), caption("bad", captions(3, seed=1))
    json_of = ("--metrics", "bleu_2", "--format", "json", "--bootstrap", 50)
    comparison = as_json(bench("compare", *runs, *json_of))
    tables = [pyarrow.parquet.read_table(run / "samples.parquet").to_pylist() for run in runs]

    def bleu(rows: list[dict]) -> float:
        return capbench.score(rows, "bleu_2").system["bleu_2"]

    kept = [[{name: row[name] for name in ("candidate", "references")} for row in table] for table in tables]
    good, bad = kept
    assert comparison["statistic"] == "corpus"
    assert [row["value"] for row in comparison["compared"]] == pytest.approx([bleu(good), bleu(bad)])
    without = [bleu(good[:n] + good[n + 1 :]) - bleu(bad[:n] + bad[n + 1 :]) for n in range(30)]
    stderr = np.sqrt(29 / 30 * ((without - np.mean(without)) ** 2).sum())
    (pair,) = comparison["pairs"]
    half = (pair["interval"]["high"] - pair["interval"]["low"]) / 2
    assert half == pytest.approx(t.ppf(0.975, 29) * stderr, rel=0.1)
    means = bench("compare", *runs, *json_of, "--statistic", "mean")
    assert as_json(means)["statistic"] == "mean"
    assert "BLEU-2 is a corpus value in 'bench run'" in means.err
    few = captions(5)
    del few["d0"]
    assert "not all documents are scored in all runs" in bench("compare", *runs, caption("few", few), *json_of).err


@pytest.mark.parametrize(
    ("decodings", "names"),
    [
        ([{}, {}], ["run0", "run1"]),
        (
            [{"num_beams": 1, "max_new_tokens": n} for n in (8, 16, 32, 32)],
            ["max_new_tokens=8", "max_new_tokens=16", "run2", "run3"],
        ),
        ([{}, {"decoding": "opera"}], ["default decoding", "decoding=opera"]),
    ],
)
def test_runs_of_one_model_are_told_apart_by_how_they_decoded_or_by_folder(bench, caption, decodings, names):
    runs = [caption("model", captions(7 - number, seed=number)) for number in range(len(decodings))]
    runs = [run.rename(run.parent / f"run{number}") for number, run in enumerate(runs)]
    for run, settings in zip(runs, decodings, strict=True):
        if settings:
            rewrite(run, lambda record, s=settings: record["configs"]["small"].update(generation_kwargs=s))
    comparison = as_json(bench("compare", *runs, "--format", "json", "--bootstrap", 20))
    assert set(by_name(comparison)) == {f"model [{name}]" for name in names}


def test_run_that_repeats_another_is_left_out(bench, caption):
    good, bad = caption("good", captions(7)), caption("bad", captions(3))
    again = rewrite(shutil.copytree(good, good.parent / "again"), lambda record: record.update(fingerprint="other"))
    done = bench("compare", good, bad, again, "--format", "json", "--bootstrap", 20)
    assert [captioner["name"] for captioner in as_json(done)["compared"]] == ["good", "bad"]
    assert f"left out {again}: the same model and scores as {good}" in done.err
    bench("compare", good, again).failed(2, "the same model and scores as", "Name runs of two captioners")


def test_captioners_with_other_references_and_one_alone_are_refused(bench, caption):
    runs = caption("good", captions(7)), caption("bad", captions(3), references="a cat")
    bench("compare", *runs).failed(1, "document 'd0' has different references in")
    bench("compare", runs[0]).failed(2, "task 'small' scores captioners: a comparison needs two runs or more")
    # Without the references of one of them nothing shows that they are the same.
    without_data(runs[1])
    bench("compare", *runs).failed(
        1, f"{runs[1]}: samples.parquet has only scores; this comparison needs references", "--log_samples full"
    )


# -- preference between two captions


@pytest.fixture
def preferred(rate) -> Path:
    """A run of the protocol ``preference``: a row a pair, a column of credits a metric."""
    first = [1.0] * 40 + [0.0] * 20
    second = [1.0] * 25 + [0.0] * 15 + [1.0] * 5 + [0.0] * 15

    def change(record: dict) -> None:
        record["configs"]["small"]["output_type"] = "preference"
        record["fingerprint_parts"]["task"]["protocol"] = {}

    return rewrite(rate("length,rouge_l"), change, length=second, rouge_l=first, category=["HC", "HI", "HM", "MM"] * 15)


def test_preferences_are_compared_by_accuracy_alone_with_mcnemars_test(bench, preferred: Path):
    comparison = as_json(bench("compare", preferred, "--format", "json"))
    assert comparison["statistic"] == "accuracy"
    assert {name: row["value"] for name, row in by_name(comparison).items()} == {
        "rouge_l": pytest.approx(40 / 60),
        "length": pytest.approx(30 / 60),
    }
    (pair,) = comparison["pairs"]
    assert pair["value"] == pytest.approx(10 / 60)
    # They differ on 20 pairs, 15 of them for the better one.
    assert pair["classical"]["McNemar"] == pytest.approx(binomtest(15, 20).pvalue)
    assert pair["classical"]["McNemar mid-p"] < pair["classical"]["McNemar"]
    assert 0.01 < pair["p"] < 0.2
    bench("compare", preferred, "--statistic", "acuracy").failed(
        2, "unknown statistic 'acuracy' for a task of protocol preference. Did you mean 'accuracy'?"
    )


# -- what is refused


def test_wrong_names_and_folders_are_refused_with_the_nearest(bench, rate, tmp_path: Path):
    run = rate("length,rouge_l")
    bench("compare", tmp_path / "runs").failed(1, "not a run folder", str(run))
    assert bench("compare", tmp_path / "nowhere").code == 1
    for arguments, message in (
        (["--statistic", "kendal_c"], "unknown statistic 'kendal_c'. Did you mean 'kendall_c'?"),
        (["--metrics", "rouge,length"], "no run has metric 'rouge'. Did you mean 'rouge_l'?"),
        (["--metrics", "length"], "a comparison needs two metrics or more; found 'length'"),
        ([run], "the run is listed twice"),
    ):
        done = bench("compare", run, *arguments).failed(2, message)
        assert done.out == ""


def test_a_metric_of_one_value_is_named_with_the_remedy(bench, rate):
    run = rewrite(rate("length,rouge_l"), length=[1.0] * 60)
    bench("compare", run).failed(1, "task 'small': τ-c is undefined: 'length': all scores are equal", "--metrics")


# -- runs with scores alone


def without_data(run: Path) -> Path:
    """Leave in a run's samples what ``--log_samples scores`` writes."""
    path = run / "samples.parquet"
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(next(scores_alone(lambda: [table])), path)
    return seal(run)


def test_agreement_without_ratings_or_samples_is_refused_naming_the_run_and_the_remedy(bench, rate):
    run = without_data(rate("length,rouge_l"))
    bench("compare", run).failed(
        1,
        f"{run}: samples.parquet has only scores; this comparison needs ratings",
        "bench run --task small --log_samples full",
    )
    (run / "samples.parquet").unlink()
    bench("compare", run).failed(1, f"{run}: has no samples.parquet", "without --log_samples none")


def test_one_run_with_ratings_gives_them_for_all(bench, rate):
    runs = rate("length,bleu_1"), rate("rouge_l", output="more")
    arguments = ("--bootstrap", 50, "--format", "json")
    expected = as_json(bench("compare", *runs, *arguments))
    assert as_json(bench("compare", without_data(runs[0]), runs[1], *arguments)) == expected


def test_other_tasks_versions_and_data_are_refused_saying_what_differs(bench, rate):
    first = rate("length,rouge_l")
    for folder, keys, message in (
        ("versions", {"metadata": {"version": 2.0}}, "runs of different versions cannot be compared"),
        ("raters", {"protocol": {"raters": "mean"}}, "protocol.raters is flatten in one and mean in the other"),
        ("limits", {"limit": 50}, "60 samples and 50 samples (--limit 50)"),
        (
            "ratings",
            {"rows": [{**row, "rating": [1.0, 2.0, 3.0]} for row in rated_rows()[:1]] + rated_rows()[1:]},
            "sample 'r0' has ratings",
        ),
    ):
        bench("compare", first, rate("length,rouge_l", output=folder, **keys)).failed(1, message)

    def rename(record: dict) -> None:
        record["task"] = "other"
        for key in ("results", "configs", "versions", "higher_is_better", "n-samples"):
            record[key] = {"other": record[key]["small"]}

    other = rewrite(rate("length,rouge_l", output="task"), rename)
    done = bench("compare", first, other)
    assert "runs of different tasks cannot be compared" in done.err


def test_a_metric_that_failed_is_left_out_and_said(bench, rate, user_metrics, tmp_path: Path):
    run = rate("length,rouge_l")

    def change(record: dict) -> None:
        record["metric_errors"] = [{"metric": "meteor", "reason": "Java was not found\nInstall it."}]

    rewrite(run, change)
    bench("compare", run, "--bootstrap", 20).succeeded("meteor has no scores in", "Java was not found")
    bench("compare", run, "--metrics", "meteor,length").failed(2, "metric 'meteor' has no scores in")


# -- real data


@pytest.mark.data
def test_cider_leads_on_flickr8k_expert_and_rouge_and_bleu_are_close(data_folder, tmp_path, capsys):
    data_folder("flickr8k")
    metrics = ("--metrics", "bleu_4,rouge_l,cider")
    assert main(["run", "--task", "flickr8k_expert", *metrics, "--bootstrap", "0", "--output_path", str(tmp_path)]) == 0
    (record,) = tmp_path.rglob("run.json")
    capsys.readouterr()
    options = ("--statistic", "kendall_c", "--bootstrap", "200", "--format", "json")
    assert main(["compare", str(record.parent), *options]) == 0
    (comparison,) = json.loads(capsys.readouterr().out)
    assert (comparison["n"], comparison["images"]) == (16992, 1000)
    # Table 1 of the PAC-S++ paper: 43.9, 32.3, 30.8.
    assert [(row["name"], round(100 * row["value"], 1)) for row in comparison["compared"]] == [
        ("cider", 43.9),
        ("rouge_l", 32.3),
        ("bleu_4", 30.8),
    ]
    assert comparison["compared"][0]["letters"] == "a"
    (first, second, third) = comparison["pairs"]
    assert first["p"] == second["p"] == pytest.approx(least_p(200, 1000))
    # 1.5 points lie at the edge of what a thousand images can tell.
    assert 0.005 < third["p"] < 0.1
