"""What ``bench export lm-eval`` writes, refuses and tells; and how its functions answer lm-eval."""

import importlib.util
import json
import logging
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from task_keys import AGREEMENT, CAPTIONING, LOCAL
from tiny_images import noise_png

import capbench
from capbench.benchmarks.interchange.lm_eval_bridge import LmEvalTask, plan_export, write_tasks
from capbench.errors import DataError, UsageError
from capbench.tasks.index import build_index
from capbench.tasks.locate import DataLocations

TASK = AGREEMENT | {
    "task": "rated",
    "task_alias": "Rated: captions",
    "description": "Six rated\ncaptions.",
    "tag": ["mine"],
    "metric_list": ["rouge_l", "cider", "clip_s"],
    "checks": {"documents": 6},
    "metadata": {"version": 1.5},
}
PAIRS = LOCAL | {
    "task": "pairs",
    "tag": ["mine"],
    "output_type": "preference",
    "doc_to_candidates": ["candidate", "other"],
    "doc_to_preferred": "preferred",
    "doc_to_category": "kind",
    "metric_list": ["length"],
}
ENCODED = {**PAIRS, "task": "encoded", "doc_to_image": "image", "metric_list": ["clip_s"]}
WRITTEN = CAPTIONING | {
    "task": "written",
    "generation_kwargs": {"max_new_tokens": 7, "num_beams": 1, "temperature": 0.5, "do_sample": True},
}


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    rows = [
        {
            "image": f"{n}.jpg",
            "candidate": "a dog runs on grass"[: 5 + 2 * n],
            "other": "a dog",
            "references": ["a dog runs over the grass"[n:]],
            "rating": (2 * n) % 5,
            "preferred": n % 2,
            "kind": ["far, wide", "near"][n % 2],
        }
        for n in range(6)
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for task in (TASK, PAIRS, ENCODED, WRITTEN):
        (folder / f"{task['task']}.yaml").write_text(json.dumps(task))
    return folder


class _Loader(yaml.SafeLoader):
    """Reads the names of functions as they stand."""


_Loader.add_constructor("!function", lambda loader, node: node.value)


class Exporter:
    """Exports tasks of a folder, and keeps what was told."""

    def __init__(self, tasks: Path) -> None:
        self.index = build_index([tasks])
        self.folder = tasks.parent / "exported"
        self.told: list[str] = []

    def __call__(self, *names: str, locations: DataLocations | None = None, **options: Any) -> list[Path]:
        arguments = {"locations": locations or DataLocations(), "tell": self.told.append}
        return write_tasks(plan_export(names, self.index, **arguments, **options), self.folder)

    def read(self, name: str, **options: Any) -> dict[str, Any]:
        (path,) = self(name, **options)
        return yaml.load(path.read_text(), _Loader)  # noqa: S506 - a safe loader

    def bind(self, name: str, **options: Any) -> tuple[LmEvalTask, Any]:
        """Return the bound task, and the module that lm-eval would load."""
        (path,) = self(name, **options)
        spec = importlib.util.spec_from_file_location(f"exported_{name}", path.parent / "utils.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.TASK, module


def answered(task: LmEvalTask, documents: Iterable[dict[str, Any]], texts: Sequence[str]) -> list[Any]:
    """Return what aggregations get for answers: one value, which the first document has."""
    first, *others = [task.process_results(document, [text]) for document, text in zip(documents, texts, strict=True)]
    assert not any(others)
    return [first.popitem()[1]]


@pytest.fixture
def exporter(tasks: Path) -> Exporter:
    return Exporter(tasks)


def test_task_file_shows_protocol_metrics_and_what_was_left_out(exporter: Exporter):
    config = exporter.read("rated")
    assert config["task"] == "capbench_rated"
    assert config["task_alias"] == "Rated: captions"
    assert [metric["metric"] for metric in config["metric_list"]] == ["rouge_l.kendall_b", "cider.kendall_b"]
    assert all(metric["higher_is_better"] is True for metric in config["metric_list"])
    assert config["metadata"]["version"] == 1.5
    choices = config["metadata"]["capbench"]
    assert choices["protocol"]["raters"] == "flatten"
    assert choices["metrics"]["cider"]["variant"] == "d"
    assert choices["statistics"] == {"kendall_b": {}}
    text = (exporter.folder / "capbench_rated" / "capbench_rated.yaml").read_text()
    assert "# Left out: clip_s, which needs a model that encodes images and texts.\n" in text
    assert "# Six rated captions.\n" in text
    assert exporter.told == ["rated: metric clip_s is left out: it needs a model that encodes images and texts"]


def test_categories_of_captions_are_known_before_they_are_written(exporter: Exporter, tasks: Path):
    (tasks / "written.yaml").write_text(json.dumps(WRITTEN | {"doc_to_category": "kind"}))
    assert [metric["metric"] for metric in exporter.read("written")["metric_list"]] == [
        "length.mean.far; wide",
        "length.mean.near",
        "length",
    ]
    task, module = exporter.bind("written", text_only=True)
    answers = answered(task, task.documents()["test"], ["one", "one two"] * 3)
    assert module.value_of_length_mean_near(answers) == 2
    assert module.value_of_length(answers) == 1.5


def test_without_data_the_mean_of_categories_is_exported(exporter: Exporter, tasks: Path):
    (tasks / "rows.jsonl").unlink()
    config = exporter.read("pairs")
    assert [metric["metric"] for metric in config["metric_list"]] == ["length.accuracy"]
    assert "only the mean over categories is exported" in exporter.told[0]


def test_length_has_no_direction(exporter: Exporter):
    assert [metric["higher_is_better"] for metric in exporter.read("written")["metric_list"]] == [None]


def test_decoding_is_in_the_words_of_lm_eval(exporter: Exporter):
    config = exporter.read("written")
    assert config["generation_kwargs"] == {"max_gen_toks": 7, "temperature": 0.5, "do_sample": True, "until": []}
    assert config["doc_to_image"] == "utils.images"
    assert "doc_to_image" not in exporter.read("written", text_only=True)


@pytest.mark.parametrize(
    ("name", "options", "fault"),
    [
        ("dci_all_scm", {}, "its output_type is 'matching'"),
        ("encoded", {}, "none of its metrics .clip_s. can be used: needs a model that encodes"),
        ("rated", {"metrics": ["clip_s"]}, "metric 'clip_s' needs a model that encodes"),
        ("rated", {"metrics": ["clair"]}, "metric 'clair' needs a model that judges"),
        ("rated", {"metrics": ["cidr"]}, "unknown metric 'cidr'. Did you mean 'cider'"),
        ("ratd", {}, "unknown task 'ratd'. Did you mean 'rated'"),
    ],
)
def test_what_lm_eval_cannot_run_is_refused_by_name(exporter: Exporter, name: str, options: dict[str, Any], fault: str):
    with pytest.raises(UsageError, match=fault):
        exporter("pairs", name, **options)
    assert not exporter.folder.exists()


def test_of_a_tag_what_lm_eval_cannot_run_is_left_out(exporter: Exporter):
    written = exporter("mine")
    assert sorted(path.stem for path in written) == ["capbench_pairs", "capbench_rated"]
    assert any("lm-eval cannot run task 'encoded'" in message for message in exporter.told)


def test_videos_are_not_shown(exporter: Exporter, tasks: Path):
    (tasks / "written.yaml").write_text(json.dumps({**WRITTEN, "video_folder": "videos"}))
    with pytest.raises(UsageError, match="its documents are videos"):
        exporter("written")
    assert exporter("written", text_only=True)


def test_functions_that_were_not_exported_are_unknown(exporter: Exporter):
    _, module = exporter.bind("rated")
    with pytest.raises(AttributeError, match="value_of_bleu_1"):
        module.value_of_bleu_1  # noqa: B018 - what is looked up is not there


def test_wrong_copy_of_the_data_is_refused_before_the_model_starts(exporter: Exporter, tasks: Path):
    task, _ = exporter.bind("rated")
    rows = (tasks / "rows.jsonl").read_text().splitlines()
    (tasks / "rows.jsonl").write_text("\n".join(rows[:5]))
    with pytest.raises(DataError, match="documents: expected 6, found 5"):
        task.documents(version=1.5)
    assert len(task.documents(version=1.5, skip_checks=True)["test"]) == 5


def test_task_of_another_version_is_refused(exporter: Exporter):
    task, _ = exporter.bind("rated")
    with pytest.raises(UsageError, match=r"exported from version 1\.4, but capbench has version 1\.5"):
        task.documents(version=1.4)


def test_chosen_documents_have_no_result(exporter: Exporter, caplog: pytest.LogCaptureFixture):
    task, module = exporter.bind("rated")
    documents = task.documents(version=1.5)["test"]
    answers = answered(task, [documents[1], documents[3]], ["", ""])
    with caplog.at_level(logging.ERROR, "lm_eval.capbench"):
        assert math.isnan(module.value_of_cider_kendall_b(answers))
    assert "--samples" in caplog.text


def test_captions_that_cannot_be_scored_are_told_and_counted_as_by_bench(exporter, tasks, tmp_path, caplog):
    texts = ["a dog", "", " ... ", "two dogs run", "\n", "x\ud800"]
    task, module = exporter.bind("written", text_only=True)
    documents = task.documents()["test"]
    answers = answered(task, documents, texts)
    recorded = tmp_path / "captions.jsonl"
    recorded.write_text("\n".join(json.dumps({"id": n, "caption": text}) for n, text in enumerate(texts)))
    run = capbench.evaluate(f"captions:{recorded}", ["written"], include_path=[tasks], resamples=0)
    with caplog.at_level(logging.WARNING, "lm_eval.capbench"):
        assert module.value_of_length(answers) == run["written"].results[0].value == 5 / 6
    assert "counted as empty: 1 × caption has no letter or digit" in caplog.text
    assert math.isnan(module.value_of_length(answered(task, documents, [""] * 6)))
    assert "no caption can be scored" in caplog.text


def test_images_that_are_nowhere_are_refused(exporter: Exporter):
    task, _ = exporter.bind("written")
    with pytest.raises(DataError, match="none of its images was found"):
        task.documents()


def test_data_and_metrics_that_were_named_are_bound(exporter: Exporter, tasks: Path, tmp_path: Path):
    rows = (tasks / "rows.jsonl").rename(tmp_path / "elsewhere.jsonl")
    locations = DataLocations({"rated": rows})
    task, module = exporter.bind("rated", locations=locations, metrics=["length"])
    assert len(task.documents(version=1.5)["test"]) == 6
    assert list(module.RESULTS.values()) == ["length.kendall_b"]


def test_image_that_cannot_be_read_costs_its_caption_alone(exporter, tasks, caplog: pytest.LogCaptureFixture):
    (tasks / "0.jpg").write_bytes(noise_png(0))
    (tasks / "1.jpg").write_text("no image")
    task, _ = exporter.bind("written")
    documents = task.documents()["test"]
    assert documents[0]["prompt"] == "<image>Describe it."
    sizes = [[image.size for image in task.images(documents[number])] for number in (0, 1, 2)]
    assert [len(images) for images in sizes] == [1, 1, 1]
    assert sizes[0] == [(60, 40)]
    (answers,) = answered(task, [documents[number] for number in (0, 1, 2)], ["a dog"] * 3)
    assert answers.captions == {0: ("0", "a dog"), 1: ("1", None), 2: ("2", None)}
    assert "is not an image" in caplog.text
    assert "document 2: its image is not on this machine" in caplog.text
