"""``bench show`` and ``bench data``: a task explained, and where its data comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capbench.adapters import adapters
from capbench.adapters.aliases import list_aliases
from capbench.benchmarks.protocols.binding import bind
from capbench.benchmarks.statistics import statistics
from capbench.benchmarks.suites.read import suite_names
from capbench.cli.show import describe_registered
from capbench.metrics import metrics
from capbench.tasks.index import build_index
from capbench.tasks.schema import TaskConfig, load_task

SHIPPED = build_index().tasks


def test_every_shipped_task_is_explained_with_each_choice_that_moves_a_number(bench, subtests: pytest.Subtests):
    for entry in SHIPPED:
        with subtests.test(task=entry.name):
            done = bench("show", entry.name).succeeded()
            config, parsed = load_task(entry.path)
            assert_explained(done.out, config, bind(config, parsed).settings)


def assert_explained(out: str, config: TaskConfig, settings: Any) -> None:
    assert out.startswith(f"{config.task}  (version {config.version}, tasks/")
    assert f"protocol     {config.output_type}\n" in out
    for metric in config.metric_list:
        assert f"({metric.metric})" in out
    if config.output_type == "agreement":
        assert f"raters: {settings.raters} (" in out
        assert f"rated_reference: {settings.rated_reference} (" in out
    unfolded = " ".join(out.split())
    for name, value in config.checks.expected().items():
        assert f"{name} = {value:g}" in unfolded
    assert ("published    " in out) == (config.published is not None)


def test_suite_is_explained_by_the_names_under_which_files_fill_it(bench):
    done = bench("show", "pacspp_table1").succeeded()
    assert done.out.startswith("pacspp_table1\nAgreement with human ratings on Flickr8k-Expert, ")
    assert "\ntasks        flickr8k_expert: kendall_b, kendall_c\n             flickr8k_cf: " in done.out
    assert "\nrows         BLEU-1; BLEU-4; " in done.out
    assert "; TIGEr; ViLBERTScore\n" in done.out
    assert "\nnote         The paper says w = 2.5 for PAC-S++" in done.out
    # Of columns that are metrics, their names; what stands for a folder in a name is a stroke.
    assert "\ntasks        coco_caption: BLEU-4, METEOR, CIDEr, " in bench("show", "pacspp_table6").out
    assert "CLIP baseline ViT-B-32; NegCLIP" in " ".join(bench("show", "dci_table2").out.split())


def test_every_metric_statistic_model_and_adapter_is_explained():
    for name in (*metrics, *statistics, *list_aliases(), *adapters):
        assert str(describe_registered(name)).startswith(f"{name}  (")
    assert describe_registered("none of these") is None


def test_metric_and_model_say_what_they_do_and_what_stands_for_each_setting(bench):
    aloha = " ".join(bench("show", "aloha").out.split())
    assert aloha.startswith("aloha (metric, ALOHa) The similarity of the caption's least likely object")
    assert "needs judge, references range -1 to 1 better more source Petryk" in aloha
    assert "better neither source word count" in " ".join(bench("show", "length").out.split())
    assert "unmatched: ignored (What an object counts for which the references have none left" in aloha
    flava = " ".join(bench("show", "flava-full").out.split())
    assert "flava-full (model, adapter flava)" in flava
    assert "pretrained: facebook/flava-full (" in flava
    assert "padding: seen (seen: the multimodal encoder attends to padding" in flava
    assert "settings pretrained: required (" in " ".join(bench("show", "blip_itm").out.split())
    judge = " ".join(bench("show", "openai_judge").out.split())
    assert "settings model: required " in judge
    assert "limit_name: max_tokens" in judge
    assert "kwargs" not in judge
    assert "average_precision (statistic, AP)" in " ".join(bench("show", "average_precision").out.split())
    bench("show", "alohaa").failed(2, "unknown task 'alohaa'")


def test_every_suite_is_explained(bench):
    for name in suite_names():
        assert bench("show", name).code == 0


def test_tag_is_explained_task_by_task(bench):
    bench("show", "agreement").succeeded("flickr8k_expert  (version", "\n\nflickr8k_")


def test_task_of_the_user_is_explained_with_metric_arguments_and_range(bench, write_task):
    folder = write_task(
        metric_list=[{"metric": "cider", "variant": "d", "name": "cider_d"}],
        protocol={"human_range": [1, 5], "raters": "mean"},
    )
    out = bench("show", "small", "--include_path", folder).out
    assert "(cider) with variant=d" in out
    assert "human_range: ratings of 1 to 5 become 0 to 1" in out
    assert "raters: mean (the ratings of a caption are averaged before correlating)" in out


def test_every_shipped_task_says_where_its_data_comes_from_without_a_network(bench, subtests, tmp_path: Path):
    # What one reader generates is made once: 'bench validate' looks at the data of every task.
    readers = {entry.name: load_task(entry.path)[0].custom_dataset for entry in SHIPPED if "shapes" in entry.name}
    asked = {str(readers.get(entry.name, entry.name)): entry for entry in SHIPPED}
    for entry in asked.values():
        with subtests.test(task=entry.name):
            assert_placed(bench("data", entry.name), entry.name, tmp_path / "cache" / "data")


def assert_placed(done: Any, task: str, folder: Path) -> None:
    assert "Traceback" not in done.err
    generated = "shapes" in task
    for part in ("licence      ", "terms        ", "cite         ", "get it       "):
        assert part in done.out
    for part in ("homepage     ", "files\n"):
        assert (part in done.out) == (not generated)
    if generated:
        assert done.code == 0
        assert "found        generated: ok" in done.out
    elif task == "iiw_400":
        assert done.code == 0
        assert "documents: expected 400, found 400: holds" in done.out
    elif task.startswith("checklist_iiw"):
        assert done.code == 0
        assert "images: expected 100, found 100: holds" in done.out
    else:
        assert done.code == 1
        assert "found        nothing: no data" in done.out
        assert str(folder) in done.out


def test_copy_of_the_data_is_told_by_its_checks(bench, write_task):
    bench("data", "small", "--include_path", write_task(checks={"rows": 4})).succeeded("4 of 4 documents usable")
    done = bench("data", "small", "--include_path", write_task(checks={"rows": 5, "images": 4})).failed(1)
    assert "rows: expected 5, found 4: DOES NOT HOLD" in done.out
    assert "images: expected 4, found 4: holds" in done.out
    assert "its file names no data_source" in done.out


@pytest.mark.parametrize(
    ("task", "terms"), [("iiw_400", "full"), ("flickr8k_expert", "scores"), ("coco_caption", "full"), ("small", "full")]
)
def test_what_of_a_run_may_be_passed_on_is_said(bench, write_task, task: str, terms: str):
    folder = write_task()
    for command in ("show", "data"):
        out = bench(command, task, "--include_path", folder).out
        assert f"(redistribution: {terms})" in " ".join(out.split())


# -- ``bench ls``: what there is


@pytest.mark.parametrize(
    ("what", "column", "member"),
    [
        ("tasks", "task", "flickr8k_expert"),
        ("tags", "tag", "agreement"),
        ("groups", "group", "flickr8k"),
        ("metrics", "metric", "cider"),
        ("statistics", "statistic", "kendall_c"),
        ("models", "model", "captions:FILE"),
        ("adapters", "adapter", "captions"),
    ],
)
def test_list_is_printed_as_text_and_as_json(bench, what: str, column: str, member: str):
    plain = bench("ls", what).succeeded()
    assert plain.out.split()[0] == column
    rows = json.loads(bench("ls", what, "--format", "json").out)
    assert member in [row[column] for row in rows]
    # A line a row, and the header, none longer than a terminal's.
    assert len(plain.out.splitlines()) == len(rows) + 1
    assert max(map(len, plain.out.splitlines())) <= 100
    assert all(isinstance(value, str) for row in rows for value in row.values())


def test_tasks_are_listed_unless_something_else_is_asked_for(bench):
    assert bench("ls").out == bench("ls", "tasks").out
    assert len(bench("ls").out.splitlines()) == len(build_index().tasks) + 1


def test_tasks_and_groups_of_the_user_are_listed_and_a_file_that_cannot_be_read_is_named(bench, write_task):
    folder = write_task()
    bench("ls", "--include_path", folder).succeeded("small", "Four rated captions.", "flickr8k_expert")
    (folder / "group.yaml").write_text("group: mine\ntask: [small, iiw_400]\ndescription: Two tasks.\n")
    rows = json.loads(bench("ls", "groups", "--include_path", folder, "--format", "json").out)
    assert {"group": "mine", "tasks": "small, iiw_400", "about": "Two tasks."} in rows

    (folder / "broken.yaml").write_text("task: [")
    done = bench("ls", "--include_path", folder).succeeded("small")
    assert "broken.yaml could not be read: " in done.err


def test_metrics_and_adapters_without_a_docstring_or_source_are_listed(bench, user_metrics):
    from capbench.adapters import adapters

    adapters.add("undocumented", type("Undocumented", (), {}))
    try:
        assert "undocumented" in bench("ls", "metrics").out
        assert "undocumented" in bench("ls", "adapters").out
    finally:
        del adapters._entries["undocumented"]


def test_models_say_how_large_they_are_and_where_they_come_from(bench):
    rows = {row["model"]: row for row in json.loads(bench("ls", "models", "--format", "json").out)}
    assert rows["vit-b-32.laion2b_s34b_b79k"] == {
        "model": "vit-b-32.laion2b_s34b_b79k",
        "adapter": "open_clip",
        "size": "151M",
        "source": "laion/CLIP-ViT-B-32-laion2B-s34B-b79K",
        "about": "ViT-B-32, weights laion2b_s34b_b79k.",
    }


def test_metrics_say_what_they_need(bench):
    rows = {row["metric"]: row for row in json.loads(bench("ls", "metrics", "--format", "json").out)}
    assert set(rows) == set(metrics)
    assert rows["cider"]["needs"] == "references"
    assert rows["length"]["needs"] == "the caption alone"
    assert rows["length"]["range"] == "0 to inf"
