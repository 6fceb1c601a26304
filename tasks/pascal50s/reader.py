"""Reads Pascal-50S, from the MATLAB files as distributed or from a JSON file with fixed references."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataError
from ...rows import BadRow, Row, load_json

CATEGORIES = {1: "HC", 2: "HI", 3: "HM", 4: "MM"}
VOTES_A_PAIR = 48


def pairs(folder: Path, vote_seed: int = 42) -> Iterator[Row | BadRow]:
    """Yield the pairs of a folder or of one JSON file.

    Args:
        folder: Holds ``pair_pascal.mat`` and ``consensus_pascal.mat`` (themselves or in
            ``pyCIDErConsensus``), or ``pascal50s*.json``; or is such a JSON file.
        vote_seed: Decides pairs on which the 48 voters are split evenly.

    Raises:
        DataError: The folder holds neither.
    """
    if folder.is_file():
        yield from _from_json(folder)
        return
    for place in (folder, folder / "pyCIDErConsensus"):
        if (place / "pair_pascal.mat").is_file() and (place / "consensus_pascal.mat").is_file():
            yield from _from_matlab(place, vote_seed)
            return
    if files := sorted(folder.glob("pascal50s*.json")):
        yield from _from_json(files[0])
        return
    raise DataError(
        f"{folder} holds neither pair_pascal.mat with consensus_pascal.mat nor pascal50s*.json",
        "'bench data pascal50s' lists the files it needs.",
    )


def _from_json(path: Path) -> Iterator[Row | BadRow]:
    """Read ``{category: [{image, captions, label, references}, ...]}``; label 0 prefers the first caption."""
    by_category = load_json(path)
    try:
        entries = [(category, n, entry) for category, many in by_category.items() for n, entry in enumerate(many)]
    except (AttributeError, TypeError) as error:
        raise DataError(f"{path}: is not a JSON object of lists of pairs: {error}") from error
    for category, number, entry in entries:
        identity = f"{category}-{number}"
        try:
            yield _row(identity, entry["image"], category, entry["captions"], entry["label"], entry["references"])
        except (KeyError, TypeError) as error:
            yield BadRow(f"{path.name}:{identity}", f"lacks {error}")


def _from_matlab(folder: Path, vote_seed: int) -> Iterator[Row | BadRow]:
    """Read the distributed files.

    A pair has 48 rows of (reference, caption A, caption B, winner), in the order of the pairs: each row is
    one vote and one reference. Votes go by the text of the caption, since A and B change places.
    """
    described = _load(folder / "pair_pascal.mat", "new_input")
    categories = _load(folder / "pair_pascal.mat", "category")
    triplets = _load(folder / "consensus_pascal.mat", "triplets")
    if len(triplets) != VOTES_A_PAIR * len(described):
        raise DataError(
            f"{folder}/consensus_pascal.mat has {len(triplets)} votes for {len(described)} pairs; "
            f"{VOTES_A_PAIR} a pair were expected"
        )
    coin = np.random.default_rng(vote_seed)
    for number, entry in enumerate(described):
        image, *captions = (str(field[0]).strip() for field in entry)
        votes = dict.fromkeys(captions, 0)
        references = []
        for row in triplets[number * VOTES_A_PAIR : (number + 1) * VOTES_A_PAIR]:
            reference, first, second, winner = (field[0][0] for field in row)
            references.append(str(reference[0]).strip())
            chosen = str((first if int(np.ravel(winner)[0]) == 1 else second)[0]).strip()
            votes[chosen] = votes.get(chosen, 0) + 1
        place = f"pair {number}"
        if votes.keys() != set(captions):
            yield BadRow(place, "its votes are for other captions than the pair's")
            continue
        first_wins = votes[captions[0]] > votes[captions[-1]]
        if votes[captions[0]] == votes[captions[-1]]:
            first_wins = bool(coin.integers(2))
        category = CATEGORIES[int(categories[number])]
        yield _row(str(number), image, category, captions, 0 if first_wins else 1, references)


def _load(path: Path, key: str) -> Any:
    from scipy.io import loadmat

    try:
        return loadmat(path)[key][0]
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise DataError(f"{path}: is not the distributed file: {type(error).__name__}: {error}") from error


def _row(identity: str, image: str, category: str, captions: list[str], label: int, references: list[str]) -> Row:
    return {
        "id": identity,
        "image": Path(image).name,
        "category": category,
        "captions": [caption.strip() for caption in captions],
        "preferred": label,
        "references": [reference.strip() for reference in references],
    }
