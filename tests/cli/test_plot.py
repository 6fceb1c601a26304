"""``bench plot``: what it writes, what it says, what it refuses."""

import pytest
from finished_runs import write_record
from made_records import agreement_record, rated_captions
from PIL import Image

from .conftest import WRONG_USAGE

VALUES = {"cider": (0.44, 0.42, 0.46), "meteor": (0.42, 0.4, 0.44)}


@pytest.mark.parametrize("kind", ["agreement", "ratings", "length"])
def test_each_kind_is_written_and_its_file_printed(bench, kind, tmp_path):
    run = write_record(tmp_path, "run", rated_captions(["cider", "meteor"]))
    done = bench("plot", kind, run, "-o", "figure.png", "--width", "double")
    assert (done.code, done.out, done.err) == (0, "figure.png\n", "")
    assert Image.open("figure.png").width == 2070


def test_what_is_left_out_is_said(bench, tmp_path):
    write_record(tmp_path / "runs", "good", agreement_record(VALUES))
    write_record(tmp_path / "runs", "pairs", agreement_record(VALUES, task="pairs", statistic="accuracy"))
    (tmp_path / "runs" / "cut").mkdir()
    (tmp_path / "runs" / "cut" / "run.json").write_text("{")
    done = bench("plot", "agreement", tmp_path / "runs", "-o", "figure.svg", "--statistic", "kendall_c").succeeded()
    assert "cut/run.json: cannot be read as a run" in done.err
    assert "Pairs is left out: it has no statistic kendall_c" in done.err


@pytest.mark.parametrize(("typed", "said"), WRONG_USAGE["plot"].items())
def test_wrong_use_is_refused_before_anything_is_written(bench, typed, said, tmp_path):
    write_record(tmp_path, "run", agreement_record(VALUES))
    (tmp_path / "folder.png").mkdir()
    bench("plot", *typed.split()).failed(2, said)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["folder.png", "run"]
