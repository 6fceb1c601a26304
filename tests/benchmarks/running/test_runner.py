"""The steps of a run, one by one: what each needs is handed to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import capbench
from capbench.adapters.aliases import resolve_model
from capbench.benchmarks.inputs.failures import FailureLog
from capbench.benchmarks.inputs.models import Models, NamedModels
from capbench.benchmarks.inputs.settings import RunSettings
from capbench.benchmarks.running.plan import make_plan
from capbench.benchmarks.running.runner import prepare, score
from capbench.metrics import NoCache
from capbench.tasks.index import build_index
from capbench.tasks.locate import DataLocations


def test_scores_of_a_plan_are_those_of_the_whole_run():
    locations = DataLocations.from_environment({})
    spec = resolve_model("iiw-p5b", "")
    (plan,) = make_plan(
        build_index(), ["iiw_400"], models=NamedModels.of(spec), metric_names=["length", "bleu_4"], locations=locations
    )
    failures = FailureLog(False)
    job = prepare(plan, RunSettings(), Models(spec.load()), locations=locations, cache=NoCache())
    scored = score(plan, job, failures)
    assert list(scored.seconds) == ["length", "bleu_4"]
    whole = capbench.evaluate("iiw-p5b", ["iiw_400"], metrics=["length", "bleu_4"], resamples=0)["iiw_400"]
    weights = scored.corpus.collected.weights
    values = [one.value_of_all(weights) for one in scored.metrics]
    assert values == [one.value for one in whole.record.results.values()]
    assert scored.corpus.data_hash == whole.record.data_hash


SMALL = """
import sys, capbench
rows = [{"candidate": "a dog runs", "references": ["a dog is running", "the dog runs fast"]}] * 2
capbench.score(rows, metrics=["cider", "bleu_4"])
capbench.evaluate("iiw-p5b", ["iiw_400"], metrics=["cider"], resamples=0)
print([name for name in sys.modules if name.startswith("capbench.benchmarks.scale")])
"""


def test_small_run_imports_nothing_of_scale():
    done = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_each_task_of_a_run_counts_what_the_store_did_for_it_alone(tmp_path: Path):
    def counts(*tasks: str) -> list[dict[str, int]]:
        store = tmp_path / "-".join(tasks)
        runs = capbench.evaluate("shapes-clip", tasks, limit=2, resamples=0, store=store)
        return [dict(runs[task].record.store) for task in tasks]

    # Both tasks show the same two images and know one true caption of each.
    (first,), (second,) = counts("shapes_dci_base_neg"), counts("shapes_dci_hard_neg")
    shared = first["computed"]
    assert counts("shapes_dci_base_neg", "shapes_dci_hard_neg") == [
        first,
        {"found": second["found"] + shared, "computed": second["computed"] - shared},
    ]
    assert second["computed"] > shared > 0
