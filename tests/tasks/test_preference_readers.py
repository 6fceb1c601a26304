"""Readers of Pascal-50S, FOIL and ActivityNet-FOIL on small files in the distributed layouts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.activitynet_foil import reader as activitynet
from capbench.tasks.foil import reader as foil
from capbench.tasks.pascal50s import reader as pascal


def write_pascal(folder: Path, votes_for_first: list[int]) -> None:
    """Two .mat files: a pair for each number of votes; A and B change places in every second vote."""
    described = np.zeros((1, len(votes_for_first)), dtype=[("name", "O"), ("sent1", "O"), ("sent2", "O")])
    triplets = np.empty((1, 48 * len(votes_for_first)), dtype=object)
    kind = [("ref", "O"), ("b", "O"), ("c", "O"), ("winner", "O")]
    for number, votes in enumerate(votes_for_first):
        first, second = f" first {number} ", f"second {number}"
        described[0, number] = (f"2008_{number}.jpg", first, second)
        for vote in range(48):
            swapped = vote % 2 == 1
            winner = 1 if (vote < votes) != swapped else 2
            row = np.zeros((1, 1), dtype=kind)
            texts = (second, first) if swapped else (first, second)
            cells = [np.array([[text]], dtype=object) for text in (f"reference {vote}", *texts)]
            row[0, 0] = (*cells, winner)
            triplets[0, 48 * number + vote] = row
    triplet_struct = np.zeros((1, triplets.shape[1]), dtype=kind)
    for n in range(triplets.shape[1]):
        triplet_struct[0, n] = tuple(triplets[0, n][0, 0])
    categories = np.array([[n % 4 + 1 for n in range(len(votes_for_first))]], dtype=np.uint8)
    scipy.io.savemat(folder / "pair_pascal.mat", {"new_input": described, "category": categories})
    scipy.io.savemat(folder / "consensus_pascal.mat", {"triplets": triplet_struct})


def test_pascal50s_prefers_the_caption_with_more_votes_wherever_it_stood(tmp_path: Path):
    write_pascal(tmp_path, [30, 10])
    first, second = pascal.pairs(tmp_path)
    assert first["captions"] == ["first 0", "second 0"]
    assert (first["preferred"], second["preferred"]) == (0, 1)
    assert (first["category"], second["category"]) == ("HC", "HI")
    assert first["references"] == [f"reference {n}" for n in range(48)]
    assert first["image"] == "2008_0.jpg"


def test_pascal50s_decides_even_votes_by_seed(tmp_path: Path):
    write_pascal(tmp_path, [24] * 12)

    def labels(seed: int) -> list[int]:
        return [row["preferred"] for row in pascal.pairs(tmp_path, vote_seed=seed) if isinstance(row, dict)]

    assert labels(1) == labels(1)
    assert set(labels(1)) == {0, 1}


def test_pascal50s_with_too_few_votes_is_not_the_distributed_file(tmp_path: Path):
    write_pascal(tmp_path, [30, 10])
    triplets = scipy.io.loadmat(tmp_path / "consensus_pascal.mat")["triplets"][:, :90]
    scipy.io.savemat(tmp_path / "consensus_pascal.mat", {"triplets": triplets})
    with pytest.raises(DataError, match="90 votes for 2 pairs"):
        list(pascal.pairs(tmp_path))


def test_pascal50s_in_json_has_fixed_references(tmp_path: Path):
    entry = {"image": "VOC2012/JPEGImages/a.jpg", "captions": ["a", "b"], "label": 1, "references": ["c"]}
    (tmp_path / "pascal50s_x.json").write_text(json.dumps({"MM": [entry, {"image": "b.jpg"}]}))
    good, bad = pascal.pairs(tmp_path)
    assert (good["category"], good["preferred"], good["image"]) == ("MM", 1, "a.jpg")
    assert bad == BadRow("pascal50s_x.json:MM-1", "lacks 'captions'")


def test_pascal50s_folder_without_files_is_an_error(tmp_path: Path):
    with pytest.raises(DataError, match="holds neither"):
        list(pascal.pairs(tmp_path))


def coco(folder: Path, captions: dict[int, list[str]]) -> None:
    annotations = [{"image_id": image, "caption": text} for image, texts in captions.items() for text in texts]
    (folder / "captions_val2014.json").write_text(json.dumps({"annotations": annotations}))


def test_foil_makes_a_pair_of_each_foil_and_leaves_the_true_caption_out_of_the_references(tmp_path: Path):
    coco(tmp_path, {5: ["A dog runs.", "A brown dog.", "An animal."]})

    def annotation(identity: int, caption: str, is_foil: bool) -> dict[str, Any]:
        return {"id": identity, "image_id": 5, "caption": caption, "foil": is_foil}

    content = {
        "images": [{"id": 5, "file_name": "COCO_val2014_000000000005.jpg"}],
        "annotations": [
            annotation(1, "A dog runs.", False),
            annotation(1, "A cat runs.", True),
            annotation(1, "A cow runs.", True),
            annotation(2, "A cow.", True),
        ],
    }
    (tmp_path / "foilv1.0_test_2017.json").write_text(json.dumps(content))
    first, second, orphan = foil.distributed(tmp_path)
    assert first["captions"] == ["A dog runs.", "A cat runs."]
    assert second["captions"] == ["A dog runs.", "A cow runs."]
    assert first["references"] == ["A brown dog.", "An animal."]
    assert first["preferred"] == 0
    assert first["id"] != second["id"]
    assert isinstance(orphan, BadRow)


def test_valse_spells_captions_otherwise_than_coco(tmp_path: Path):
    coco(tmp_path, {165831: ["A giant bowl of food.", "Some food"]})
    entry = {"image_file": "COCO_val2014_000000165831.jpg", "caption": "a giant bowl of food", "foil": "a bottle"}
    (tmp_path / "foil_valse.json").write_text(json.dumps({"7": entry, "8": {"caption": "x"}}))
    good, bad = foil.valse(tmp_path)
    assert good["references"] == ["Some food"]
    assert isinstance(bad, BadRow)


def test_activitynet_foil_takes_references_that_a_sentence_overlaps(tmp_path: Path):
    def write(name: str, content: Any) -> None:
        (tmp_path / name).write_text(json.dumps(content))

    write("final_right_video_sentences.json", {"results": {"v": [{"sentence": "a dog"}, {"sentence": "it eats"}]}})
    write("final_foil_video_sentences.json", {"results": {"v": [{"sentence": "a cat"}, {"sentence": "it eats"}]}})
    write("anet_entities_test_1.json", {"v": {"duration": 90, "timestamps": [[0, 9.5], [80, 90]]}})
    # Whole seconds 0-9 share 6 of 11 with 4-14, and 2 of 10 with 8-17; 80-90 shares none, so all count.
    described = {"duration": 89.5, "sentences": ["half", "little"], "timestamps": [[4, 14.2], [8, 17]]}
    write("anet_entities_test_2.json", {"v": described})
    first, second = activitynet.sentences(tmp_path)
    assert first["captions"] == ["a dog", "a cat"]
    assert first["references"] == ["half"]
    assert second["references"] == ["half", "little"]
    assert first["video"] == second["video"] == "v"
    # Released code reads the durations of set 2 last.
    assert (first["span"], second["span"]) == ([0, 9.5, 89.5], [80, 90, 89.5])


def test_activitynet_foil_with_paragraphs_of_unequal_length_is_a_bad_row(tmp_path: Path):
    for name, content in {
        "final_right_video_sentences.json": {"results": {"v": [{"sentence": "a"}]}},
        "final_foil_video_sentences.json": {"results": {"v": []}},
        "anet_entities_test_1.json": {"v": {"timestamps": [[0, 1]]}},
        "anet_entities_test_2.json": {"v": {"sentences": [], "timestamps": []}},
    }.items():
        (tmp_path / name).write_text(json.dumps(content))
    (row,) = activitynet.sentences(tmp_path)
    assert "1 true and 0 foil" in row.reason
