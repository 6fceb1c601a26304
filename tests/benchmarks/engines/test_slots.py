"""Slots of a queue that share a run by files: real processes, some of which are killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from counting_work import Sample

from capbench.benchmarks.cli.main import main
from capbench.benchmarks.engines.contract import Outcome, Pool
from capbench.benchmarks.engines.local import LocalEngine
from capbench.benchmarks.engines.run_folder import (
    CLAIMS,
    DONE,
    SLOTS,
    STOPPED,
    lines_of,
    read_run,
    sum_of,
    write_run,
)
from capbench.benchmarks.engines.slots import Claims, work_slot
from capbench.benchmarks.engines.slurm import SlurmEngine
from capbench.benchmarks.engines.status import read_status
from capbench.errors import DataError, EngineError, UsageError
from capbench.permissions import Permissions, permit

pytestmark = pytest.mark.costly


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    sample = Sample(tmp_path / "work")
    write_run(tmp_path / "run", sample.spec, sample.units)
    return sample


def run_of(sample: Sample) -> Path:
    return sample.folder.parent / "run"


def start(sample: Sample, slot: int, *arguments: str) -> subprocess.Popen[str]:
    """Start a slot as a queue does."""
    command = [
        sys.executable,
        "-m",
        "capbench.benchmarks.cli.main",
        "work",
        str(run_of(sample)),
        "--run_functions",
        "--sum",
        sum_of(run_of(sample)),
    ]
    return subprocess.Popen(
        [*command, "--slot", str(slot), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def alone(sample: Sample) -> Sample:
    """Return the same, carried out by one process."""
    other = Sample(sample.folder.parent / "alone")
    LocalEngine(1).carry_out(other.spec, other.units)
    return other


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_one_slot_does_all_its_share_first(sample: Sample):
    outcome = work_slot(run_of(sample), 1, 3)

    assert (outcome.computed, outcome.found) == (9, 0)
    assert sample.results() == alone(sample).results()
    # Of the captions, which are units 0, 2, 4 and 6, its own is the third.
    assert sample.notes("computed")[0] == "caption-2"
    assert work_slot(run_of(sample), 0, 3).found == 9


def test_slot_that_is_killed_has_its_unit_taken_over(sample: Sample):
    (sample.folder / "slow").write_text("60")
    first = start(sample, 0, "--of", "2", "--lost_after", "2")
    wait_for(lambda: len(sample.notes("begun")) == 1)
    second = start(sample, 1, "--of", "2", "--lost_after", "2")
    wait_for(lambda: len(sample.notes("opened")) >= 4)
    first.kill()
    first.communicate()
    (sample.folder / "slow").unlink()
    said, error = second.communicate(timeout=60)

    assert second.returncode == 0, error
    assert sample.results() == alone(sample).results()
    assert re.search(r"slot 1: \d units computed here, \d by others or before", said)
    # What the slot had in hand was begun twice, and nothing else.
    assert len(sample.notes("begun")) <= 9 + 1
    (taken_over,) = (run_of(sample) / CLAIMS).glob("*.2")
    assert taken_over.read_text().startswith('{"slot": 1')


def test_slots_share_units_and_commit_each_once(sample: Sample):
    (sample.folder / "together").write_text("4")
    slots = [start(sample, number, "--of", "2") for number in range(2)]
    for slot in slots:
        _, error = slot.communicate(timeout=60)
        assert slot.returncode == 0, error

    assert sample.results() == alone(sample).results()
    assert sorted(sample.notes("computed")) == sorted(sample.results())
    workers = {one.name for one in read_status(run_of(sample)).workers}
    assert workers == {"slot 0: process 1", "slot 1: process 1"}


def test_documents_left_out_by_one_slot_are_known_to_the_others(sample: Sample):
    sample.befalls(13, "kill")
    first = work_slot(run_of(sample), 0, 2, pools=("cpu",))
    later = work_slot(run_of(sample), 1, 2)

    assert {one.documents for one in first.left_out} == {(13,)}
    assert later.units["sums"].unit == first.units["sums"].unit
    assert {(one.unit.key, one.documents) for one in later.left_out} == {
        (one.unit.key, one.documents) for one in first.left_out
    }
    assert later.computed == 0


def test_error_of_one_slot_ends_all(sample: Sample):
    sample.befalls(13, "data")
    with pytest.raises(DataError, match="document 13 is missing\nPut it there"):
        work_slot(run_of(sample), 0)
    (sample.folder / "fate" / "13").unlink()
    with pytest.raises(DataError, match="document 13 is missing\nPut it there"):
        work_slot(run_of(sample), 1)


def test_slot_takes_units_of_its_pools_and_ends_with_them(tmp_path: Path):
    sample = Sample(tmp_path / "work", pools=("llm", "cpu"))
    write_run(tmp_path / "run", sample.spec, sample.units)
    outcome = work_slot(tmp_path / "run", 0, pools=("llm",))

    assert sorted(outcome.units) == ["caption-0", "caption-2"]
    assert work_slot(tmp_path / "run", 1, pools=("cpu",)).computed == 7


def test_slot_learns_of_what_is_done_by_one_that_died_before_it_said_so(tmp_path: Path):
    sample = Sample(tmp_path / "work", pools=("llm", "cpu"))
    write_run(tmp_path / "run", sample.spec, sample.units)
    outcomes: list[Outcome] = []
    waiting = threading.Thread(target=lambda: outcomes.append(work_slot(tmp_path / "run", 1, pools=("cpu",))))
    waiting.start()
    wait_for(lambda: "score-3" in sample.results())
    LocalEngine(1).carry_out(sample.spec, [unit for unit in sample.units if unit.pool == "llm"])
    assert work_slot(tmp_path / "run", 0, pools=("llm",)).computed == 0
    waiting.join()

    assert outcomes[0].units["sums"].report is not None
    assert len(sample.notes("computed")) == 9


class Moment:
    """Claims of a slot at a time when another was lost or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slots = [Claims(folder, number, 100) for number in range(2)]

    def age(self, name: str, seconds: float) -> None:
        now = time.time()
        os.utime(self.folder / name, (now - seconds, now - seconds))


def test_claim_is_one_slots_until_it_says_nothing(tmp_path: Path):
    at = Moment(tmp_path)
    assert at.slots[0].take("k")
    assert not at.slots[1].take("k")
    at.age("k.1", 99)
    assert not at.slots[1].take("k")
    at.age("k.1", 101)
    assert at.slots[1].take("k")
    assert not at.slots[0].take("k")


def test_claim_that_is_given_back_is_free_at_once_and_one_that_is_done_stays(tmp_path: Path):
    at = Moment(tmp_path)
    at.slots[0].take("k")
    at.slots[0].take("done")
    at.slots[0].drop("done")
    at.slots[0].leave()

    assert at.slots[1].take("k")
    assert not at.slots[1].take("done")


def test_slot_that_is_alive_renews_its_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    at = Moment(tmp_path)
    at.slots[0].take("k")
    at.age("k.1", 101)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 19)
    at.slots[0].beat()
    assert at.slots[1].take("k")
    at.slots[1].leave()
    monkeypatch.setattr(time, "monotonic", lambda: now + 21)
    at.slots[0].beat()
    assert not at.slots[1].take("k")


def test_unit_that_ends_slot_after_slot_ends_the_run(tmp_path: Path):
    at = Moment(tmp_path)
    for number in range(1, 6):
        assert at.slots[0].take("k")
        at.age(f"k.{number}", 200)
    with pytest.raises(EngineError, match="5 slots were lost"):
        at.slots[0].take("k")


SBATCH = """\
#!/bin/bash
# Does what a queue does: the jobs of an array at once; what depends on them when they have ended well.
set -eu
script="${!#}"
if grep -q '^#SBATCH --array' "$script"; then
  last=$(sed -n 's/^#SBATCH --array=0-//p' "$script")
  for i in $(seq 0 "$last"); do
    (exec >> "$script.$i.ended" 2>&1; SLURM_ARRAY_TASK_ID=$i bash "$script" && echo well || echo badly) &
  done
  echo 7
else
  cd "$(dirname "$script")"
  test "$1" = --dependency=afterok:7:7
  while test "$(cat -- *.ended | grep -c -e '^well$' -e '^badly$')" -lt 3; do sleep 0.1; done
  test "$(grep -l '^well$' -- *.ended | wc -l)" = 3
  bash "$script"
fi
"""


def carry_out(sample: Sample, *pools: Pool, finish: tuple[str, ...] = ()) -> Outcome:
    engine = SlurmEngine(pools, slots=2, options=["--partition=long queue"], finish=finish)
    # The work of these tests is opened by a function of their own.
    with permit(Permissions(functions=True)):
        return engine.carry_out(sample.spec, sample.units, folder=run_of(sample))


def test_scripts_carry_out_the_run_and_then_finish_it(tmp_path: Path):
    sample = Sample(tmp_path / "work", pools=("llm", "cpu"))
    pools = Pool("llm", 1, cpus=4, gpus=2, memory=3 << 30), Pool("cpu", cpus=2)
    finish = ("touch", str(tmp_path / "it is finished"))
    assert carry_out(sample, *pools, finish=finish).waiting == 9

    for script in run_of(sample).glob("*s*.s*"):
        subprocess.run(["bash", "-n", script], check=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sbatch").write_text(SBATCH)
    (tmp_path / "bin" / "sbatch").chmod(0o755)
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    # A slot of the CPU waits for units of the GPU, as it may start before them.
    done = subprocess.run(
        ["bash", run_of(sample) / "submit.sh"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "it is finished").exists()
    outcome = carry_out(sample, *pools)
    assert (outcome.waiting, outcome.found) == (0, 9)
    assert outcome.units["sums"].unit.key in sample.results()


def test_script_asks_for_what_its_pool_takes(tmp_path: Path):
    sample = Sample(tmp_path / "work", pools=("llm", "cpu"))
    carry_out(sample, Pool("llm", 1, cpus=4, gpus=2, memory=3 << 30), Pool("cpu", cpus=2))
    first, second = ((run_of(sample) / f"slots-{n}.sbatch").read_text() for n in range(2))

    for line in ("--array=0-1", "--cpus-per-task=2", "'--partition=long queue'", "--requeue"):
        assert f"#SBATCH {line}\n" in first
    assert '--slot "$((0 + SLURM_ARRAY_TASK_ID))" --of 3 --pools cpu' in first
    for line in ("--array=0-0", "--cpus-per-task=4", "--gpus-per-node=2", "--mem=3072M"):
        assert f"#SBATCH {line}\n" in second
    assert '--slot "$((2 + SLURM_ARRAY_TASK_ID))" --of 3 --pools llm' in second
    assert "gpus" not in first and "mem" not in first


def test_queue_is_asked_for_no_more_slots_than_there_are_units(tmp_path: Path):
    sample = Sample(tmp_path / "work", pools=("llm", "cpu"))
    sample.units = [unit for unit in sample.units if unit.pool == "llm"]
    carry_out(sample, Pool("llm", 30, gpus=1))
    script = (run_of(sample) / "slots-0.sbatch").read_text()

    assert f"--array=0-{len(sample.units) - 1}\n" in script
    assert f"--of {len(sample.units)} --pools llm" in script


def test_queue_needs_a_folder(sample: Sample):
    with pytest.raises(UsageError, match="needs a folder that all nodes see"):
        SlurmEngine().carry_out(sample.spec, sample.units)


def test_other_units_begin_anew_and_the_same_are_not_disturbed(sample: Sample):
    carry_out(sample)
    work_slot(run_of(sample), 0)
    claims = sorted((run_of(sample) / CLAIMS).iterdir())
    carry_out(sample)
    assert sorted((run_of(sample) / CLAIMS).iterdir()) == claims
    sample.units = sample.units[:2]
    carry_out(sample)
    assert not list((run_of(sample) / CLAIMS).iterdir())
    assert read_run(run_of(sample)) == (sample.spec, sample.units)


def test_what_is_no_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["work", str(tmp_path), "--slot", "0"]) == 2
    assert "is no folder of a run" in capsys.readouterr().err
    (tmp_path / "spec.json").write_text("{}")
    assert main(["status", str(tmp_path)]) == 2
    assert "is no folder of a run that this capbench wrote" in capsys.readouterr().err


def test_slot_goes_on_where_a_kill_tore_the_lines_of_slots_and_what_stopped_them(sample: Sample):
    run = run_of(sample)
    for slot in (0, 1):
        (run / SLOTS / str(slot)).mkdir(parents=True)
        (run / SLOTS / str(slot) / DONE).write_text('{"asked": "x')
    (run / STOPPED).write_text('{"kind": "Da')
    outcome = work_slot(run, 0, 2)
    assert outcome.computed == 9
    assert len(list(lines_of(run / SLOTS / "0" / DONE))) == 9
    assert work_slot(run, 1, 2).computed == 0
