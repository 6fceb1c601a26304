"""``bench export pairs`` and ``prompts``: each row filled, the run has what it asks for."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from test_readme import block
from tiny_dci import make_tiny_dci

from capbench.adapters import ImageHandle

from .conftest import lines_of


def fill_in(file: Path, value: Callable[[int, dict[str, Any]], Mapping[str, Any]]) -> Path:
    """Write the rows of a file with what was missing, and return that file."""
    filled = file.with_suffix(".filled.jsonl")
    rows = [json.dumps({**row, **value(number, row)}) for number, row in enumerate(lines_of(file))]
    filled.write_text("\n".join(rows), encoding="utf-8")
    return filled


def value_of(runs: Path, task: str, key: str) -> tuple[float, dict[str, Any]]:
    (file,) = runs.glob(f"{task}/*/*/run.json")
    record = json.loads(file.read_text())
    return record["results"][task][f"{key},none"], record


def with_images(folder: Path, count: int = 4) -> Path:
    """Put images where a task of the tests looks for them."""
    for number in range(count):
        (folder / f"{number}.jpg").write_bytes(f"image {number}".encode())
    return folder


def test_pairs_of_tasks_that_match_have_boxes_and_each_is_scored(bench, tmp_path: Path):
    dci = make_tiny_dci(tmp_path / "dci")
    data = ("--data", f"dci={dci}")
    both = ("dci_all_scm", "dci_all_neg")
    exported = bench("export", "pairs", "--tasks", *both, *data, "-o", tmp_path / "pairs.jsonl").succeeded()
    rows = lines_of(tmp_path / "pairs.jsonl")
    assert exported.out == f"{len(rows):,} pairs: {tmp_path / 'pairs.jsonl'}\n"
    assert "left out: 2 × row has no summaries (first: no_summaries.json)" in exported.err
    assert {row["image"] for row in rows} == {f"photos/sa_{number}.png" for number in range(1, 6)}
    assert {tuple(row) for row in rows} == {("image", "text"), ("image", "box", "text")}
    # What both tasks have scored stands there once.
    assert len({json.dumps(row) for row in rows}) == len(rows)
    file = fill_in(tmp_path / "pairs.jsonl", lambda number, row: {"score": number})
    bench(
        *("run", "--model", f"pair_scores:{file}", "--task", ",".join(both), *data, "--skip_checks"),
        *("--bootstrap", 0, "--output_path", tmp_path / "runs"),
    ).succeeded()
    for task, key, entries in (("dci_all_scm", "scm.accuracy", 25), ("dci_all_neg", "neg.accuracy", 25)):
        _, record = value_of(tmp_path / "runs", task, key)
        assert record["intervals"][key]["n"] == entries
    # A row less, and the run ends.
    file.write_text("\n".join(file.read_text().splitlines()[:-1]))
    bench("run", "--model", f"pair_scores:{file}", "--task", both[1], *data, "--skip_checks").failed(1, "lacks 1 of")


def test_pairs_of_rated_captions_are_those_of_itm_score(bench, write_task, tmp_path: Path):
    folder = with_images(write_task(metric_list=["length"]), 3)
    (folder / "rows.jsonl").write_text((folder / "rows.jsonl").read_text().replace("a dog", "ein süßer Hund"))
    options = ("--include_path", folder)
    # '--task', as elsewhere, names one too.
    files = ("--output", tmp_path / "pairs.jsonl", "--images", tmp_path / "none")
    exported = bench("export", "pairs", "--task", "small", *options, *files).succeeded()
    # Files stay where they are.
    assert not (tmp_path / "none").exists()
    assert lines_of(tmp_path / "pairs.jsonl") == [
        {"image": f"{number}.jpg", "text": "ein süßer Hund" + " runs" * number} for number in range(3)
    ]
    assert "left out: 1 × metric itm_score: " in exported.err
    # In the folder of the test, as a reader of the page would.
    exec(block("python", "my_score", "docs/recorded.md"), {"my_score": lambda image, box, text: len(text)})  # noqa: S102
    run = ("run", "--task", "small", *options, "--metrics", "itm_score", "--bootstrap", 0)
    bench(*run, "--model", "pair_scores:scored.jsonl", "--output_path", tmp_path / "runs").succeeded()
    value, record = value_of(tmp_path / "runs", "small", "itm_score.kendall_b")
    # Ratings 1, 3, 2 against scores that grow.
    assert (value, record["intervals"]["itm_score.kendall_b"]["n"]) == (pytest.approx(1 / 3), 3)


def test_pairs_of_drawn_images_go_by_digest_and_say_what_is_drawn(bench, tmp_path: Path):
    drawn = tmp_path / "images" / "drawn"
    words = ("export", "pairs", "--tasks", "shapes_foil", "-o", tmp_path / "pairs.jsonl")
    assert bench(*words).code == 0
    named = lines_of(tmp_path / "pairs.jsonl")
    assert bench(*words, "--images", drawn).code == 0
    rows = lines_of(tmp_path / "pairs.jsonl")
    assert [{**row, "image_file": other["image_file"]} for row, other in zip(named, rows, strict=True)] == rows
    assert rows[0]["image_name"].startswith("drawn scene ")
    files = {row["image_file"]: row["image"] for row in rows}
    # The file of a row is the picture that its digest is of.
    assert {Path(name) for name in files} == {*drawn.iterdir()}
    for name, digest in files.items():
        assert Path(name).suffix == ".jpg"
        assert ImageHandle(Path(name)).digest() == digest
    file = fill_in(tmp_path / "pairs.jsonl", lambda number, row: {"score": number % 7})
    run = ("run", "--task", "shapes_foil", "--metrics", "itm_score", "--model", f"pair_scores:{file}")
    bench(*run, "--bootstrap", 0, "--output_path", tmp_path / "runs").succeeded()
    assert value_of(tmp_path / "runs", "shapes_foil", "itm_score.accuracy")[1]["failures"] == []


def test_rows_without_a_response_are_told_what_they_lack(bench, write_task, tmp_path: Path):
    folder = with_images(write_task(metric_list=["clair"]))
    task = json.loads((folder / "small.yaml").read_text())
    (folder / "again.yaml").write_text(json.dumps({**task, "task": "again"}))
    words = ("--include_path", folder, "-o", tmp_path / "prompts.jsonl")
    assert bench("export", "prompts", "--tasks", "small", "again", *words).code == 0
    # What both tasks ask stands there once.
    prompts = [row["prompt"] for row in lines_of(tmp_path / "prompts.jsonl")]
    assert len(prompts) == len({*prompts}) > 0
    run = ("run", "--task", "small", "--include_path", folder)
    refused = bench(*run, "--judge", f"responses:{tmp_path / 'prompts.jsonl'}")
    assert refused.code != 0
    assert "it has no 'response'; it has: 'prompt'" in refused.err


def test_two_images_of_one_name_are_refused(bench, write_task, tmp_path: Path):
    folder = with_images(write_task())
    task = json.loads((folder / "small.yaml").read_text())
    other = tmp_path / "other"
    other.mkdir()
    (with_images(other) / "0.jpg").write_bytes(b"another image")
    (other / "other.yaml").write_text(json.dumps({**task, "task": "other"}))
    (other / "rows.jsonl").write_text((folder / "rows.jsonl").read_text())
    bench(
        *("export", "pairs", "--tasks", "small,other", "-o", tmp_path / "pairs.jsonl"),
        *("--include_path", folder, "--include_path", other),
    ).failed(1, "two images are called 0.jpg: ")
    assert not (tmp_path / "pairs.jsonl").exists()


def test_prompts_about_images_have_their_digest_and_the_tokens_that_are_wanted(bench, write_task, tmp_path: Path):
    folder = with_images(write_task())
    (tmp_path / "fleur.txt").write_text("Rate: {candidate}")
    metric = f"fleur[prompt={tmp_path / 'fleur.txt'}]"
    bench(
        *("export", "prompts", "--tasks", "small", "--include_path", folder),
        *("--metrics", metric, "-o", tmp_path / "prompts.jsonl"),
    ).succeeded()
    row = lines_of(tmp_path / "prompts.jsonl")[1]
    assert row == {
        "prompt": "Rate: a dog runs",
        "image": ImageHandle(folder / "1.jpg").digest(),
        "image_name": "1.jpg",
        "candidates": [str(digit) for digit in range(10)],
    }


def test_captions_of_a_model_are_paired_with_their_images(bench, write_captioning_task, tmp_path: Path):
    folder = with_images(write_captioning_task())
    captions = tmp_path / "captions.jsonl"
    captions.write_text("\n".join(json.dumps({"id": f"r{n}", "caption": f"caption {n}"}) for n in range(4)))
    options = ("--tasks", "small", "--include_path", folder, "-o", tmp_path / "pairs.jsonl")
    bench("export", "pairs", *options, "--model", "captions", "--model_args", f"path={captions}").succeeded()
    assert lines_of(tmp_path / "pairs.jsonl") == [{"image": f"{n}.jpg", "text": f"caption {n}"} for n in range(4)]
    bench("export", "pairs", *options).failed(2, "needs a model that writes captions")


def test_what_a_judge_is_asked_next_follows_from_its_answers(bench, write_task, tmp_path: Path):
    folder = with_images(write_task())
    facts = [{"image_name": f"{n}.jpg", "oracle_caption": "t", "oracle_facts": ["f", f"{n}"]} for n in range(4)]
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, facts)))
    metric = f"dcscore[facts={tmp_path / 'facts.jsonl'}]"
    options = ("--tasks", "small", "--include_path", folder, "--metrics", metric)
    replies = {
        "Break": '[{"fact": "It is red.", "relevance": 1}]',
        "Two lists": '[{"number": 0, "matched_oracle_id": 0}]',
        "": '[{"number": 0, "verification": 1}]',
    }
    answers = tmp_path / "answers.jsonl"
    answers.write_text("")
    counts: list[int] = []
    for turn in range(3):
        known = ("--answers", answers) if turn else ()
        bench("export", "prompts", *options, *known, "-o", tmp_path / "next.jsonl").succeeded()
        rows = lines_of(tmp_path / "next.jsonl")
        counts.append(len(rows))
        if turn == 1:
            assert {(row["temperature"], row["seed"], "image" in row) for row in rows} == {
                *((1.0, seed, False) for seed in range(3)),
                *((0.3, seed, True) for seed in range(3)),
            }
        with answers.open("a") as file:
            for row in rows:
                reply = next(text for start, text in replies.items() if row["prompt"].startswith(start))
                file.write(json.dumps({**row, "response": reply}) + "\n")
    # Of each caption its facts; then three times what matches and what is true.
    assert counts == [4, 24, 0]
    run = ("run", "--task", "small", "--include_path", folder, "--metrics", metric, "--bootstrap", 0)
    done = bench(*run, "--judge", f"responses:{answers}", "--output_path", tmp_path / "runs").succeeded()
    assert "failed" not in done.err
