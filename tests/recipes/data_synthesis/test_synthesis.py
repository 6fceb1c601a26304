"""From a pipeline to its files: what is made once stays made, whatever happens in between."""

import json
import logging
import re
import shutil
import signal
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import forked
import pytest
import yaml
from PIL import Image
from pipeline_stages import rows_of

import capbench
from capbench.adapters.images.reading import read_image
from capbench.cli.main import main
from capbench.recipes.data_synthesis.contract import PipelineRow, StageFacts
from capbench.recipes.data_synthesis.schema import load_pipeline
from capbench.recipes.data_synthesis.synthesis import SynthesisCall, make
from capbench.recipes.self_training.schema import load_loop
from capbench.recipes.training.rows import collect
from capbench.rows import read_rows

REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))
ROWS = 5


@pytest.fixture
def pipeline(tmp_path: Path) -> Callable[..., Path]:
    """Return what writes a pipeline of two stages, or with other keys, and its data, and returns its file."""

    def write(texts: list[str] | None = None, lines: list[dict[str, Any]] | None = None, **keys: Any) -> Path:
        stages = [{"stage": "add", "name": name, "add": name, "folder": str(tmp_path)} for name in ("one", "two")]
        values = {"pipeline": "tiny", "stages": stages, "output": {"columns": {"captions": "text"}}} | keys
        texts = texts or [f"text {number}" for number in range(ROWS)]
        lines = lines or [{"id": str(number), "text": text} for number, text in enumerate(texts)]
        (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        file = tmp_path / "tiny.yaml"
        file.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        return file

    return write


def command(file: Path, out: str, *more: str, store: str = "store.sqlite") -> list[str]:
    folder = file.parent
    data = ["--data", str(folder / "data.jsonl"), "--output", str(folder / out)]
    return ["make", str(file), *data, "--store", str(folder / store), *more]


def begun(folder: Path) -> Counter[str]:
    """Return how often each stage began each row, since it was asked last."""
    file = folder / "begun"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return Counter(lines)


def files(folder: Path) -> dict[str, bytes]:
    """Return what the files hold, but for the date."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.name: re.sub(rb'"date": .*', b"", path.read_bytes()) for path in paths}


def test_killed_at_any_stage_it_goes_on_and_the_bytes_are_the_same(pipeline: Callable[..., Path]):
    file = pipeline()
    folder = file.parent
    assert main(command(file, "whole", store="other.sqlite")) == 0
    assert set(begun(folder).values()) == {1}
    done: Counter[str] = Counter()
    for stage, row in (("one", "3"), ("two", "0"), ("two", "4")):
        (folder / f"kill-{stage}-{row}").touch()
        assert forked.carried_out(lambda: main(command(file, "cut"))) == -signal.SIGKILL
        done += begun(folder)
        assert not (folder / "cut" / "rows.jsonl").exists()
    # Of the shard of two that row 3 ended, row 2 was begun, and not kept.
    assert done == Counter(
        {**{f"one {number}": 1 for number in range(ROWS)}, "one 2": 2, **{f"two {number}": 1 for number in range(4)}}
    )

    assert main(command(file, "cut")) == 0

    assert begun(folder) == Counter({"two 4": 1})
    assert files(folder / "cut") == files(folder / "whole")
    assert not (folder / "cut" / ".work").exists()


def test_change_makes_only_what_is_new(pipeline: Callable[..., Path], capsys: pytest.CaptureFixture[str]):
    file = pipeline()
    main(command(file, "first"))
    begun(file.parent)

    capsys.readouterr()
    assert main(command(file, "second", "--set", "stages.two.add=X")) == 0

    assert capsys.readouterr().err.splitlines() == [
        f"stage {name}: 5 of 5 rows made, {count} of them before" for name, count in (("one", 5), ("two", 0))
    ]
    assert set(begun(file.parent)) == {f"two {number}" for number in range(ROWS)}
    assert [row["captions"] for row in rows_of(file.parent / "second")] == [[f"text {n}oneX"] for n in range(ROWS)]
    changed = pipeline([*(f"text {number}" for number in range(ROWS)), "another"])
    main(command(changed, "third"))
    assert set(begun(file.parent)) == {"one 5", "two 5"}
    # Rows are given by what they hold, whatever their order.
    main(command(pipeline([f"text {number}" for number in range(3)]), "fourth"))
    assert not begun(file.parent)


def test_row_of_no_use_is_named_and_left_out_or_kept(pipeline, capsys, caplog):
    file = pipeline(["good", "bad thing", "busy thing"])
    with caplog.at_level(logging.INFO, "capbench"):
        assert main(command(file, "out")) == 0
    assert "stage one: row 1: is bad" in caplog.messages
    report = json.loads((file.parent / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["stages"][0]["unmade"] == {"1": "is bad", "2": "is busy"}
    assert (report["stages"][0]["given"], report["stages"][0]["made"], report["rows"]) == (3, 1, 1)
    assert report["stages"][0]["counts"] == {"letters": 3}
    shown = capsys.readouterr().out
    assert "2 rows left out (1, 2): 1 × is bad; 1 × is busy" in shown
    begun(file.parent)
    # What is bad stays bad; what failed for a time is tried again.
    main(command(file, "out"))
    assert begun(file.parent) == Counter({"one 2": 1})

    main(command(file, "kept", "--set", "stages.one.on_failure=keep", "--set", "stages.two.on_failure=keep"))

    rows = rows_of(file.parent / "kept")
    assert [row["captions"] for row in rows] == [["goodonetwo"], ["bad thing"], ["busy thing"]]
    assert rows[1]["provenance"] == [{"stage": "one", "unmade": "is bad"}, {"stage": "two", "unmade": "is bad"}]


@pytest.mark.costly
def test_workers_make_the_same_bytes(pipeline):
    file = pipeline([*(f"text {number}" for number in range(ROWS)), "bad"])
    main(command(file, "here", store="other.sqlite"))
    begun(file.parent)

    assert main(command(file, "there", "--processes", "2", "--run_folder", str(file.parent / "run"))) == 0

    assert set(begun(file.parent).values()) == {1}
    assert json.loads((file.parent / "run" / "progress.json").read_text())["end"] == "done"
    assert files(file.parent / "there") == files(file.parent / "here")


def test_two_at_once_make_the_same_in_one_folder(pipeline: Callable[..., Path]):
    file = pipeline()
    own = load_pipeline(str(file))
    call = SynthesisCall(own, str(file.parent / "data.jsonl"), store=str(file.parent / "store.sqlite"))
    out = file.parent / "out"
    first: list[Any] = []

    def meanwhile(facts: StageFacts) -> None:
        if not first:
            first.append(make(call, out))
            first.append(files(out))

    make(call, out, meanwhile)
    written = files(out)
    assert {name: written[name] for name in ("rows.jsonl", "report.json")} == {
        name: first[1][name] for name in ("rows.jsonl", "report.json")
    }
    assert not (out / ".work").exists()


@pytest.mark.parametrize(("change", "message"), REFUSED["keys"])
def test_faults_are_named_before_anything_is_made(pipeline, change, message, capsys):
    file = pipeline(**change)
    assert main(command(file, "out")) == 2
    assert message in capsys.readouterr().err
    assert not begun(file.parent)


@pytest.mark.parametrize(("change", "message"), REFUSED["changes"])
def test_fault_of_a_change_is_told_as_the_change(pipeline, change, message, capsys):
    assert main(command(pipeline(), "out", "--set", change)) == 2
    assert message in capsys.readouterr().err


def test_folder_that_holds_something_else_is_not_written_to(pipeline, capsys):
    file = pipeline()
    (file.parent / "out").mkdir()
    (file.parent / "out" / "thesis.txt").touch()
    assert main(command(file, "out")) == 1
    assert "out has files of no pipeline" in capsys.readouterr().err
    main(command(file, "mine"))
    assert main(command(pipeline(pipeline="other"), "mine")) == 1
    assert "holds the output of another pipeline: tiny" in capsys.readouterr().err


def test_folder_of_a_pipeline_that_made_nothing_is_free_for_another(pipeline: Callable[..., Path]):
    file = pipeline(["bad"])
    folder = file.parent
    assert main(command(file, "out")) == 1
    (folder / "data.jsonl").write_text("", encoding="utf-8")
    assert main(command(file, "out")) == 1
    assert [path.name for path in (folder / "out").iterdir()] == ["pipeline.txt"]
    assert main(command(pipeline(pipeline="other"), "out")) == 0
    assert (folder / "out" / "pipeline.txt").read_text().strip() == "other"


def test_rows_are_in_memory_some_at_a_time(pipeline: Callable[..., Path], monkeypatch: pytest.MonkeyPatch):
    window, many = 8 * 2, 10 * 8 * 2
    file = pipeline([f"text {number}" for number in range(many)])
    alive: set[int] = set()
    most = 0
    read = PipelineRow.of_line

    def counting(line: bytes) -> PipelineRow:
        nonlocal most
        row = read(line)
        alive.add(id(row))
        weakref.finalize(row, alive.discard, id(row))
        most = max(most, len(alive))
        return row

    monkeypatch.setattr(PipelineRow, "of_line", counting)
    assert main(command(file, "out")) == 0
    assert len(rows_of(file.parent / "out")) == many
    # A window of eight shards of two, while the next one is read.
    assert window <= most <= 2 * window + 1


@pytest.mark.parametrize(("change", "message"), REFUSED["unmade"])
@pytest.mark.parametrize("more", [(), ("--dry_run",)])
def test_value_that_nobody_makes_is_told_before_anything_is_made(pipeline, change, message, more, capsys):
    file = pipeline(
        lines=[{"id": "1", "text": "a", "captions": ["b"]}, {"id": "2", "text": "a", "captions": [], "x": 1}],
        models={"judge": {"name": "shapes-writer"}},
        stages=[{"stage": "merge", "overall": "text", "elements": "captions", "to": "merged"}],
        output={"columns": {"captions": "merged"}},
    )
    assert main(command(file, "out", "--set", change, *more)) == 1
    shown = capsys.readouterr()
    assert message in shown.err
    assert "stage merge: " not in shown.err


def test_dry_run_lists_models_that_would_be_fetched(tmp_path, hub_cache, capsys):
    Image.new("RGB", (40, 30)).save(tmp_path / "17.png")
    main(["make", "detailcaps_synthesis", "--data", str(tmp_path), "--dry_run"])
    assert "fetched first                llava-1.5, sam-vit-large, owlv2-large" in capsys.readouterr().out
    # Another model keeps the arguments of the former one, which are named where it does not take them.
    other = ["--set", "models.judge.name=openai_judge"]
    main(["make", "detailcaps_synthesis", "--data", str(tmp_path), "--dry_run", *other])
    assert "It takes no pretrained, chat_template." in capsys.readouterr().err


def test_images_that_a_model_makes_nothing_of_are_told(tmp_path, capsys):
    photos = tmp_path / "photos"
    photos.mkdir()
    Image.new("RGB", (40, 30)).save(photos / "17.png")
    arguments = ["make", "shapes_detailcaps_synthesis", "--data", str(photos), "--store", str(tmp_path / "s")]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 1
    fault = f"stage 'overall' failed for all 1 rows; 17: image: {photos}/17.png: is no picture of the shapes world"
    assert fault in capsys.readouterr().err


def test_what_a_stage_needs_beside_its_models_is_told_once_when_the_plan_is(tmp_path, capsys, monkeypatch):
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "photos" / "a.png")
    monkeypatch.setitem(sys.modules, "cv2", None)
    gone = tmp_path / "gone"
    parser = {"parser": "factual", "parser_model": str(gone)}
    read = {"text": "text", "mask_data": {}, "summaries": {}, "negatives": {}}
    stages: list[dict[str, Any]] = [
        {"stage": "masks"},
        {"stage": "phrase_filter", "captions": "text", "to": "kept", "parser": parser},
        {"stage": "select", "caption": "text", "parser": parser},
        {"stage": "check_negatives", "by": ["parser"], "parser": parser},
    ]
    models = {"segmenter": {"name": "shapes-segmenter"}, "detector": {"name": "shapes-detector"}}
    (tmp_path / "data.jsonl").write_text(json.dumps({"image": "photos/a.png", **read}), encoding="utf-8")
    output = {"columns": {"captions": "text"}}

    def told(chosen: list[dict[str, Any]]) -> str:
        asked = {"masks": "segmenter", "phrase_filter": "detector"}
        roles = [asked[entry["stage"]] for entry in chosen if entry["stage"] in asked]
        named = {role: models[role] for role in roles}
        values = {"pipeline": "tiny", "models": named, "stages": chosen, "output": output}
        file = tmp_path / "tiny.yaml"
        file.write_text(json.dumps(values), encoding="utf-8")
        assert main(command(file, "out", "--dry_run")) in (1, 2)
        shown = capsys.readouterr()
        assert f"stage {chosen[-1]['stage']}" in shown.out
        return shown.err

    alone = {told([stage]) for stage in stages[1:]}
    assert len(alone) == 1
    often = alone.pop().count(str(gone))
    whole = told(stages)
    assert whole.count("pip install 'capbench[edges]'") == 1
    assert whole.count(str(gone)) == often > 0
    without = told([{**stages[0], "edge_points": "none"}, *stages[1:]])
    assert "capbench[edges]" not in without


def test_texts_are_judged_side_by_side_on_the_same_rows(pipeline: Callable[..., Path]):
    judging = {"texts": {"before": "first", "after": "texts"}, "metrics": ["length", "cider", "clip_s"]}
    lines = [{"id": n, "text": t, "first": t, "texts": [t, t + " x y"]} for n, t in enumerate(["a b", "c", "d e f"])]
    lines[0]["image"] = "a (b).png"
    lines += [{"id": f"bad {n}", "text": "bad", "first": "x", "texts": ["x"]} for n in range(6)]
    file = pipeline(lines=lines, judged=judging)
    (file.parent / "a (b).png").touch()

    assert main(command(file, "out")) == 0

    report = json.loads((file.parent / "out" / "report.json").read_text(encoding="utf-8"))
    before, after = report["metrics"]
    assert (before["metric"], before["text"], before["n"], before["value"]) == ("length", "before", 3, 2.0)
    # Of a row with several texts their mean counts: 3, 2 and 4 words.
    assert (after["value"], after["difference"]) == (3.0, 1.0)
    assert (after["low"], after["high"]) == pytest.approx((1.0, 1.0))
    assert report["remarks"] == ["cider: the data have no references", "clip_s: the data have no images"]
    lengths = [(row["text"], row["texts"], row["words"]) for row in report["lengths"]]
    assert lengths == [("before", 3, 2.0), ("after", 6, 3.0)]
    shown = (file.parent / "out" / "report.md").read_text(encoding="utf-8")
    assert "| length | after | 3 | 3.0000 | +1.0000 [+1.0000, +1.0000] |" in shown
    assert "- not computed: cider: the data have no references" in shown
    assert "![0](images/e3b0c44298fc1c14" in shown
    assert "- `one`: 6 rows left out (bad 0, bad 1, bad 2, bad 3, bad 4, …): 6 × is bad" in shown
    assert "\n\n\n" not in shown


def test_folder_can_be_moved_and_says_once_what_made_it(pipeline: Callable[..., Path]):
    lines = [{"id": str(n), "text": "a", "image": f"photos/{n % 2}.png"} for n in range(3)]
    file = pipeline(lines=lines)
    (file.parent / "photos").mkdir()
    for number in range(2):
        Image.new("RGB", (8 + number, 8)).save(file.parent / "photos" / f"{number}.png")
    assert main(command(file, "out")) == 0
    shutil.rmtree(file.parent / "photos")
    moved = (file.parent / "out").rename(file.parent / "elsewhere")

    made_by = json.loads((moved / "provenance.json").read_text())
    assert (made_by["pipeline"], made_by["libraries"]["capbench"]) == ("tiny", capbench.__version__)
    assert datetime.fromisoformat(made_by["date"]).tzinfo is not None
    stage = made_by["stages"]["one"]
    assert (stage["stage"], stage["settings"]["add"], stage["seed"], stage["models"]) == ("Add", "one", 0, [])
    rows = collect(read_rows(moved / "rows.jsonl"), "rows.jsonl", moved).rows
    assert [read_image(row.image).image.width for row in rows] == [8, 9, 8]
    assert len(list((moved / "images").iterdir())) == 2
    assert str(file.parent).encode() not in b"".join(files(moved).values())

    # Rows that are made of rows keep what made these.
    (moved / "rows.jsonl").write_text('{"text": "a", "provenance": [{"stage": "one"}]}\n')
    store = ["--store", str(file.parent / "store.sqlite")]
    main(["make", str(file), "--data", str(moved / "rows.jsonl"), "--output", str(file.parent / "again"), *store])
    assert json.loads((file.parent / "again" / "provenance.json").read_text())["earlier"] == made_by
    (row,) = rows_of(file.parent / "again")
    assert [entry["stage"] for entry in row["provenance"]] == ["one", "one", "two"]


def test_detailcaps_asks_its_models_as_the_released_code_does():
    # detail_caption_construction/: generate_stage1_overall_caption.py and the configuration of the last stage.
    for loaded in (load_pipeline("detailcaps_synthesis"), load_loop("detailcaps_loop").pipeline("turn-1")):
        models = loaded.pipeline.models
        assert models["judge"].arguments == {"pretrained": "meta-llama/Llama-2-7b-chat-hf", "chat_template": "none"}
        assert models["captioner"].arguments["system"] == (
            "A chat between a curious human and an artificial intelligence assistant. The assistant gives helpful, "
            "detailed, and polite answers to the human's questions."
        )
    assert models["captioner"].name == "turn-1"
