from __future__ import annotations

import pytest

import capbench
from capbench.benchmarks.inputs.metric_names import read_metric, split_metrics
from capbench.errors import UsageError


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("bleu_1,cider", ["bleu_1", "cider"]),
        (" bleu_1 , ,cider", ["bleu_1", "cider"]),
        (["cider[variant=plain]", "length,rep_2"], ["cider[variant=plain]", "length", "rep_2"]),
        ("clip_s[w=1,prompt=A],cider", ["clip_s[w=1,prompt=A]", "cider"]),
        ([], []),
    ],
)
def test_commas_inside_of_brackets_divide_nothing(names: str | list[str], expected: list[str]):
    assert split_metrics(names) == expected


def test_settings_in_brackets_go_to_the_metric_and_the_result_has_the_whole_name():
    entry = read_metric("bertscore[model=a/b,num_layers=5]")
    assert (entry.metric, entry.name) == ("bertscore", "bertscore[model=a/b,num_layers=5]")
    assert entry.arguments == {"model": "a/b", "num_layers": 5}


def test_plain_name_has_no_settings():
    assert read_metric("cider").arguments == {}


@pytest.mark.parametrize("name", ["cider[", "cider]", "[variant=plain]", "cider[variant=plain]x", "cider[plain]"])
def test_what_is_not_of_that_form_is_refused(name: str):
    with pytest.raises(UsageError, match="metric"):
        read_metric(name)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("cider[higher_is_better=maybe]", "higher_is_better: Input should be a valid boolean"),
        ("cider[aggregation=median]", "aggregation: Input should be 'mean' or 'corpus'"),
    ],
)
def test_setting_that_all_metrics_have_is_refused_where_its_value_is_none(name: str, fault: str):
    with pytest.raises(UsageError, match=fault):
        read_metric(name)


def test_variant_of_a_metric_is_scored_beside_it():
    rows = [
        {"candidate": "a dog runs", "references": ["a dog runs fast", "the dog runs"]},
        {"candidate": "a cat", "references": ["a cat sits on a mat", "one cat"]},
    ]
    table = capbench.score(rows, "cider,cider[variant=plain]")
    assert table.system["cider"] != table.system["cider[variant=plain]"]
