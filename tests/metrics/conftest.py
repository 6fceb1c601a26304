"""Captions, items and a cache that the metric tests share."""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_capture import find_minilm, make_nltk_data, make_wordnet

from capbench.adapters.judges.responses import RecordedResponses
from capbench.metrics import Context, Items
from capbench.metrics.capture.phrases import PhraseEncoder
from capbench.metrics.chair import SynonymTable, read_table
from capbench.metrics.golden import golden_items, read_golden
from capbench.metrics.java import find_java
from capbench.metrics.vectors.checkpoints import Checkpoint
from capbench.metrics.words.ptb import TokenizedItems

COCO_OBJECTS = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, "
    "stop sign, parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, "
    "giraffe, backpack, umbrella, handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, "
    "baseball bat, baseball glove, skateboard, surfboard, tennis racket, bottle, wine glass, cup, fork,"
    " knife, spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, "
    "cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop, mouse, remote, keyboard, "
    "cell phone, microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, teddy bear,"
    " hair drier, toothbrush"
)
SYNONYMS = {
    "person": "man, woman, baby, adult, passenger",
    "airplane": "jet",
    "cake": " cheesecake",
    "chair": "seat",
    "dog": "puppy",
}


@pytest.fixture
def table_file(tmp_path: Path) -> Path:
    """A table in the layout of CHAIR's, whose own may not be passed on."""
    file = tmp_path / "table.txt"
    rows = [[name, SYNONYMS[name]] if name in SYNONYMS else [name] for name in COCO_OBJECTS.split(", ")]
    file.write_text("".join(", ".join(row) + "\n" for row in rows))
    return file


@pytest.fixture
def table(table_file: Path) -> SynonymTable:
    return read_table(table_file)


@pytest.fixture
def make_items() -> Callable[..., Items]:
    return golden_items


@pytest.fixture
def composed(make_items: Callable[..., Items]) -> Items:
    """220 items of composed captions and hard strings, sharing some reference sets, weighing 1 to 4."""
    return make_items(*zip(*read_golden("captions")["items"], strict=True))


@pytest.fixture
def iiw(make_items: Callable[..., Items], data_folder: Callable[[str], Path]) -> Items:
    """ImageInWords IIW-400: the model's long caption against the human one, 100 items."""
    lines = (data_folder("imageinwords") / "IIW-400/data.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "IIW-P5B" in row]
    return make_items([row["IIW-P5B"] for row in rows], [(row["IIW"],) for row in rows])


@functools.cache
def read_flickr8k(folder: Path) -> dict[str, str]:
    """Return name to caption; read once."""
    lines = (folder / "Flickr8k.token.txt").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


@pytest.fixture
def flickr8k_captions(data_folder: Callable[[str], Path]) -> list[str]:
    return list(read_flickr8k(data_folder("flickr8k")).values())


@pytest.fixture
def flickr8k_expert(make_items: Callable[..., Items], data_folder: Callable[[str], Path]) -> Items:
    """The 5,664 pairs of Flickr8k-Expert, each once: 'composed' has what repeated rows change."""
    captions = read_flickr8k(data_folder("flickr8k"))
    references: dict[str, list[str]] = {}
    for name, text in captions.items():
        references.setdefault(name.partition("#")[0], []).append(text)
    rows = [line.split() for line in (data_folder("flickr8k") / "ExpertAnnotations.txt").read_text().splitlines()]
    pairs = [(image, captions[name]) for image, name, *_ in rows if captions[name] not in references[image]]
    return make_items([text for _, text in pairs], [references[image] for image, _ in pairs])


class MemoryCache:
    """A cache in memory; values go through JSON, as they would in a store."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str] = {}
        self.arrays: dict[tuple[str, str], np.ndarray] = {}
        self.batches: list[int] = []

    def get(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
        name = json.dumps(producer)
        return {text: json.loads(self.values[name, text]) for text in inputs if (name, text) in self.values}

    def put(self, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self.batches.append(len(values))
        self.values.update({(json.dumps(producer), text): json.dumps(value) for text, value in values.items()})

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        name = json.dumps(producer)
        return {text: self.arrays[name, text] for text in inputs if (name, text) in self.arrays}

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays.update({(json.dumps(producer), text): array for text, array in arrays.items()})


@pytest.fixture
def answers(tmp_path: Path) -> Callable[[Iterable[Mapping[str, Any]]], RecordedResponses]:
    """Return a function that records a judge's answers: rows of a prompt, a response and what more they are of."""

    def record(rows: Iterable[Mapping[str, Any]]) -> RecordedResponses:
        (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return RecordedResponses(tmp_path / "answers.jsonl")

    return record


@pytest.fixture
def cache() -> MemoryCache:
    return MemoryCache()


@pytest.fixture(scope="session")
def minilm() -> str:
    return str(find_minilm())


@pytest.fixture(scope="session")
def minilm_in_memory(minilm: str) -> PhraseEncoder:
    """Hold all-MiniLM-L6-v2, so that the metrics of all tests share it."""
    encoder = PhraseEncoder(Checkpoint("encoder", "encoder", minilm))
    encoder.vectors(["a dog"], Context())
    return encoder


@pytest.fixture(scope="session")
def wordnet_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_wordnet(tmp_path_factory.mktemp("wordnet")))


@pytest.fixture(scope="session")
def nltk_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """NLTK's data, where NLTK finds them first."""
    from nltk import data

    data.path.insert(0, folder := str(make_nltk_data(tmp_path_factory.mktemp("nltk_data"))))
    yield folder
    data.path.remove(folder)


@pytest.fixture(scope="session")
def princeton() -> Path:
    """The real WordNet 3.0, or skip: Debian's wordnet-base or NLTK's corpus."""
    from capbench.errors import MetricError
    from capbench.metrics.capture import wordnet

    try:
        return wordnet.find()
    except MetricError as error:
        if os.environ.get("CAPBENCH_REQUIRE_DATA"):
            pytest.fail(str(error))
        pytest.skip("needs WordNet: apt-get install wordnet-base")


Rows = tuple[dict[int, list[str]], dict[int, list[str]]]


@pytest.fixture
def as_rows() -> Callable[[Items, TokenizedItems], tuple[Rows, np.ndarray]]:
    """Tokenised items as pycocoevalcap takes them: a row as often as it weighs; and the item of each row."""

    def rows(items: Items, tokenized: TokenizedItems) -> tuple[Rows, np.ndarray]:
        item_of_row = np.repeat(np.arange(len(items)), items.weights)
        sets = items.reference_sets[1]
        references = {row: list(tokenized.reference_sets[sets[item]]) for row, item in enumerate(item_of_row)}
        candidates = {row: [tokenized.candidates[item]] for row, item in enumerate(item_of_row)}
        return (references, candidates), item_of_row

    return rows


@pytest.fixture(scope="module")
def java_on_path() -> Iterator[None]:
    """Let pycocoevalcap, which starts the first Java on the PATH, start the one that we do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(find_java()).parent), prepend=os.pathsep)
        yield


@pytest.fixture
def stand_in_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Let a Python program stand where Java is looked for."""

    def install(program: str) -> Path:
        script = tmp_path / "program.py"
        script.write_text(program)
        java = tmp_path / "bin" / "java"
        java.parent.mkdir(exist_ok=True)
        java.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        return tmp_path

    return install
