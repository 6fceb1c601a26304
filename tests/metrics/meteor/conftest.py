"""What METEOR is asked, and what the jar of pycocoevalcap answered.

To read its tables takes the jar twenty core-seconds, so that its answers are recorded; one costly test starts it.
"""

import hashlib
import json
import os
import random
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocoevalcap.meteor.meteor import Meteor

from capbench.metrics import Items
from capbench.metrics.java import find_jar, find_java
from capbench.metrics.meteor.resources import JAR, PARAPHRASES
from capbench.metrics.words.ptb import tokenize_items


def _keys_of(items: Items) -> list[str]:
    tokenized = tokenize_items(items)
    sets = items.reference_sets[1]
    keys = [
        json.dumps([candidate, *tokenized.reference_sets[sets[item]]])
        for item, candidate in enumerate(tokenized.candidates)
    ]
    return list(dict.fromkeys(keys))


@pytest.fixture
def keys_of() -> Callable[[Items], list[str]]:
    """A function that returns what the aligner is asked of items, each question once."""
    return _keys_of


@pytest.fixture(scope="session")
def coco_keys() -> list[str]:
    """Pairs of COCO's captions, which stand in the jar of SPICE."""
    name = "coco/annotations/captions_val2014.json"
    with zipfile.ZipFile(find_jar("spice/spice-1.0.jar")) as jar, jar.open(name) as file:
        # To read all that follows takes a second.
        rows = file.read(12_000_000).partition(b'"annotations": [')[2]
    annotations = json.loads(b"[" + rows[: rows.rindex(b"}") + 1] + b"]")
    texts: dict[int, list[str]] = {}
    for annotation in annotations[:5000]:
        texts.setdefault(annotation["image_id"], []).append(" ".join(annotation["caption"].lower().split()))
    several = [of_image for of_image in texts.values() if len(of_image) > 1][:300]
    pairs = [(candidate, reference) for candidate, *others in several for reference in others]
    return list(dict.fromkeys(map(json.dumps, pairs)))


@pytest.fixture(scope="session")
def competing_keys() -> list[str]:
    """Short lists of related words, in any order: repeats, stems, synonyms and paraphrases all overlap."""
    rng = random.Random(8)  # noqa: S311
    related = (
        "run runs running race walk walks walking man men guy fellow person people child children kid kids boy "
        "dog dogs hound lake ocean sea big large huge jump jumps leap leaps two several group of people in front "
        "of next to a lot of playing with the the a an"
    )
    words = related.split()

    def text(pool: Sequence[str], most: int) -> str:
        return " ".join(rng.choice(pool) for _ in range(rng.randint(1, most)))

    keys = []
    # An integer has bits for 64 words.
    for most in (8, 25, 100):
        for _ in range(10):
            pool = [rng.choice(words) for _ in range(rng.randint(3, 30))]
            keys.append(json.dumps([text(pool, most) for _ in range(rng.randint(2, 4))]))
    return list(dict.fromkeys(keys))


@pytest.fixture
def data_items(flickr8k_expert: Items, iiw: Items, make_items: Callable[..., Items]) -> Items:
    """Captions of Flickr8k-Expert, and long ones of ImageInWords."""
    some = flickr8k_expert.subset(np.arange(0, len(flickr8k_expert), 20))
    iiw = iiw.subset(np.arange(40))
    return make_items([*some.candidates, *iiw.candidates], [*some.references, *iiw.references])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Recorded:
    """What the jar answered when it was asked.

    Attributes:
        content: The file: statistics and values by the name of what was asked.
    """

    content: dict[str, Any]

    def statistics(self, name: str, keys: Sequence[str]) -> dict[str, list[float]]:
        """Return the statistics of questions, which must be those that were asked."""
        answers = self.content["statistics"][name]
        assert answers["keys_sha256"] == _digest("\n".join(keys).encode()), "other questions than those recorded"
        return dict(zip(keys, answers["rows"], strict=True))

    def values(self, name: str) -> tuple[float, list[float]]:
        """Return the value of the corpus and those of the items."""
        values = self.content["values"][name]
        return values["corpus"], values["items"]


# Looked up when no test has put another package in its place.
_INSTALLED = find_jar(JAR), find_jar(PARAPHRASES)


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    """What the installed jar answered, with the installed table of paraphrases unless a name says otherwise."""
    jar, paraphrases = _INSTALLED
    content = json.loads((Path(__file__).parent / "released.json").read_text(encoding="utf-8"))
    assert _digest(jar.read_bytes()) == content["jar_sha256"]
    # A gzip file ends with the checksum and the size of its content.
    with paraphrases.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        assert file.read().hex() == content["paraphrases_end"]
    return Recorded(content)


def _released_values(released: Meteor, items: Items, as_rows: Callable) -> tuple[float, list[float]]:
    (references, candidates), item_of_row = as_rows(items, tokenize_items(items))
    corpus, of_rows = released.compute_score(references, candidates)
    values = [0.0] * len(items)
    for item, value in zip(item_of_row.tolist(), of_rows, strict=True):
        assert values[item] in (0.0, value)
        values[item] = value
    return corpus, values


@pytest.fixture
def released_values(as_rows: Callable) -> Callable[[Meteor, Items], tuple[float, list[float]]]:
    """A function that asks a METEOR of pycocoevalcap for the value of the corpus and those of the items."""
    return lambda released, items: _released_values(released, items, as_rows)


@pytest.fixture
def start_released(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Meteor]]:
    """A function that starts the METEOR of pycocoevalcap, whose process ends with the test."""
    # It starts the first Java on the PATH; that shall be ours.
    monkeypatch.setenv("PATH", str(Path(find_java()).parent), prepend=os.pathsep)
    started: list[Meteor] = []

    def start() -> Meteor:
        started.append(Meteor())
        return started[-1]

    yield start
    for released in started:
        released.meteor_p.kill()
        released.meteor_p.wait()
