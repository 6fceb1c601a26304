"""What the folder of a run says of it, while it runs and after it, whatever the engine."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from counting_work import Sample

from capbench.benchmarks.cli.main import main
from capbench.benchmarks.engines.local import LocalEngine
from capbench.benchmarks.engines.run_folder import DONE, FAILURES, STATUS, UNITS, append, lines_of
from capbench.benchmarks.engines.slots import work_slot
from capbench.benchmarks.engines.slurm import SlurmEngine
from capbench.benchmarks.engines.status import QUIET_SECONDS, read_status
from capbench.errors import DataError


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return Sample(tmp_path / "work")


def test_finished_run_is_told_by_stage_and_worker(sample: Sample, tmp_path: Path):
    sample.befalls(13, "raise")
    LocalEngine(2).carry_out(sample.spec, sample.units, folder=tmp_path / "run")
    status = read_status(tmp_path / "run")

    assert (status.done, status.units, status.left) == (9, 9, 0)
    assert status.stages == {"caption": (4, 4), "score": (4, 4), "sums": (1, 1)}
    assert status.drivers == {"local": "done"}
    assert sum(one.units for one in status.workers) == 9
    assert sum(one.documents for one in status.workers) == 39 + 39 + 40
    assert {one.name for one in status.workers} <= {f"process {n}" for n in range(1, 9)}
    assert status.rate > 0
    assert len(status.left_out) == 2
    assert status.left_out[0].endswith(
        "documents 10 to 19: without 13: ValueError: document 13 is impossible"
    )
    # Three times, the halves with 13 in them, and 13 alone twice; in two stages.
    assert len(status.failures) == sum(one.failures for one in status.workers) == 2 * (3 + 3 + 2)


def test_run_that_an_error_ended_says_it(sample: Sample, tmp_path: Path):
    sample.befalls(13, "data")
    with pytest.raises(DataError):
        LocalEngine(1).carry_out(sample.spec, sample.units, folder=tmp_path / "run")
    status = read_status(tmp_path / "run")

    assert status.drivers == {"local": "document 13 is missing. Put it there."}
    assert status.failures == [
        "this process: unit 'caption' of counter, documents 10 to 19: document 13 is missing"
    ]
    assert status.done == 1


def test_run_that_is_found_done_says_so(sample: Sample, tmp_path: Path):
    for _ in range(2):
        LocalEngine(1).carry_out(sample.spec, sample.units, folder=tmp_path / "run")
    status = read_status(tmp_path / "run")

    assert (status.done, status.documents, status.workers) == (9, 0, [])


def test_slots_are_told_together(sample: Sample, tmp_path: Path):
    SlurmEngine().carry_out(sample.spec, sample.units, folder=tmp_path / "run")
    assert read_status(tmp_path / "run").drivers == {}
    work_slot(tmp_path / "run", 3, 8)
    status = read_status(tmp_path / "run")
    assert (status.done, list(status.drivers.items())) == (9, [("slot 3", "done")])

    quiet = tmp_path / "run" / "slots" / "4"
    quiet.mkdir()
    told = json.loads((tmp_path / "run" / "slots" / "3" / STATUS).read_text())
    told |= {
        "engine": "slot 4",
        "end": "",
        "updated": time.time() - QUIET_SECONDS - 5,
        "in_hand": {"p": "unit x"},
    }
    (quiet / STATUS).write_text(json.dumps(told))
    # A line that is being written is none yet.
    (quiet / DONE).write_text(
        (tmp_path / "run" / "slots" / "3" / DONE).read_text().splitlines()[0] + '\n{"ask'
    )
    status = read_status(tmp_path / "run")
    assert "quiet for 35 s" in status.drivers["slot 4"]
    assert {one.name: one.units for one in status.workers} == {
        "slot 3: process 1": 9, "slot 4: process 1": 1, "slot 4: p": 0,
    }  # fmt: skip
    told |= {"updated": time.time()}
    (quiet / STATUS).write_text(json.dumps(told))
    assert read_status(tmp_path / "run").drivers["slot 4"].startswith("running on ")


def test_command_prints_it(sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sample.befalls(13, "raise")
    LocalEngine(1).carry_out(sample.spec, sample.units, folder=tmp_path / "run")
    assert main(["status", str(tmp_path / "run"), "--failures", "2"]) == 0
    printed = capsys.readouterr().out

    assert "local: done\n9 of 9 units done (100 %)\n" in printed
    assert "118 documents computed" not in printed  # probes that passed are documents, too
    assert " left" not in printed.split("stage")[0]
    assert printed.count("document 13 is impossible") == 2 + 2
    assert "attempts that failed: 16" in printed
    assert main(["status", str(tmp_path / "run"), "--failures", "0"]) == 0
    assert capsys.readouterr().out.count("document 13 is impossible") == 2


@pytest.mark.parametrize(
    "stages", [("captions", "units"), ("task_a/captions", "task_a/units", "task_b/units")]
)
def test_command_prints_all_stages_of_the_folder_that_a_run_was_given(
    stages: tuple[str, ...], sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for stage in stages:
        LocalEngine(1).carry_out(sample.spec, sample.units, folder=tmp_path / "run" / stage)
    assert main(["status", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().out.splitlines()

    folders = [str(tmp_path / "run" / stage) for stage in stages]
    assert [line for line in lines if line in folders] == folders
    assert lines.count("local: done") == len(stages)
    assert main(["work", str(tmp_path / "run"), "--slot", "0"]) == 2
    assert f"Name one of the stages in it: {', '.join(folders)}." in capsys.readouterr().err


def test_unit_that_is_being_written_is_not_there_yet(sample: Sample, tmp_path: Path):
    LocalEngine(1).carry_out(sample.spec, sample.units, folder=tmp_path / "run")
    with (tmp_path / "run" / UNITS).open("a") as file:
        file.write(sample.units[0].to_json())
    assert read_status(tmp_path / "run").units == 9


TORN = ('{"asked": "x', '{"asked": "x\n', "[1]\n", "\x00\x00\x00\n", '{"asked": "x{"asked": "y"}\n')


@pytest.mark.parametrize(
    ("file", "torn"), [(UNITS, TORN[0]), *((file, torn) for file in (DONE, FAILURES) for torn in TORN)]
)
def test_line_that_a_kill_tore_is_left_out_and_the_others_are_read(
    file: str, torn: str, sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    sample.befalls(13, "raise")
    LocalEngine(1).carry_out(sample.spec, sample.units, folder=tmp_path / "run")
    assert main(["status", str(tmp_path / "run")]) == 0
    before = capsys.readouterr().out
    with (tmp_path / "run" / file).open("a") as stream:
        stream.write(torn)
    assert main(["status", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out == before


def test_line_after_one_that_a_kill_tore_is_a_line_of_its_own(tmp_path: Path):
    file = tmp_path / DONE
    append(file, [{"n": 1}])
    with file.open("a") as stream:
        stream.write('{"n": 2, "to')
    append(file, [{"n": 3}, {"n": 4}])
    append(file, [{"n": 5}])
    assert [line["n"] for line in lines_of(file)] == [1, 3, 4, 5]


def test_what_is_no_status_of_a_run_is_said_in_a_line(
    sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    LocalEngine(1).carry_out(sample.spec, sample.units, folder=tmp_path / "run")
    for status in ("{", "[1]", '{"done": 1}'):
        (tmp_path / "run" / STATUS).write_text(status)
        assert main(["status", str(tmp_path / "run")]) == 2
        assert (
            f"{tmp_path / 'run'}: is no folder of a run that this capbench wrote" in capsys.readouterr().err
        )
