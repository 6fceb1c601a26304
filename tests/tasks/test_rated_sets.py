"""Rated sets on small files in the released layouts: THumB to CapArena, HAT and nocaps-FOIL."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import yaml
from scipy.stats import kendalltau, pearsonr
from tiny_images import noise_image

import capbench
from capbench.adapters import Judge, Judged, Judgement, JudgeRequest
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import DataError
from capbench.tasks.yaml_files import PACKAGE_ROOT

TEXTS = ["a dog", "a dog runs", "a dog runs on sand", "two dogs run on the wet sand", "dogs"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")


def lines(rows: Sequence[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content, encoding="utf-8")
    return folder


def parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_list(list(rows)).to_parquet(path)


def run(task: str, folder: Path, model: str | None = None, **settings: Any) -> TaskRun:
    settings = {"skip_checks": True, "resamples": 0, "metrics": ["length"], **settings}
    return capbench.evaluate(model, task, data={task: folder}, **settings)[task]


def values(done: TaskRun) -> dict[tuple[str, str], float | None]:
    return {(result.statistic, result.category): result.value for result in done.results if result.metric == "length"}


# --- THumB


@pytest.fixture
def thumb(tmp_path: Path) -> Path:
    systems, rows, references = ["Up-Down", "VinVL-base", "Human"], [], []
    for image in range(4):
        references.append({"seg_id": str(image), "set_id": image, "refs": [f"reference {n}" for n in range(4)]})
        for place, system in enumerate(systems):
            precision, recall = 5.0 - (image + place) % 3, 1.0 + (2 * image + place) % 5
            fluency = -0.5 if image == place else -0.0
            rows.append(
                {
                    "SYS": system, "seg_id": str(image), "set_id": image, "hyp": TEXTS[(image + place) % 5],
                    "image": f"COCO_val2014_{image:012}.jpg", "P": precision, "R": recall, "Fl": fluency, "Inc": -0.0,
                    "Con": -0.0, "human_score": (precision + recall) / 2 + fluency,
                }
            )  # fmt: skip
    # The released file of references is JSON lines, whatever its suffix says.
    return write(tmp_path, **{"mscoco_THumB-1__0__jsonl": lines(rows), "mscoco_references__json": lines(references)})


def thumb_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "mscoco_THumB-1.0.jsonl").read_text().splitlines()]


def test_thumb_has_pearson_of_precision_recall_and_total_with_and_without_people(thumb: Path):
    done, rows = run("thumb", thumb), thumb_rows(thumb)
    for aspect, column in (("total", "human_score"), ("precision", "P"), ("recall", "R")):
        for category, some in (("", rows), ("captioners", [row for row in rows if row["SYS"] != "Human"])):
            expected = pearsonr([len(row["hyp"].split()) for row in some], [row[column] for row in some]).statistic
            assert values(done)[f"pearson.{aspect}", category] == pytest.approx(expected)
    samples = done.samples.to_pylist()
    assert samples[0]["references"] == [f"reference {n}" for n in range(4)]
    assert {row["system"] for row in samples} == {"Up-Down", "VinVL-base", "Human"}
    assert samples[0]["id"] == "0-Up-Down"


def test_thumb_caption_without_references_is_named(thumb: Path):
    references = (thumb / "mscoco_references.json").read_text().splitlines(keepends=True)
    write(thumb, mscoco_references__json="".join(references[1:]))
    failures = run("thumb", thumb).record.values["failures"]
    assert failures[0]["reason"] == "has no row in mscoco_references.json: seg_id '0'"
    write(thumb, mscoco_references__json=references[0] + references[0].replace("reference 1", "other"))
    with pytest.raises(DataError, match=r"row 2 has the key of mscoco_references\.json: row 1 \(seg_id '0'\)"):
        run("thumb", thumb)


def test_thumb_system_with_one_caption_is_refused(thumb: Path):
    rows = thumb_rows(thumb)
    write(thumb, **{"mscoco_THumB-1__0__jsonl": lines([rows[0] | {"SYS": "Up-Dwon"}, *rows[1:]])})
    with pytest.raises(DataError, match=r"1 of 4 systems have only one caption: 'Up-Dwon'") as raised:
        run("thumb", thumb)
    assert "Check the column in doc_to_system" in raised.value.hint


# --- Nebula


@pytest.fixture
def nebula(tmp_path: Path) -> Path:
    rows = [
        {
            "file_name": f"{n}.jpg", "image": f"pixels {n}".encode(), "refs": ["a dog on sand"], "mt": text,
            "human_score": n / 4,
        }
        for n, text in enumerate(TEXTS)
    ]  # fmt: skip
    parquet(tmp_path / "default" / "test" / "0000.parquet", rows)
    spica = [{"imgid": "1.jpg", "mt": "a dog  runs", "score": 1.0}, {"imgid": "3.jpg", "mt": TEXTS[3], "score": 0.1}]
    more = [{"imgid": "1.jpg", "mt": "a dog runs", "score": 0.25}]
    other = [{"imgid": "9.jpg", "mt": "a dog runs", "score": 0.5}]
    return write(tmp_path, spica_train__csv=table(spica), spica_val__csv=table(more), spica_test__csv=table(other))


def test_nebula_takes_the_mean_of_spica_where_it_has_the_caption_and_says_where_it_has_not(nebula: Path):
    done = run("nebula", nebula)
    assert [row["ratings"] for row in done.samples.to_pylist()] == [[0.0], [0.625], [0.5], [0.1], [1.0]]
    (remark,) = done.record.remarks
    assert (remark["count"], remark["samples"]) == (3, ["document 0", "document 2", "document 4"])
    assert remark["reason"] == "has no row in spica_train.csv, spica_val.csv, spica_test.csv"
    lengths = [len(text.split()) for text in TEXTS]
    ratings = [0, 0.625, 0.5, 0.1, 1]
    for variant in "bc":
        expected = kendalltau(lengths, ratings, variant=variant).statistic
        assert values(done)[f"kendall_{variant}", ""] == pytest.approx(expected)


def test_nebula_as_released_needs_no_spica(nebula: Path):
    for name in ("train", "val", "test"):
        (nebula / f"spica_{name}.csv").unlink()
    done = run("nebula_released", nebula)
    assert [row["ratings"] for row in done.samples.to_pylist()] == [[n / 4] for n in range(5)]
    with pytest.raises(DataError, match=r"spica_train\.csv: there is no such file"):
        run("nebula", nebula)


def test_nebula_without_any_caption_of_spica_is_refused(nebula: Path):
    for name in ("train", "val", "test"):
        write(nebula, **{f"spica_{name}__csv": table([{"imgid": "x.jpg", "mt": "a dog", "score": 1}])})
    # Equal rows in several files are one caption; none of them is of the test split.
    with pytest.raises(DataError, match=r"no document has a row in spica_train.*file_name '0', mt 'a dog'"):
        run("nebula", nebula)


# --- Polaris


def test_polaris_reads_references_as_python_prints_them(tmp_path: Path):
    rows = [
        {"mt": text, "refs": repr(["a dog's sand", 'a "dog"']), "score": n / 4, "imgid": f"{n}.jpg"}
        for n, text in enumerate(TEXTS)
    ]
    rows.append({"mt": "a dog", "refs": "['a dog' 'sand']", "score": 1, "imgid": "5.jpg"})
    done = run("polaris", write(tmp_path, polaris_test__csv=table(rows)))
    assert done.samples.to_pylist()[0]["references"] == ["a dog's sand", 'a "dog"']
    assert done.record.values["failures"][0]["reason"].endswith("neither JSON nor Python's")
    assert list(values(done)) == [("kendall_c", ""), ("kendall_b", "")]


# --- LongCap-Arena


def test_longcap_arena_has_three_aspects_of_the_splits_of_a_test_set(tmp_path: Path):
    for place, aspect in enumerate(("desc", "rel", "flu")):
        # Splits need not be of the same captions, nor in one order.
        rows = [
            {
                "file_name": f"sa_{n}.jpg", "image": f"pixels {n}".encode(), "refs": ["a long reference"],
                "cand": text, "score": ((n + place) * 2 % 5) / 4,
            }
            for n, text in enumerate(TEXTS[: 5 - place])
        ]  # fmt: skip
        for part in ("dci_val", "dci_test"):
            parquet(tmp_path / "default" / f"{part}.{aspect}" / "0000.parquet", rows[:: -1 if place else 1])
    done = run("longcap_arena_a", tmp_path)
    lengths = np.array([len(text.split()) for text in TEXTS])
    for place, aspect in enumerate(("desc", "rel", "flu")):
        n = np.arange(5 - place)
        expected = kendalltau(lengths[n], (n + place) * 2 % 5).statistic
        assert values(done)[f"kendall_b.{aspect}", ""] == pytest.approx(expected)
    assert [result.n for result in done.results] == [5, 5, 4, 4, 3, 3]
    assert values(run("longcap_arena_b", tmp_path)) == values(done)
    (tmp_path / "default" / "dci_val.flu" / "0000.parquet").unlink()
    with pytest.raises(DataError, match="no caption has a rating of aspect 'flu'"):
        run("longcap_arena_a", tmp_path)


# --- MSVD-Eval


def test_msvd_eval_has_a_row_for_each_of_two_raters(tmp_path: Path):
    ratings = {f"vid{n}": [[n + 1, 5 - n, 2, 3, 2.5 + n / 4], [n + 1, 1, n % 3 + 1, 4, 3.0 - n / 4]] for n in range(5)}
    content = {
        name: {"vname": f"{name}_1_9.avi", "ref": ["a dog", "dogs"], "candidate": TEXTS[n], "human_score": rating}
        for n, (name, rating) in enumerate(ratings.items())
    }
    done = run("msvd_eval", write(tmp_path, **{"MSVD-Eval__json": json.dumps(content)}))
    lengths = np.repeat([len(text.split()) for text in TEXTS], 2)
    for place, aspect in enumerate(("accuracy", "completeness", "conciseness", "relevance", "average")):
        rated = [numbers[place] for rating in ratings.values() for numbers in rating]
        for variant in "bc":
            expected = kendalltau(lengths, rated, variant=variant).statistic
            assert values(done)[f"kendall_{variant}.{aspect}", ""] == pytest.approx(expected)
    assert {result.n for result in done.results} == {10}
    assert done.samples.to_pylist()[0]["image"] == "vid0_1_9.avi"
    content["vid0"]["human_score"] = [[1, 2]]
    done = run("msvd_eval", write(tmp_path, **{"MSVD-Eval__json": json.dumps(content)}))
    (failure,) = done.record.values["failures"]
    assert failure["samples"] == ["vid0"]
    assert failure["reason"].startswith("average is not a number")


# --- CapArena


@pytest.fixture
def battles(tmp_path: Path) -> Path:
    """Battles of three captioners and people; the longer caption mostly wins."""
    said = {"A": "one", "B": "one two", "C": "one two three", "human": "one two three four five"}
    rows: list[dict[str, Any]] = []
    for n, (first, other, winner) in enumerate(
        [("A", "B", "B"), ("B", "C", "C"), ("C", "A", "C"), ("B", "A", "A"), ("C", "B", "equal"), ("A", "C", "skip"),
         ("human", "A", "human"), ("B", "C", "bad"), ("A", "B", "B"), ("C", "B", "C")]
    ):  # fmt: skip
        rows.append(
            {
                "img": f"test_{n % 5}.jpg", "source1": first, "source2": other, "caption1": f"{said[first]} {n}",
                "caption2": f"{said[other]} {n}", "winner": winner, "cluster": f"level {n % 2 + 1}", "in-400": n < 5,
                "ref": "a reference",
            }
        )  # fmt: skip
    return write(tmp_path, caparena_annots_eval__json=json.dumps(rows))


def test_caparena_has_agreement_by_level_and_the_ranking_of_captioners(battles: Path):
    done = run("caparena", battles)
    value_of = values(done)
    # Without those of people, and without ties: seven battles are decided, of which the longer caption loses one.
    assert value_of["accuracy", ""] == pytest.approx(5 / 6)
    assert {category for statistic, category in value_of if statistic == "accuracy"} == {"level 1", "level 2", ""}
    # Three ties of people are three ties of length: those that differ least.
    assert value_of["accuracy_with_ties", ""] is not None
    people = {result.category: result.value for result in done.results if result.statistic == "bradley_terry"}
    assert list(people) == sorted(people, key=list(people).index)
    assert set(people) == {"A", "B", "C"}
    assert value_of["elo_spearman", ""] == pytest.approx(1)


def test_caparena_published_values_stand_beside_levels_and_rankings_alone(battles: Path):
    rows = json.loads((battles / "caparena_annots_eval.json").read_text())
    for n, row in enumerate(rows):
        row["cluster"] = f"level {n % 4 + 1}"
    write(battles, caparena_annots_eval__json=json.dumps(rows))
    task = yaml.safe_load((PACKAGE_ROOT / "tasks" / "caparena" / "caparena.yaml").read_text(encoding="utf-8"))
    task = {**task, "task": "mine", "metric_list": ["length"]}
    del task["checks"], task["data_source"]
    write(battles, mine__yaml=yaml.safe_dump(task))
    done = capbench.evaluate(None, ["mine"], include_path=[battles], resamples=0)["mine"]
    assert {key: entry["printed"] for key, entry in done.record.values["published"].items()} == {
        "length.accuracy_with_ties.level 1": ".672",
        "length.accuracy_with_ties.level 2": ".593",
        "length.accuracy_with_ties.level 3": ".552",
        "length.accuracy_with_ties.level 4": ".521",
        "length.accuracy_with_ties": ".585",
        "length.elo_spearman": ".710",
        "length.elo_kendall": ".582",
    }
    # Over other levels than those of the paper, only a level has its number.
    for n, row in enumerate(rows):
        row["cluster"] = f"level {n % 2 + 4}"
    write(battles, caparena_annots_eval__json=json.dumps(rows))
    done = capbench.evaluate(None, ["mine"], include_path=[battles], resamples=0)["mine"]
    assert list(done.record.values["published"]) == ["length.accuracy_with_ties.level 4"]


def test_caparena_vote_for_somebody_else_is_named(battles: Path):
    rows = json.loads((battles / "caparena_annots_eval.json").read_text())
    rows[1]["winner"] = "D"
    done = run("caparena", write(battles, caparena_annots_eval__json=json.dumps(rows)))
    (failure,) = done.record.values["failures"]
    assert failure["stage"] == "rating"
    assert "'D'" in failure["reason"]


def test_judge_of_caparena_is_held_against_people(battles: Path):
    rows = json.loads((battles / "caparena_annots_eval.json").read_text())
    said = ["Caption 2 is better.", "Caption 2 is better", "Tie.", "Caption 1 is better.", "Tie", "It depends", None]
    for row, judge in zip(rows, said, strict=False):
        row["judge"] = judge
    write(battles, caparena_annots_eval_judge__json=json.dumps(rows))
    done = run("caparena_judge", battles)
    judge = {(r.statistic, r.category): (r.value, r.n) for r in done.results if r.metric == "judge"}
    # Of five verdicts on captioners two are ties, of which people share one; of the other three one is wrong.
    assert judge["accuracy", ""] == (pytest.approx(2 / 3), 3)
    assert judge["accuracy_with_ties", ""] == (pytest.approx(3 / 5), 5)


# --- CapArena-Auto


@pytest.fixture
def auto(tmp_path: Path) -> Path:
    """Nine images with captions of three baselines; a submission; and what a judge says of the battles."""
    baselines = ["GPT-4o-0806", "CogVLM2-llama3-chat-19B", "MiniCPM-V2.6-8B"]
    content, submission = {}, {}
    for n in range(9):
        baseline = baselines[n % 3]
        captions = {"human": f"a person's words {n}", **{baseline: f"{baseline} says {n}" for baseline in baselines}}
        content[f"test_{n}.jpg"] = {"captions": captions, "ref_model": baseline}
        # The submission is the second baseline's.
        submission[f"test_{n}.jpg"] = f"CogVLM2-llama3-chat-19B says {n}"
        (tmp_path / "all_images").mkdir(exist_ok=True)
        noise_image(n).save(tmp_path / "all_images" / f"test_{n}.jpg", "JPEG")
    return write(tmp_path, caparena_auto_600__json=json.dumps(content), submission__json=json.dumps(submission))


class Partial(Judge):
    """Prefers whichever caption names a baseline that it likes less; says nothing usable of one image."""

    name = "partial"

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "partial"}

    def stream(self, requests: Sequence[JudgeRequest]) -> Iterator[Judged]:
        yield Judged({at: Judgement(self.verdict(request.prompt)) for at, request in enumerate(requests)})

    def verdict(self, prompt: str) -> str:
        first = prompt.index("Caption 1:") < prompt.index("CogVLM2") < prompt.index("Caption 2:")
        if "GPT-4o-0806 says" in prompt:
            return f"Reason: it is better\nJudgment: Caption {2 if first else 1} is better."
        if "MiniCPM-V2.6-8B says 2" in prompt:
            return "I cannot tell."
        if "MiniCPM-V2.6-8B says 5" in prompt:
            return "Reason: both\nJudgment: Tie"
        return f"Judgment: Caption {1 if first else 2} is better"


def test_caparena_auto_is_wins_less_losses_of_each_baseline_and_their_mean(auto: Path):
    model = f"captions:{auto / 'submission.json'}"
    done = run("caparena_auto", auto, model, metrics=["caparena_auto"], judge=Partial())
    value_of = {result.category: (result.value, result.n) for result in done.results}
    # All against the first are lost; the second is the submission itself; of the third one is won, one tied, and one
    # without a verdict counts as released code counts it: not, but in what is divided by.
    assert value_of == {
        "GPT-4o-0806": (-1.0, 3),
        "CogVLM2-llama3-chat-19B": (0.0, 3),
        "MiniCPM-V2.6-8B": (pytest.approx(1 / 3), 3),
        "": (pytest.approx((-1 + 1 / 3) / 3), 9),
    }
    assert done.record.remarks[0]["reason"] == "the judge gave no verdict (5 tries), and counts 0"
    with pytest.raises(
        DataError, match=r"documents: expected 600, found 9; .*rows of GPT-4o-0806: expected 200, found 3"
    ):
        run("caparena_auto", auto, model, metrics=["caparena_auto"], judge=Partial(), skip_checks=False)


# --- HAT and nocaps-FOIL


def marked(number: int, *words: str) -> dict[str, Any]:
    """Return a caption of HAT; a word that ends in "*" is marked as made up."""
    grounding = [[word.rstrip("*"), word.endswith("*")] for word in words]
    return {
        "sample_id": f"sample-{number}",
        "caption": " ".join(word for word, _ in grounding),
        "grounding": grounding,
        "contains_hallucination": any(made_up for _, made_up in grounding),
        "image_path": f"COCO_val2014_{number:012d}.jpg",
        "references": ["a dog"],
        "is_machine_generated": True,
    }


def test_hat_holds_a_metric_against_the_share_of_words_that_are_not_marked(tmp_path: Path):
    rows = [
        marked(0, "a", "dog"), marked(1, "a", "cat*", "sits"), marked(2, "a", "dog", "and*", "cats*"),
        marked(3, "one", "dog", "runs", "far", "away*"), marked(4, "a", "dog", "on", "wet", "white", "sand"),
    ]  # fmt: skip
    (tmp_path / "hat-trainval.json").write_text(json.dumps(rows))
    value_of = values(run("aloha_hat", tmp_path))
    lengths, shares, whole = [2, 3, 4, 5, 6], [1, 2 / 3, 1 / 2, 4 / 5, 1], [1, 0, 0, 0, 1]
    assert value_of["kendall_b.words", ""] == pytest.approx(kendalltau(lengths, shares).statistic)
    assert value_of["kendall_b.caption", ""] == pytest.approx(kendalltau(lengths, whole).statistic)
    assert value_of["kendall_c.caption", ""] == pytest.approx(kendalltau(lengths, whole, variant="c").statistic)


def test_low_scores_find_the_captions_of_hat_with_a_marked_word(tmp_path: Path):
    rows = [marked(0, "a", "cat*"), marked(1, "a", "dog", "runs"), marked(2, "a", "cat*", "sits", "there")]
    (tmp_path / "hat-trainval.json").write_text(json.dumps(rows))
    done = run("aloha_hat_detection", tmp_path)
    # Of the shortest caption on: 1 of 1, then 2 of 3.
    assert values(done) == {("average_precision", ""): pytest.approx((1 + 2 / 3) / 2)}
    assert done.results[0].remark == "by chance 66.7%"


def test_low_scores_find_the_foils_of_nocaps_by_domain_and_a_pair_without_a_foil_is_named(tmp_path: Path):
    pair = {"image_path": "0.jpg", "references": ["a dog"], "domain": "in-domain"}
    rows = [
        {**pair, "baseline": "a dog runs", "foil": "cats"},
        {**pair, "baseline": "dogs", "foil": "a cat here", "image_path": "1.jpg", "domain": "out-domain"},
        {**pair, "baseline": "a dog"},
        ["a dog"],
    ]
    (tmp_path / "nocaps-val-foil.json").write_text(json.dumps(rows))
    done = run("aloha_nocaps_foil_detection", tmp_path)
    assert values(done) == {
        ("average_precision", "in-domain"): 1.0,
        ("average_precision", "out-domain"): 0.5,
        # Two captions have one word, two three.
        ("average_precision", ""): 0.5,
    }
    (failure,) = done.record.failures
    assert (failure["count"], failure["samples"]) == (2, ["nocaps-val-foil.json[2]", "nocaps-val-foil.json[3]"])


@pytest.mark.data
def test_released_files_are_what_the_tasks_expect(data_folder: Callable[[str], Path]):
    folder = data_folder("aloha")
    assert set(values(run("aloha_hat", folder, skip_checks=False))) == {
        (f"{name}.{aspect}", "") for name in ("kendall_b", "kendall_c") for aspect in ("words", "caption")
    }
    value_of = values(run("aloha_hat_detection", folder, skip_checks=False))
    assert 0.3375 < value_of["average_precision", ""] < 1
    assert len(values(run("aloha_nocaps_foil_detection", folder, skip_checks=False))) == 4
    value_of = values(run("aloha_nocaps_foil", folder, skip_checks=False))
    # Few foils have another number of words: of the ties none is right.
    assert value_of["accuracy", ""] < 0.05
