"""Data checks: a wrong copy of the data fails before anything is scored."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rated_task import write_rated

import capbench
from capbench.benchmarks.inputs.failures import FailureLog
from capbench.benchmarks.inputs.models import Models
from capbench.benchmarks.inputs.settings import RunSettings
from capbench.benchmarks.protocols.checks import faults_of_data
from capbench.benchmarks.protocols.job import Job
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.running.inspection import ANY_MODELS
from capbench.benchmarks.running.plan import PlannedRun, plan_task
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
def test_wrong_copy_fails_with_what_was_expected_the_unreadable_rows_and_what_to_do(folder, checks, fault):
    with pytest.raises(DataError) as caught:
        run(folder(**checks))
    assert "checked.jsonl is not the data that the task expects" in caught.value.message
    assert fault in caught.value.message
    assert "checked.jsonl:5: not JSON" in caught.value.message
    assert caught.value.hint == (
        "'bench data checked' prints the expected data; --skip_checks continues with this data."
    )


def test_ratio_is_held_to_a_thousandth(folder):
    assert run(folder(tau_ratio=RATIO + 0.0009))
    with pytest.raises(DataError):
        run(folder(tau_ratio=RATIO + 0.0011))


def test_skipped_checks_are_recorded_as_failed(folder):
    (check,) = run(folder(rows=5), skip_checks=True).record.data_checks
    assert check.model_dump() == {"check": "rows", "expected": 5, "found": 4, "passed": False}


CATEGORIES = {"HC": 2, "HI": 3, "HM": 2}


@pytest.mark.parametrize(
    ("kept", "fault"),
    [
        (("HI", "HM"), "2 of 3 categories: mean of HI, HM; documents: expected 7, found 5"),
        (("HC",), "1 of 3 categories: mean of HC; documents: expected 7, found 2"),
    ],
)
def test_part_of_the_categories_is_named(tmp_path: Path, kept: tuple[str, ...], fault: str):
    rows = [
        {
            "id": f"{kind}{n}",
            "image": n,
            "kind": kind,
            "candidate": "word " * (n + 1),
            "ratings": n,
            "texts": ["a", "b"],
        }
        for kind in kept
        for n in range(CATEGORIES[kind])
    ]
    checks = {"documents": 7, "references": 14, "categories": CATEGORIES}
    keys = {"task": "checked", "doc_to_category": "kind", "doc_to_target": "texts", "checks": checks}
    folder = write_rated(tmp_path, rows, **keys)
    with pytest.raises(DataError) as caught:
        run(folder)
    assert f"({fault}; references: expected 14, found " in caught.value.message
    record = run(folder, skip_checks=True).record
    assert not record.is_whole
    assert record.notes[0].startswith(f"the data failed its checks ({fault}")


def test_check_that_the_protocol_cannot_make_fails_rather_than_passes(folder, tmp_path: Path):
    task = json.loads((folder(items=4) / "checked.yaml").read_text())
    captions = {"output_type": "generate_until", "doc_to_text": "Describe.", "doc_to_target": "candidate"}
    agreement = ("doc_to_human", "doc_to_candidate", "statistics")
    kept = {key: value for key, value in task.items() if key not in agreement}
    (tmp_path / "checked.yaml").write_text(json.dumps({**kept, **captions}))
    (tmp_path / "mine.jsonl").write_text('{"id": 0, "caption": "a dog"}')
    with pytest.raises(DataError, match="items: expected 4, found nothing"):
        run(tmp_path, model=f"captions:{tmp_path / 'mine.jsonl'}")


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
                     ("all_neg", "all_scm", "base_neg", "hard_neg", "long_all_scm", "long_base_scm", "pick5_neg",
                      "pick5_scm")), _DCI),
    "dci_long_retrieval": _DCI,
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
    **dict.fromkeys((task for task in NO_DOCUMENTS if not task.startswith(("dci_", "vg_"))), "as its documents"),
    "amber_generative": "what annotators noted of an image is one reference, whatever it holds",
    **dict.fromkeys(("caparena_auto", "detailcaps", "detailcaps_3ref"), _COLUMNS),
    **dict.fromkeys(("detailcaps_cogvlm", "detailcaps_sharecaptioner"), _COLUMNS),
    **dict.fromkeys(("caparena", "caparena_judge", "msvd_caption", "nebula", "nebula_released", "polaris", "vizwiz",
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
        return faults_of_data(planned.protocol.read(job, FailureLog(strict=False)).data_checks)
    except DataError as error:
        return [error.in_one_line]


def of_rows(documents: Documents, rows: Sequence[Mapping[str, Any]]) -> Documents:
    return replace(documents, rows=list(rows))


def whole(name: str) -> tuple[PlannedRun, Documents]:
    """Return a task with its documents, which have no faults."""
    locations = DataLocations.from_environment()
    planned = plan_task(SHIPPED[name], ANY_MODELS, (), locations)
    documents = load_documents(planned.task, planned.path, locations)
    assert faults(planned, documents) == []
    return planned, documents


def assert_part_shows(planned: PlannedRun, documents: Documents) -> None:
    rows = list(documents.rows)
    assert faults(planned, of_rows(documents, rows[::2]))
    target = planned.task.templates.get("doc_to_target")
    if planned.task.checks.references and isinstance(target, str) and isinstance(rows[0].get(target), list):
        fewer = [{**row, target: row[target][: -(-len(row[target]) // 2)]} for row in rows]
        if fewer != rows:
            assert any("reference" in fault for fault in faults(planned, of_rows(documents, fewer)))
    category = planned.task.templates.get("doc_to_category")
    if len(planned.task.checks.categories) > 1 and isinstance(category, str) and category in rows[0]:
        first = rows[0][category]
        of_others = [row for row in rows if row[category] != first]
        count = len(planned.task.checks.categories)
        said = faults(planned, of_rows(documents, of_others))[0]
        assert said.startswith(f"{count - 1} of {count} categories: mean of ")
        assert str(first) not in said.partition("mean of ")[2].split(", ")


def is_here(entry: IndexEntry) -> bool:
    """Return whether the documents of a task ship with capbench, or are generated, and no task is like it."""
    if entry.name.endswith(("_validation", "_1000", "_1ref", "_noref")):
        return False
    task, parsed = load_task(entry.path)
    source = load_source(task, parsed.path)
    return (source is not None and source.generated) or "iiw" in entry.name


HERE = [name for name, entry in SHIPPED.items() if is_here(entry)]
PARTS = (
    "checklist_iiw", "iiw_400", "shapes_battles", "shapes_choices", "shapes_dci_pick5_scm", "shapes_foil",
    "shapes_pope_random", "shapes_retrieval", "shapes_squares", "shapes_systems",
)  # fmt: skip
"""Tasks of which a part is read, too: one of each protocol and measure, as it is theirs to count."""


def test_a_part_is_read_of_every_protocol_that_is_here():
    protocols, of_parts = ({load_task(SHIPPED[name].path)[0].output_type for name in names} for names in (HERE, PARTS))
    assert of_parts == protocols


@pytest.mark.parametrize("name", HERE)
def test_what_ships_or_is_generated_is_whole_and_a_part_of_it_shows(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    planned, documents = whole(name)
    # Half of the documents is another number of them wherever a task says how many it has.
    if name in PARTS or planned.task.checks.documents is None:
        assert_part_shows(planned, documents)


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
