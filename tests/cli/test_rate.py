"""``bench rate``: begins, goes on, refuses, reports; what was said runs as a task."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from rated_session import SYSTEMS, make_session, make_task, rate_all

from capbench.benchmarks.rate.session import RatingQueue, Session, locked, read_session
from capbench.benchmarks.tables.pages import serving

from .conftest import Bench


@pytest.fixture
def folder(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a task and captions lie, and 'bench rate' is run, whose server answers nobody."""
    make_task(tmp_path, 6)
    monkeypatch.setattr(serving, "serve", lambda application, **options: None)
    return tmp_path


CAPTIONS = [f"{system}.jsonl" for system in SYSTEMS]
BEGIN = ["rate", "photos", "--include_path", "task", "--captions", *CAPTIONS]


def test_a_session_begins_goes_on_and_refuses_other_questions(bench: Bench, folder: Path) -> None:
    done = bench(*BEGIN, "--aspect", "quality=1-5: bad | good", "--sample", "4", "--seed", "7", "--references")
    done.succeeded("ratings/photos: 4 images of photos, 8 answers asked of each rater")
    assert "no ratings yet" in done.err
    session = read_session(folder / "ratings" / "photos")
    assert (session.design.seed, session.design.sample, session.design.references) == (7, 4, True)
    before = {file: file.stat().st_mtime_ns for file in session.folder.rglob("*.json*")}
    bench("rate", "photos").succeeded()
    bench(*BEGIN, "--aspect", "quality=1-5: bad | good").succeeded()
    assert {file: file.stat().st_mtime_ns for file in session.folder.rglob("*.json*")} == before
    differs = "the session in this folder has different"
    for other in (["--better"], ["--aspect", "quality=1-7"], ["--seed", "8"], ["--sample", "5"], ["--subset"]):
        bench(*BEGIN, *other).failed(2, differs)
    bench("rate", "photos", "--captions", f"A={CAPTIONS[0]}").failed(2, f"{differs} systems, captions")
    (folder / CAPTIONS[0]).write_text('{"id": "row 1", "caption": "another"}\n')
    bench("rate", "photos", "--captions", *CAPTIONS).failed(2, f"{differs} captions")


@pytest.mark.parametrize(("options", "code", "said"), [
    ([], 2, "a new one needs --captions and questions"),
    (["--captions", *CAPTIONS], 2, "a new one needs --captions and questions"),
    (["--better"], 2, "a new one needs --captions and questions"),
    (["--captions", CAPTIONS[0], "--better"], 2, "--better compares 2 to 9 captions of an image, not 1"),
    (["--captions", "nowhere.jsonl", "--better"], 1, "nowhere.jsonl: there is no such file"),
    (["--captions", *CAPTIONS, "--questions", "nowhere.yaml"], 2, "nowhere.yaml"),
    (["--report"], 1, "contains no rating session"),
])  # fmt: skip
def test_what_cannot_begin_says_why(bench: Bench, folder: Path, options: list[str], code: int, said: str) -> None:
    bench("rate", "photos", "--include_path", "task", *options).failed(code, said)
    assert not (folder / "ratings" / "photos").exists()


@pytest.mark.usefixtures("folder")
def test_a_task_that_is_none_and_numbers_that_are_none(bench: Bench) -> None:
    bench("rate", "photo", *BEGIN[2:], "--better").failed(2, "there is no task 'photo'. Did you mean 'photos'?")
    for options in (["--interval", "0"], ["--interval", "1"], ["--interval", "x"], ["--sample", "0"], ["--seed", "-1"]):
        bench("rate", "photos", *options).failed(2, f"argument {options[0]}")
    bench(*BEGIN, "--better", "--aspect", "p=1-5").failed(2, "not allowed with")
    bench(*BEGIN, "--better", "--raters", "Ann", "ANN").failed(2, "each another")
    bench(*BEGIN, "--better", "--raters", "ann", "--per_item", "2").failed(2, "there are 1")
    Path("known.jsonl").write_text('{"id": "row 1", "answer": 5}\n')
    bench(*BEGIN, "--better", "--known", "known.jsonl").failed(
        2, "--known: row 1 is no question of this session, or 5 is"
    )


def test_what_is_left_out_is_named(bench: Bench, folder: Path) -> None:
    (folder / CAPTIONS[0]).write_text('{"id": "row 1", "caption": "one"}\n{"id": "other", "caption": "two"}\n')
    bench(*BEGIN, "--better").failed(1, "lacks captions of 5 of 6 documents")
    said = bench(*BEGIN, "--better", "Which?", "--subset", "--sample", "3").succeeded().err
    assert "is recorded in secret-model-a.jsonl for no usable document of the task (first: other)" in said
    assert "5 × caption is not recorded in secret-model-a.jsonl (first: row 0)" in said
    assert "--sample 3: there are 1 to rate" in said
    assert read_session(folder / "ratings" / "photos").design.questions.better == "Which?"


def test_a_second_server_on_one_folder_is_refused_and_a_report_is_not(bench: Bench, folder: Path) -> None:
    bench(*BEGIN, "--better", "--output", "mine").succeeded()
    with locked(folder / "mine"):
        bench("rate", "photos", "--output", "mine").failed(2, "another 'bench rate' is serving this session (process")
        bench("rate", "photos", "--output", "mine", "--report").succeeded()


@pytest.mark.usefixtures("folder")
def test_a_missing_package_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    bench(*BEGIN, "--better").failed(2, "pip install 'capbench[view]'")


def results(bench: Bench, folder: Path) -> tuple[dict[tuple[str, str], Any], dict[str, Any]]:
    """Report on a session and run the task that it wrote; return results, and the task."""
    said = bench("rate", "photos", "--output", folder, "--report").succeeded().err
    command = next(line.removeprefix("next: bench ") for line in said.splitlines() if line.startswith("next: "))
    options = ("--format", "json", "--bootstrap", 20, "--output_path", folder / "runs")
    printed = bench(*command.split(), *options).succeeded().out
    result_of = {(row["metric"], row["statistic"]): row for row in json.loads(printed)}
    name = command.split()[-1]
    bench("validate", "--include_path", folder, name).succeeded("documents usable")
    return result_of, yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))


def rows_of(session: Session) -> list[dict[str, Any]]:
    """Return the rows that were made of answers; texts hold separators of lines that JSON does not have."""
    text = (session.folder / "session_rated.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def test_one_aspect_is_a_rating_and_raters_who_are_not_done_count(bench: Bench, tmp_path: Path) -> None:
    session = make_session(tmp_path, rows=6, aspects=["quality=1-5"])
    desk = rate_all(session, "ann", [{"quality": 1 + number % 5} for number in range(12)])
    assert desk.answer("bob", 0, {"quality": 2})
    # One who took all back has said nothing.
    assert desk.answer("cy", 0, {"quality": 2})
    desk.undo("cy")
    result_of, task = results(bench, session.folder)
    assert task["doc_to_human"] == "rating_quality"
    assert "2 raters" in task["description"]
    assert result_of["length", "kendall_c"]["n"] == 12
    rows = rows_of(session)
    assert sorted(len(row["rating_quality"]) for row in rows) == [1] * 11 + [2]


def test_choices_run_as_a_task(bench: Bench, tmp_path: Path) -> None:
    session = make_session(tmp_path, rows=6, better="Which?")
    rate_all(session, "ann", [0])
    rate_all(session, "bob", [0, 1, "tie", None, 0, 0])
    rate_all(session, "cy", [None])
    result_of, task = results(bench, session.folder)
    assert task["protocol"] == {"votes": "share", "human_ties": "half"}
    rows = rows_of(session)
    assert len(rows) == 6
    assert rows[0]["votes"][0] == 0
    assert rows[0]["votes"][2] is None
    assert rows[0]["captions"] == list(session.items[0].texts)
    shares = [
        sum(1.0 if vote == 0 else 0.5 if vote == "tie" else 0.0 for vote in row["votes"] if vote is not None)
        / sum(vote is not None for vote in row["votes"])
        for row in rows
    ]
    samples = pd.read_parquet(next((session.folder / "runs").rglob("samples.parquet")))
    expected = [
        0.5 if share == 0.5 or first == second else share if first > second else 1 - share
        for share, (first, second) in zip(shares, samples["scores.length"], strict=True)
    ]
    assert result_of["length", "accuracy"]["value"] == pytest.approx(sum(expected) / 6)
    assert result_of["length", "accuracy"]["n"] == 6


FOUR = {f"system-{n}": [f"caption {'of words ' * n}{row}" for row in range(6)] for n in range(4)}
MARK = {"start": 0, "end": 7, "category": "object", "severity": "minor"}


@pytest.mark.costly
@pytest.mark.parametrize(("asked", "said", "statistic", "row"), [
    ({"best_worst": "?"}, {"best": 3, "worst": 0}, "accuracy", {"ranks": [3, 2, 2, 1]}),
    ({"ranking": "?"}, [4, 3, 2, 1], "accuracy", {"ranks": [4, 3, 2, 1], "remarks": {"ann": "unsure"}}),
    ({"battle": "?"}, lambda pair: {"pair": list(pair), "better": max(pair)}, "accuracy", {"votes": [1]}),
    ({"spans": {"categories": ["object"]}}, [MARK] * 2, "kendall_b", {"rating_errors": [-2]}),
    ({"aspects": ["p=1-5", "q=1-5"]}, {"p": 4, "q": None}, "kendall_b_p", None),
])  # fmt: skip
def test_every_form_runs_as_a_task_at_once(bench: Bench, tmp_path: Path, asked, said, statistic, row) -> None:
    aspects = asked.pop("aspects", [])
    session = make_session(tmp_path, captions=FOUR, aspects=aspects, form=asked, repeats=1)
    desk = RatingQueue(session)
    while (place := desk.place("ann")).step is not None:
        answer = said(place.step.shown) if callable(said) else said
        # Not all can be told, and not all have errors.
        unsure = None if "ranking" in asked or "best_worst" in asked else [] if asked.get("spans") else answer
        assert desk.answer("ann", place.number, unsure if place.number == 2 else answer, "unsure")
    if row is None:
        done = bench("rate", "photos", "--output", session.folder, "--report").succeeded("'cannot tell'")
        assert "no rater could judge: no task is written" in done.err and "no ratings yet" not in done.err
        assert not (session.folder / "session_rated.yaml").exists()
        return
    result_of, task = results(bench, session.folder)
    assert result_of["length", statistic]["n"] > 0 and task["task"] == "session_rated"
    of_others = [entry for entry in rows_of(session) if entry.get("rating_errors") != [0]]
    assert of_others[0].items() >= row.items()


def test_images_of_which_nobody_could_tell_are_left_out_and_counted(bench: Bench, tmp_path: Path) -> None:
    session = make_session(tmp_path, rows=6, better="Which?")
    rate_all(session, "ann", [None, 0])
    done = bench("rate", "photos", "--output", session.folder, "--report").succeeded("3 of them 'cannot tell'")
    assert "left out: 3 rows in which no rater could judge" in done.err
    assert "3 rows" in done.err


def _rate_once(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    address = next(line.split()[1] for line in process.stdout if line.startswith("Open "))
    own, _, token = address.partition("/?")
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(f"{own}/raters/ann?{token}") as page:
        captions = re.findall(r'name="captions" value="(\w+)"', page.read().decode())[0]
    body = urllib.parse.urlencode({"number": "0", "choice": "0", "captions": captions}).encode()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{own}/raters/ann/answers", body)  # noqa: S310 - the address is our own
    ours = {"x-requested-with": "fetch"}
    sent = urllib.request.Request(f"{own}/raters/ann/answers?{token}", body, ours)  # noqa: S310
    with urllib.request.urlopen(sent) as answer:  # noqa: S310
        assert "1 of 2 answered" in answer.read().decode()


def test_the_server_takes_answers_from_its_own_pages_and_ends_with_a_report(tmp_path: Path) -> None:
    make_task(tmp_path, 2)
    command = [sys.executable, "-m", "capbench.cli.main", *BEGIN, "--better"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            _rate_once(process)
        except BaseException:
            process.kill()
            raise
        process.send_signal(signal.SIGINT)
        said, faults = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "1 answer by 1 rater" in said
        assert "next: bench run --include_path ratings/photos --task photos_rated" in faults
        assert "Traceback" not in faults
