from __future__ import annotations

from pathlib import Path

import pytest

from capbench.errors import MetricError
from capbench.metrics.words.coco_objects import SynonymTable, find_table, read_table, singular, tokens


@pytest.mark.parametrize(
    ("plural", "one"),
    [
        ("dogs", "dog"), ("horses", "horse"), ("buses", "bus"), ("benches", "bench"), ("glasses", "glass"),
        ("dishes", "dish"), ("boxes", "box"), ("puppies", "puppy"), ("toys", "toy"), ("knives", "knife"),
        ("calves", "calf"), ("stoves", "stove"), ("gloves", "glove"), ("women", "woman"), ("people", "person"),
        ("grandchildren", "grandchild"), ("geese", "goose"), ("oxen", "ox"), ("mice", "mouse"), ("skis", "ski"),
        ("scissors", "scissors"), ("potatoes", "potato"), ("sheep", "sheep"), ("umbrella", "umbrella"),
    ],
)  # fmt: skip
def test_singular_of_words_that_captions_use(plural: str, one: str):
    assert singular(plural) == one


@pytest.mark.parametrize(
    ("word", "one"),
    [
        ("bus", "bu"), ("glass", "glas"), ("ties", "ty"), ("tennis", "tenni"), ("canoes", "cano"), ("sports", "sport"),
        ("doggies", "doggies"), ("collies", "collies"), ("this", "thi"),
    ],
)  # fmt: skip
def test_mistakes_of_pattern_2_6_are_kept(word: str, one: str):
    assert singular(word) == one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a dog, two cats; "cups" (red)', 'a dog , two cats ; " cups " ( red )'),
        ("the man's tie. dogs' bowls...", "the man 's tie . dogs ' bowls ..."),
        ("a hot-dog e.g. 3,000 'sheep' o'clock", "a hot-dog e.g . 3,000 ' sheep ' o'clock"),
    ],
)
def test_punctuation_is_split_off_and_stands_between_words(text: str, expected: str):
    assert " ".join(tokens(text)) == expected


def test_words_become_objects(table: SynonymTable):
    assert table.mentions("Two women and a MAN walk dogs, past a couple of kites.") == [
        "person", "person", "dog", "kite"
    ]  # fmt: skip
    assert table.mentions("nothing here is known") == []
    assert table.mentions("") == []


@pytest.mark.parametrize(
    ("caption", "objects"),
    [
        ("a baby elephant and a baby", ["elephant", "person"]),
        ("an adult, bear", ["person", "bear"]),
        ("a passenger train with a passenger", ["train", "person"]),
        ("a fire hydrant and a traffic light", ["fire hydrant", "traffic light"]),
        ("a hot dog, no dog", ["hot dog", "dog"]),
        ("a man in a bow tie", ["person", "tie"]),
        ("three wine glasses and a wine glass", ["wine glass", "wine glass"]),
        ("a toilet seat", ["toilet"]),
        ("the seat of the toilet beside a chair", ["toilet", "chair"]),
        ("a seat", ["chair"]),
        ("a bus and two buses", ["bus"]),
    ],
)
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
    with pytest.raises(MetricError, match=r"has 2 lines, CHAIR's table of synonyms has 80"):
        read_table(file)
    file.write_bytes(b"\xff")
    with pytest.raises(MetricError, match="cannot be read"):
        read_table(file)
