import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from task_keys import AGREEMENT, write_task

import capbench
from capbench.benchmarks.statistics.contract import ONE_IMAGE
from capbench.errors import MetricError, UsageError
from capbench.metrics import Context, Items
from capbench.metrics.chair import ChairI, ChairS, SynonymTable, find_table, read_table, singular, tokens
from capbench.metrics.golden import golden_items

CANDIDATES = [
    "A man walks a dog and a cat.",  # man in reference, dog marked, cat neither
    "Two dogs, a dog and a horse.",  # 3 mentions: dog, dog, horse; horse is neither
    "The sun sets.",  # no mention
    "A cat.",  # marked
]
REFERENCES = [("A person outside.",), ("a dog",), ("a kite",), ("nothing",)]
OBJECTS = [{"dog"}, set(), {"dog"}, {"cat"}]


@pytest.fixture
def items() -> Items:
    return chair_items(CANDIDATES, REFERENCES, OBJECTS)


def chair_items(
    candidates: Sequence[str],
    references: Sequence[tuple[str, ...]],
    objects: Sequence[set[str]],
    weights: Sequence[int] | None = None,
) -> Items:
    return golden_items(candidates, references, weights, objects=list(map(frozenset, objects)))


def test_mention_is_hallucinated_if_neither_marked_nor_in_a_reference(items: Items, table_file: Path):
    scores = ChairI(synonyms=str(table_file)).score(items, Context())
    assert scores.parts["mentions"].tolist() == [3, 3, 0, 1]
    assert scores.parts["hallucinated"].tolist() == [1, 1, 0, 0]
    assert scores.values.tolist() == [1 / 3, 1 / 3, 0, 0]
    assert not scores.failures


def test_chair_i_of_a_set_is_a_share_of_its_mentions_and_chair_s_of_its_captions(items, table_file):
    for metric, equal, weighted in ((ChairI, 2 / 7, (2 + 1) / (6 + 3 + 1)), (ChairS, 2 / 4, 3 / 5)):
        chair = metric(synonyms=str(table_file))
        scores = chair.score(items, Context())
        assert chair.corpus(scores, np.ones(4)) == pytest.approx(equal)
        # The captions without mention count in CHAIRs alone.
        assert chair.corpus(scores, np.array([2, 1, 1, 1])) == pytest.approx(weighted)


def test_set_without_a_mention_has_no_share_and_says_why(table_file: Path):
    items = chair_items(["The sun sets.", "Clouds"], [("a dog",)] * 2, [{"dog"}] * 2)
    metric = ChairI(synonyms=str(table_file))
    assert np.isnan(metric.corpus(metric.score(items, Context()), items.weights))
    assert "no caption mentions any of the 80 COCO objects" in metric.undefined
    assert ChairS(synonyms=str(table_file)).score(items, Context()).values.tolist() == [0, 0]


def test_object_that_the_table_lacks_fails_its_item_alone(table_file: Path):
    items = chair_items(["a dog", "a dog"], [("a dog",)] * 2, [{"dog"}, {"dog", "unicorn"}])
    scores = ChairS(synonyms=str(table_file)).score(items, Context())
    np.testing.assert_array_equal(scores.values, [0, np.nan])
    assert scores.failures == {1: "its image holds 'unicorn', which is not in the table of COCO objects"}


def test_rows_of_a_file_bring_their_objects(table_file, monkeypatch, tmp_path):
    folder = tmp_path / "data/chair"
    folder.mkdir(parents=True)
    (folder / "synonyms.txt").write_bytes(table_file.read_bytes())
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path / "data"))
    rows = [
        {"id": "a", "candidate": "a dog and a cat", "references": ["a dog"], "objects": []},
        {"id": "b", "candidate": "a dog and a cat", "references": ["a dog"], "objects": ["cat"]},
        {"id": "c", "candidate": "a cat", "references": ["a dog"]},
        {"id": "d", "candidate": "a cat", "references": ["a dog"], "objects": "cat"},
        {"id": "e", "candidate": "a cat", "references": ["a dog"], "objects": [1]},
    ]
    table = capbench.score(rows, ["chair_i", "chair_s"])
    assert [(row["id"], row["chair_i"], row["chair_s"]) for row in table.rows] == [("a", 0.5, 1), ("b", 0, 0)]
    assert table.system == {"chair_i": 1 / 4, "chair_s": 1 / 2}
    assert {f["samples"][0]: f["reason"] for f in table.failures} == {
        "c": "are null; an image without any has an empty list",
        "d": "are not a list of names but str",
        "e": "hold a name that is not text but int",
    }


def test_task_brings_objects_by_doc_to_objects(table_file: Path, tmp_path: Path):
    rows = [
        {"image": "1", "text": "a dog", "references": ["x"], "marked": ["dog", "cat"], "rating": 2},
        {"image": "2", "text": "a dog", "references": ["x"], "marked": [], "rating": 1},
        {"image": "3", "text": "a dog", "references": ["x"], "marked": None, "rating": 1},
    ]
    task = {
        **AGREEMENT, "task": "marked", "doc_to_candidate": "text", "doc_to_objects": "marked",
        "metric_list": [{"metric": "chair_s", "synonyms": str(table_file)}],
    }  # fmt: skip
    write_task(tmp_path, rows, task)
    run = capbench.evaluate(tasks=["marked"], include_path=[tmp_path], resamples=0)["marked"]
    assert run.results[0].value == -1  # the higher rating has the lower share
    assert [f["samples"] for f in run.record.failures] == [["2"]]
    assert run.samples["objects"].to_pylist() == [["cat", "dog"], [], None]

    # Captions of a model: chair_s is the share of the first two images; of mentions there is one, of one image.
    said = ["a tree", "a dog", "a dog"]
    lines = [json.dumps({"id": str(number), "caption": text}) for number, text in enumerate(said)]
    (tmp_path / "captions.jsonl").write_text("\n".join(lines))
    metrics = [{"metric": name, "synonyms": str(table_file)} for name in ("chair_s", "chair_i")]
    asked = {"output_type": "generate_until", "doc_to_text": "Describe.", "statistics": [], "metric_list": metrics}
    del task["doc_to_candidate"], task["doc_to_human"]
    (tmp_path / "marked.yaml").write_text(json.dumps(task | asked))
    model = f"captions:{tmp_path / 'captions.jsonl'}"
    run = capbench.evaluate(model, ["marked"], include_path=[tmp_path], intervals="influence")["marked"]
    assert [result.value for result in run.results] == [1 / 2, 1]
    assert [result.interval.reason for result in run.results] == ["", ONE_IMAGE]

    del task["doc_to_objects"]
    (tmp_path / "marked.yaml").write_text(json.dumps(task | asked))
    with pytest.raises(UsageError, match=r"'chair_s' needs the objects .* does not set doc_to_objects"):
        capbench.evaluate(model, ["marked"], include_path=[tmp_path])


@pytest.mark.data
def test_captions_of_coco_give_the_counts_of_the_released_code(data_folder: Callable[[str], Path]):
    released = json.loads((Path(__file__).parent / "data/chair.json").read_text())
    coco = json.loads((data_folder("coco_mini") / "annotations.json").read_text())
    names = {category["id"]: category["name"] for category in coco["categories"]}
    captions: dict[int, list[str]] = {}
    for row in coco["captions"]:
        captions.setdefault(row["image_id"], []).append(row["caption"])
    marked: dict[int, set[str]] = {}
    for row in coco["instances"]:
        marked.setdefault(row["image_id"], set()).add(names[row["category_id"]])
    rows = [
        (text, tuple(other for number, other in enumerate(captions[image["id"]]) if number != at), image["id"])
        for image in coco["images"]
        for at, text in enumerate(captions[image["id"]])
    ]
    items = chair_items(
        [text for text, _, _ in rows],
        [others for _, others, _ in rows],
        [marked.get(image, set()) for *_, image in rows],
    )
    metric = ChairI(synonyms=str(data_folder("chair") / "synonyms.txt"))
    scores = metric.score(items, Context())
    counts = np.stack([scores.parts["mentions"], scores.parts["hallucinated"]], axis=1)
    assert counts.tolist() == released["mentions_and_hallucinated"]
    assert metric.corpus(scores, items.weights) == released["chair_i"] == 18 / 496
    share = ChairS(synonyms=str(data_folder("chair") / "synonyms.txt")).score(items, Context())
    assert share.values.mean() == released["chair_s"]


@pytest.mark.parametrize(
    ("word", "single"),
    [
        ("dogs", "dog"), ("horses", "horse"), ("buses", "bus"), ("benches", "bench"), ("glasses", "glass"),
        ("dishes", "dish"), ("boxes", "box"), ("puppies", "puppy"), ("toys", "toy"), ("knives", "knife"),
        ("calves", "calf"), ("stoves", "stove"), ("gloves", "glove"), ("women", "woman"), ("people", "person"),
        ("grandchildren", "grandchild"), ("geese", "goose"), ("oxen", "ox"), ("mice", "mouse"), ("skis", "ski"),
        ("scissors", "scissors"), ("potatoes", "potato"), ("sheep", "sheep"), ("umbrella", "umbrella"),
        # Mistakes of pattern 2.6 are kept.
        ("bus", "bu"), ("glass", "glas"), ("ties", "ty"), ("tennis", "tenni"), ("canoes", "cano"), ("sports", "sport"),
        ("doggies", "doggies"), ("collies", "collies"), ("this", "thi"),
    ],
)  # fmt: skip
def test_singular_is_that_of_pattern_2_6(word: str, single: str):
    assert singular(word) == single


@pytest.mark.parametrize(("text", "expected"), [
    ('a dog, two cats; "cups" (red)', 'a dog , two cats ; " cups " ( red )'),
    ("the man's tie. dogs' bowls...", "the man 's tie . dogs ' bowls ..."),
    ("a hot-dog e.g. 3,000 'sheep' o'clock", "a hot-dog e.g . 3,000 ' sheep ' o'clock"),
])  # fmt: skip
def test_punctuation_is_split_off_and_stands_between_words(text: str, expected: str):
    assert " ".join(tokens(text)) == expected


@pytest.mark.parametrize(("caption", "objects"), [
    ("a baby elephant and a baby", ["elephant", "person"]), ("an adult, bear", ["person", "bear"]),
    ("a passenger train with a passenger", ["train", "person"]),
    ("a fire hydrant and a traffic light", ["fire hydrant", "traffic light"]),
    ("a hot dog, no dog", ["hot dog", "dog"]), ("a man in a bow tie", ["person", "tie"]),
    ("three wine glasses and a wine glass", ["wine glass", "wine glass"]), ("a toilet seat", ["toilet"]),
    ("the seat of the toilet beside a chair", ["toilet", "chair"]), ("a seat", ["chair"]),
    ("a bus and two buses", ["bus"]),
])  # fmt: skip
def test_rules_of_the_released_code(table: SynonymTable, caption: str, objects: list[str]):
    assert table.mentions(caption) == objects


def test_synonym_after_two_spaces_is_no_word_as_in_the_released_table(table_file: Path):
    assert "cheesecake" not in read_table(table_file).objects


def test_table_is_found_by_name_then_in_the_data_folder_then_in_the_cache(table_file, tmp_path, monkeypatch):
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    assert find_table(str(table_file)) == table_file
    cached = tmp_path / "cache/data/chair/synonyms.txt"
    with pytest.raises(MetricError, match="not on this machine") as caught:
        find_table()
    assert str(cached) in caught.value.message
    assert "https://github.com/LisaAnne/Hallucination" in caught.value.hint
    cached.parent.mkdir(parents=True)
    cached.write_bytes(table_file.read_bytes())
    assert find_table() == cached
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path / "data"))
    own = tmp_path / "data/chair/synonyms.txt"
    own.parent.mkdir(parents=True)
    own.write_bytes(table_file.read_bytes())
    assert find_table() == own


def test_table_of_another_length_or_encoding_is_refused(tmp_path: Path):
    file = tmp_path / "synonyms.txt"
    file.write_text("person, man\ndog, puppy\n")
    with pytest.raises(MetricError, match=r"has 2 lines; CHAIR's synonym table has 80"):
        read_table(file)
    file.write_bytes(b"\xff")
    with pytest.raises(MetricError, match="cannot be read"):
        read_table(file)
