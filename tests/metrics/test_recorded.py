"""Scores computed elsewhere: how they are read, found, counted and named."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capbench.errors import MetricError
from capbench.metrics import Context, Items, Scores, build_metric
from capbench.metrics import recorded as module
from capbench.metrics.recorded import Recorded

ITEMS = Items(
    ids=["a", "b", "c"],
    candidates=["a dog  runs", "two cats", "a dog runs"],
    references=[(), (), ()],
    weights=np.array([3.0, 1.0, 2.0]),
    image_names=["val/1.jpg", "val/2.png", "3"],
)
BY_ID = [{"id": "b", "score": 0.25}, {"id": "a", "score": -1}, {"id": "c", "score": "2e1"}]
BY_CAPTION = [
    {"image": "3", "caption": "a dog runs", "score": 20},
    {"image": "val/2.png", "caption": "two\tcats ", "score": 0.25},
    {"image": "val/1.jpg", "caption": "a dog runs", "score": -1},
]


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows in the format that a file's suffix names."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet

        columns = {name: [row[name] for row in rows] for name in rows[0]}
        pyarrow.parquet.write_table(pa.table(columns), path)
    elif path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def recorded(path: Path, **settings: Any) -> Recorded:
    metric = build_metric("recorded", {"file": str(path), "label": "FLEUR", **settings})
    assert isinstance(metric, Recorded)
    return metric


def reviewed(metric: Recorded, items: Items = ITEMS, *shards: Items) -> list[str]:
    """Return what is said of shards that were scored one by one."""

    def of(batch: Items) -> tuple[Scores, dict[int, str]]:
        scores = metric.score(batch, Context())
        return scores, {at: batch.ids[at] for at in scores.failures}

    return metric.review(map(of, [items, *shards]))


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("rows", [BY_ID, BY_CAPTION], ids=["id", "caption"])
def test_each_item_has_the_score_of_its_id_or_of_its_image_and_caption(tmp_path, suffix, rows):
    if suffix == ".parquet":
        rows = [{**row, "score": float(row["score"])} for row in rows]
    metric = recorded(write(tmp_path / f"scores{suffix}", rows))
    scores = metric.score(ITEMS, Context())
    assert scores.values.tolist() == [-1, 0.25, 20]
    assert scores.parts["row"].tolist() == ([2, 1, 3] if rows[0].get("id") else [3, 2, 1])
    assert scores.failures == {}
    assert reviewed(metric) == []
    assert (metric.label, metric.higher_is_better, metric.range) == ("FLEUR", True, (-math.inf, math.inf))


def test_columns_of_other_names_are_named_and_so_choose_how_scores_are_found(tmp_path: Path):
    rows = [{"id": "x", "file": r["image"], "text": r["caption"], "value": r["score"]} for r in BY_CAPTION]
    path = write(tmp_path / "scores.jsonl", rows)
    metric = recorded(path, score="value", image="file", caption="text")
    assert metric.score(ITEMS, Context()).values.tolist() == [-1, 0.25, 20]
    by_id = recorded(write(tmp_path / "other.jsonl", [{"n": "b", "score": 1}]), id="n")
    assert by_id.score(ITEMS, Context()).values[1] == 1


def test_id_that_is_a_whole_number_is_its_text(tmp_path: Path):
    items = Items(["0", "1"], ["a", "b"], [(), ()], np.ones(2))
    path = write(tmp_path / "scores.jsonl", [{"id": 1, "score": 5}, {"id": 0, "score": 4}])
    assert recorded(path).score(items, Context()).values.tolist() == [4, 5]


def test_bare_names_of_images_have_no_folders_and_no_suffix(tmp_path: Path):
    names = ["Flickr8k_Dataset/1.jpg", "C:\\images\\2.JPEG", "3.png"]
    captions = ["a dog runs", "two cats", "a dog runs"]
    rows = [{"image": n, "caption": c, "score": s} for s, (n, c) in enumerate(zip(names, captions, strict=True))]
    path = write(tmp_path / "scores.jsonl", rows)
    assert recorded(path, image_names="bare").score(ITEMS, Context()).values.tolist() == [0, 1, 2]
    with pytest.raises(MetricError, match=r"0 of 6 rows have a score.*coverage 0\.0000.*\n.*image_names=bare"):
        reviewed(recorded(path))


def test_only_known_suffixes_of_images_are_no_part_of_a_name(tmp_path: Path):
    items = Items(["a", "b"], ["x", "x"], [(), ()], np.ones(2), image_names=["v1.5", "v1.jpg.old"])
    rows = [{"image": "v1", "caption": "x", "score": 1}, {"image": "v1.jpg.old", "caption": "x", "score": 2}]
    metric = recorded(write(tmp_path / "scores.jsonl", rows), image_names="bare")
    np.testing.assert_array_equal(metric.score(items, Context()).values, [np.nan, 2])


def test_caption_without_a_score_is_named_and_the_run_fails_below_the_coverage(tmp_path: Path):
    path = write(tmp_path / "scores.jsonl", BY_ID[1:])
    scores = recorded(path).score(ITEMS, Context())
    np.testing.assert_array_equal(scores.values, [-1, np.nan, 20])
    assert scores.failures == {1: "has no score in scores.jsonl"}
    # By rows of the data set: 3 + 2 of 6.
    with pytest.raises(MetricError, match=r"5 of 6 rows .*0\.8333, where 1 is required\); .*: b\n"):
        reviewed(recorded(path))
    assert reviewed(recorded(path, coverage=5 / 6)) == []
    with pytest.raises(MetricError, match=r"where 0\.84 is required"):
        reviewed(recorded(path, coverage=0.84))


def test_scores_of_no_caption_are_counted_and_named_whatever_the_shards(tmp_path: Path):
    more = [{"id": f"x{n}", "score": n} for n in range(5)]
    metric = recorded(write(tmp_path / "scores.jsonl", [*more, *BY_ID]))
    (said,) = reviewed(metric)
    assert said == ("leaves 5 of 8 scores of scores.jsonl unused, which are of no caption here: rows 1, 2, 3, …")
    shards = [ITEMS.subset(np.array([n])) for n in (2, 0, 1)]
    assert reviewed(metric, *shards) == [said]
    few = recorded(write(tmp_path / "few.jsonl", [*BY_ID, more[0]]))
    assert reviewed(few)[0].endswith("of no caption here: rows 4")
    of_none = {"image": "4", "caption": "a dog runs", "score": 0}
    by_caption = recorded(write(tmp_path / "captions.jsonl", [*BY_CAPTION, of_none]))
    assert reviewed(by_caption)[0].endswith("which are of no caption here: rows 4")


def test_error_names_captions_without_a_score_and_scores_without_a_caption(tmp_path: Path):
    path = write(tmp_path / "scores.jsonl", [{"id": "A", "score": 1}, {"id": "b", "score": None}])
    with pytest.raises(MetricError) as raised:
        reviewed(recorded(path))
    message = raised.value.message
    assert "the first without one: a, b, c; it leaves 1 of 1 scores" in message
    assert message.endswith("it cannot read 1 rows of scores.jsonl: row 2 has no 'score'")
    twice = [ITEMS.subset(np.array([n])) for n in (0, 0, 1)]
    with pytest.raises(MetricError, match="the first without one: a, b; it leaves"):
        reviewed(recorded(path), *twice)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"id": "x"}', "row 4 has no 'score'"),
        ('{"id": "x", "score": "good"}', "row 4 'score' is not a number: 'good'"),
        ('{"id": "x", "score": true}', "row 4 'score' is not a number: True"),
        ('{"id": "x", "score": "inf"}', "row 4 'score' is not finite: 'inf'"),
        ('{"id": "x", "score": NaN}', "scores.jsonl:4 not JSON: NaN is not a JSON value"),
        ('{"score": 1}', "row 4 'id' is not a name: None"),
        ('{"id": [1], "score": 1}', "row 4 'id' is not a name: [1]"),
        ('{"id": true, "score": 1}', "row 4 'id' is not a name: True"),
    ],
)
def test_row_that_holds_no_score_is_counted_and_named(tmp_path: Path, row: str, reason: str):
    path = write(tmp_path / "scores.jsonl", BY_ID)
    path.write_text(path.read_text() + row + "\n")
    assert reviewed(recorded(path)) == [f"cannot read 1 rows of scores.jsonl: {reason}"]
    path.write_text(path.read_text() + 4 * (row + "\n"))
    (said,) = reviewed(recorded(path))
    assert said.startswith(f"cannot read 5 rows of scores.jsonl: {reason}; ") and said.endswith("; …")


def test_two_rows_of_one_key_are_refused_unless_they_say_the_same(tmp_path: Path):
    path = write(tmp_path / "scores.jsonl", [*BY_ID, {"id": "a", "score": -1.0}])
    assert recorded(path).score(ITEMS, Context()).values.tolist() == [-1, 0.25, 20]
    assert reviewed(recorded(path)) == []
    path = write(tmp_path / "other.jsonl", [*BY_ID, {"id": "a", "score": 7}])
    with pytest.raises(MetricError, match=r"other\.jsonl: 1 keys have two .* rows 2 \(-1\) and 4 \(7\)") as raised:
        recorded(path).check()
    assert "remove one row" in raised.value.hint


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"name": "a", "score": 1}], r"has no column 'image' and none 'caption'; it has name, score"),
        ([{"id": "a", "value": 1}], r"has no column 'score'; it has id, value"),
        ([{"image": "a", "score": 1}], r"has no column 'caption'; it has image, score"),
        ([{"id": "a", "score": None}], r"has no score; row 1 has no 'score'$"),
        ([], r"has no score$"),
    ],
)
def test_file_without_scores_is_refused(tmp_path: Path, rows: list[dict[str, Any]], message: str):
    with pytest.raises(MetricError, match=message):
        recorded(write(tmp_path / "scores.jsonl", rows)).check()


def test_named_column_that_is_not_there_is_refused(tmp_path: Path):
    path = write(tmp_path / "scores.jsonl", BY_ID)
    with pytest.raises(MetricError, match="has no column 'key'; it has id, score"):
        recorded(path, id="key").check()
    with pytest.raises(MetricError, match="has no column 'picture' and none 'caption'"):
        recorded(path, image="picture").check()


def test_file_that_cannot_be_read_is_refused(tmp_path: Path):
    with pytest.raises(MetricError, match=r"none\.jsonl: cannot be read: No such file"):
        recorded(tmp_path / "none.jsonl").check()
    (tmp_path / "scores.txt").write_text("1")
    with pytest.raises(MetricError, match=r"scores\.txt: unknown format"):
        recorded(tmp_path / "scores.txt").check()
    (tmp_path / "scores.parquet").write_text("1")
    with pytest.raises(MetricError, match="not a readable Parquet file"):
        recorded(tmp_path / "scores.parquet").check()


def test_scores_by_image_need_images(tmp_path: Path):
    items = Items(["a"], ["a dog runs"], [()], np.ones(1))
    with pytest.raises(MetricError, match=r"the scored rows have no images.*\n.*Add a column 'id' to the file"):
        recorded(write(tmp_path / "scores.jsonl", BY_CAPTION)).score(items, Context())


def test_fingerprint_is_of_what_the_file_holds_and_not_of_where_it_lies(tmp_path: Path):
    path = write(tmp_path / "scores.jsonl", BY_ID)
    (tmp_path / "elsewhere").mkdir()
    copy = write(tmp_path / "elsewhere" / "copy.jsonl", BY_ID)
    assert recorded(path).fingerprint() == recorded(copy, label="Another").fingerprint()
    others = [
        recorded(write(tmp_path / "other.jsonl", BY_ID[:2])),
        recorded(path, image_names="bare"),
        recorded(path, id="id"),
        recorded(path, higher_is_better=False),
    ]
    assert all(other.fingerprint() != recorded(path).fingerprint() for other in others)


def test_what_was_read_is_kept_for_other_processes_and_read_anew_where_the_file_differs(tmp_path, monkeypatch):
    path = write(tmp_path / "scores.jsonl", BY_ID)
    first = recorded(path).score(ITEMS, Context()).values.tolist()
    with monkeypatch.context() as patch:
        patch.setattr("capbench.metrics.recorded.read_rows", lambda path: pytest.fail("is read again"))
        assert recorded(path).score(ITEMS, Context()).values.tolist() == first
    write(path, [{**row, "score": 3} for row in BY_ID])
    assert recorded(path).score(ITEMS, Context()).values.tolist() == [3, 3, 3]
    # 24 bytes a score, in an array that is mapped.
    keys = recorded(path)._scores.keys
    assert isinstance(keys.base, np.memmap) or isinstance(keys, np.memmap) or not keys.flags.owndata


def test_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path / "scores.jsonl", BY_ID)
    read = module.read_rows

    def changing(file: Path) -> Any:
        yield from read(file)
        write(path, BY_ID[:2])

    monkeypatch.setattr(module, "read_rows", changing)
    with pytest.raises(MetricError, match="changed while it was read"):
        recorded(path).check()
