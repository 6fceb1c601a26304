"""Plans of metrics: which may look at images, and what is known of the code of a user's own."""

import importlib.util
import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from task_keys import CAPTIONING, write_task

import capbench
from capbench.adapters.aliases import ModelSpec
from capbench.benchmarks.inputs.models import NamedModels
from capbench.benchmarks.protocols.job import CAPTIONS, INTERVALS
from capbench.benchmarks.running.execution import Execution, execution_of
from capbench.benchmarks.running.plan import described, resolve_call
from capbench.benchmarks.running.planned_metrics import may_need, metric_fingerprints
from capbench.benchmarks.running.rows import plan_rows
from capbench.benchmarks.store.store import default_store_path
from capbench.errors import DataError, MetricError, TaskError
from capbench.metrics import Metric, build_metric

OWN = """\
import numpy as np
from capbench.metrics import Metric, Scores
class Own(Metric):
    label, source = "own", "mine"
    def score(self, items, context):
        return Scores(np.array([float({count}) for one in range(len(items))]))
"""
ROWS = [{"candidate": "a dog", "references": ["a dog runs", "a dog"]}, {"candidate": "a cat", "references": ["cats"]}]
Register = Callable[[str], str]


@pytest.fixture
def register(tmp_path) -> Register:
    """Return a function that registers a metric that counts something, and returns its name."""
    numbers = itertools.count()

    def registered(count: str) -> str:
        name = f"own_{tmp_path.name}_{next(numbers)}"
        (tmp_path / f"{name}.py").write_text(OWN.format(count=count))
        spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        capbench.register_metric(name)(module.Own)
        return name

    return registered


def test_fingerprint_of_a_users_metric_has_its_code(register: Register):
    def code(name: str) -> Any:
        return metric_fingerprints(plan_rows([name], NamedModels()))[name].get("code")

    first, same, other = (code(register(count)) for count in ("1", "1", "2"))
    assert first == same != other
    assert first.startswith("Own@")
    assert code("rouge_l") is None


@pytest.mark.parametrize("others", [[], ["cider"]])
def test_what_a_users_metric_does_not_declare_cannot_be_read(register: Register, others: list[str]):
    declared, undeclared = register("len(items.candidates[one])"), register("len(items.references[one])")
    table = capbench.score(ROWS, [declared, undeclared, *others])
    assert table.system[declared] == 5
    assert table.system[undeclared] is None
    assert "it reads references, which its 'needs' does not name" in table.metric_errors[undeclared]


def test_value_that_is_not_finite_is_a_failure_with_a_reason(register: Register):
    name = register("'nan' if one else 1")
    table = capbench.score(ROWS, [name])
    assert table.system[name] == 1
    (failure,) = table.failures
    assert (failure["reason"], failure["samples"]) == (f"{name}: the metric gave no finite value", ["1"])


def test_metrics_that_need_images_and_unknown_ones_may_look_at_images():
    assert may_need(["cider", "clip_s[w=1]"], "image")
    assert may_need(["nothing_of_this_name"], "image")
    assert not may_need(["cider", "bleu_4"], "image")


def test_store_is_the_file_that_is_named_or_the_user_s(tmp_path):
    assert execution_of(None, tmp_path / "own.sqlite") == (Execution(), tmp_path / "own.sqlite")
    assert execution_of(None, None) == (Execution(), default_store_path())
    assert execution_of(None, "memory://shared")[0] == Execution(folder="memory://shared")


def test_plan_says_which_metrics_of_the_task_are_not_run():
    (planned,) = resolve_call("iiw_400", model="iiw-p5b", metric_names=["cider"]).plan
    lines = described(replace(planned, left_out={"clip_s": "needs a model"}))
    assert ("not run", "clip_s: it needs a model") in lines


def test_plan_names_the_models_of_metrics_beside_the_captioner():
    (planned,) = resolve_call("iiw_400", model="iiw-p5b", metric_names=["cider"]).plan
    models = {"encoder": ModelSpec("mine", "open_clip"), "judge": ModelSpec("yours", "openai_judge")}
    assert [line for line in described(replace(planned, **models)) if line[0] in models] == [
        ("encoder", "mine (open_clip)"), ("judge", "yours (openai_judge)"),
    ]  # fmt: skip
    assert not models.keys() & dict(described(planned)).keys()


def test_steps_of_a_run_are_those_that_take_time():
    (planned,) = resolve_call("iiw_400", model="iiw-p5b", metric_names=["cider"]).plan
    assert planned.steps(100) == [CAPTIONS, "cider", INTERVALS]
    assert planned.steps(0) == [CAPTIONS, "cider"]
    assert replace(planned, captioner=None).steps(0) == ["cider"]


def test_call_that_lacks_data_of_a_later_task_fails_before_it_starts(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path))
    with pytest.raises(DataError, match="task 'flickr8k_expert': the data set Flickr8k"):
        resolve_call(["iiw_400", "flickr8k_expert"], model="iiw-p5b", metric_names=["length"])


def test_published_table_that_is_not_there_fails_a_captioning_task_before_it_starts(tmp_path):
    table = {"paper": "caparena", "table": 2, "task": "nothing"}
    write_task(tmp_path, [], CAPTIONING | {"task": "mine", "published": table})
    with pytest.raises(TaskError, match="table 2 of 'caparena' has no task 'nothing'"):
        resolve_call("mine", model="iiw-p5b", include_path=[tmp_path])


def test_call_of_which_no_metric_can_run_fails_before_it_starts(monkeypatch: pytest.MonkeyPatch):
    def check(metric: Metric) -> None:
        raise MetricError("needs Java", "Install it.")

    monkeypatch.setattr(type(build_metric("cider", {})), "check", check)
    with pytest.raises(MetricError, match="metric 'cider': needs Java"):
        resolve_call("iiw_400", model="iiw-p5b", metric_names=["cider"])
    planned = resolve_call("iiw_400", model="iiw-p5b", metric_names=["cider", "bleu_1"]).plan[0]
    assert [metric.error for metric in planned.metrics] == ["needs Java\nInstall it.", ""]
