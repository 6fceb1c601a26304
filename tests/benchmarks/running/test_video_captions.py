"""MSVD, VATEX, VDC and DREAM-1K by the whole command: from small files in the released layout to numbers."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tiny_images import noise_video

import capbench
from capbench.benchmarks.records.task_run import TaskRun
from capbench.cli.main import main
from capbench.metrics.autodq import EXTRACT, RELATE
from capbench.metrics.judging import fill
from capbench.metrics.vdcscore import ANSWER, ANSWER_SYSTEM, COMPARE, COMPARE_SYSTEM


def jsonl(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def videos(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        noise_video(folder / name, number, 6)


def run(task: str, data: Path, model: Path | dict[str, str], *more: str) -> TaskRun:
    """Run a task by the command and return its record: with a captioner that sees two frames, or captions by id."""
    where = data / "runs" / str(len([*data.glob("runs/*")]))
    if isinstance(model, dict):
        (data / "captions.json").write_text(json.dumps(model))
        captioner = ["--model", f"captions:{data / 'captions.json'}"]
    else:
        captioner = ["--model", "hf", "--model_args", f"pretrained={model},device=cpu,frames=2"]
        captioner += ["--gen_kwargs", "max_new_tokens=4"]
    options = ["--data", f"{task}={data}", "--skip_checks", "--bootstrap", "0", "--output_path", str(where)]
    assert main(["run", "--task", task, *captioner, *options, *more]) == 0
    (folder,) = where.glob("*/*/*")
    return capbench.load_run(folder)[task]


def captions_of(task: str, data: Path, model: Path) -> dict[str, str]:
    """Return the captions that a task's metrics are going to score, by id."""
    return candidates(run(task, data, model, "--metrics", "length"))


def candidates(done: TaskRun) -> dict[str, str]:
    return {row["id"]: row["candidate"] for row in done.samples.to_pylist() if row["candidate"] is not None}


def recorded(data: Path, answers: dict[str, str]) -> list[str]:
    """Write a judge's answers by prompt, and return the options that name it."""
    rows = [{"prompt": prompt, "response": answer} for prompt, answer in answers.items()]
    return ["--judge", f"responses:{jsonl(data / 'answers.jsonl', rows)}"]


def values(done: TaskRun) -> dict[tuple[str, str], float | None]:
    return {(result.metric, result.category): result.value for result in done.results}


def dream_row(vid: int, origin: str, reference: str, *events: str) -> dict[str, Any]:
    """Return a row of DREAM-1k.jsonl."""
    question = [
        {"reference": None, "text": None, "type": "video", "video": {"video_file": "<placeholder>"}},
        {"reference": None, "text": "Describe the video in detail.", "type": "text", "video": None},
    ]
    answer = [{"reference": reference, "text": "", "type": "text", "video": None}]
    return {
        "messages": [{"content": question, "role": "user"}, {"content": answer, "role": "assistant"}],
        "dataset": f"DREAM/{origin}", "task": "video/caption", "idx": vid, "vid": vid,
        "extra_info": {"duration": 1.2, "events": [*events], "n_events": len(events), "n_shots": 1, "n_subjects": 1},
    }  # fmt: skip


def test_dream_1k_is_f1_of_events_that_a_judge_finds_entailed(tmp_path: Path, tiny_qwen2_vl: Path):
    rows = [
        dream_row(1, "youtube", "A dog runs and barks.", "A dog runs.", "A dog barks."),
        dream_row(2, "youtube", "A cat sleeps. It wakes.", "A cat sleeps.", "A cat wakes."),
        dream_row(3, "videvo", "A room.", "A door opens."),
        dream_row(4, "videvo", "No video of it is here.", "It is gone."),
    ]
    jsonl(tmp_path / "DREAM-1k.jsonl", rows)
    videos(tmp_path / "video", "1.mp4", "2.mp4", "3.mp4")
    # How many of two events of the caption the reference entails, and of those of the reference the caption.
    entailed = {"1": (2, 1), "2": (1, 2), "3": (0, 0)}
    captions = captions_of("dream_1k", tmp_path, tiny_qwen2_vl)
    assert captions.keys() == entailed.keys()
    answers: dict[str, str] = {}
    for row, (precise, recalled) in zip(rows, entailed.values(), strict=False):
        caption, own = captions[str(row["vid"])].lower(), ["one", "two"]
        reference, events = row["messages"][1]["content"][0]["reference"].lower(), row["extra_info"]["events"]
        answers[fill(EXTRACT, caption=caption.replace('"', "'"))] = json.dumps({"events": own})
        for text, of_other, count in ((reference, own, precise), (caption, events, recalled)):
            classes = ["entailment"] * count + ["neutral"] * (len(of_other) - count)
            entries = [{"event": event, "relationship": name} for event, name in zip(of_other, classes, strict=True)]
            answers[fill(RELATE, description=text, events=str(of_other))] = json.dumps({"events": entries})
    done = run("dream_1k", tmp_path, tiny_qwen2_vl, *recorded(tmp_path, answers))
    by_metric = values(done)
    assert [by_metric["autodq", name] for name in ("youtube", "videvo")] == [0.75, 0]
    precision, recall = (2 / 2 + 1 / 2 + 0) / 3, (1 / 2 + 2 / 2 + 0) / 3
    assert by_metric["autodq_precision", ""] == pytest.approx(precision)
    assert by_metric["autodq_recall", ""] == pytest.approx(recall)
    assert by_metric["autodq", ""] == pytest.approx(2 * precision * recall / (precision + recall))
    (missing,) = done.record.failures
    assert (missing["samples"], missing["count"]) == (["4"], 1)
    assert "4.mp4: there is no such file" in missing["reason"]


def test_vdc_is_the_share_of_questions_that_a_judge_answers_from_the_caption(tmp_path: Path, tiny_qwen2_vl: Path):
    asked_of = {"v1": [("What runs?", "dog"), ("Where?", "park")], "v2": [("Who?", "a man")]}
    lines = [
        {video: [{"question": q, "answer": a, "category": ""} for q, a in [*pairs, ("", "")]]}
        for video, pairs in [("v2", [("Old?", "yes")]), *asked_of.items()]
    ]
    jsonl(tmp_path / "short.jsonl", lines)
    videos(tmp_path / "Test_Videos", "v1.mp4", "v2.mp4")
    captions = captions_of("vdc_short", tmp_path, tiny_qwen2_vl)
    verdicts = {"What runs?": ("yes", 5), "Where?": ("no", 1), "Who?": ("yes", 4)}
    answers: dict[str, str] = {}
    for video, pairs in asked_of.items():
        for question, right in pairs:
            said, (match, score) = f"perhaps {right}", verdicts[question]
            answered = fill(ANSWER, caption=captions[video], question=question)
            answers[f"{ANSWER_SYSTEM}\n\n{answered}"] = said
            compared = fill(COMPARE, question=question, answer=right, predicted=said)
            answers[f"{COMPARE_SYSTEM}\n\n{compared}"] = f"{{'pred': '{match}', 'score': {score}}}"
    by_metric = values(run("vdc_short", tmp_path, tiny_qwen2_vl, *recorded(tmp_path, answers)))
    assert by_metric["vdc_accuracy", ""] == (1 / 2 + 1) / 2
    assert by_metric["vdcscore", ""] == ((5 + 1) / 2 + 4) / 2


def test_recorded_captions_are_judged_by_recorded_answers_without_videos(tmp_path: Path):
    dream, vdc = tmp_path / "dream", tmp_path / "vdc"
    for folder in (dream, vdc):
        folder.mkdir()
    reference, event, caption = "a dog runs.", "A dog runs.", "a dog sleeps."
    jsonl(dream / "DREAM-1k.jsonl", [dream_row(7, "movie_animation", reference, event)])
    answers = {
        fill(EXTRACT, caption=caption): json.dumps({"events": ["it sleeps", "a dog"]}),
        fill(RELATE, description=reference, events=str(["it sleeps", "a dog"])): json.dumps(
            {
                "events": [
                    {"event": "it sleeps", "relationship": "contradiction"},
                    {"event": "a dog", "relationship": "entailment"},
                ]
            }
        ),
        fill(RELATE, description=caption, events=str([event])): json.dumps(
            {"events": [{"event": event, "relationship": "neutral"}]}
        ),
    }
    by_metric = values(run("dream_1k", dream, {"7": caption}, *recorded(dream, answers)))
    assert [by_metric[name, ""] for name in ("autodq_precision", "autodq_recall", "autodq")] == [0.5, 0, 0]
    jsonl(vdc / "detailed.jsonl", [{"v": [{"question": "What?", "answer": "dog", "category": ""}]}])
    answers = {
        f"{ANSWER_SYSTEM}\n\n{fill(ANSWER, caption=caption, question='What?')}": "a dog",
        f"{COMPARE_SYSTEM}\n\n{fill(COMPARE, question='What?', answer='dog', predicted='a dog')}": (
            "{'pred': 'yes', 'score': 4}"
        ),
    }
    by_metric = values(run("vdc_detailed", vdc, {"v": caption}, *recorded(vdc, answers)))
    assert [by_metric[name, ""] for name in ("vdc_accuracy", "vdcscore")] == [1, 4]


def test_msvd_and_vatex_are_scored_with_the_captions_of_people(tmp_path: Path, tiny_qwen2_vl: Path):
    msvd, vatex = tmp_path / "msvd", tmp_path / "vatex"
    videos(msvd / "YouTubeClips", "-a_1_5.avi", "b_2_9.avi")
    lines = ["# comments", "", "-a_1_5 a dog runs", "c_3_4 of the training set", "b_2_9 a man sings", "-a_1_5 a dog"]
    (msvd / "AllVideoDescriptions.txt").write_text("\n".join(lines))
    (msvd / "test_list.txt").write_text("b_2_9\n-a_1_5\nd_5_6\n")
    videos(vatex / "videos", "-a_1_5.mp4", "b_2_9.mkv")
    references = {"-a_1_5": ["a dog runs", "a dog"], "b_2_9": ["a man sings"]}
    listed = [{"videoID": video, "enCap": texts} for video, texts in references.items()]
    (vatex / "vatex_public_test_english_v1.1.json").write_text(json.dumps(listed))
    for task, data in (("msvd_caption", msvd), ("vatex_caption", vatex)):
        done = run(task, data, tiny_qwen2_vl, "--metrics", "bleu_4,cider,rouge_l")
        captions = candidates(done)
        assert captions.keys() == references.keys()
        rows = [{"candidate": caption, "references": references[video]} for video, caption in captions.items()]
        expected = capbench.score(rows, metrics=["bleu_4", "cider", "rouge_l"]).system
        for (metric, _), value in values(done).items():
            assert value == pytest.approx(expected[metric], abs=1e-12)
        reasons = [failure["reason"] for failure in done.record.failures]
        assert any("has no caption" in reason for reason in reasons) == (task == "msvd_caption")
