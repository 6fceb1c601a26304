"""``bench ls``: what there is."""

from __future__ import annotations

import json

import pytest

from capbench.metrics import metrics
from capbench.tasks.index import build_index


@pytest.mark.parametrize(
    ("what", "column", "member"),
    [
        ("tasks", "task", "flickr8k_expert"),
        ("tags", "tag", "agreement"),
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
    # A line a row, and the header.
    assert len(plain.out.splitlines()) == len(rows) + 1
    assert all(isinstance(value, str) for row in rows for value in row.values())


def test_tasks_are_listed_unless_something_else_is_asked_for(bench):
    assert bench("ls").out == bench("ls", "tasks").out
    assert len(bench("ls").out.splitlines()) == len(build_index().tasks) + 1


def test_groups_of_the_user_are_listed_with_their_tasks(bench, write_task):
    folder = write_task()
    (folder / "group.yaml").write_text("group: mine\ntask: [small, iiw_400]\ndescription: Two tasks.\n")
    rows = json.loads(bench("ls", "groups", "--include_path", folder, "--format", "json").out)
    assert {"group": "mine", "tasks": "small, iiw_400", "about": "Two tasks."} in rows


def test_tasks_of_the_user_stand_beside_the_shipped_ones(bench, write_task):
    out = bench("ls", "--include_path", write_task()).out
    assert "small" in out
    assert "Four rated captions." in out
    assert "flickr8k_expert" in out


def test_file_that_cannot_be_read_is_named_and_the_others_are_listed(bench, write_task):
    folder = write_task()
    (folder / "broken.yaml").write_text("task: [")
    done = bench("ls", "--include_path", folder).succeeded()
    assert "broken.yaml could not be read: " in done.err
    assert "small" in done.out


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
