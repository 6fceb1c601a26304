from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.flickr8k.reader import crowdflower, expert

CAPTIONS = (
    "dog.jpg#0\tA dog  runs .\n"
    "dog.jpg#1\tOne dog .\n"
    "\n"
    "cat.jpg#0\tA cat\tsits .\n"
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Write the raw files, given as text or bytes."""

    def make(expert: str | bytes = "", crowdflower: str | bytes = "", captions: str | bytes = CAPTIONS) -> Path:
        for name, content in (
            ("ExpertAnnotations.txt", expert),
            ("CrowdFlowerAnnotations.txt", crowdflower),
            ("Flickr8k.token.txt", captions),
        ):
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return make


def test_expert_pair_has_caption_references_and_three_ratings(folder: Callable[..., Path]):
    rows = list(expert(folder("dog.jpg\tcat.jpg#0\t1\t2\t4\r\ndog.jpg\tdog.jpg#1\t4\t4\t3\n")))
    assert rows == [
        {
            "id": "dog.jpg|cat.jpg#0",
            "image": "dog.jpg",
            "candidate": "A cat sits .",
            "references": ("A dog runs .", "One dog ."),
            "ratings": [1, 2, 4],
        },
        {
            "id": "dog.jpg|dog.jpg#1",
            "image": "dog.jpg",
            "candidate": "One dog .",
            "references": ("A dog runs .", "One dog ."),
            "ratings": [4, 4, 3],
        },
    ]


def test_white_space_in_captions_is_collapsed_as_the_released_loaders_do(folder: Callable[..., Path]):
    (row,) = expert(folder("dog.jpg\tdog.jpg#0\t1\t1\t1\n"))
    assert row["candidate"] == "A dog runs ."


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"garbled", "image 'garbled' has no captions in Flickr8k.token.txt"),
        (b"dog.jpg", "caption '' is not in Flickr8k.token.txt"),
        (b"dog.jpg cat.jpg#0 1 2 3", "image 'dog.jpg cat.jpg#0 1 2 3' has no captions"),
        (b"cow.jpg\tcat.jpg#0\t1\t2\t3", "image 'cow.jpg' has no captions"),
        (b"dog.jpg\tcat.jpg#7\t1\t2\t3", "caption 'cat.jpg#7' is not in"),
        (b"dog.jpg\tcat.jpg#0\t1\t2\t5", "bad rating '1 2 5': expected three ratings from 1 to 4"),
        (b"dog.jpg\tcat.jpg#0\t0\t2\t3", "bad rating '0 2 3': expected three ratings from 1 to 4"),
        (b"dog.jpg\tcat.jpg#0\t1\t2", "bad rating '1 2': expected three ratings"),
        (b"dog.jpg\tcat.jpg#0\t1\t2\t3\t4", "bad rating '1 2 3 4': expected three ratings"),
        (b"dog.jpg\tcat.jpg#0\t1\ttwo\t3", "bad rating '1 two 3': invalid literal for int"),
        (b"dog.jpg\tcat.jpg#0\t1\t2.5\t3", "bad rating '1 2.5 3': invalid literal for int"),
        (b"dog.jpg\tcat.jpg#0\t1\t0_2\t3", "bad rating '1 0_2 3': invalid literal for int"),
        (b"dog.jpg\tcat.jpg#0\t1\t\xef\xbc\x92\t3", "bad rating '1 \uff12 3': invalid literal for int"),
        (b"d\xffg.jpg\tcat.jpg#0\t1\t2\t3", "not UTF-8"),
    ],
)
def test_bad_expert_line_is_named_and_the_others_survive(folder: Callable[..., Path], line: bytes, reason: str):
    fine = b"dog.jpg\tcat.jpg#0\t1\t1\t1\n"
    first, bad, last = expert(folder(fine + line + b"\n" + fine.replace(b"cat.jpg#0", b"dog.jpg#0")))
    assert (first["id"], last["id"]) == ("dog.jpg|cat.jpg#0", "dog.jpg|dog.jpg#0")
    assert isinstance(bad, BadRow)
    assert bad.place == "ExpertAnnotations.txt:2"
    assert bad.reason.startswith(reason)


def test_crowdflower_pair_is_rated_by_the_share_of_yes(folder: Callable[..., Path]):
    text = "dog.jpg\tcat.jpg#0\t0.333333333333\t1\t2\ndog.jpg\tdog.jpg#0\t1\t3\t0\ndog.jpg\tdog.jpg#1\t0\t0\t3\n"
    assert [row["ratings"] for row in crowdflower(folder(crowdflower=text))] == [1 / 3, 1.0, 0.0]


@pytest.mark.parametrize(
    "fields",
    [
        "0.5\t1\t2",
        "1\t1\t2",
        "0\t0\t0",
        "nan\t1\t2",
        "0.3333\t1",
        "0.3333\t1\t2\t3",
        "-0.3333\t-1\t4",
        "1.5\t3\t-1",
        "",
    ],
)
def test_crowdflower_line_whose_share_contradicts_its_counts_is_named(folder: Callable[..., Path], fields: str):
    fine = "dog.jpg\tdog.jpg#0\t1\t3\t0\n"
    bad, good = crowdflower(folder(crowdflower=f"dog.jpg\tcat.jpg#0\t{fields}\n{fine}"))
    assert isinstance(bad, BadRow)
    assert bad.place == "CrowdFlowerAnnotations.txt:1"
    assert bad.reason.startswith("bad rating")
    assert good["ratings"] == 1.0


def test_bad_caption_line_is_named_and_no_reference(folder: Callable[..., Path]):
    captions = (
        b"dog.jpg#0\tA dog .\n"
        b"dog.jpg#1 no tab\n"
        b"no number\tA dog .\n"
        b"dog.jpg#2\tA d\xffg .\n"
        b"dog.jpg#0\tAnother dog .\n"
        b"dog.jpg#3\tOne dog .\n"
    )
    *bad, row = expert(folder("dog.jpg\tdog.jpg#0\t1\t1\t1\n", captions=captions))
    assert [one.place for one in bad] == [f"Flickr8k.token.txt:{number}" for number in (2, 3, 4, 5)]
    assert bad[-1].reason == "a second caption with the id 'dog.jpg#0'"
    assert (row["candidate"], row["references"]) == ("A dog .", ("A dog .", "One dog ."))


def test_byte_order_mark_is_no_part_of_the_first_image(folder: Callable[..., Path]):
    mark = "\ufeff"
    (row,) = expert(folder(mark + "dog.jpg\tdog.jpg#0\t1\t1\t1\n", captions=mark + CAPTIONS))
    assert row["references"] == ("A dog runs .", "One dog .")


@pytest.mark.parametrize("name", ["Flickr8k.token.txt", "ExpertAnnotations.txt"])
def test_missing_raw_file_is_an_error_that_names_it(folder: Callable[..., Path], name: str):
    path = folder()
    (path / name).unlink()
    with pytest.raises(DataError, match=f"{path} has no {name}") as caught:
        list(expert(path))
    assert "bench data flickr8k_expert" in caught.value.hint


@pytest.mark.data
def test_raw_expert_file_gives_5822_pairs_of_1000_images(data_folder: Callable[[str], Path]):
    rows = list(expert(data_folder("flickr8k")))
    assert not [row for row in rows if isinstance(row, BadRow)]
    assert len(rows) == len({row["id"] for row in rows}) == 5_822
    assert len({row["image"] for row in rows}) == 1_000
    assert {len(row["references"]) for row in rows} == {5}
    # 158 pairs rate one of the image's own captions (CLIPScore's loader drops them).
    assert sum(row["candidate"] in row["references"] for row in rows) == 158


@pytest.mark.data
def test_raw_crowdflower_file_gives_47830_pairs_of_1000_images(data_folder: Callable[[str], Path]):
    rows = list(crowdflower(data_folder("flickr8k")))
    assert not [row for row in rows if isinstance(row, BadRow)]
    assert len(rows) == len({row["id"] for row in rows}) == 47_830
    assert len({row["image"] for row in rows}) == 1_000
    assert all(0 <= row["ratings"] <= 1 for row in rows)
