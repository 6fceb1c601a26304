"""Rows of a pipeline as shards, read back by ``datasets``."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset
from PIL import Image
from tiny_images import noise_png

from capbench.cli.main import main
from capbench.recipes.data_synthesis import exporting

ROWS = 7


def write_rows(folder: Path, count: int = ROWS, **more: dict[int, Any]) -> Path:
    """Write rows as a pipeline does; ``more`` changes columns of single rows by number."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for number in range(3):
        (folder / "images" / f"{number}.png").write_bytes(noise_png(number))
    with (folder / "rows.jsonl").open("w") as file:
        for number in range(count):
            row = {
                "id": str(number), "image": f"images/{number % 3}.png", "captions": [f"a dog {number}"] * (number % 2),
                "score": number if number < 6 else 6.5, "further_images": ["images/0.png"],
                "provenance": [{"stage": "one", "counts": {f"n{number}": 1}}] * (number > 0),
            }  # fmt: skip
            file.write(json.dumps({**row, **{key: by[number] for key, by in more.items() if number in by}}) + "\n")
    (folder / "provenance.json").write_text('{"pipeline": "tiny"}')
    return folder


@pytest.mark.parametrize("form", ["webdataset", "parquet"])
def test_shards_are_read_by_datasets(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(exporting, "SHARD", 3 * len(noise_png(0)))
    monkeypatch.setattr(exporting, "_GROUP", 1)
    folder, out = write_rows(tmp_path / "made"), tmp_path / "shards"
    assert main(["export", "data", str(folder), "--format", form, "--output", str(out)]) == 0
    assert f"7 rows: {out}" in capsys.readouterr().out
    assert len(list(out.glob("train-*"))) > 1
    assert json.loads((out / "provenance.json").read_text()) == {"pipeline": "tiny"}

    # A folder on the disk, or on the hub.
    rows: Iterator[Any] = iter(load_dataset(str(out), split="train", streaming=True, cache_dir=str(tmp_path / "cache")))
    number = -1
    for number, row in enumerate(rows):
        values = row if form == "parquet" else row["json"]
        assert (values["id"], values["captions"]) == (str(number), [f"a dog {number}"] * (number % 2))
        assert values["score"] == (number if number < 6 else 6.5)
        assert json.loads(values["provenance"]) == [{"stage": "one", "counts": {f"n{number}": 1}}] * (number > 0)
        further = row["further_images"][0] if form == "parquet" else row["further_image_0.png"]
        for image, place in ((row["image" if form == "parquet" else "png"], number % 3), (further, 0)):
            with Image.open(folder / "images" / f"{place}.png") as expected:
                assert image.tobytes() == expected.convert(image.mode).tobytes()
    assert number == ROWS - 1


@pytest.mark.parametrize(
    ("more", "form", "said"),
    [
        ({"image": {5: "images/9.png"}}, "parquet", "row 5: there is no image"),
        ({"image": {5: "/etc/hostname"}}, "parquet", "row 5: image /etc/hostname lies outside"),
        ({"captions": {5: 3}}, "parquet", "rows 0 to 6: "),
        ({"further_images": {5: []}}, "webdataset", "row 5: has png, json, and rows before it png, further_image_0"),
    ],
)  # fmt: skip
def test_rows_that_are_no_data_set_are_named_and_nothing_is_left(
    more: dict[str, Any], form: str, said: str, tmp_path: Path, capsys
):
    folder = write_rows(tmp_path / "made", **more)
    assert main(["export", "data", str(folder), "--format", form, "--output", str(tmp_path / "shards")]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "shards").exists() and not list(tmp_path.glob(".draft*"))


@pytest.mark.costly
@pytest.mark.parametrize("form", ["webdataset", "parquet"])
def test_memory_does_not_grow_with_rows(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exporting, "_AT_ONCE", 10)

    def peak(count: int) -> int:
        folder = write_rows(tmp_path / f"made {count}", count)
        tracemalloc.start()
        exporting.export_rows(folder, form, tmp_path / f"out {count}")
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(20)
    assert peak(600) < 1.3 * peak(60)
