"""Parts of an explanation make up the score that the metric gives."""

import json
from typing import Any, get_args

import numpy as np
import pytest
from finished_runs import make_record
from named_features import NamedFeatures
from tiny_capture import find_minilm

from capbench.adapters import ImageHandle
from capbench.benchmarks.explaining.explain import explain
from capbench.benchmarks.explaining.explanations import ExplanationPart, ScoreExplanation, as_text
from capbench.benchmarks.inputs.settings import read_metric
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.running.planned_metrics import plan_metric
from capbench.benchmarks.view import sample_pages
from capbench.errors import BenchError
from capbench.metrics import Context, CorpusMetric, Items, Need
from capbench.metrics.golden import golden_items

BERT = f"bertscore[model={find_minilm()},num_layers=5,device=cpu]"
CANDIDATES = ["A dog runs on the the grass, a dog.", "two red cars and a van", "", "A man rides a horse on a beach"]
REFERENCES = [
    ("The dog is running on grass.", "a dog runs", "!"), ("two cars", "Two red cars are parked next to a van."),
    ("a cat sleeps on the grass",), ("a man rides a horse on a beach",) * 2,
]  # fmt: skip


def explained(name: str, items: Items, row: int = 0, encoder: Any = None) -> tuple[ScoreExplanation, Any]:
    """Return the explanation of a caption among others, and the scores that the metric gives all of them."""
    planned, context, state = plan_metric(read_metric(name), frozenset(get_args(Need))), Context(encoder=encoder), None
    if isinstance(planned.metric, CorpusMetric) and planned.metric.corpus_dependent:
        state = planned.metric.join([planned.metric.state_map(items, context)])
    scores, explanation = (
        planned.metric.score(items, context),
        explain(planned, items.subset(np.array([row])), context, state),
    )
    # A model of single precision gives a caption alone, and among others, the same to its last digits.
    assert explanation.value == pytest.approx(scores.values[row], abs=1e-6 if name == BERT else 1e-12)
    return explanation, scores


def rows_of(part: ExplanationPart, table: int) -> list[str]:
    return [" ".join([row.how, *row.cells]) for row in part.tables[table].rows]


def marks(spans: Any) -> str:
    """Return a text whose marked words are in brackets with their kind."""
    return "".join(f"[{span.text} {span.how}]" if span.how else span.text for span in spans).strip()


@pytest.mark.parametrize("row", range(4))
@pytest.mark.parametrize("name", ["cider", "cider[variant=plain]", "cider[tokenizer=13a]", "bleu_4", "rouge_l", BERT])
def test_parts_sum_to_the_value(name: str, row: int) -> None:
    explanation, scores = explained(name, golden_items(CANDIDATES, REFERENCES), row)
    if name == BERT:
        assert max(part.value for part in explanation.parts) == pytest.approx(explanation.value, abs=1e-6)
    elif name == "bleu_4":
        for order, table in enumerate(explanation.parts[0].tables):
            sums = np.array([list(map(int, row.cells[1:])) for row in table.rows]).reshape(-1, 2).sum(axis=0)
            assert sums.tolist() == [scores.parts[part][row, order] for part in ("guessed", "correct")]
    elif name == "rouge_l":
        for side in ("precision", "recall"):
            assert any(f"{scores.parts[side][row]:.4f}, the largest" in part.facts[side] for part in explanation.parts)
    else:
        assert np.mean([part.value for part in explanation.parts]) == pytest.approx(explanation.value, abs=1e-12)


def test_tokens_and_parts_of_images_have_their_nearest_with_the_cosines_that_make_the_value() -> None:
    (part,) = explained(BERT, golden_items(["a dog runs"], [("A dog sleeps",)]))[0].parts
    for table, number in zip(part.tables, ("precision", "recall"), strict=True):
        cosines = [float(row.cells[-1]) for row in table.rows]
        assert cosines == sorted(cosines)
        assert np.mean(cosines) == pytest.approx(float(part.facts[number]), abs=1e-4)
    assert marks(part.candidate) == "[a equal] [dog equal] [runs similar]"
    vectors = {"A dog": [1, 0], "A cat": [0, 1], "A dog. A cat.": [1, 1], "b": [2, 1], "b(0, 0, 9, 9)": [1, 0]}
    encoder = NamedFeatures(lambda name: np.array(vectors[name], np.float32), context_length=9)
    items = golden_items(["A dog. A cat."], [()], images=[ImageHandle(b"b")], boxes=[((0, 0, 9, 9),)])
    explanation, _ = explained("clip_recall[k=1]", items, encoder=encoder)
    whole = "similar whole image A dog. A cat. 0.9487 0.9487"
    assert rows_of(explanation.parts[0], 1) == [whole, "similar box (0, 0, 9, 9) A dog 1.0000 1.0000"]


def test_ngrams_of_cider_have_the_weights_and_shares_of_the_definition() -> None:
    # Of two images each n-gram is in one or none: ln 2. Words: cosine 1/2; bigrams: none; 10 x (1/2 + 0 + 0 + 0) / 4.
    explanation, _ = explained("cider", golden_items(["red cat", "x"], [("red dog",), ("blue bird",)]))
    (part,) = explanation.parts
    assert (explanation.value, part.value) == (pytest.approx(1.25), pytest.approx(1.25))
    assert rows_of(part, 0) == ["equal red 0.693 1.2500"]
    assert sorted(rows_of(part, 1)) == ["missing dog 0.693", "missing red dog 0.693"]
    assert sorted(rows_of(part, 2)) == ["unmatched cat 0.693", "unmatched red cat 0.693"]
    assert marks(part.candidate) == "[red equal] [cat unmatched]"
    assert marks(part.references[0]) == "[red equal] [dog missing]"


def test_ngrams_of_bleu_are_clipped() -> None:
    explanation, _ = explained("bleu_2", golden_items(["the the cat ran"], [("the cat sat on it", "a cat")]))
    (part,) = explanation.parts
    # 2 of 4 words, 1 of 3 bigrams; 5 words are nearer to 4 than 2.
    assert explanation.value == pytest.approx(np.sqrt(1 / 2 * 1 / 3) * np.exp(1 - 5 / 4), abs=1e-6)
    assert rows_of(part, 0) == ["clipped the 2 1", "equal cat 1 1", "unmatched ran 1 0"]
    assert rows_of(part, 1) == ["unmatched the the 1 0", "equal the cat 1 1", "unmatched cat ran 1 0"]
    assert part.facts == {"words": "4, of the closest reference 5", "brevity penalty": "0.7788"}
    assert marks(part.candidate) == "[the clipped] [the clipped] [cat equal] [ran unmatched]"


def test_longest_common_subsequence_is_marked_and_the_reference_that_counts_is_named() -> None:
    explanation, _ = explained("rouge_l", golden_items(["a dog runs"], [("a dog now runs", "dog")]))
    first, second = explanation.parts
    assert explanation.value == pytest.approx(1.0)
    assert marks(first.candidate) == "[a dog equal] [runs equal]"
    assert marks(second.candidate) == "[a unmatched] [dog equal] [runs unmatched]"
    assert marks(first.references[0]) == "[a dog equal] [now missing] [runs equal]"
    assert first.facts == {"precision": "3 of 3 words, 1.0000, the largest", "recall": "3 of 4 words, 0.7500"}
    assert second.facts == {"precision": "1 of 3 words, 0.3333", "recall": "1 of 1 words, 1.0000, the largest"}


def test_tuples_of_spice_are_matched_one_to_one_and_phrases_of_soft_spice_have_their_nearest(tmp_path) -> None:
    graphs = {"dogs chase a red auto": "( dog , is , red ) , ( dog , chase , auto )", "a dog": "( dog )"}
    graphs["a car, a hat"] = "( car ) , ( hat )"
    rows = [json.dumps({"caption": text, "graph": graph}) + "\n" for text, graph in graphs.items()]
    (tmp_path / "graphs.jsonl").write_text("".join(rows))
    settings = f"parser=recorded,parser_model={tmp_path / 'graphs.jsonl'},lemmatize=false"
    candidate, *references = graphs
    items = golden_items([candidate], [tuple(references)])
    # Of auto, dog, dog – chase – auto, dog – red two are in the references, of whose three the hat is left.
    explanation, _ = explained(f"factual_spice[{settings}]", items)
    (part,) = explanation.parts
    assert explanation.value == pytest.approx(2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3))
    assert rows_of(part, 0) == [
        "synonym auto car", "equal dog dog", "unmatched dog – chase – auto ", "unmatched dog – red ", "missing  hat",
    ]  # fmt: skip
    assert part.tables[0].note == "precision 0.5000, recall 0.6667"
    assert marks(part.candidate) == "[dogs equal] chase a [red unmatched] [auto synonym]"
    assert [marks(text) for text in part.references] == ["a [dog equal]", "a [car synonym], a [hat missing]"]
    same, _ = explained(f"factual_spice[{settings},compare=graphs]", items)
    assert rows_of(same.parts[0], 0)[-1] == "missing  hat" and same.value == 0
    soft, _ = explained(f"soft_spice[{settings},encoder={find_minilm()}]", items)
    (part,) = soft.parts
    assert [len(table.rows) for table in part.tables] == [4, 3] and rows_of(part, 0)[-1] == "equal dog dog 1.0000"
    assert np.mean([float(row.cells[2]) for row in part.tables[0].rows]) == pytest.approx(soft.value, abs=1e-4)


def test_objects_of_chair_are_marked_where_the_caption_names_them(tmp_path, monkeypatch) -> None:
    table = [["hot dog"], ["dog", "puppy"], ["toilet"], ["cat"], ["chair", "seat"], *([f"x{n}"] for n in range(75))]
    (tmp_path / "chair").mkdir()
    (tmp_path / "chair/synonyms.txt").write_text("".join(", ".join(row) + "\n" for row in table))
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path))
    items = golden_items(["Two Puppies, a hot dog and cats on a seat."], [("a dog", "x")], objects=[frozenset({"cat"})])
    for name, value in {"chair_i": 2 / 4, "chair_s": 1}.items():
        explanation, _ = explained(name, items)
        (part,) = explanation.parts
        assert explanation.value == value and part.facts == {"objects of the image": "cat, dog"}
        assert rows_of(part, 0) == [
            "present puppies dog reference 1", "hallucinated hot dog hot dog ", "present cats cat annotators",
            "hallucinated seat chair ",
        ]  # fmt: skip
        assert part.tables[0].note == "2 hallucinated of 4 mentions"
        named = "two [puppies present] , a [hot dog hallucinated] and [cats present] on a [seat hallucinated] ."
        assert [marks(text) for text in (part.candidate, *part.references)] == [named, "a [dog present]", "x"]
    record = make_record()
    record["configs"]["tasty"]["metric_list"] = ["chair_i"]
    row = {"candidate": "A cat and a dog.", "references": ["a dog"], "chair_i": 0.5, "objects": []}
    assert sample_pages.explain(Record(record), "chair_i", row).value == 1 / 2
    with pytest.raises(BenchError, match="CHAIRi needs objects, which the samples of this run do not have"):
        sample_pages.explain(Record(record), "chair_i", row | {"objects": None})


def test_cider_of_one_image_needs_the_frequencies_of_others(tmp_path) -> None:
    (tmp_path / "captions.jsonl").write_text('{"image": 1, "caption": "red dog"}\n{"image": 2, "caption": "bird"}')
    name = f"cider[document_frequencies={tmp_path / 'captions.jsonl'}]"
    text = as_text(explained(name, golden_items(["red cat"], [("red dog",)]))[0], colour=True)
    assert "\x1b[32m= red      0.693  1.2500\x1b[0m" in text


@pytest.mark.parametrize(("entries", "said"), [
    ([{"metric": "cider", "name": "m", "document_frequencies": "FILE"}], "lies outside"),
    ([{"metric": "bertscore", "name": "m", "model": "FOLDER", "num_layers": 1}], "lies outside"),
    ([{"metric": "capture", "name": "m", "parser": "recorded", "parser_model": "FILE"}], "lies outside"),
    ([{"metric": "evaluate:FOLDER", "name": "m"}, {"metric": "rouge_l", "name": "m"}], "is not explained"),
    ([{"metric": "clip_f1", "name": "m", "parts": "whole"}], "needs encoder, image, which the samples"),
    ([{"metric": "bertscore", "name": "m", "model": "nobody/nothing", "num_layers": 1}], "hub"),
])  # fmt: skip
def test_what_a_record_names_is_neither_read_nor_run_nor_fetched(tmp_path, monkeypatch, entries, said: str) -> None:
    for name in ("cider._read_frequencies", "bertscore._Encoder", "hf_evaluate.EvaluateMetric.check"):
        monkeypatch.setattr(f"capbench.metrics.{name}", lambda *_: pytest.fail("it was read or run"))
    (tmp_path / "secret.jsonl").write_text('{"image": 1, "caption": "a"}')
    text = json.dumps(entries).replace("FILE", str(tmp_path / "secret.jsonl")).replace("FOLDER", str(tmp_path))
    record = make_record()
    record["configs"]["tasty"]["metric_list"] = json.loads(text)
    with pytest.raises(BenchError, match=said):
        sample_pages.explain(Record(record), "m", {"candidate": "a", "references": ["a"], "m": 1.0})
