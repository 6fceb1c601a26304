"""Data checks: a wrong copy of the data fails before anything is scored."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rated_task import write_rated
from scipy.stats import kendalltau

import capbench
from capbench.benchmarks.inputs.failures import FailureLog
from capbench.benchmarks.inputs.models import Models
from capbench.benchmarks.inputs.settings import RunSettings
from capbench.benchmarks.protocols.checks import Levels, faults_of_data
from capbench.benchmarks.protocols.job import Job
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.running.inspection import ANY_MODELS
from capbench.benchmarks.running.plan import PlannedRun, plan_task
from capbench.cli.main import main
from capbench.errors import DataError
from capbench.metrics import NoCache
from capbench.progress import silent
from capbench.tasks.documents import Documents, load_documents
from capbench.tasks.index import IndexEntry, build_index
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task
from capbench.tasks.sources import load_source

RATINGS = [1, 1, 2, 3]
# Of the rating levels 1, 1, 2, 3: m = 3, n = 4, 6 pairs, 1 tied; 2·3/(16·2)·sqrt(6·5).
RATIO = 6 / 32 * 30**0.5


@given(st.lists(st.integers(1, 5), min_size=3, max_size=40).filter(lambda x: len(set(x)) > 1), st.randoms())
def test_ratio_is_that_of_scipys_taus_for_any_scores_without_ties(ratings: list[int], random):
    scores = list(range(len(ratings)))
    random.shuffle(scores)
    b, c = (kendalltau(scores, ratings, variant=variant).statistic for variant in "bc")
    levels = Levels()
    # Of shards, and of raters who gave none.
    for some in (ratings[:3], [math.nan], ratings[3:]):
        levels.add(np.array(some))
    assert levels.n == len(ratings)
    assert c == pytest.approx(levels.tau_ratio() * b, abs=1e-12)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a task over four rated captions with the given checks."""

    def folder(**checks: Any) -> Path:
        rows = [
            {"id": n, "image": n // 2, "candidate": "word " * (n + 1), "ratings": rating}
            for n, rating in enumerate(RATINGS)
        ]
        return write_rated(tmp_path, [*rows, "{broken"], task="checked", doc_to_target=None, checks=checks)

    return folder


def run(folder: Path, **settings: Any) -> TaskRun:
    return capbench.evaluate(tasks=["checked"], include_path=[folder], resamples=0, **settings)["checked"]


@pytest.mark.parametrize(
    ("checks", "fault"),
    [
        ({"documents": 5}, "documents: expected 5, found 4"),
        ({"rows": 4, "images": 4}, "images: expected 4, found 2"),
        ({"tau_ratio": 1.1}, f"tau_ratio: expected 1.1, found {RATIO:.5f}"),
    ],
)
def test_wrong_copy_fails_with_what_was_expected_the_unreadable_rows_and_what_to_do(
    folder, checks: dict[str, float], fault: str
):
    with pytest.raises(DataError) as caught:
        run(folder(**checks))
    assert "checked.jsonl is not the data that the task expects" in caught.value.message
    assert fault in caught.value.message
    assert "checked.jsonl:5: not JSON" in caught.value.message
    assert caught.value.hint == (
        "'bench data checked' says what is expected; --skip_checks goes on with what is there."
    )


def test_ratio_is_held_to_a_thousandth(folder):
    assert run(folder(tau_ratio=RATIO + 0.0009))
    with pytest.raises(DataError):
        run(folder(tau_ratio=RATIO + 0.0011))


def test_skipped_checks_are_recorded_as_failed(folder):
    (check,) = run(folder(rows=5), skip_checks=True).record.data_checks
    assert asdict(check) == {"check": "rows", "expected": 5, "found": 4, "passed": False}


CATEGORIES = {"HC": 2, "HI": 3, "HM": 2}
REFERENCES = ["a dog runs", "one dog"]


def rows_of(protocol: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a task of a protocol that has categories, and its rows, of two references each."""
    keys: dict[str, Any] = {
        "doc_to_id": "id", "doc_to_image": "id", "doc_to_category": "category", "doc_to_target": "references",
        "metric_list": ["length"],
    }  # fmt: skip
    own: dict[str, Any] = {
        "preference": {"doc_to_candidates": ["one", "other"], "doc_to_preferred": "first"},
        "battles": {
            "doc_to_candidates": ["one", "other"], "doc_to_preferred": "first", "doc_to_systems": ["A", "B"],
        },
        "agreement": {"doc_to_candidate": "one", "doc_to_human": "rating", "statistics": ["kendall_b"]},
        "generate_until": {"doc_to_text": "Describe."},
    }  # fmt: skip
    rows = [
        {
            "id": f"{category}{n}", "category": category, "references": REFERENCES, "one": "a dog" + " runs" * n,
            "other": "a cat sits there", "first": n % 2, "rating": n, "A": "a", "B": "b",
        }
        for category, count in CATEGORIES.items() for n in range(count)
    ]  # fmt: skip
    return {**keys, **own[protocol], "output_type": protocol}, rows


def run_of(folder: Path, protocol: str, rows: list[dict[str, Any]], checks: dict[str, Any], **settings: Any) -> TaskRun:
    keys, every = rows_of(protocol)
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "mine.jsonl").write_text("\n".join(json.dumps({"id": row["id"], "caption": "x"}) for row in every))
    files = {"task": "checked", "dataset_path": "json", "dataset_kwargs": {"data_files": "rows.jsonl"}}
    (folder / "checked.yaml").write_text(json.dumps({**files, **keys, "checks": checks, "metadata": {"version": 1}}))
    model = {"model": f"captions:{folder / 'mine.jsonl'}"} if protocol == "generate_until" else {}
    return run(folder, **model, **settings)


@pytest.mark.parametrize("protocol", ["preference", "battles", "agreement", "generate_until"])
@pytest.mark.parametrize(
    ("kept", "fault"),
    [
        (("HC", "HI", "HM"), ""),
        (("HI", "HM"), "2 of 3 categories: mean of HI, HM; documents: expected 7, found 5"),
        (("HC",), "1 of 3 categories: mean of HC; documents: expected 7, found 2"),
    ],
)
def test_part_of_the_categories_is_named_whatever_the_protocol(
    tmp_path: Path, protocol: str, kept: tuple[str, ...], fault: str
):
    checks = {"documents": 7, "references": 14, "categories": CATEGORIES}
    rows = [row for row in rows_of(protocol)[1] if row["category"] in kept]
    if not fault:
        assert run_of(tmp_path, protocol, rows, checks).record.is_whole
        rows[0]["references"] = REFERENCES[:1]
        with pytest.raises(DataError, match="references: expected 14, found 13"):
            run_of(tmp_path, protocol, rows, checks)
        return
    with pytest.raises(DataError) as caught:
        run_of(tmp_path, protocol, rows, checks)
    assert f"({fault}; references: expected 14, found " in caught.value.message
    made = run_of(tmp_path, protocol, rows, checks, skip_checks=True).record
    assert not made.is_whole
    assert made.notes[0].startswith(f"the data failed its checks ({fault}")


def test_check_that_the_protocol_cannot_make_fails_rather_than_passes(folder, tmp_path: Path):
    task = json.loads((folder(items=4) / "checked.yaml").read_text())
    captions = {"output_type": "generate_until", "doc_to_text": "Describe.", "doc_to_target": "candidate"}
    agreement = ("doc_to_human", "doc_to_candidate", "statistics")
    kept = {key: value for key, value in task.items() if key not in agreement}
    (tmp_path / "checked.yaml").write_text(json.dumps({**kept, **captions}))
    (tmp_path / "mine.jsonl").write_text('{"id": 0, "caption": "a dog"}')
    with pytest.raises(DataError, match="items: expected 4, found nothing"):
        run(tmp_path, model=f"captions:{tmp_path / 'mine.jsonl'}")


def test_command_line_exits_1_on_a_wrong_copy_and_goes_on_when_told(folder, tmp_path: Path, capsys):
    arguments = ["run", "--task", "checked", "--include_path", str(folder(rows=5)), "--bootstrap", "0"]
    arguments += ["--output_path", str(tmp_path / "runs")]
    assert main(arguments) == 1
    assert "rows: expected 5, found 4" in capsys.readouterr().err
    assert main([*arguments, "--skip_checks"]) == 0
    output = capsys.readouterr()
    assert (
        "the data failed its checks (rows: expected 5, found 4); published values do not apply, and the run is not "
        "ranked" in output.err
    )
    assert "τ-b" in output.out


# --- every shipped task says how much a right copy of its data holds, and a part of it shows

SHIPPED = {entry.name: entry for entry in build_index().tasks}

_DCI = "the release has fewer images than the paper, and no source says how many of them have summaries"
_FOIL = "no source says how many foils the file of October 2018 has"
_LONGCAP = "no source says how many ratings a test set has"
NO_DOCUMENTS = {
    "activitynet_foil": "documents are sentences, which no source counts; its pairs are checked",
    "cc3m": "the user's own folder: the images that could still be fetched",
    "detailcaps_agreement": "no source says how many images have ratings",
    "detailcaps100_agreement": "the user's own file: the data was never released",
    **dict.fromkeys((f"dci_full_{name}" for name in
                     ("all_neg", "all_scm", "base_neg", "hard_neg", "pick5_neg", "pick5_scm")), _DCI),
    **dict.fromkeys(("foil_1ref", "foil_4ref"), _FOIL),
    **dict.fromkeys(("longcap_arena_a", "longcap_arena_b"), _LONGCAP),
    "vg_clip_f1": "its reader draws 500 images, and refuses a copy that has fewer; a smaller draw is a user's own",
}  # fmt: skip
_OF_PAIRS = "no source says how many cases each of its many categories has"
NO_CATEGORIES = {
    "aro_vg_attribution": _OF_PAIRS,
    "aro_vg_relation": _OF_PAIRS,
    "caparena": "no source says how many battles a level has",
    "caparena_judge": "no source says how many battles a level has",
    "winoground": "no source says how many entries a kind has",
}
_COLUMNS = "each reference is a column of its own, so that a document without one is no document"
_UNCOUNTED = "no source says how many references there are"
NO_REFERENCES = {
    **dict.fromkeys((one for one in NO_DOCUMENTS if not one.startswith(("dci_", "vg_"))), "as its documents"),
    **dict.fromkeys(("caparena_auto", "detailcaps", "detailcaps_3ref"), _COLUMNS),
    **dict.fromkeys(("caparena", "caparena_judge", "nebula", "nebula_released", "polaris", "vizwiz",
                     "vatex_eval_1ref", "vatex_eval_9ref"), _UNCOUNTED),
}  # fmt: skip


def test_every_shipped_task_says_how_many_documents_categories_and_references_it_has():
    lacking: dict[str, list[str]] = {"documents": [], "categories": [], "references": []}
    for name, entry in SHIPPED.items():
        task, _ = load_task(entry.path)
        if task.checks.documents is None:
            lacking["documents"].append(name)
        if "doc_to_category" in task.templates and not task.checks.categories:
            lacking["categories"].append(name)
        # A right answer is no reference.
        if "doc_to_target" in task.templates and task.output_type != "yes_no" and task.checks.references is None:
            lacking["references"].append(name)
    assert lacking["documents"] == sorted(NO_DOCUMENTS)
    assert lacking["categories"] == sorted(NO_CATEGORIES)
    assert lacking["references"] == sorted(NO_REFERENCES)


def faults(planned: PlannedRun, documents: Documents) -> list[str]:
    """Return what the data checks say of some documents of a task, or the protocol where it cannot go on."""
    settings = RunSettings(skip_checks=True)
    job = Job(planned.task, documents, Models(), settings, NoCache(), silent, planned.pixels)
    try:
        return faults_of_data(planned.protocol.read(job, FailureLog(strict=False))[1])
    except DataError as error:
        return [error.in_one_line]


def of_rows(documents: Documents, rows: Sequence[Mapping[str, Any]]) -> Documents:
    return replace(documents, rows=list(rows))


def assert_part_shows(entry: IndexEntry, locations: DataLocations) -> None:
    planned = plan_task(entry, ANY_MODELS, (), locations)
    documents = load_documents(planned.task, planned.path, locations)
    rows = list(documents.rows)
    assert faults(planned, documents) == []
    assert faults(planned, of_rows(documents, rows[::2]))
    target = planned.task.templates.get("doc_to_target")
    if planned.task.checks.references and isinstance(target, str) and isinstance(rows[0].get(target), list):
        fewer = [{**row, target: row[target][: -(-len(row[target]) // 2)]} for row in rows]
        if fewer != rows:
            assert any("reference" in one for one in faults(planned, of_rows(documents, fewer)))
    category = planned.task.templates.get("doc_to_category")
    if len(planned.task.checks.categories) > 1 and isinstance(category, str) and category in rows[0]:
        first = rows[0][category]
        of_others = [row for row in rows if row[category] != first]
        count = len(planned.task.checks.categories)
        said = faults(planned, of_rows(documents, of_others))[0]
        assert said.startswith(f"{count - 1} of {count} categories: mean of ")
        assert str(first) not in said.partition("mean of ")[2].split(", ")


def is_here(entry: IndexEntry) -> bool:
    """Return whether the documents of a task ship with capbench, or are generated."""
    task, parsed = load_task(entry.path)
    source = load_source(task, parsed.path)
    return (source is not None and source.generated) or "iiw" in entry.name


@pytest.mark.parametrize("name", [name for name, entry in SHIPPED.items() if is_here(entry)])
def test_part_of_what_ships_or_is_generated_shows(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    assert_part_shows(SHIPPED[name], DataLocations.from_environment())


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("aloha", "aloha_hat"),
        ("aloha", "aloha_hat_detection"),
        ("aloha", "aloha_nocaps_foil"),
        ("aloha", "aloha_nocaps_foil_detection"),
        ("composite", "composite"),
        ("flickr8k", "checklist_flickr8k"),
        ("flickr8k", "flickr8k_cf"),
        ("flickr8k", "flickr8k_expert"),
        ("foil", "foil_valse_1ref"),
        ("foil", "foil_valse_4ref"),
        ("pope", "pope_adversarial"),
        ("pope", "pope_popular"),
        ("pope", "pope_random"),
    ],
)
@pytest.mark.data
def test_part_of_a_raw_data_set_shows(data_folder, folder: str, name: str):
    place: Path = data_folder(folder)
    assert_part_shows(SHIPPED[name], DataLocations({name: place}))


@pytest.mark.data
def test_file_of_two_of_pascal50s_categories_is_told_from_the_whole(data_folder):
    locations = DataLocations({"pascal50s": data_folder("pascal50s") / "pascal50s_hi_hm.json"})
    planned = plan_task(SHIPPED["pascal50s"], ANY_MODELS, (), locations)
    assert faults(planned, load_documents(planned.task, planned.path, locations)) == [
        "2 of 4 categories: mean of HI, HM",
        "documents: expected 4,000, found 2,000",
        "rows: expected 4,000, found 2,000",
        "references: expected 192,000, found 10,000",
    ]
