"""The steps of a run, one by one: what each needs is handed to it."""

from __future__ import annotations

from pathlib import Path

import capbench
from capbench.adapters.aliases import resolve_model
from capbench.benchmarks.inputs.failures import FailureLog
from capbench.benchmarks.inputs.models import Models, NamedModels
from capbench.benchmarks.inputs.settings import RunSettings
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.running.plan import make_plan
from capbench.benchmarks.running.runner import Stopwatch, finish, keep, prepare, score
from capbench.metrics import NoCache
from capbench.tasks.index import build_index
from capbench.tasks.locate import DataLocations


def test_steps_called_one_by_one_give_the_record_of_the_whole_run(tmp_path: Path):
    locations = DataLocations.from_environment({})
    spec = resolve_model("iiw-p5b", "")
    (plan,) = make_plan(
        build_index(),
        ["iiw_400"],
        models=NamedModels.of(spec),
        metric_names=["length", "bleu_4"],
        locations=locations,
    )
    settings, failures, done = RunSettings(resamples=20), FailureLog(False), []
    job = prepare(plan, settings, Models(spec.load()), locations=locations, cache=NoCache())
    scored = score(plan, job, failures)
    finished = finish(plan, job, scored, failures, done.append)
    record = Record.of(finished)
    assert (done, list(scored.seconds)) == (["statistics", "significance"], ["length", "bleu_4"])
    whole = capbench.evaluate("iiw-p5b", ["iiw_400"], metrics=["length", "bleu_4"], resamples=20)["iiw_400"]
    assert (record.fingerprint, record.results) == (whole.record.fingerprint, whole.record.results)
    assert record.failures == whole.record.failures and record.documents == whole.record.documents
    assert list(record.values) == list(whole.record.values)
    kept = keep(finished, scored, tmp_path / "runs", "none", None)
    assert kept.folder is not None
    assert [path.name for path in kept.folder.iterdir()] == ["run.json"]
    assert kept.record.samples == "none"


def test_stopwatch_gives_each_step_its_own_time():
    watch = Stopwatch()
    watch.lap("one")
    watch.lap("two")
    assert list(watch.steps) == ["one", "two"]
    assert all(0 <= seconds < 1 for seconds in watch.steps.values())


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
