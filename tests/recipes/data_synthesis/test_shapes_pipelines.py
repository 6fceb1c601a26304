"""Pipelines of the shapes world, whose scenes are known: what they make means what it should."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pipeline_stages import rows_of

import capbench
from capbench.adapters.encoders.clip_tokens import CONTEXT, clip_tokens
from capbench.adapters.shapes.phrases import named_in
from capbench.cli.main import main
from capbench.recipes.data_synthesis.stages.check_negatives import is_permutation
from capbench.rows import load_json
from capbench.tasks.shapes.sampling import sample_scene

pytestmark = pytest.mark.costly

METRIC = "capture[parser=grammar,synonyms=false,soft=false]"
COLUMNS = [
    "output.columns.caption=merged",
    *(f"output.columns.{name}={name}" for name in ("overall", "overall_filtered", "local", "local_filtered")),
]


def made(pipeline: str, data: str, folder: Path, limit: int, *changes: str) -> dict[str, Any]:
    """Carry out a pipeline, and return its report."""
    store = folder.parent / "store.sqlite"
    arguments = ["make", pipeline, "--data", data, "--output", str(folder), "--limit", str(limit)]
    assert main([*arguments, "--store", str(store), *(part for change in changes for part in ("--set", change))]) == 0
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def steps(report: dict[str, Any], number: str) -> dict[str, dict[str, Any]]:
    """Return the lines of CAPTURE, or of its precision or recall, by text."""
    ends = f",of={number}]" if number else "soft=false]"
    return {row["text"]: row for row in report["metrics"] if row["metric"].endswith(ends)}


@pytest.fixture(scope="module")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synthesis") / "out"
    metrics = [METRIC, *(METRIC.replace("]", f",of={number}]") for number in ("precision", "recall"))]
    made("shapes_detailcaps_synthesis", "shapes_detailcaps", folder, 30, *COLUMNS, f"judged.metrics={metrics}")
    return folder


def is_true(phrase: str, seed: str) -> bool:
    return all(thing.share_in(sample_scene(int(seed))) == 1 for thing in named_in(phrase))


def test_filter_drops_what_was_planted_and_keeps_what_is_true(synthesis: Path):
    dropped: Counter[tuple[str, bool]] = Counter()
    removed: Counter[bool] = Counter()
    for row in rows_of(synthesis):
        entries = {entry["stage"]: entry for entry in row["provenance"]}
        for stage in ("overall_filter", "local_filter"):
            for gone in entries[stage].get("removed", ()):
                removed[is_true(gone["phrase"], row["id"])] += 1
        for key in ("overall", "local"):
            before, after = row[key], row[f"{key}_filtered"]
            before, after = (before, after) if isinstance(before, str) else (" ".join(before), " ".join(after))
            for sentence in before.split("There is also ")[1:]:
                thing = sentence.split(".")[0].split()[-2:]
                dropped[key, " ".join(thing) not in after] += 1
    for key in ("overall", "local"):
        assert dropped[key, True] + dropped[key, False] >= 20
        assert dropped[key, True] >= 0.95 * (dropped[key, True] + dropped[key, False])
    report = json.loads((synthesis / "report.json").read_text(encoding="utf-8"))
    kept = sum(stage["counts"]["phrases kept"] for stage in report["stages"] if stage["name"].endswith("_filter"))
    assert removed[True] <= 0.02 * (removed[True] + kept)


def test_merge_raises_recall_and_does_not_lower_precision(synthesis: Path):
    report = json.loads((synthesis / "report.json").read_text(encoding="utf-8"))
    recall, precision = steps(report, "recall"), steps(report, "precision")
    assert recall["merged"]["low"] > 0.1
    assert precision["filtered"]["low"] > 0
    assert precision["merged"]["difference"] > -0.01
    assert precision["merged"]["value"] >= precision["overall"]["value"]
    assert steps(report, "")["merged"]["low"] > 0
    # What was made is read as captions of the task that it was made of.
    run = capbench.evaluate(f"captions:{synthesis / 'rows.jsonl'}", ["shapes_detailcaps"], limit=30, metrics=[METRIC])
    assert float(run.to_pandas().value.iloc[0]) == pytest.approx(steps(report, "")["merged"]["value"])
    shown = (synthesis / "report.md").read_text(encoding="utf-8")
    assert f"| merged | 30 | {recall['merged']['value']:.4f} |" in shown
    assert re.search(r'^- `local_filter` removed "[a-z ]+": (is in no box|scores .*, below 0.01)$', shown, re.MULTILINE)
    assert "\n\n\n" not in shown


def test_filter_by_questions_is_an_ablation(tmp_path: Path):
    asks = [f"stages.{name}.by=answerer" for name in ("overall_filter", "local_filter")]
    report = made(
        "shapes_detailcaps_synthesis", "shapes_detailcaps", tmp_path / "out", 3, *asks,
        "models.answerer.name=shapes-answers", "models.detector=null", "judged=null",
    )  # fmt: skip
    filters = [stage["counts"] for stage in report["stages"] if stage["name"].endswith("_filter")]
    assert all(0 < counts["phrases removed"] < counts["phrases kept"] for counts in filters)
    stages = load_json(tmp_path / "out" / "provenance.json")["stages"]
    assert {entry["model"] for name, entry in stages.items() if name.endswith("_filter")} == {"shapes-answers"}


def test_local_phrases_of_the_released_code_are_no_attributes(tmp_path: Path):
    report = made(
        "shapes_detailcaps_synthesis", "shapes_detailcaps", tmp_path / "out", 8,
        "stages.local_filter.phrases=released", "stages.overall_filter.unit=sentence", "stages.select.most=5",
        "judged=null",
        *COLUMNS,
    )  # fmt: skip
    stages = {stage["name"]: stage for stage in report["stages"]}
    # Every thing of these captions has an attribute.
    assert stages["local_filter"]["counts"] == {"phrases kept": 0, "phrases removed": 0}
    assert (stages["select"]["given"], stages["select"]["made"]) == (8, 5)
    rows = rows_of(tmp_path / "out")
    assert all(text.endswith(".") and " ." not in text for text in (row["overall_filtered"] for row in rows))
    assert stages["select"]["not_chosen"] == {"others name more elements": 3}
    shown = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "- `select`: 3 rows not chosen: 3 × others name more elements" in shown


@pytest.fixture(scope="module")
def sdci(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdci") / "out"
    made("shapes_sdci", "shapes_clip_f1", folder, 8)
    return folder


def test_summaries_and_negatives_fit_the_context(sdci: Path):
    report = json.loads((sdci / "report.json").read_text(encoding="utf-8"))
    (checked,) = (stage for stage in report["stages"] if stage["name"] == "check_negatives")
    swaps = permuted = 0
    for file in sorted((sdci / "complete").glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        assert list(content["summaries"]) == list(content["negatives"]) == list(content["clip_scores"])
        for key, kinds in content["negatives"].items():
            summaries = content["summaries"][key]
            texts = [*summaries, *(text for its in kinds.values() for text in its)]
            assert max(map(clip_tokens, texts)) <= CONTEXT
            assert len(set(summaries)) == len(summaries) >= 2
            assert {kind: len(its) for kind, its in kinds.items()} == dict.fromkeys(
                ("basic", "layout", "swaps"), 3 if key == "base" else 1
            )
            swaps += len(kinds["swaps"])
            permuted += sum(is_permutation(summaries[0], text) for text in kinds["swaps"])
        assert [entry["stage"] for entry in content["provenance"]][-1] == "clip_scores"
    counts = checked["counts"]
    assert counts["swaps"] == swaps
    assert counts["not a permutation"] == swaps - permuted == 0
    assert 0 < counts["not told by encoder"] < counts["negatives"] / 3
    assert counts["not told by any"] <= counts["not told by judge"] < counts["negatives"] / 10


def test_tasks_of_dci_run_on_it_and_hard_negatives_are_harder(sdci: Path, tmp_path: Path):
    values: dict[str, float] = {}
    for negative in ("basic", "hardest"):
        task = tmp_path / f"made_{negative}.yaml"
        include = Path(capbench.__file__).parent / "tasks" / "dci" / "dci_all_neg.yaml"
        kwargs = f"{{split: test, crops: all, negative: {negative}, min_size: 8}}"
        lines = [f"include: {include}", f"task: {task.stem}", f"dataset_kwargs: {kwargs}", "checks: {}"]
        task.write_text("\n".join(lines), encoding="utf-8")
        run = capbench.evaluate(
            "shapes-pac", [task.stem], include_path=[tmp_path], data={task.stem: sdci},
            store=tmp_path / "store.sqlite",
        )  # fmt: skip
        frame = run.to_pandas()
        assert int(frame.n.iloc[0]) > 25
        values[negative] = float(frame.value.iloc[0])
    assert values["hardest"] < values["basic"]


def test_positives_are_rows_that_a_recipe_trains_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    report = made("shapes_positives", "shapes_detailcaps", tmp_path / "out", 6, "judged=null")
    rows = rows_of(tmp_path / "out")
    assert len(rows) == report["rows"] == 6
    for row in rows:
        assert len(row["further_captions"]) in (1, 2)
        assert all((tmp_path / "out" / name).is_file() for name in [row["image"], *row["further_images"]])
        assert [entry["stage"] for entry in row["provenance"]] == ["caption", "further_images"]
    assert len({entry["seed"] for row in rows for entry in row["provenance"][1:]}) == 6
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    changes = ["data.reader=null", "data.arguments={}", f"data.file={moved / 'rows.jsonl'}", "objective.batch=4"]
    arguments = ["train", "shapes_pacspp", *(part for change in changes for part in ("--set", change))]
    capsys.readouterr()
    assert main([*arguments, "--dry_run", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    counts = {line.rsplit(maxsplit=1)[0].strip(): line.split()[-1] for line in shown.splitlines()}
    assert (counts["rows"], counts["further images"]) == ("6", "6")
    assert counts["further captions"] == str(sum(len(row["further_captions"]) for row in rows))
