"""``bench`` on tasks that match crops with captions."""

from __future__ import annotations

import json
from pathlib import Path

from tiny_clip import TinyClip


def test_group_is_run_with_a_model_and_shown_as_the_paper_has_it(bench, dci, tiny_clip, tmp_path: Path):
    model_args = f"pretrained={tiny_clip.checkpoint},architecture={tiny_clip.architecture},device=cpu,name=tiny"
    done = bench(
        *("run", "--model", "open_clip", "--model_args", model_args, "--task", "dci", "--data", f"dci={dci}"),
        *("--skip_checks", "--bootstrap", 20, "--output_path", tmp_path / "runs"),
    ).succeeded()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.out.splitlines()[2:]]
    assert [(row[0], row[1], row[2], row[3], row[-2]) for row in rows] == [
        ("sDCI All SCM", "tiny", "SCM ↑", "accuracy", "25"),
        ("sDCI All Neg", "tiny", "Neg ↑", "accuracy", "25"),
        ("sDCI All Pick5-SCM", "tiny", "SCM ↑", "accuracy", "23"),
        ("sDCI All Pick5-Neg", "tiny", "Neg ↑", "accuracy", "23"),
        ("sDCI Base Neg", "tiny", "Neg ↑", "accuracy", "6"),
        ("sDCI All Hard-Negs", "tiny", "Neg ↑", "accuracy", "25"),
    ]
    assert rows[0][-1].startswith("the data failed its checks (documents: expected 112, found 5")
    assert "dci_all_scm: left out: 1 × row has no summaries (first: no_summaries.json)" in done.err
    assert "dci_pick5_scm: left out: 1 × candidate is left out: 4 captions of 5 are there" in done.err
    assert "5 of 5 documents scored" in done.err
    (path,) = tmp_path.glob("runs/dci_all_scm/tiny/*/run.json")
    record = json.loads(path.read_text())
    value = record["results"]["dci_all_scm"]["scm.accuracy,none"]
    assert 0 < value < 1
    assert f"{100 * value:.2f}" in rows[0]
    assert (path.parent / "samples.parquet").is_file()


def test_dry_run_says_what_is_measured(bench, dci: Path, tiny_clip: TinyClip):
    model_args = f"pretrained={tiny_clip.checkpoint},architecture={tiny_clip.architecture}"
    asked = ("run", "--model", "open_clip", "--model_args", model_args, "--task", "dci_hard_neg", "--dry_run")
    bench(*asked, "--data", f"dci_hard_neg={dci}").succeeded("metrics:    neg")


def test_copy_without_the_splits_file_says_what_to_do(bench, tmp_path: Path, tiny_clip: TinyClip):
    (tmp_path / "empty/photos").mkdir(parents=True)
    model_args = f"pretrained={tiny_clip.hf_folder},device=cpu"
    asked = ("run", "--model", "hf_clip", "--model_args", model_args, "--task", "dci_all_scm")
    done = bench(*asked, "--data", f"dci_all_scm={tmp_path / 'empty'}").failed(1, "holds no splits.json")
    assert "Traceback" not in done.err


def test_validation_reads_the_data_without_a_model(bench, dci: Path):
    done = bench("validate", "dci_all_scm", "--data", f"dci_all_scm={dci}").failed(1)
    assert "data checks failed; 5 of 5 documents usable" in done.out
    assert "rows: expected 1,462, found 25" in done.out
    assert bench("validate", "dci_full_all_scm", "--data", f"dci_full_all_scm={dci}").code == 0


def test_every_choice_is_explained(bench):
    scm = bench("show", "dci_pick5_scm").out
    for choice in ("split: test (", "crops: all (", "negative: swaps (", "min_size: 224 (", "padding: 0.15 ("):
        assert choice in scm
    for choice in ("measure: scm (", "grouping: blocks (", "block_size: 8 (", "captions: 5 (", "pick: first ("):
        assert choice in scm
    assert "SCM: beside 'All Pick5-SCM' of the model of the run" in scm
    neg = bench("show", "dci_hard_neg").out
    assert "negative: hardest (" in neg
    assert "measure: neg (" in neg
    assert "grouping" not in neg
    assert "pick" not in neg


def test_reader_of_the_user_is_shown_with_what_it_is_given_and_does_not_run(bench, write_task):
    folder = write_task(dataset_path=None, custom_dataset=None)
    (folder / "small.yaml").write_text(
        "task: small\noutput_type: agreement\ncustom_dataset: !function mine.rows\n"
        "dataset_kwargs: {depth: 3, other: x}\ndoc_to_candidate: c\ndoc_to_human: h\n"
        "metric_list: [length]\nstatistics: [kendall_b]\nmetadata: {version: 1}\n"
    )
    (folder / "mine.py").write_text('raise SystemExit("ran")\n')
    out = bench("show", "small", "--include_path", folder).out
    # What else it takes is known by running it alone.
    assert "\n             depth: 3\n             other: x\n" in out
    assert "\nfunctions    !function mine.rows (not allowed)\n" in out
