"""The evaluate library both ways: its modules in our runner, our metrics as its modules."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import capbench
from capbench.errors import DataError, MetricError, TaskError, UsageError
from capbench.metrics import build_metric

pytestmark = pytest.mark.usefixtures("functions_may_run")

# A module as users write them: one score, several references.
SHARE = """
import datasets
import evaluate

class Share(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        return evaluate.MetricInfo(description="", citation="", inputs_description="",
            features=datasets.Features({"predictions": text, "references": REFERENCES}))

    def _compute(self, predictions, references, bonus=0.0):
        if predictions == ["broken"]:
            raise ValueError("cannot be scored")
        known = [set(" ".join([r] if isinstance(r, str) else r).split()) for r in references]
        hits = [len(set(p.split()) & k) / len(set(p.split())) for p, k in zip(predictions, known)]
        return RESULT
"""
CAPTIONS = [
    {"id": "a", "candidate": "a dog runs", "references": ["a cat runs", "the dog"]},
    {"id": "b", "candidate": "red bus", "references": ["a bus", "a car"]},
]


def module(folder: Path, *, several: bool = True, result: str = '{"share": hits[0] + bonus}') -> str:
    references = "datasets.Sequence(text)" if several else "text"
    (folder / "share").mkdir()
    code = SHARE.replace("REFERENCES", references).replace("RESULT", result)
    (folder / "share" / "share.py").write_text(code)
    return f"evaluate:{folder / 'share'}"


def test_module_scores_captions_inside_our_runner(tmp_path: Path):
    table = capbench.score(CAPTIONS, [module(tmp_path), "length"])
    (name,) = set(table.system) - {"length"}
    assert [row[name] for row in table.rows] == [1.0, 0.5]
    assert table.system[name] == 0.75
    assert table.labels[name] == "share"


def test_module_for_one_reference_gives_the_best_over_references(tmp_path: Path):
    table = capbench.score(CAPTIONS, [module(tmp_path, several=False)])
    assert [next(v for k, v in row.items() if k.startswith("evaluate")) for row in table.rows] == [2 / 3, 0.5]


DISTANCE = "{'share': abs(len(predictions[0].split()) - len(references[0].split()))}"


def test_direction_says_which_reference_is_the_best(tmp_path: Path):
    name = module(tmp_path, several=False, result=DISTANCE)
    row = {"candidate": "two words", "references": ["some words", "so very many words more"]}
    table = capbench.score([row], [name, f"{name}[higher_is_better=false]"])
    assert table.system == {name: 3, f"{name}[higher_is_better=false]": 0}


def write_task(folder: Path, *listed: dict[str, Any], **keys: Any) -> None:
    lines = [json.dumps(row) + "\n" for row in keys.pop("rows")]
    (folder / "rows.jsonl").write_text("".join(lines))
    head = {"task": "mine", "dataset_path": "json", "dataset_kwargs": {"data_files": "rows.jsonl"}}
    keys |= {"doc_to_target": "references", "metadata": {"version": 1}}
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in (head | keys).items())
    text += "metric_list:\n" + "".join(f"- {json.dumps(entry)}\n" for entry in listed)
    (folder / "mine.yaml").write_text(text)


def test_module_outside_the_folder_of_a_task_is_refused(tmp_path: Path):
    (tmp_path / "tasks").mkdir()
    write_task(tmp_path / "tasks", {"metric": module(tmp_path)}, rows=[], doc_to_text="Describe.")
    with pytest.raises(TaskError, match=r"mine.yaml:\d+: .*share .*outside"):
        capbench.evaluate("iiw-p5b", tasks="mine", include_path=[tmp_path / "tasks"], resamples=0)


def test_direction_of_a_task_file_decides_which_caption_of_a_pair_is_right(tmp_path: Path):
    name = module(tmp_path, several=False, result=DISTANCE)
    row = {"captions": ["two words", "so very many words"], "references": ["some words"], "better": 0}
    write_task(
        tmp_path,
        {"metric": name, "name": "gain"},
        {"metric": name, "name": "distance", "higher_is_better": False},
        rows=[row],
        output_type="preference",
        doc_to_candidates="captions",
        doc_to_preferred="better",
    )
    run = capbench.evaluate(tasks="mine", include_path=[tmp_path], resamples=0)["mine"]
    assert {result.metric: result.value for result in run.results} == {"gain": 0.0, "distance": 1.0}
    made_by = run.record.made_by
    assert {metric: value["higher_is_better"] for metric, value in made_by.items()} == {
        "gain": True, "distance": False
    }  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"metric": "bleu_1", "higher_is_better": False}, "'bleu_1': higher_is_better is true by its definition"),
        ({"metric": "chair_i", "higher_is_better": True}, "'chair_i': higher_is_better is false by its defini"),
        ({"metric": "evaluate:share", "bonsu": 1.0}, "has no setting 'bonsu'. Did you mean 'bonus'?"),
    ],
)
def test_key_of_a_listed_metric_that_contradicts_it_or_that_nobody_reads_is_named_with_its_line(tmp_path, entry, fault):
    name = module(tmp_path)
    if entry["metric"].startswith("evaluate"):
        entry = entry | {"metric": name}
    rows = [caption | {"rating": 1, "objects": []} for caption in CAPTIONS]
    write_task(
        tmp_path,
        {"metric": "rouge_l", "higher_is_better": True},
        entry,
        rows=rows,
        output_type="agreement",
        doc_to_candidate="candidate",
        doc_to_human="rating",
        doc_to_objects="objects",
        statistics=["pearson"],
    )
    line = (tmp_path / "mine.yaml").read_text().splitlines().index("metric_list:") + 3
    with pytest.raises(TaskError, match=re.escape(fault)) as raised:
        capbench.evaluate(tasks="mine", include_path=[tmp_path], resamples=0)
    assert str(raised.value).startswith(f"{tmp_path / 'mine.yaml'}:{line}: ")


def test_task_file_names_the_entry_of_the_result_and_passes_options(tmp_path: Path):
    name = module(tmp_path, result='{"one": hits[0], "other": [hits[0] + bonus]}')
    write_task(
        tmp_path,
        {"metric": name, "name": "share", "result": "other", "bonus": 2.0},
        rows=[caption | {"rating": n} for n, caption in enumerate(CAPTIONS)],
        output_type="agreement",
        doc_to_candidate="candidate",
        doc_to_human="rating",
        statistics=["pearson"],
    )
    run = capbench.evaluate(tasks="mine", include_path=[tmp_path], resamples=0)["mine"]
    assert list(run.samples.to_pandas()["share"]) == [3.0, 2.5]
    assert run.results[0].value == pytest.approx(-1.0)


def test_result_with_several_numbers_must_be_told_apart(tmp_path: Path):
    table = capbench.score(CAPTIONS, [module(tmp_path, result='{"one": 1.0, "two": 2.0}')])
    (error,) = table.metric_errors.values()
    assert "none of them is named as the score" in error


def test_caption_on_which_a_module_fails_is_named(tmp_path: Path):
    rows = [*CAPTIONS, {"id": "c", "candidate": "broken", "references": ["x"]}]
    table = capbench.score(rows, [module(tmp_path)])
    (failure,) = table.failures
    assert failure["samples"] == ["c"]
    assert "cannot be scored" in failure["reason"]


def test_module_that_is_not_there_says_so():
    with pytest.raises(MetricError, match="evaluate cannot load 'nowhere_at_all'"):
        build_metric("evaluate:nowhere_at_all", {}).check()


def test_our_metric_is_a_module_and_combines_with_others(tmp_path: Path):
    import evaluate

    predictions = [row["candidate"] for row in CAPTIONS]
    references = [row["references"] for row in CAPTIONS]
    bleu = capbench.as_evaluate("bleu_1")
    result = bleu.compute(predictions=predictions, references=references)
    expected = capbench.score(CAPTIONS, ["bleu_1", "cider"])
    assert result["bleu_1"] == pytest.approx(expected.system["bleu_1"])
    assert result["bleu_1_scores"] == pytest.approx([row["bleu_1"] for row in expected.rows])
    both = evaluate.combine([bleu, capbench.as_evaluate("cider", variant="d")])
    combined = both.compute(predictions=predictions, references=references)
    assert combined["cider"] == pytest.approx(expected.system["cider"])
    assert combined["bleu_1"] == result["bleu_1"]


@pytest.mark.parametrize("ids", ["01", (0, 1)])
def test_mappings_of_ids_are_refused_by_our_metric_as_a_module(ids: Any):
    captions, references = ({key: [text] for key, text in zip(ids, ("a dog", "a cat"), strict=True)} for _ in "12")
    rouge = capbench.as_evaluate("rouge_l")
    with pytest.raises(UsageError, match="predictions must be a list, not a mapping by id"):
        rouge.compute(predictions=captions, references=references)
    with pytest.raises(UsageError, match="references must be a list, not a mapping by id"):
        rouge.compute(predictions=["a dog", "a cat"], references=references)


def test_reference_without_a_word_is_named_by_our_metric_as_a_module():
    rouge = capbench.as_evaluate("rouge_l")
    result = rouge.compute(predictions=["a dog", "a cat"], references=[["a dog"], ["a cat", "!!!"]])
    assert result == {
        "rouge_l": 1.0,
        "rouge_l_scores": [1.0, None],
        "rouge_l_failures": [None, "reference 2 has no letter or digit"],
    }
    with pytest.raises(DataError, match="caption 0: reference 1 has no letter or digit"):
        rouge.compute(predictions=["a dog"], references=[["\u200b"]])
    assert capbench.as_evaluate("length").compute(predictions=["a dog"], references=[[""]])["length"] == 2.0


def test_module_runs_on_a_task_that_has_published_values(tmp_path: Path):
    name = module(tmp_path)
    row = {"image_id": "1", "subset": "8k", "refs": ["a dog", "a cat"]}
    rows = [row | {"caption": text, "rating": n + 1} for n, text in enumerate(["a bird", "two cars", "dog"])]
    (tmp_path / "composite.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # The published values are looked up after the work, as the data would be the released one.
    (tmp_path / "small.yaml").write_text(
        f"include: {Path(capbench.__path__[0]) / 'tasks/composite/composite.yaml'}\n"
        f"task: small\ndataset_path: json\ndataset_kwargs: {{data_files: composite.jsonl}}\nchecks: {{}}\n"
    )
    run = capbench.evaluate(
        tasks="small", include_path=[tmp_path], data={"small": tmp_path}, metrics=[name, "bleu_1"], resamples=0
    )["small"]
    assert list(run.record.published) == ["bleu_1.kendall_b", "bleu_1.kendall_c"]
