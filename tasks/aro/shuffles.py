"""Freezes the shuffled captions of ARO's COCO-order and Flickr30k-order in a file.

``python -m capbench.tasks.aro.shuffles --captions coco_karpathy_test.json --output coco_order.jsonl``

Released code draws them anew in every run; here they are drawn once, in the order and with the seed of its
``main_aro.py``. The first row of the file holds the versions of the libraries and the hash of the other rows.
Source: mertyg/vision-language-models-are-bows, ``dataset_zoo/perturbations.py`` and ``aro_datasets.py``.
"""

import argparse
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ...atomic_files import written_whole
from ...errors import DataError
from ...rows import load_json

SEED = 1
WORDS = 30
"""Words of a caption that are kept."""
Tagged = Sequence[tuple[str, str]]
"""The tokens of a caption with their tags of the Penn Treebank."""
_NOUNS = frozenset({"NN", "NNS", "NNP", "NNPS"})
_ADJECTIVES = frozenset({"JJ", "JJR", "JJS"})


class Shuffler:
    """Draws the four shuffles of captions; its random state depends on the captions before.

    Args:
        tag: Returns the tokens of a caption with their tags.
        words: Returns the words of a caption.
        seed: Of both kinds of random numbers that released code uses.
    """

    def __init__(self, tag: Callable[[str], Tagged], words: Callable[[str], list[str]], seed: int = SEED) -> None:
        self._tag, self._words = tag, words
        self._numpy, self._python = np.random.RandomState(seed), random.Random(seed)  # noqa: S311 - released code's

    def shuffles(self, caption: str) -> list[str]:
        """Return the caption with other nouns and adjectives in their places, with all else shuffled, with the words
        of each trigram shuffled, and with trigrams shuffled.
        """  # noqa: D205 - one sentence
        tagged = self._tag(caption)
        nouns = [at for at, (_, tag) in enumerate(tagged) if tag in _NOUNS]
        adjectives = [at for at, (_, tag) in enumerate(tagged) if tag in _ADJECTIVES]
        others = [at for at, (_, tag) in enumerate(tagged) if tag not in _NOUNS | _ADJECTIVES]
        tokens = [token for token, _ in tagged]
        content = self._permuted(self._permuted(tokens, nouns), adjectives)
        rest = self._permuted(tokens, others)
        inside = _trigrams(self._words(caption))
        for trigram in inside:
            self._python.shuffle(trigram)
        outside = _trigrams(self._words(caption))
        self._python.shuffle(outside)
        return [
            " ".join(content),
            " ".join(rest),
            *(" ".join(word for trigram in trigrams for word in trigram) for trigrams in (inside, outside)),
        ]

    def _permuted(self, tokens: Sequence[str], places: Sequence[int]) -> list[str]:
        """Return tokens of which some have changed places."""
        permuted = list(tokens)
        drawn = self._numpy.permutation(np.array([tokens[at] for at in places], dtype=object))
        for at, token in zip(places, drawn, strict=True):
            permuted[at] = token
        return permuted


def _trigrams(words: Sequence[str]) -> list[list[str]]:
    return [list(words[at : at + 3]) for at in range(0, len(words), 3)]


def as_shown(text: str) -> str:
    """Return a text as models get it: lower case, some punctuation as spaces, spaces merged, 30 words at most."""
    spaced = re.sub(r"[.!\"()*#:;~]", " ", text.lower())
    return " ".join(re.sub(r"\s{2,}", " ", spaced).rstrip("\n").strip(" ").split(" ")[:WORDS])


def frozen_rows(captions: Path, shuffler: Shuffler) -> Iterator[dict[str, Any]]:
    """Yield a row a caption of a file of Karpathy's split, ``[{image, caption: [text]}]``.

    Raises:
        DataError: The file is missing, or is no such list.
    """
    content = load_json(captions, "Its name and address are in 'bench data aro_coco_order'.")
    try:
        for number, image in enumerate(content):
            for place, caption in enumerate(image["caption"]):
                yield {
                    "id": f"{number}-{place}",
                    "image": image["image"],
                    "caption": as_shown(caption),
                    "shuffled": [as_shown(shuffled) for shuffled in shuffler.shuffles(caption)],
                }
    except (KeyError, TypeError) as error:
        raise DataError(f"{captions}: is not a list of images with captions: {error!r}") from error


def freeze(captions: Path, out: Path, shuffler: Shuffler, made_by: dict[str, str]) -> str:
    """Write the captions of a file with their shuffles, and return the hash of the rows.

    Args:
        captions: As of :func:`frozen_rows`.
        out: The file to write.
        shuffler: Draws the shuffles.
        made_by: Versions of libraries, for the first row.
    """
    lines = [f"{json.dumps(row, ensure_ascii=False)}\n" for row in frozen_rows(captions, shuffler)]
    sha256 = hashlib.sha256("".join(lines).encode()).hexdigest()
    head = json.dumps({"made_by": made_by, "seed": SEED, "captions": captions.name, "sha256": sha256})
    with written_whole(out) as draft:
        draft.write_text("".join([f"{head}\n", *lines]), encoding="utf-8")
    return sha256


def main() -> None:
    """Freeze the shuffles of the file that the command line names."""
    parser = argparse.ArgumentParser(description="Freeze the shuffled captions of ARO's order tasks.")
    parser.add_argument("--captions", type=Path, required=True, help="coco_karpathy_test.json or flickr30k_test.json")
    parser.add_argument("--output", type=Path, required=True, help="coco_order.jsonl or flickr30k_order.jsonl")
    parser.add_argument("--spacy", default="en_core_web_sm", help="the pipeline that tags (%(default)s)")
    options = parser.parse_args()

    import nltk
    import spacy

    pipeline = spacy.load(options.spacy)
    shuffler = Shuffler(
        lambda text: [(token.text, token.tag_) for token in pipeline(text)], lambda text: list(nltk.word_tokenize(text))
    )
    made_by = {name: version(name) for name in ("spacy", "nltk")} | {options.spacy: str(pipeline.meta["version"])}
    print(f"{options.output}: {freeze(options.captions, options.output, shuffler, made_by)}")


if __name__ == "__main__":
    main()
