"""Logs that lmms-eval, lm-eval and VLMEvalKit wrote, imported and scored again: our values are theirs."""

import json
from pathlib import Path

import pytest
from task_keys import CAPTIONING

from capbench.benchmarks.api import evaluate
from capbench.benchmarks.interchange.import_captions import CaptionImport, import_captions, write_captions

DATA = Path(__file__).parent / "data" / "other_harnesses"
LMMS_EVAL = DATA / "lmms_eval" / "20261120_204350_samples_six_captions.jsonl"
(LM_EVAL,) = (DATA / "lm_eval").glob("samples_*.jsonl")
OURS = {"bleu_1": "Bleu_1", "bleu_2": "Bleu_2", "bleu_3": "Bleu_3", "bleu_4": "Bleu_4", "rouge_l": "ROUGE_L"}
OURS |= {"meteor": "METEOR", "cider": "CIDEr"}


def score_again(imported: CaptionImport, metrics: list[str], folder: Path) -> dict[str, float]:
    """Run the captions on a task over the same documents, in another order; return our value of each metric."""
    captions = folder / "captions.jsonl"
    write_captions(imported, captions)
    documents = [{"key": row["id"], "references": row["references"]} for row in reversed(imported.rows)]
    (folder / "documents.jsonl").write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    task = {
        **CAPTIONING,
        "task": "again",
        "dataset_kwargs": {"data_files": "documents.jsonl"},
        "doc_to_id": "key",
        "doc_to_image": "key",
        "doc_to_text": "Describe the image.",
        "metric_list": metrics,
    }
    (folder / "again.yaml").write_text(json.dumps(task))
    run = evaluate(model=f"captions:{captions}", tasks=["again"], include_path=[folder], resamples=0).tasks[0]
    assert run.record.failures == []
    return {result.metric: result.value for result in run.results if result.value is not None}


def test_log_of_lmms_eval_scored_again_gives_every_metric_that_it_logged(tmp_path: Path):
    imported = import_captions([LMMS_EVAL])
    assert imported.formats == {str(LMMS_EVAL): "lmms-eval"}
    assert len(imported.rows) == 6
    theirs = {ours: imported.logged[f"coco_{name}"] for ours, name in OURS.items()}
    assert len(theirs) == len(imported.logged) == 7
    assert score_again(imported, list(OURS), tmp_path) == pytest.approx(theirs, abs=1e-9)


def test_log_of_lm_eval_scored_again_gives_what_it_logged_of_the_whole_and_of_each_caption(tmp_path: Path):
    imported = import_captions([LM_EVAL])
    assert imported.formats == {str(LM_EVAL): "lm-eval"}
    ours = score_again(imported, ["rouge_l", "cider"], tmp_path)
    assert ours == pytest.approx({name: imported.logged[name] for name in ours}, abs=1e-9)
    assert [row["logged_words"] for row in imported.rows] == [len(row["caption"].split()) for row in imported.rows]
    mean = sum(row["logged_rouge_l"] for row in imported.rows) / 6
    assert mean == pytest.approx(ours["rouge_l"], abs=1e-9)


@pytest.mark.parametrize("suffix", ["xlsx", "tsv", "json"])
def test_table_of_vlmevalkit_scored_again_gives_what_its_scorer_printed(suffix: str, tmp_path: Path):
    imported = import_captions([DATA / "vlmevalkit" / f"recorded_COCO_VAL.{suffix}"])
    # Its scorer has no METEOR, and prints the others times 100.
    names = [name for name in OURS if name != "meteor"]
    theirs = {name: imported.logged[OURS[name]] / 100 for name in names}
    assert len(imported.logged) == len(names)
    assert score_again(imported, names, tmp_path) == pytest.approx(theirs, abs=1e-9)


def test_submission_file_of_coco_holds_the_captions_of_the_log_that_it_was_made_from():
    submitted = import_captions([DATA / "coco" / "coco_captions_val2014_alg_results.json"])
    logged = import_captions([LMMS_EVAL])
    assert submitted.key == logged.key == "image_id"
    assert [(row["id"], row["caption"]) for row in submitted.rows] == [
        (row["id"], row["caption"]) for row in logged.rows
    ]
