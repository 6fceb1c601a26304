"""A protocol of a user's, one class and one line of the registry: every command works with its runs."""

import csv
import json
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from capbench.benchmarks.inputs.failures import FailureLog
from capbench.benchmarks.protocols import names_where, protocols
from capbench.benchmarks.protocols.agreement import Agreement, AgreementSettings, RatedCaption
from capbench.benchmarks.protocols.contract import Protocol, ProtocolSettings
from capbench.benchmarks.protocols.document_reader import read_values
from capbench.benchmarks.protocols.generate_until import GenerateUntil
from capbench.benchmarks.protocols.job import Collected, Job, Result, ScoredMetric, Shard, Summary
from capbench.benchmarks.statistics.contract import Statistic
from capbench.cli.main import main
from capbench.metrics import Items

WORDS = ["a", "dog", "runs", "over", "the", "green", "grass", "near", "one", "old", "red", "house"]


class MoodSettings(AgreementSettings):
    """The choices of a task of one mood."""

    mood: str = "glad"
    """Captions of another mood are left out."""

    meanings: ClassVar = {**AgreementSettings.meanings, "mood": "captions of another mood are left out"}


class ByMood(Agreement):
    """Agreement over the captions of one mood, which ``doc_to_mood`` gives."""

    Settings = MoodSettings
    reads = (*Agreement.reads, "doc_to_mood")
    needs = Agreement.needs | {"doc_to_mood"}
    settings: MoodSettings

    def rated_captions(self, job: Job, failures: FailureLog) -> Iterator[RatedCaption]:
        """Yield rated captions of the mood."""
        documents = read_values(job, ("doc_to_id", "doc_to_mood"), FailureLog(strict=False))
        mood_of = {identity: values["doc_to_mood"] for _, identity, values in documents}
        for rated in super().rated_captions(job, failures):
            if mood_of[rated.sample.id] == self.settings.mood:
                yield rated


class ForAudience(GenerateUntil):
    """Captions of a model for an audience, which ``doc_to_audience`` gives."""

    reads = (*GenerateUntil.reads, "doc_to_audience")
    needs = GenerateUntil.needs | {"doc_to_audience"}


class NamingSettings(ProtocolSettings):
    """The choices of a naming task."""

    names: int = 1
    """So many of the first names count."""


class Naming(Protocol[NamingSettings]):
    """Share of documents that have a name; no metric, and no model of its own."""

    Settings = NamingSettings
    reads = ("doc_to_id", "doc_to_image", "doc_to_names")
    needs = frozenset({"doc_to_names"})
    subject = "model"
    statistic = "share"
    sample = "document"
    measures = ("named",)

    def read(self, job: Job, failures: FailureLog) -> Summary:
        """Return how many documents there are."""
        return Summary(len(self._names(job, failures)))

    def _names(self, job: Job, failures: FailureLog) -> dict[str, list[str]]:
        documents = read_values(job, self.document_keys, failures)
        return {identity: values["doc_to_names"][: self.settings.names] for _, identity, values in documents}

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read the names; there is nothing to score."""
        name_of = self._names(job, failures)
        names = list(name_of.values())
        nothing = Items(ids=[], candidates=[], references=[], weights=np.zeros(0))
        columns = {"id": [*name_of], "image": [*name_of], "names": names}
        yield Shard(nothing, np.zeros(0, np.int64), columns, {"named": np.array([bool(name) for name in names])})
        return Summary(len(names))

    def results(
        self, job: Job, collected: Collected, scored: Sequence[ScoredMetric], statistics: Mapping[str, Statistic]
    ) -> list[Result]:
        """Return the share."""
        named = collected.numbers["named"]
        label = ("Named", self.statistic)
        return [Result("named", self.statistic, label, float(named.mean()), len(named), True, job.task.scale)]


COMMON = {"dataset_path": "json", "doc_to_id": "id", "scale": 100, "metadata": {"version": 1.0}}
MOOD = {
    **COMMON, "task": "moods", "output_type": "by_mood", "dataset_kwargs": {"data_files": "moods.jsonl"},
    "doc_to_image": "image", "doc_to_candidate": "caption", "doc_to_target": "references", "doc_to_human": "rating",
    "doc_to_mood": "mood", "metric_list": ["rouge_l", "length"], "statistics": ["pearson", "kendall_b"],
}  # fmt: skip
AUDIENCE = {
    **COMMON, "task": "audiences", "output_type": "for_audience",
    "dataset_kwargs": {"data_files": "documents.jsonl"}, "doc_to_text": "Describe.", "doc_to_target": "references",
    "doc_to_audience": "audience", "metric_list": ["rouge_l", "length"],
}  # fmt: skip
NAMING = {
    **COMMON, "task": "names", "output_type": "naming", "dataset_kwargs": {"data_files": "documents.jsonl"},
    "doc_to_names": "names", "protocol": {"names": 2},
}  # fmt: skip

OWN = {
    name: f"{__name__}:{attribute}"
    for name, attribute in {"by_mood": "ByMood", "for_audience": "ForAudience", "naming": "Naming"}.items()
}
"""One line a protocol, as a package's entry points have it."""

Bench = Callable[..., tuple[str, str]]
Finished = Callable[[str], Path]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "_entries", {**protocols._entries, **OWN})


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Return a folder with a task of each protocol."""
    return write_tasks(tmp_path / "tasks")


def write_tasks(folder: Path) -> Path:
    folder.mkdir()
    captions = []
    for number in range(40):
        right, wrong = number * 7 % 11, number * 5 % 4
        captions.append(
            {
                "id": f"r{number}",
                "image": f"{number // 2}.jpg",
                "references": [" ".join(WORDS)],
                "caption": " ".join([*WORDS[: right + 1], *["blue"] * wrong]),
                # Sour captions are rated the wrong way round.
                "rating": right if number % 4 else -right,
                "mood": "glad" if number % 4 else "sour",
            }
        )
    documents = [
        {"id": f"d{n}", "references": [" ".join(WORDS)], "audience": "all", "names": ["Rex"] if n % 4 else []}
        for n in range(12)
    ]
    for name, rows in (("moods", captions), ("documents", documents)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for task in (MOOD, AUDIENCE, NAMING):
        (folder / f"{task['task']}.yaml").write_text(json.dumps(task))
    return folder


@pytest.fixture
def bench(tasks: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return a function that calls ``bench`` beside the tasks and gives what it printed."""
    monkeypatch.chdir(tasks.parent)

    def bench(*arguments: object, code: int = 0) -> tuple[str, str]:
        status = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert status == code, printed.err
        return printed.out, printed.err

    return bench


@pytest.fixture(scope="module")
def all_finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each task, and of two models, one of which writes more of the reference."""
    folder = tmp_path_factory.mktemp("finished")
    tasks = write_tasks(folder / "tasks")
    calls: dict[str, list[str]] = {"moods": ["--task", "moods"], "names": ["--task", "names"]}
    for model, length in (("short", 3), ("long", 9)):
        lines = [json.dumps({"id": f"d{n}", "caption": " ".join(WORDS[: length + n % 3])}) for n in range(12)]
        (folder / f"{model}.jsonl").write_text("\n".join(lines))
        calls[model] = ["--task", "audiences", "--model", f"captions:{folder / model}.jsonl"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocols, "_entries", {**protocols._entries, **OWN})
        patch.setenv("BENCH_CACHE", str(folder / "cache"))
        for name, words in calls.items():
            place = ["--include_path", str(tasks), "--output_path", str(folder / "runs" / name)]
            assert main(["run", *words, *place, "--bootstrap", "50"]) == 0
    return folder / "runs"


@pytest.fixture
def finished(bench: Bench, all_finished: Path) -> Finished:
    """Return a function that copies a finished run into ``runs``, and gives its folder."""

    def copy(name: str) -> Path:
        shutil.copytree(all_finished / name, Path("runs") / name)
        (record,) = (Path("runs") / name).rglob("run.json")
        return record.parent

    return copy


@pytest.fixture
def captioned(finished: Finished) -> list[Path]:
    """The runs of two models."""
    return [finished("short"), finished("long")]


def test_show_and_validate_know_its_key_and_its_choice(bench: Bench, tasks: Path):
    out, _ = bench("show", "moods", "--include_path", tasks)
    assert "by_mood" in out
    assert "captions of another mood are left out" in out
    assert "doc_to_mood" in out
    out, _ = bench("validate", "--include_path", tasks, "moods", "audiences", "names")
    assert "30 of 40 documents usable" in out
    assert out.count("12 of 12 documents usable") == 2
    (tasks / "moods.yaml").write_text(json.dumps({**MOOD, "protocol": {"moot": "sour"}}))
    out, err = bench("validate", "--include_path", tasks, "moods", code=1)
    assert "Did you mean 'mood'?" in out + err


def test_record_holds_its_own_choices_and_its_metrics_are_compared_on_the_rows_that_it_keeps(bench, finished):
    folder = finished("moods")
    record = json.loads((folder / "run.json").read_text())
    chosen = record["fingerprint_parts"]["task"]["protocol"]
    assert set(chosen) == set(MoodSettings.model_fields)
    assert chosen["mood"] == "glad"
    assert record["n-samples"]["moods"]["effective"] == 30
    # All of the captions of one mood are rated by how much of the reference they have.
    assert record["results"]["moods"]["rouge_l.pearson,none"] > 0.8
    out, err = bench("compare", folder, "--bootstrap", 50)
    assert "moods: 2 metrics compared on 30 rows of 20 images" in err
    assert "Williams' test assumes independent rows; these 30 are of 20 images" in out
    assert "p (Williams)" in out
    assert out.index("ROUGE-L") < out.index("length")


def test_runs_of_two_choices_are_not_compared(bench: Bench, finished: Finished, tasks: Path):
    first = finished("moods")
    (tasks / "moods.yaml").write_text(json.dumps({**MOOD, "protocol": {"mood": "sour"}}))
    bench("run", "--task", "moods", "--include_path", tasks, "--output_path", "sour", "--bootstrap", 0)
    (second,) = Path("sour").rglob("run.json")
    _, err = bench("compare", first, second.parent, code=1)
    assert "protocol.mood is glad in one and sour in the other" in err


def test_runs_of_a_protocol_that_compares_none_are_refused_with_those_that_do(bench: Bench, finished: Finished):
    _, err = bench("compare", finished("names"), code=2)
    assert "runs of protocol 'naming' cannot be compared" in err
    assert f"Comparable protocols: {', '.join(names_where(lambda protocol: protocol.comparable))}." in err


def test_plots_show_it_by_what_it_says_of_itself(bench: Bench, finished: Finished, captioned: list[Path]):
    rated, (model, _) = finished("moods"), captioned
    bench("plot", "ratings", rated, "-o", "ratings.svg")
    assert "ROUGE-L" in Path("ratings.svg").read_text()
    bench("plot", "length", model, "-o", "words.svg")
    _, err = bench("plot", "ratings", model, "-o", "none.svg", code=1)
    assert "the captions of task 'audiences' (protocol for_audience) have no human ratings" in err
    assert f"Plot runs of tasks with protocol {' or '.join(names_where(lambda protocol: protocol.rated))}" in err
    _, err = bench("plot", "agreement", model, "-o", "none.svg", code=1)
    assert "Plot runs of tasks with protocol agreement or battles or by_mood" in err
    _, err = bench("plot", "length", finished("names"), "-o", "none.svg", code=1)
    assert "Plot runs of tasks with protocol agreement or by_mood or for_audience or generate_until" in err


def test_leaderboard_lays_its_tables_out_by_subject(bench: Bench, finished: Finished, captioned: list[Path]):
    finished("moods")
    finished("names")
    bench("leaderboard", "build", "--runs", "runs", "--output", "board")
    board = json.loads(Path("board/leaderboard.json").read_text())
    tables = {table["task"]: table for table in board["tables"]}
    assert {task: len(table["rows"]) for task, table in tables.items()} == {"audiences": 2, "moods": 2, "names": 1}
    page = Path("board/README.md").read_text()
    assert "| Metric " in page
    assert "| Model " in page
    assert [row["name"] for row in tables["moods"]["rows"]] == ["ROUGE-L", "length"]
    assert tables["names"]["rows"][0]["cells"][0]["value"] == 0.75
    # A count of words is no percentage where it is the number itself; a correlation with it is one.
    scales = {task: [column["scale"] for column in table["columns"]] for task, table in tables.items()}
    assert scales == {"audiences": [100, 1], "moods": [100, 100], "names": [100]}
    bench("leaderboard", "check", "--runs", "runs", "--output", "board")


def test_its_numbers_are_exported_in_every_format(bench: Bench, finished: Finished, captioned: list[Path], tasks: Path):
    finished("moods")
    finished("names")
    bench("export", "csv", "runs", "-o", "all.csv")
    with Path("all.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert {row["task"] for row in rows} == {"audiences", "moods", "names"}
    bench("export", "latex", "runs", "-o", "all.tex")
    assert "ROUGE-L" in Path("all.tex").read_text()
    bench("export", "lm-eval", "runs", "-o", "logged")
    (asked, *_) = map(json.loads, next(Path("logged").rglob("samples_audiences_*")).read_text().splitlines())
    assert asked["arguments"]["gen_args_0"]["arg_0"] == "Describe."
    (logged, *_) = map(json.loads, next(Path("logged").rglob("samples_moods_*")).read_text().splitlines())
    assert logged["arguments"] == {}


def test_lm_eval_runs_what_it_says_that_lm_eval_can_run(bench: Bench, tasks: Path):
    export = ("export", "lm-eval", "--include_path", tasks, "-o", "lm_eval", "--tasks")
    bench(*export, "moods")
    assert list(Path("lm_eval").rglob("*moods*.yaml"))
    _, err = bench(*export, "names", code=2)
    assert "its output_type is 'naming'" in err
    assert f"tasks of {', '.join(names_where(lambda protocol: protocol.lm_eval))} can be exported" in err


# --- where it is not installed


def test_run_of_a_protocol_that_is_not_installed_costs_itself_alone(bench, finished, captioned, monkeypatch):
    rated = finished("moods")
    known = {name: entry for name, entry in protocols._entries.items() if name != "by_mood"}
    monkeypatch.setattr(protocols, "_entries", known)
    reason = "task 'moods': protocol 'by_mood' is not installed"
    _, err = bench("leaderboard", "build", "--runs", "runs", "--output", "board")
    assert f"left out: {rated.relative_to('runs')}: {reason}" in err
    board = json.loads(Path("board/leaderboard.json").read_text())
    assert [table["task"] for table in board["tables"]] == ["audiences"]
    _, err = bench("export", "csv", "runs", "-o", "all.csv", code=1)
    assert f"left out: {rated / 'run.json'}: {reason}" in err
    assert "moods" not in Path("all.csv").read_text()
    _, err = bench("plot", "length", "runs", "-o", "length.svg")
    assert reason in err
    for command in (("compare", rated), ("plot", "length", rated, "-o", "length.svg")):
        _, err = bench(*command, code=1)
        assert reason in err


def test_run_with_a_choice_that_the_installed_protocol_does_not_know_costs_itself_alone(bench, finished, monkeypatch):
    finished("moods")
    finished("names")

    class Older(ByMood):
        class Settings(MoodSettings):
            mood: int = 1

    monkeypatch.setitem(protocols._entries, "by_mood", Older)
    _, err = bench("leaderboard", "build", "--runs", "runs", "--output", "board")
    assert "task 'moods': protocol 'by_mood' has no setting mood = 'glad'" in err
    assert [table["task"] for table in json.loads(Path("board/leaderboard.json").read_text())["tables"]] == ["names"]


def test_run_of_a_protocol_that_cannot_be_imported_names_what_is_missing(bench, finished, monkeypatch):
    rated = finished("moods")
    monkeypatch.setitem(protocols._entries, "by_mood", "package_that_is_gone.moods:ByMood")
    _, err = bench("compare", rated, code=1)
    assert "task 'moods': protocol 'by_mood' cannot be loaded from 'package_that_is_gone.moods:ByMood'" in err
    assert "Install what the message names" in err


# --- what its samples hold
