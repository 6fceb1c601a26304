"""``bench import``: what is read, what is named and counted, what is refused."""

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from .conftest import WRONG_USAGE, lines_of

DATA = Path(__file__).parents[1] / "benchmarks" / "interchange" / "data" / "other_harnesses"
(LMMS_EVAL,) = (DATA / "lmms_eval").glob("*_samples_*.jsonl")
(LM_EVAL,) = (DATA / "lm_eval").glob("samples_*.jsonl")


def sample(number: int, caption: Any, **more: Any) -> dict[str, Any]:
    """Return a line of lm-eval's log."""
    doc = {"image_id": 100 + number, "image": f"{number}.jpg"}
    return {
        "doc_id": number, "doc": doc, "target": "a reference", "arguments": {}, "resps": [[caption]],
        "filtered_resps": [caption], "prompt_hash": "0", "filter": "none", **more,
    }  # fmt: skip


Load = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def load(bench) -> Load:
    """Return a function that imports a file which must do, and gives the rows that it wrote."""

    def load(*arguments: object) -> list[dict[str, Any]]:
        bench("import", *arguments, "-o", "captions.jsonl").succeeded()
        return lines_of(Path("captions.jsonl"))

    return load


def write_log(*lines: dict | bytes, name: str = "samples_t_2026-01-01T00-00-00.jsonl") -> Path:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    Path(name).write_bytes(b"\n".join(raw))
    return Path(name)


def test_values_of_single_captions_become_columns(load: Load):
    (row,) = load(
        write_log(sample(0, "a dog", cider=0.5, hit=True, undefined=float("nan"), huge=10**400, pair=["a", "b"]))
    )
    assert row == {
        "id": 100,
        "image": "0.jpg",
        "caption": "a dog",
        "references": ["a reference"],
        "logged_cider": 0.5,
        "logged_hit": 1.0,
    }


def test_results_beside_a_log_are_shown_though_one_is_undefined_and_without_sound_ones_the_means(bench):
    log = write_log(sample(0, "a", words=1), sample(1, "b", words=4), sample(2, "c"))
    assert "logged there: words 2.5\n" in bench("import", log, "-o", "c.jsonl").out
    values = '{"alias": "t", "words,none": 2.75, "words_stderr,none": NaN, "cider,none": NaN, "n": 1}'
    sound = f'{{"results": {{"t": {values}}}}}'
    for text in (sound, "{", '{"results": []}', '{"results": {"t": null}}', "[]"):
        Path("results_2026-01-01T00-00-00.json").write_text(text)
        shown = "2.75" if text == sound else "2.5"
        assert f"logged there: words {shown}\n" in bench("import", log, "-o", "c.jsonl").out


def test_bad_rows_are_named_and_counted_and_cost_no_other(bench):
    cut = json.dumps(sample(9, "cut off")).encode()[:-40]
    log = write_log(
        b"\xef\xbb\xbf" + json.dumps(sample(0, "with a byte order mark")).encode(),
        b"",
        json.dumps(sample(1, "caf\u00e9"), ensure_ascii=False).encode("latin-1"),
        sample(2, "two"),
        sample(2, "two again"),
        sample(3, ""),
        sample(4, ["-1.5", "False"]),
        {key: value for key, value in sample(5, "x").items() if key not in ("resps", "filtered_resps")},
        b"[1, 2]",
        {**sample(6, "no id"), "doc": {"image": "6.jpg"}},
        {**sample(7, "one"), "filtered_resps": ["one", "two"]},
        {**sample(8, "another filter"), "filter": "strict"},
        cut,
    )
    done = bench("import", log, "-o", "c.jsonl", "--key", "image_id").succeeded(
        "c.jsonl: 4 captions, 1 of them empty; 1 duplicates and 7 other rows left out"
    )
    assert [(row["id"], row["caption"]) for row in lines_of(Path("c.jsonl"))] == [
        (100, "with a byte order mark"),
        (102, "two"),
        (103, ""),
        (107, "one"),
    ]
    for line in (
        f"left out: {log.name}:3: not UTF-8",
        f"left out: {log.name}:8: has no filtered_resps and no resps; its keys are doc_id",
        f"left out: {log.name}:9: not a JSON object",
        f"duplicate: {log.name}:5: is a second caption for '102'; that of {log.name}:4 is kept",
        f"note: {log.name}:11: has 2 answers; the first is taken",
        "left out: 2 more",
    ):
        assert line in done.err


def test_reasons_of_single_lines(bench):
    lines = [{**sample(1, "b"), "filter": "strict"}, json.dumps(sample(9, "cut off")).encode()[:-40]]
    lines += [sample(2, {"a": 1}), {**sample(1, "b"), "doc": {}}, {**sample(2, "c"), "doc": {"image_id": 1.5}}]
    log = write_log(sample(0, "a"), *lines)
    done = bench("import", log, "-o", "c.jsonl", "--key", "image_id")
    assert "c.jsonl: 1 captions" in done.out
    for line in (
        "2: is of filter 'strict'; those of 'none' are read",
        "3: not JSON: ",
        "4: has no answer that is a text",
        "5: has no 'image_id' that names its document",
        "6: has no 'image_id'",
    ):
        assert f"{log.name}:{line}" in done.err


def test_log_with_nothing_to_import_is_an_error(bench):
    bench("import", write_log(sample(0, ["-1.5", "False"])), "-o", "c.jsonl").failed(1, "no caption could be read from")
    assert not Path("c.jsonl").exists()


@pytest.mark.parametrize(("key", "ids"), [("image", ["0.jpg", "1.jpg"]), ("doc_id", [0, 1]), ("image_id", [100, 101])])
def test_key_chooses_the_id_and_an_unknown_one_names_those_that_are_there(bench, load: Load, key: str, ids: list):
    log = write_log(sample(0, "a"), sample(1, "b"))
    assert [row["id"] for row in load(log, "--key", key)] == ids
    unknown = bench("import", log, "-o", "c.jsonl", "--key", "imageid")
    unknown.failed(2, "no caption has this field. Did you mean 'image_id'?")


def test_references_printed_as_a_python_list_are_read_as_data_only(load: Load):
    rows = load(
        write_log(
            {**sample(0, "x"), "target": "['it\\'s one', \"two\"]"},
            {**sample(1, "x"), "target": "[__import__('os').getcwd()]"},
            {**sample(2, "x"), "target": "[" * 5000},
            {**sample(3, "x"), "target": ""},
        )
    )
    assert rows[0]["references"] == ["it's one", "two"]
    assert rows[1]["references"] == ["[__import__('os').getcwd()]"]
    assert rows[2]["references"] == ["[" * 5000]
    assert "references" not in rows[3]


def table(*rows: list[Any], name: str = "model_COCO_VAL.xlsx") -> Path:
    book = openpyxl.Workbook()
    for row in (["index", "image_path", "answer", "prediction"], *rows):
        book.active.append(row)
    book.save(name)
    return Path(name)


def test_table_of_vlmevalkit_with_odd_cells(bench, load: Load):
    file = table(
        [0, "a.jpg", "['one', 'two']", "a caption_x000D_\nof two lines"],
        [1, "b.jpg", None, None],
        [2, "c.jpg", "one", "Failed to obtain answer via API. "],
        [3, "d.jpg", "one", 12],
        [None, None, None, None],
        [0, "a.jpg", "one", "again"],
    )
    done = bench("import", file, "-o", "c.jsonl", "--key", "index")
    assert "c.jsonl: 3 captions, 1 of them empty; 1 duplicates and 1 other rows left out" in done.out
    assert "model_COCO_VAL.xlsx: row 3: the model gave no answer" in done.err
    rows = load(file, "--key", "index")
    assert rows[0] == {"id": 0, "image": "a.jpg", "caption": "a caption\r\nof two lines", "references": ["one", "two"]}
    assert rows[1] == {"id": 1, "image": "b.jpg", "caption": ""}
    assert rows[2]["caption"] == "12"


def test_three_formats_of_vlmevalkit_are_one(load: Load):
    files = [DATA / "vlmevalkit" / f"recorded_COCO_VAL.{suffix}" for suffix in ("xlsx", "tsv", "json")]
    xlsx, tsv, as_json = (load(file, "--key", "image_path") for file in files)
    assert xlsx == tsv == as_json
    assert len(xlsx) == 6
    assert xlsx[4]["caption"] == "a café with black chairs and nobody inside"


def test_missing_openpyxl_names_the_extra(bench, monkeypatch: pytest.MonkeyPatch):
    file = table([0, "a.jpg", "x", "y"])
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("openpyxl"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    bench("import", file, "-o", "c.jsonl").failed(1, "pip install 'capbench[xlsx]'")


@pytest.mark.parametrize("raw", [b"", b"no zip", b"PK\x03\x04 cut"])
def test_workbook_that_is_none_is_an_error(bench, raw: bytes):
    Path("t.xlsx").write_bytes(raw)
    bench("import", "t.xlsx", "-o", "c.jsonl").failed(1, "t.xlsx: cannot be read as an .xlsx workbook")


def test_cocos_results_are_read(load: Load, bench):
    rows = [{"image_id": 139, "caption": "one"}, {"image_id": 0, "caption": "zero"}, {"image_id": 5}]
    Path("results.json").write_text(json.dumps(rows))
    assert load("results.json") == [{"id": 139, "caption": "one"}, {"id": 0, "caption": "zero"}]
    assert "row 3: has no caption that is a text" in bench("import", "results.json", "-o", "c.jsonl").err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.pkl", "x", "unknown format"),
        ("a.jsonl", '{"a": 1}\n', "has an unknown format; its columns are a"),
        ("a.jsonl", "", "has an unknown format"),
        ("a.tsv", "x\ty\n1\t2\n", "has an unknown format; its columns are x, y"),
        ("a.txt", "x", "unknown format"),
        ("a.json", "{}", "has an unknown format"),
        ("b.json", "1", "expected a list of objects"),
    ],
)
def test_file_of_no_known_format_is_refused(bench, name: str, text: str, message: str):
    Path(name).write_text(text)
    bench("import", name, "-o", "c.jsonl").failed(1, message)


@pytest.mark.parametrize(("typed", "refused"), WRONG_USAGE["import"].items())
def test_wrong_usage_is_refused(bench, typed: str, refused: tuple[int, str]):
    log = write_log(sample(0, "a"), name="log.jsonl")
    before = log.read_bytes()
    bench("import", *typed.split()).failed(*refused)
    assert log.read_bytes() == before
