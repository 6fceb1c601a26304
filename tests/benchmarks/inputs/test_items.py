"""What counts as a caption, and which rows are one item."""

import hashlib

import pytest

from capbench.benchmarks.inputs.items import (
    MAX_REFERENCE_CHARACTERS,
    CaptionRow,
    candidate_fault,
    gather,
    image_key,
    objects_fault,
    references_fault,
    references_of,
    text_fault,
)


@pytest.mark.parametrize("text", ["a dog", "7", "犬", "a" * 1_000_000, "犬" * 25_000, "ok \x00 null byte", "🐕 dog"])
def test_caption_is_usable(text: str):
    assert candidate_fault(text) is None


@pytest.mark.parametrize("text", ["...", "!!!", "\u200b", "\x00", "🐕"])
def test_text_without_a_word_is_neither_a_candidate_nor_a_reference(text: str):
    assert text_fault(text) is None
    assert candidate_fault(text) == "has no letter or digit"
    assert references_fault(["a dog", text]) == "reference 2 has no letter or digit"


def test_reference_that_no_data_set_has_is_named_by_its_length():
    assert references_fault(["a" * MAX_REFERENCE_CHARACTERS]) is None
    for text in ("a", "犬"):
        assert (
            references_fault(["a dog", text * (MAX_REFERENCE_CHARACTERS + 1)])
            == "reference 2 is longer than 20,000 characters"
        )


@pytest.mark.parametrize(
    ("value", "references"),
    [
        (None, []),
        ("a dog", ["a dog"]),
        ('["a dog", "two dogs"]', ["a dog", "two dogs"]),
        ("[a red] dog", ["[a red] dog"]),
        (repr(["a dog", "a dog's tail", 'one\'s "own"']), ["a dog", "a dog's tail", 'one\'s "own"']),
        (" ['a dog',\n 'two' , ]", ["a dog", "two"]),
        (("a dog",), ("a dog",)),
    ],
)
def test_references_are_a_list_however_a_file_holds_them(value, references):
    assert references_of(value) == references
    assert (references_fault(references) is None) is bool(references)


@pytest.mark.parametrize(
    "text",
    [
        "['a dog' 'two dogs']", ' [ "a dog", "tw', "[['a dog']]", "['a dog', 2]", "['a dog', print(1)]",
        "['a dog'] + []", r"['\N{no such name}']",
    ],
)  # fmt: skip
def test_list_in_a_text_that_cannot_be_read_is_no_reference(text: str):
    fault = references_fault(references_of(text))
    assert fault == "reference 1 is a list in a text, and neither JSON nor Python's"


def row(identity: str, image: str = "x", candidate: str = "a dog", weight: int = 1, *references: str) -> CaptionRow:
    return CaptionRow(identity, image, candidate, references, weight=weight)


def test_rows_are_one_item_only_if_image_candidate_and_references_are_equal():
    rows = [
        row("first"),
        row("again"),
        row("other image", "y"),
        row("other caption", "x", "A dog"),
        row("other references", "x", "a dog", 1, "a dog"),
        row("again, heavier", "x", "a dog", 3),
    ]
    items, item_of_row, _ = gather(rows)
    assert item_of_row.tolist() == [0, 0, 1, 2, 3, 0]
    assert items.weights.tolist() == [5, 1, 1, 1]
    assert items.ids == ["first", "other image", "other caption", "other references"]
    assert items.references[3] == ("a dog",)


def test_images_are_told_apart_by_path_or_by_content():
    sha = hashlib.sha256(b"jpeg").hexdigest()
    assert image_key("folder/a.jpg") == "folder/a.jpg"
    assert image_key(12) == "12"
    assert image_key(b"jpeg") == f"sha256:{sha}"
    assert image_key({"bytes": b"jpeg", "path": "a.jpg"}) == f"sha256:{sha}"
    assert image_key({"bytes": None, "path": "a.jpg"}) == "a.jpg"


def test_objects_may_be_none_at_all_but_must_be_a_list_of_names():
    assert objects_fault([]) is None
    assert objects_fault(("dog", "cat")) is None
    assert objects_fault(None) == "are null; an image without any has an empty list"
    assert objects_fault("dog") == "are not a list of names but str"
    assert objects_fault(["dog", ""]) == "hold a name that is empty"


def test_rows_that_differ_in_objects_alone_are_two_items():
    rows = [CaptionRow(str(n), "x", "a dog", (), objects=frozenset(names)) for n, names in enumerate("aab")]
    items, item_of_row, _ = gather(rows)
    assert items.objects == [frozenset("a"), frozenset("b")]
    assert item_of_row.tolist() == [0, 0, 1]
    assert gather([row("0")])[0].objects == []
