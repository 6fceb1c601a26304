import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from rated_task import write_rated

from capbench.adapters.aliases import list_aliases
from capbench.adapters.decoding.settings import decoder_of
from capbench.benchmarks.inputs.settings import read_metric
from capbench.benchmarks.protocols.job import Result
from capbench.benchmarks.published.values import load
from capbench.benchmarks.suites.places import places
from capbench.benchmarks.suites.plan import describe_references
from capbench.benchmarks.suites.read import FOLDER, RECORDED, REFERENCES, Suite, SuiteColumn, list_suites, load_suite
from capbench.benchmarks.suites.run import SuiteRun, TableCell, render_suite, run_suite, suite_cells, suite_rows
from capbench.errors import BenchError, UsageError
from capbench.metrics import build_metric, metrics
from capbench.metrics.clair import PROMPT
from capbench.tasks.index import build_index
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task

SUITES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("name", SUITES)
def test_every_name_in_a_suite_is_known_and_every_decoding_one_that_its_task_allows(name: str):
    suite, index = load_suite(name), build_index(())
    tasks = {entry.name for entry in index.tasks}
    assert {column.task for column in suite.columns if not column.needs} <= tasks
    assert {task for row in suite.rows for task in row.only} <= {column.task for column in suite.columns}
    models = {model for row in suite.rows for model in (row.model, row.judge) if model}
    assert models | {column.encoder for column in suite.columns if column.encoder} <= set(list_aliases())
    rows = {name for row in suite.rows for name in (suite.label(row), suite.name(row))}
    assert {row for column in suite.columns for row in column.only} <= rows
    named = [row.metric for row in (*suite.rows, *suite.columns) if row.metric not in (None, RECORDED, REFERENCES)]
    assert {name.partition("[")[0] for name in named} <= set(metrics)
    for name in named:
        entry = read_metric(name)
        build_metric(str(entry.metric), entry.arguments)
    for _, row, column in suite.places():
        if row.generation_kwargs and column.task:
            (entry,) = index.resolve([column.task])
            task, _ = load_task(entry.path)
            decoder_of({**task.generation_kwargs, **row.generation_kwargs})


@pytest.mark.parametrize("name", SUITES)
def test_every_printed_number_of_the_table_stands_in_one_cell(name: str):
    suite = load_suite(name)
    entries = [
        suite.published(row, column, statistic, category)
        for _, row, column in suite.places()
        for statistic in column.statistics
        for category in column.categories
    ]
    entries = [entry for entry in entries if entry is not None]
    printed = [record for record in load(suite.paper).records if record.table == suite.table]
    assert sorted(map(repr, entries)) == sorted(map(repr, printed))


def test_suites_are_listed_by_name_and_an_unknown_one_is_refused_with_the_nearest():
    assert [suite.suite for suite in list_suites()] == SUITES
    with pytest.raises(UsageError, match=r"unknown suite 'pacspp_tabel1'\. Did you mean 'pacspp_table1'"):
        load_suite("pacspp_tabel1")


def made_suite(**values: Any) -> Suite:
    return Suite.model_validate({"suite": "mine", "description": "", "paper": "pacspp", "table": 1, **values})


@pytest.fixture
def small_suite(tmp_path: Path):
    """Return a function that runs a suite over a small task, beside the first table of a paper."""
    rows = [
        {"image": f"{n // 2}.jpg", "candidate": text, "references": ["a dog runs", "the dog runs fast"], "ratings": n}
        for n, text in enumerate(["a cat", "a dog", "a dog runs", "the dog runs fast"])
    ]
    write_rated(tmp_path, rows, doc_to_id=None)

    def run(*rows: dict[str, Any], statistics: tuple[str, ...] = ("kendall_b",), **options: Any) -> SuiteRun:
        column = {"task": "rated", "printed": "Flickr8k-Expert", "statistics": list(statistics)}
        suite = made_suite(columns=[column], rows=list(rows), note="What to know.")
        return run_suite(suite, include_path=[tmp_path], resamples=0, **options)

    return run


def test_row_may_name_what_judges(small_suite, tmp_path: Path):
    answers = tmp_path / "answers.jsonl"
    rows = []
    for score, caption in enumerate(["a cat", "a dog", "a dog runs", "the dog runs fast"]):
        texts = {"candidates": f"- {caption}\n", "references": "- a dog runs\n- the dog runs fast\n"}
        rows.append({"prompt": PROMPT.format(**texts), "response": f'{{"score": {score}}}'})
    answers.write_text("\n".join(map(json.dumps, rows)))
    run = small_suite(
        {"metric": "clair", "judge": f"responses:{answers}", "printed_model": "GPT-3.5"}, {"metric": "bleu_1"}
    )
    clair, bleu = run.cells
    assert clair.result is not None and clair.result.value == 1
    assert (clair.label, clair.reason) == ("CLAIR (GPT-3.5)", "")
    assert [task_run.record.values["config"]["judge"] for task_run in run.runs] == ["answers", None]
    assert bleu.result is not None and bleu.result.metric == "bleu_1"
    # Of the suites that are shipped, too, none of CLAIR and FLEUR is a missing metric.
    shipped = {place.metric: place for place in places(load_suite("pacspp_table5"))}
    assert "judge: openai_judge" in shipped["clair"].needs
    assert (shipped["fleur"].models.judge, shipped["fleur"].needs) == ("llava-1.5-13b-judge", "")


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"metric": "bleu_1", "generation_kwargs": {"decoding": "beam"}}, {"task": "small"}),
        ({"metric": "bleu_1"}, {}),
        ({"printed": "TIGEr", "needs": "nothing"}, {"task": "small"}),
        ({"metric": "recorded"}, {"task": "small"}),
        ({"metric": "bleu_1"}, {"task": "small", "needs": "nothing"}),
    ],
)
def test_row_of_nothing_or_that_decodes_without_a_model_and_column_without_task_or_reason_are_refused(row, column):
    with pytest.raises(ValueError, match=r"the row has none|a (column|row) needs |a row of recorded scores needs"):
        made_suite(rows=[row], columns=[{"printed": "x", "statistics": ["mean"], **column}])


CAPTURE = "capture[parser=factual,parser_model=no/parser,encoder=no/encoder,wordnet=nowhere]"


def test_all_that_is_missing_is_said_once_before_work_starts(small_suite, monkeypatch, tmp_path):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("nltk.data.path", [])
    errors: list[BenchError] = []
    run = small_suite(
        {"metric": "bleu_1"},
        {"metric": CAPTURE, "printed": "UMIC"},
        {"metric": "pac_s", "model": "pac-s++-vit-b-32", "printed": "PAC-S++"},
        {"metric": "refpac_s", "model": "pac-s++-vit-b-32", "printed": "RefPAC-S++"},
        statistics=("kendall_b", "kendall_c"),
        on_missing=errors.extend,
    )
    wanted = {
        "WordNet is not in nowhere": "",
        "NLTK's 'punkt_tab'": "bench fetch capture",
        "NLTK's 'averaged_perceptron_tagger_eng'": "bench fetch capture",
        "CAPTURE's parser 'no/parser'": "hf download no/parser",
        "CAPTURE's text encoder 'no/encoder'": "hf download no/encoder",
        "checkpoint PAC++_clip_ViT-B-32.pth": "https://",
    }
    assert len(errors) == len(wanted)
    for error, (message, hint) in zip(errors, wanted.items(), strict=True):
        assert error.message.startswith(message) and hint in error.hint
    assert all(name in run.cells[2].reason for name in list(wanted)[:5])
    assert run.cells[4].reason == run.cells[7].reason == errors[5].message
    assert len(run.runs) == 1 and run.cells[0].result is not None


def test_table_has_ours_beside_the_printed_value_and_csv_and_json_plain_values(small_suite):
    run = small_suite({"metric": "bleu_1"}, {"metric": "length", "printed": "SPICE", "no_task": "not here"})
    ours = run.cells[0].result
    lines = render_suite(run).splitlines()
    assert f"{ours.value * 100:.2f} (32.2)" in lines[2]
    spice = run.cells[1].published
    assert f"- ({spice.printed}) [1]" in lines[3]
    assert lines[-3:] == ["ours (published)", "[1] not here", "What to know."]
    rows = json.loads(render_suite(run, "json"))
    assert rows == suite_rows(run)
    assert rows[0]["published"] == pytest.approx(0.322)
    assert rows[1]["value"] is None and rows[1]["reason"] == "not here"
    assert render_suite(run, "csv").splitlines()[0].startswith("suite,row,column,value,low,high,published")


def test_ref_pac_s_plus_plus_has_the_papers_w_in_every_suite():
    # Section 5.7 of the paper: 2.5 in all experiments with ViT-B/32, 3 with ViT-L/14.
    # A column of captioners' scores is by ViT-B/32, whatever their features are.
    counts: Counter[str] = Counter()
    for suite in list_suites():
        for place in places(suite):
            metric, _, settings = place.metric.partition("[")
            if (place.column.printed_metric or suite.label(place.row)) == "RefPAC-S++" and metric == "refpac_s":
                is_large = not place.column.metric and "ViT-L/14" in (place.row.printed_model or "")
                assert settings == ("w=3]" if is_large else "w=2.5]"), (suite.suite, suite.name(place.row))
                counts[settings] += 1
    assert counts["w=2.5]"] > 80 and counts["w=3]"] > 10


PAPERS = ("dbd", "dci", "detailcaps", "pacspp")


def test_each_table_of_the_papers_has_a_suite_or_a_line_that_says_why_not():
    page = (FOLDER.parents[1] / "docs/suites.md").read_text(encoding="utf-8")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    reasons = {(line[0], int(line[1])): line[2] for line in lines if len(line) == 3 and line[0] in PAPERS}
    printed = {(paper, record.table) for paper in PAPERS for record in load(paper).records}
    suites = {(suite.paper, suite.table): suite.suite for suite in list_suites() if suite.paper in PAPERS}
    assert suites.keys() | reasons.keys() == printed
    assert not suites.keys() & reasons.keys()
    assert all(reasons.values())
    assert all(name == f"{paper}_table{table}" for (paper, table), name in suites.items())


def test_mean_of_other_categories_than_the_papers_stands_beside_no_printed_one():
    suite = load_suite("pacspp_table5")
    place = next(place for place in places(suite) if place.row.metric == "cider" and place.column.task == "pascal50s")

    def cell(*categories: str) -> TableCell:
        results = {
            ("accuracy", category): Result("cider", "accuracy", ("CIDEr", "accuracy"), 0.9, 10, True, category=category)
            for category in (*categories, "")
        }
        cells = suite_cells(suite, {place.key: results}, {})
        return next(cell for cell in cells if cell.label == "CIDEr" and cell.head.startswith("Pascal-50S"))

    assert (cell("HI", "HM").result, cell("HI", "HM").reason) == (None, "the data here lacks HC, MM")
    whole = cell("HC", "HI", "HM", "MM").result
    assert whole is not None and whole.value == 0.9


def test_column_with_the_mean_alone_says_what_it_is_of():
    column = {"task": "pascal50s", "printed": "Pascal-50S", "statistics": ["accuracy"], "categories": ["mean"]}
    with pytest.raises(ValidationError, match="must list the averaged categories in 'mean_of'"):
        SuiteColumn.model_validate(column)


# -- What is counted of a task's references alone, and that bad data is no count


ROWS = [
    {"id": "a", "image": "a", "candidate": "a dog", "references": ["a dog runs", "the dog  runs fast"], "ratings": 1},
    {"id": "b", "image": "b", "candidate": "a cat", "references": ["a cat"], "ratings": 2},
]


def counts_of(folder: Path) -> dict[tuple[str, str], Result]:
    return describe_references(build_index([folder]), DataLocations(), "rated")


def test_images_references_words_pairs_and_clip_tokens_are_counted(tmp_path: Path):
    write_rated(tmp_path, ROWS)
    counts = counts_of(tmp_path)
    # a dog, dog runs, the dog, runs fast, a cat.
    assert {name: counts[name, ""].value for name, _ in counts} == {
        "images": 2,
        "references": 3,
        "avg_reference_length_words": 3,
        "unique_2grams": 5,
        # Start and end included: 5, 6 and 4.
        "clip_tokens_per_reference": 5,
        "clip_tokens_per_image": 7.5,
    }
    assert {result.n for result in counts.values()} == {2}


def test_task_without_references_has_none_and_no_mean_of_their_lengths(tmp_path: Path):
    counts = counts_of(write_rated(tmp_path, ROWS, doc_to_target=None))
    assert [result.value for result in counts.values()] == [2, 0, None, 0, None, 0]


def test_row_that_cannot_be_read_is_an_error(tmp_path: Path):
    write_rated(tmp_path, [*ROWS, {"id": "a", "references": []}])
    with pytest.raises(BenchError, match="a: "):
        counts_of(tmp_path)
