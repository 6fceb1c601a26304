"""Self-loops: turns that go on after an interruption, what is refused before work starts, and what a turn is worth."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from started_by_torchrun import in_two

from capbench.cli.main import main
from capbench.errors import BenchError, DataError, UsageError
from capbench.recipes.data_synthesis.report import StageFacts
from capbench.recipes.self_training.rounds import LoopCall, LoopReporter, run_loop
from capbench.recipes.self_training.schema import list_loops, load_loop
from capbench.recipes.training.history import StepReport, read_history
from capbench.recipes.training.processes import TrainingProcesses

pytestmark = pytest.mark.costly

REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))
TINY = Path(__file__).with_name("tiny_loop.yaml").read_text(encoding="utf-8")


@pytest.fixture
def loop(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a loop that takes a moment a turn, with keys changed, and returns its file."""

    def write(**keys: Any) -> Path:
        values = yaml.safe_load(TINY)
        for key, value in keys.items():
            values[key] = {**values[key], **value} if isinstance(values.get(key), dict) else value
        file = tmp_path / "tiny.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        return file

    return write


def call_of(file: Path, *changes: str) -> LoopCall:
    """Return the call of a loop, with a store beside its file."""
    return LoopCall(load_loop(str(file), changes), TrainingProcesses("cpu"), store=str(file.parent / "store.sqlite"))


@dataclass
class Heard:
    """What a loop told."""

    turns: list[str]
    stages: list[StageFacts]
    steps: list[StepReport]

    @classmethod
    def new(cls) -> tuple[Heard, LoopReporter]:
        heard = cls([], [], [])
        return heard, LoopReporter(heard.turns.append, heard.stages.append, heard.steps.append)


def state_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def interrupted_at_3(taken: StepReport) -> None:
    if taken.step == 3:
        raise KeyboardInterrupt


@pytest.mark.usefixtures("one_thread")
def test_interrupted_in_a_turn_it_goes_on_and_no_finished_turn_is_carried_out_again(loop, tmp_path, capsys):
    file, out = loop(), tmp_path / "out"
    heard, progress = Heard.new()
    first = run_loop(call_of(file), out, progress)
    assert [turn.split(":")[0] for turn in heard.turns] == ["turn 0 of 1", *["turn 1 of 1"] * 3]
    assert [step.step for step in heard.steps] == [1, 2, 3]
    assert [(turn.number, turn.rows) for turn in first] == [(0, 0), (1, 4)]
    finished = {name: state_of(out / name) for name in ("turn-0", "turn-1")}
    shutil.copytree(out, tmp_path / "whole")

    with pytest.raises(KeyboardInterrupt):
        run_loop(call_of(file, "turns=2"), out, LoopReporter(step=interrupted_at_3))
    assert not (out / "turn-2" / "turn.json").exists()
    heard, progress = Heard.new()
    turns = run_loop(call_of(file, "turns=2"), out, progress)

    assert {turn.split(":")[0] for turn in heard.turns} == {"turn 2 of 2"}
    assert f"{(out / 'turn-1').absolute()} makes data" in heard.turns[0]
    # Of the turn that was cut off rows and steps are those that were not there.
    assert all(stage.reused == stage.given for stage in heard.stages if stage.name != "select")
    assert [step.step for step in heard.steps] == [3]
    assert {name: state_of(out / name) for name in ("turn-0", "turn-1")} == finished
    assert len(turns) == 3

    # As one that was not cut off; nothing is left to do afterwards.
    run_loop(call_of(file, "turns=2"), tmp_path / "whole")
    weights = [folder / "turn-2" / "weights" / "model.safetensors" for folder in (out, tmp_path / "whole")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    reports = [json.loads((folder / "report.json").read_text()) for folder in (out, tmp_path / "whole")]
    assert reports[0] == reports[1]
    start, _, after, *_ = reports[0]["turns"]
    assert after["difference"]["value"] == pytest.approx(after["value"] - start["value"])
    store = ["--store", str(tmp_path / "store.sqlite"), "--device", "cpu"]
    assert main(["loop", str(file), "--output", str(out), *store, "--set", "turns=2"]) == 0
    shown, said = capsys.readouterr()
    assert "turn 2 of 2" not in said
    assert f"\n    bench loop {shlex.quote(str(file))} --set turns=2\n" in shown
    assert (
        f"| {after['value']:.4f} [{after['low']:.4f}, {after['high']:.4f}] | {after['difference']['value']:+.4f} ["
        in shown
    )


def refused(file: Path, *changes: str) -> str:
    """Return what is said of a loop that is refused before anything of it is written."""
    out = file.parent / "refused"
    heard, progress = Heard.new()
    with pytest.raises(BenchError) as caught:
        run_loop(call_of(file, *changes), out, progress)
    assert not heard.turns
    assert not (out / "turn-0").exists()
    return str(caught.value)


@pytest.mark.parametrize("refusal", REFUSED["started"])
def test_what_does_not_fit_is_refused_before_work_starts(loop, refusal):
    message = refused(loop(**refusal["keys"]))
    for words in refusal["said"]:
        assert words in message, message


def test_file_that_does_not_do_is_refused_with_its_line(loop: Callable[..., Path]):
    for refusal in REFUSED["read"]:
        with pytest.raises(UsageError, match=r"tiny\.yaml:\d+") as caught:
            load_loop(str(loop(**refusal["keys"])))
        assert refusal["said"] in str(caught.value)
    with pytest.raises(UsageError, match=r"there is no loop 'shapes_lop'\. Did you mean 'shapes_loop'\?"):
        load_loop("shapes_lop")


def test_files_beside_a_loop_are_its_own(loop, tmp_path, monkeypatch):
    (tmp_path / "beside.yaml").write_text("include: shapes_captioner_xe\nseed: 7\n")
    (tmp_path / "photos").mkdir()
    file = loop(train={"recipe": "beside.yaml"}, make={"data": "photos"}, seed=3)
    (tmp_path / "elsewhere" / "others").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    loaded = load_loop(str(file))
    assert loaded.data == str(tmp_path / "photos")
    # The loop's seed is that of both, and its tasks judge.
    assert (loaded.recipe().recipe.seed, loaded.pipeline("x").pipeline.seed) == (3, 3)
    assert loaded.recipe().recipe.judge == []
    assert loaded.pipeline("x: y").pipeline.models["captioner"].name == "x: y"
    assert load_loop(str(file), ["make.data=others"]).data == str(tmp_path / "elsewhere" / "others")
    assert load_loop(str(file), ["make.data=shapes_captions"]).data == "shapes_captions"


def test_folder_of_another_loop_is_refused(loop: Callable[..., Path], tmp_path: Path):
    file, out = loop(), tmp_path / "out"
    assert call_of(file, "turns=9").loaded.fingerprint() == call_of(file).loaded.fingerprint()
    out.mkdir()
    mark = {"loop": "tiny", "fingerprint": call_of(file).loaded.fingerprint()}
    (out / "loop.json").write_text(json.dumps(mark))
    (out / "turn-0").mkdir()
    for change in (
        "seed=1", "captioner=shapes-llava", "make.limit=7", "make.data=shapes_captions", "train.set=[stop.steps=4]",
        "make.set=[]", "judge=[{task: shapes_captions}]",
    ):  # fmt: skip
        with pytest.raises(DataError, match=r"holds the output of another loop: .*tiny"):
            run_loop(call_of(file, change), out)
    assert sorted(path.name for path in out.iterdir()) == ["loop.json", "turn-0"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(DataError, match="has files of no loop"):
        run_loop(call_of(file), tmp_path / "other")


@pytest.mark.usefixtures("one_thread")
def test_two_processes_train_on_what_the_first_makes(loop: Callable[..., Path], tmp_path: Path):
    file = loop()
    run_loop(call_of(file), tmp_path / "one")
    in_two(lambda: run_loop(call_of(file), tmp_path / "two"))
    data = [tmp_path / name / "turn-1" / "data" / "rows.jsonl" for name in ("one", "two")]
    assert data[0].read_text() == data[1].read_text()
    # Each process has its own dropout, so that the models are not the same.
    alone, both = ([line["loss"] for line in read_history(tmp_path / name / "turn-1")] for name in ("one", "two"))
    assert both == pytest.approx(alone, rel=0.2)
    turns = [json.loads((tmp_path / name / "report.json").read_text())["turns"] for name in ("one", "two")]
    assert [[row["turn"] for row in rows] for rows in turns] == [[0, 0, 1, 1]] * 2


def test_loops_that_ship_are_whole(capsys: pytest.CaptureFixture[str]):
    assert main(["loop", "--list"]) == 0
    listed = capsys.readouterr().out
    for name in list_loops():
        assert name in listed
        loaded = load_loop(name)
        assert loaded.loop.loop == name
        assert len(loaded.fingerprint()) == 64
    paper = load_loop("detailcaps_loop")
    assert paper.loop.turns == 4
    assert {stage["stage"]: stage for stage in paper.pipeline("llava-1.5").pipeline.stages}["select"]["most"] == 25_000
    tuned = paper.recipe().recipe
    assert (tuned.optimiser.rate, tuned.stop.epochs, tuned.lora, tuned.precision) == (2e-5, 1, None, "bf16")
    assert tuned.model.name == paper.loop.captioner == "llava-1.5"


def test_dry_run_tells_all_parts_and_writes_nothing(loop, tmp_path, capsys):
    file = loop()
    before = sorted(tmp_path.iterdir())
    assert main(["loop", str(file), "--dry_run", "--device", "cpu"]) == 0
    shown = {line[:35].strip(): line[35:] for line in capsys.readouterr().out.splitlines()}
    assert shown["captioner"] == "shapes-captioner"
    assert shown["make: rows"] == "4 from shapes_captions_train"
    assert shown["train: rows"] == "4"
    assert shown["train: steps"].startswith("3 at most")
    assert shown["judged by"] == "shapes_detailcaps"
    assert sorted(tmp_path.iterdir()) == before
    # Models that are not here are named when the plan is told.
    gone = (
        {"make": {"set": ["models.judge={name: hf_judge, arguments: {pretrained: no/judge}}", "judged=null"]}},
        {"train": {"set": ["model={name: llava-1.5, arguments: {pretrained: no/captioner}}"]}},
    )
    for keys in gone:
        assert main(["loop", str(loop(**keys)), "--dry_run", "--device", "cpu"]) == 1
        printed = capsys.readouterr()
        assert printed.out.splitlines()[-1].split() == ["judged", "by", "shapes_detailcaps"]
        assert ("no/judge" if "make" in keys else "no/captioner") in printed.err
    assert main(["loop", str(file)]) == 2
    assert "bench loop: --output DIR is missing" in capsys.readouterr().err
    assert main(["loop"]) == 2
    assert "names no recipe" in capsys.readouterr().err
