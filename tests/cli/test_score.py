"""``bench score``: captions in a file, outside any task."""

import csv
import json
from pathlib import Path

import pandas
import pytest

import capbench

from .conftest import cells_of

ROWS = [
    {"id": "a", "image": "1.jpg", "candidate": "a dog runs over grass", "references": ["a dog runs on grass"]},
    {"id": "b", "image": "2.jpg", "candidate": "zwei Hündchen 🐕", "references": ["two dogs", "dogs"]},
    {"id": "c", "image": "3.jpg", "candidate": "the cat sleeps", "references": ["the cat sleeps"]},
]


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    """Write three good rows (of 5, 3 and 3 words), and one with each kind of fault.

    The one without references has 2 words, which ``length`` counts.
    """
    bad = [
        b'{"id": "broken',
        b"[1, 2]",
        b'{"id": "latin", "candidate": "caf\xe9"}',
        b'{"id": "null", "candidate": null, "references": ["x"]}',
        b'{"id": "empty", "candidate": " ", "references": ["x"]}',
        b'{"id": "number", "candidate": 7, "references": ["x"]}',
        b'{"id": "no references", "candidate": "a dog", "references": []}',
        b'{"id": "a", "candidate": "a second a", "references": ["x"]}',
        b'{"id": "surrogate", "candidate": "\\ud83d dog", "references": ["x"]}',
        b"",
    ]
    file = tmp_path / "captions.jsonl"
    file.write_bytes(b"\n".join([json.dumps(row).encode() for row in ROWS] + bad))
    return file


def test_bad_rows_are_counted_with_their_place_and_the_others_are_scored(bench, jsonl: Path):
    done = bench("score", jsonl, "--metrics", "length", "bleu_1").succeeded()
    *lines, gap, scale = done.err.splitlines()
    assert (gap, scale) == ("", "values are unscaled; papers print those of text metrics × 100")
    assert lines[1:] == [
        "left out: 1 × row not a JSON object (first: captions.jsonl:5)",
        "left out: 1 × row not UTF-8 (first: captions.jsonl:6)",
        "left out: 1 × reference is an empty list (first: no references)",
        "left out: 1 × row has an id that occurred before; the first one was kept (first: a)",
        "counted as empty: 1 × candidate is null (first: null)",
        "counted as empty: 1 × candidate is empty (first: empty)",
        "counted as empty: 1 × candidate is not text but int (first: number)",
        "counted as empty: 1 × candidate is not valid UTF-8 (first: surrogate)",
    ]
    assert done.err.startswith("left out: 1 × row not JSON: ")
    length, bleu = cells_of(done.out)
    # 5, 3 and 3 words, and four times none.
    assert length == ["length", "length", "1.571429", "mean", "7", "4"]
    assert bleu[0::4] == ["bleu_1", "7"]
    # Empty captions are left out on request.
    done = bench("score", jsonl, "--metrics", "length", "bleu_1", "--empty_caption", "leave_out").succeeded()
    assert "left out: 1 × candidate is null (first: null)" in done.err
    assert "counted as empty" not in done.err
    assert cells_of(done.out)[0] == ["length", "length", "3.666667", "mean", "3", "0"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_output_holds_a_row_a_caption_with_full_precision(bench, jsonl: Path, suffix: str, tmp_path: Path):
    output = tmp_path / f"scores{suffix}"
    assert bench("score", jsonl, "--metrics", "length,bleu_1", "--output", output).code == 0
    if suffix == ".csv":
        rows = list(csv.DictReader(output.open(encoding="utf-8", newline="")))
    elif suffix == ".jsonl":
        rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    else:
        rows = pandas.read_parquet(output).to_dict("records")
    assert [row["id"] for row in rows] == ["a", "b", "c", "null", "empty", "number", "surrogate"]
    assert [row["candidate"] for row in rows] == [*(row["candidate"] for row in ROWS), "", "", "", ""]
    # 4 of 5 words match, and no word is missing.
    assert float(rows[0]["bleu_1"]) == pytest.approx(0.8, abs=1e-8)
    exact = capbench.score(ROWS, ["bleu_1"])
    assert [float(row["bleu_1"]) for row in rows[3:]] == [0, 0, 0, 0]
    assert [float(row["bleu_1"]) for row in rows[:3]] == [row["bleu_1"] for row in exact.rows]


def test_strict_stops_at_the_first_bad_row(bench, jsonl: Path, tmp_path: Path):
    bench("score", jsonl, "--metrics", "length", "--strict", "--output", tmp_path / "scores.csv").failed(
        1, "bench: error: captions.jsonl:4: row not JSON"
    )
    assert not (tmp_path / "scores.csv").exists()


def test_metric_that_fails_leaves_the_others_and_exits_1(bench, jsonl: Path, user_metrics, tmp_path: Path):
    done = bench("score", jsonl, "--metrics", "broken,length", "--output", tmp_path / "scores.jsonl").failed(
        1, "metric broken failed: the model is gone\nBring it back."
    )
    assert "1.625" in done.out
    first = json.loads((tmp_path / "scores.jsonl").read_text().splitlines()[0])
    assert (first["broken"], first["length"]) == (None, 5)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_output_that_cannot_be_written_says_why(bench, jsonl: Path, tmp_path: Path, suffix: str):
    done = bench("score", jsonl, "--metrics", "length", "--output", tmp_path / "no" / f"scores.{suffix}").failed(
        2, "cannot be written: "
    )
    assert "None" not in done.err


@pytest.mark.parametrize("metric", ["clip_s", "mid[gaussian=candidates]"])
def test_what_was_done_to_read_an_image_is_remarked(bench, tmp_path: Path, tiny_clip, metric: str):
    import numpy as np
    from PIL import Image

    generator = np.random.default_rng(0)
    rows = []
    for n in range(70):
        deep = n < 2
        levels = generator.integers(0, 60_000 if deep else 256, (40, 40)).astype(np.uint16 if deep else np.uint8)
        Image.fromarray(levels).save(tmp_path / f"{n}.png")
        rows.append({"candidate": f"number {n} of many", "image": f"{n}.png"})
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    model = ("--model", "open_clip", "--model_args", f"pretrained={tiny_clip.open_clip_folder},device=cpu")
    done = bench("score", file, "--metrics", metric, *model)
    assert "remark: 2 × image grey levels of 16 bits clipped at 255 (first: document 0)" in done.err
    assert "clipped" not in done.out


GTS = {
    "7": ["a dog runs on grass", "the dog is running", "a brown dog on a lawn"],
    "8": ["two cats sleep", "cats asleep on a bed"],
    "9": ["a red bus", "a bus on the street"],
}
RES = {"7": ["a dog is running"], "8": ["two cats on a bed"], "9": ["a red bus on a road"]}
ANNOTATIONS = {
    "info": {"year": 2014},
    "licenses": [{"id": 7, "name": "none"}],
    "images": [{"id": int(name), "file_name": f"COCO_val2014_{name.zfill(12)}.jpg"} for name in [*GTS, "10"]],
    "annotations": [
        {"id": number, "image_id": int(name), "caption": text}
        for number, (name, text) in enumerate([*((n, t) for n, texts in GTS.items() for t in texts), ("10", "a cat")])
    ],
}
FILES = {
    "clipscore": ({name: texts[0] for name, texts in RES.items()}, GTS),
    "pycocoevalcap": (RES, GTS),
    "coco": ([{"image_id": int(name), "caption": text} for name, (text,) in RES.items()], ANNOTATIONS),
    "rows": (
        [{"id": name, "candidate": text} for name, (text,) in RES.items()],
        [{"id": name, "references": texts} for name, texts in GTS.items()],
    ),
}
"""Of each tool: the captions, and their references."""


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Write the images of ``RES``, under their names and under those of COCO; one name is that of two files."""
    from tiny_images import noise_png

    folder = tmp_path / "photographs"
    folder.mkdir()
    for number, name in enumerate(RES):
        for file in (f"{name}.png", f"COCO_val2014_{name.zfill(12)}.jpg"):
            (folder / file).write_bytes(noise_png(number))
    (folder / "twice.jpg").write_bytes(noise_png(7))
    (folder / "twice.png").write_bytes(noise_png(7))
    return folder


def files_of(tool: str) -> tuple[str, str, str]:
    """Write the files of a tool into this folder, and return the arguments that name them."""
    captions, references = map(json.dumps, FILES[tool])
    Path("cands.json").write_text(captions)
    Path("refs.json").write_text(references)
    return "cands.json", "--references", "refs.json"


@pytest.mark.parametrize("tool", FILES)
def test_captions_and_references_of_two_files_have_the_numbers_of_pycocoevalcap(bench, tool: str):
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider

    done = bench("score", *files_of(tool), "--metrics", "cider,bleu_2", "--format", "json", "--output", "o.csv")
    cider, bleu = (row["value"] for row in json.loads(done.succeeded().out))
    expected, of_captions = Cider().compute_score(GTS, RES)
    assert cider == pytest.approx(expected, abs=1e-9)
    assert bleu == pytest.approx(Bleu(2).compute_score(GTS, RES, verbose=0)[0][1], abs=1e-9)
    rows = list(csv.DictReader(Path("o.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == list(RES)
    assert [float(row["cider"]) for row in rows] == pytest.approx(of_captions, abs=1e-9)
    assert ("refs.json: 1 of 4 names have no caption, and are not scored (first: 10)" in done.err) == (tool == "coco")


@pytest.mark.parametrize("tool", FILES)
def test_images_of_a_folder_are_found_by_the_names_of_captions(bench, tool: str, photographs: Path):
    model = ("--metrics", "refclip_s", "--model", "shapes-clip", "--image_dir", photographs, "--format", "json")
    (row,) = json.loads(bench("score", *files_of(tool), *model).succeeded().out)
    listed = capbench.score(
        predictions=RES,
        references=GTS,
        images={name: photographs / f"{name}.png" for name in RES},
        metrics="refclip_s",
        model="shapes-clip",
    )
    assert row["value"] == listed.system["refclip_s"] != 0
    if tool == "coco":
        for name in RES:
            (photographs / f"{name}.png").unlink()
        without_annotations = bench("score", files_of(tool)[0], "--metrics", "clip_s", *model[2:]).succeeded()
        assert [row["n"] for row in json.loads(without_annotations.out)] == [len(RES)]


def test_share_of_captions_that_were_cut_is_shown_and_sentences_are_not_cut(bench, photographs: Path):
    long = {"7": "a red square . \n" * 60, "8": "a blue circle"}
    Path("long.json").write_text(json.dumps(long))
    metrics = ("--metrics", "clip_s,clip_s[sentences=true]", "--model", "shapes-clip")
    said = bench("score", "long.json", *metrics, "--image_dir", photographs).succeeded().err
    assert "\nclip_s: 1 of 2 captions (50.0%) are longer than the encoder's context and were cut\n" in f"\n{said}"
    assert "clip_s[sentences=true]: " not in said
    # One that has no score counts neither here.
    Path("long.json").write_text(json.dumps({"7 missing": long["7"], "8": long["8"]}))
    assert "were cut" not in bench("score", "long.json", *metrics, "--image_dir", photographs).succeeded().err


def test_names_that_lead_nowhere_are_said(bench, photographs: Path):
    captions, *references = files_of("clipscore")
    Path(captions).write_text(json.dumps({**FILES["clipscore"][0], "cat": "a cat"}))
    done = bench("score", captions, *references, "--metrics", "cider").succeeded()
    assert "left out: 1 × row has no references in refs.json (first: cat)" in done.err
    images = ("--metrics", "clip_s", "--model", "shapes-clip", "--image_dir")
    done = bench("score", captions, *images, photographs).succeeded()
    assert f"left out: 1 × row has no image 'cat' in --image_dir {photographs} (first: cat)" in done.err
    bench("score", captions, *images, "none").failed(2, "--image_dir none: there is no such folder")
    Path(captions).write_text(json.dumps({"twice": "a cat"}))
    bench("score", captions, *images, photographs).failed(1, "image 'twice' may be any of twice.jpg, twice.png")
    Path("refs.json").write_text('[{"id": "7"}]')
    bench("score", captions, *references, "--metrics", "cider").failed(1, "refs.json: entry 0 has no name or no ref")
