"""``bench show`` and ``bench data``: a task explained, and where its data comes from."""

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

ONE_A_CARD = {load_task(entry.path)[0].data_source: entry for entry in reversed(build_index().tasks)}.values()
"""Of the tasks that share a data card, one."""


def test_shipped_task_is_explained_with_each_choice_that_moves_a_number(bench, subtests: pytest.Subtests):
    for entry in ONE_A_CARD:
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


def test_shipped_task_says_where_its_data_comes_from_without_a_network(bench, subtests, tmp_path: Path):
    for entry in ONE_A_CARD:
        with subtests.test(task=entry.name):
            assert_placed(bench("data", entry.name), entry.name, tmp_path / "cache" / "data")


def test_known_defects_of_data_are_printed(bench):
    assert "\ndefect       There are two sets of labels" in bench("data", "nebula").out


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
    elif task.startswith("checklist_iiw"):
        assert done.code == 0
        assert "images: expected 100, found 100: holds" in done.out
    else:
        assert done.code == 1
        assert "found        nothing: no data" in done.out
        assert str(folder) in done.out


@pytest.mark.parametrize(
    ("task", "terms"), [("iiw_400", "full"), ("flickr8k_expert", "scores"), ("coco_caption", "full"), ("small", "full")]
)
def test_what_of_a_run_may_be_passed_on_is_said(bench, write_task, task: str, terms: str):
    folder = write_task()
    for command in ("show", "data"):
        out = bench(command, task, "--include_path", folder).out
        assert f"(redistribution: {terms})" in " ".join(out.split())


def test_reader_of_the_user_is_shown_with_what_it_is_given_and_does_not_run(bench, write_task):
    folder = write_task(dataset_path=None, custom_dataset=None)
    (folder / "small.yaml").write_text(
        "task: small\noutput_type: agreement\ncustom_dataset: !function mine.rows\n"
        "dataset_kwargs: {depth: 3, other: x}\ndoc_to_candidate: c\ndoc_to_human: h\n"
        "metric_list: [length]\nstatistics: [kendall_b]\nmetadata: {version: 1}\n"
    )
    (folder / "mine.py").write_text('raise SystemExit("ran")\n')
    out = bench("show", "small", "--include_path", folder).out
    # What else it takes is known by running it alone.
    assert "\n             depth: 3\n             other: x\n" in out
    assert "\nfunctions    !function mine.rows (not allowed)\n" in out


# -- ``bench ls``: what there is


@pytest.mark.parametrize(
    ("kind", "column", "member"),
    [
        ("tasks", "task", "flickr8k_expert"),
        ("tags", "tag", "agreement"),
        ("groups", "group", "flickr8k"),
        ("metrics", "metric", "cider"),
        ("statistics", "statistic", "kendall_c"),
        ("models", "model", "captions:FILE"),
        ("adapters", "adapter", "captions"),
        ("trainers", "trainer", "contrastive"),
        ("stages", "stage", "merge"),
    ],
)
def test_list_is_printed_as_text_and_as_json(bench, kind: str, column: str, member: str):
    plain = bench("ls", kind).succeeded()
    assert plain.out.split()[0] == column
    rows = json.loads(bench("ls", kind, "--format", "json").out)
    assert member in [row[column] for row in rows]
    # A line a row, and the header, none longer than a terminal's; models that only their own code runs stand apart.
    listed, _, apart = plain.out.partition("\nOnly code of their own repositories runs these")
    own = [row[column] for row in rows if row.get("code") == "own"]
    assert len(listed.splitlines()) == len(rows) - len(own) + 1
    assert [line.split()[0] for line in apart.splitlines()[3:]] == own
    assert max(map(len, plain.out.splitlines())) <= 100
    assert all(isinstance(value, str) for row in rows for value in row.values())


def test_tasks_and_groups_of_the_user_are_listed_and_a_file_that_cannot_be_read_is_named(bench, write_task):
    folder = write_task()
    bench("ls", "--include_path", folder).succeeded("small", "Four rated captions.", "flickr8k_expert")
    (folder / "group.yaml").write_text("group: mine\ntask: [small, iiw_400]\ndescription: Two tasks.\n")
    rows = json.loads(bench("ls", "groups", "--include_path", folder, "--format", "json").out)
    assert {"group": "mine", "tasks": "small, iiw_400", "about": "Two tasks."} in rows

    (folder / "broken.yaml").write_text("task: [")
    done = bench("ls", "--include_path", folder).succeeded("small")
    assert "broken.yaml could not be read: " in done.err


def test_metrics_and_adapters_without_a_docstring_or_source_are_listed(bench, user_metrics, monkeypatch):
    from capbench.adapters import adapters

    monkeypatch.setitem(adapters._entries, "undocumented", type("Undocumented", (), {}))
    assert "undocumented" in bench("ls", "metrics").out
    assert "undocumented" in bench("ls", "adapters").out


def test_download_that_is_not_allowed_does_not_say_that_it_fetches(bench):
    refused = bench("data", "winoground", "--download").failed(1, "nothing of it may be fetched")
    assert "fetching into" not in refused.out + refused.err
