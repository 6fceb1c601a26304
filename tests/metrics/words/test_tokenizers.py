"""Words of other languages: sacrebleu's BLEU, the same tokens for all metrics, and metrics that read English alone."""

import sys

import numpy as np
import pytest
import sacrebleu
import spacy

import capbench
from capbench.errors import MetricError, TaskError, UsageError
from capbench.metrics import Context, Metric
from capbench.metrics.bleu import Bleu4
from capbench.metrics.cider import Cider
from capbench.metrics.meteor.metric import Meteor
from capbench.metrics.rouge_l import RougeL
from capbench.metrics.words.ptb import FINGERPRINT
from capbench.metrics.words.tokenizers import load

CANDIDATES = [
    "芝生の上に、大きな赤い星の左に青い円がある。",
    "一只狗在沙滩上奔跑,旁边有2.5米的树。",
    "Ein Hund läuft (schnell) am Strand, z.B. heute!",
    "The dog's 3-year-old owner throws a ball.",
]
REFERENCES = [
    ["芝生の上に、赤い星の左に青い円がある。", "青い円と赤い星が芝生の上にある。"],
    ["一只狗在沙滩上奔跑。", "沙滩上有一只狗,旁边有2.5米的树。"],
    ["Ein Hund läuft am Strand, z.B. heute!", "Der Hund läuft (schnell) am Strand."],
    ["The dog's owner throws a ball.", "A 3-year-old throws the dog's ball."],
]


@pytest.mark.parametrize("tokenizer", ["13a", "intl", "char", "zh", "ja-mecab", "spacy:de"])
def test_bleu_is_sacrebleus_with_the_same_tokens(tokenizer: str, make_items):
    candidates, references, theirs = CANDIDATES, REFERENCES, tokenizer
    if tokenizer == "spacy:de":
        german = spacy.blank("de")
        candidates, *columns = (
            [" ".join(token.text for token in german(text)) for text in texts]
            for texts in (CANDIDATES, *zip(*REFERENCES, strict=True))
        )
        references, theirs = list(zip(*columns, strict=True)), "none"
    expected = sacrebleu.BLEU(tokenize=theirs, smooth_method="none", force=True)
    metric, items = Bleu4(tokenizer=tokenizer), make_items(CANDIDATES, REFERENCES)
    assert metric.label == f"BLEU-4 ({tokenizer})"
    ours = metric.corpus(metric.score(items, Context()), items.weights)
    score = expected.corpus_score(candidates, [list(column) for column in zip(*references, strict=True)]).score
    assert score > 20
    assert 100 * ours == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("metric", [Bleu4, Cider, RougeL])
def test_characters_are_words_to_every_metric_and_the_default_is_as_before(metric, make_items):
    candidates, references = ["一只狗奔跑", "沙滩上有树"], [["一只狗在奔跑", "狗奔跑着"], ["树在沙滩上", "沙滩上有树"]]
    spaced = make_items([" ".join(text) for text in candidates], [[" ".join(t) for t in texts] for texts in references])
    items, by_default, by_character = make_items(candidates, references), metric(), metric(tokenizer="char")
    # One metric after the other on the same items: tokens are told apart.
    values = [metric.score(items, Context()).values for metric in (by_default, by_character)]
    assert np.array_equal(values[1], by_default.score(spaced, Context()).values)
    assert not np.array_equal(*values)
    assert metric(tokenizer="ptb").fingerprint() == by_default.fingerprint()
    assert by_default.fingerprint()["tokenizer"] == FINGERPRINT
    assert "char" in str(by_character.fingerprint()["tokenizer"])
    assert (by_default.splits_words, by_character.splits_words) == (True, False)


def test_missing_and_unknown_tokenizers_are_named(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match=r"unknown tokenizer 'ja_mecab'. Did you mean 'ja-mecab'"):
        Bleu4(tokenizer="ja_mecab")
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    load.cache_clear()
    with pytest.raises(MetricError, match="the tokenizer 'zh' is not installed") as caught:
        RougeL(tokenizer="zh").check()
    assert caught.value.hint == "pip install 'capbench[languages]'"
    with pytest.raises(MetricError, match="spaCy has no tokenizer for 'xyz' here"):
        RougeL(tokenizer="spacy:xyz").check()


TASK = """\
task: deutsch
language: de
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
doc_to_text: Beschreibe das Bild.
doc_to_target: references
metadata: {version: 1.0}
"""


def test_language_of_a_task_chooses_the_tokenizer_and_refuses_what_reads_english_alone(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"references": ["Ein Hund rennt."]}\n{"references": ["Ein Bus."]}\n')
    captions = tmp_path / "captions.jsonl"
    captions.write_text('{"id": 0, "caption": "Ein Hund rennt."}\n{"id": 1, "caption": "Ein Bus."}\n')

    def labels(listed: str, *names: str) -> list[str]:
        (tmp_path / "deutsch.yaml").write_text(f"{TASK}metric_list: {listed}\n")
        settings = {"metrics": names, "include_path": [tmp_path], "resamples": 0}
        return [r.label[0] for r in capbench.evaluate(f"captions:{captions}", "deutsch", **settings)["deutsch"].results]

    both = "[bleu_1, {metric: rouge_l, tokenizer: char}]"
    assert labels(both) == ["BLEU-1 (13a)", "ROUGE-L (char)"]
    assert labels(both, "cider", "length") == ["CIDEr (13a)", "length"]
    with pytest.raises(UsageError, match=r"metric 'meteor' is English's: .* in 'de'"):
        labels(both, "meteor")
    with pytest.raises(TaskError, match=r"deutsch\.yaml:8: metric 'capture' is English's"):
        labels("[bleu_1, capture]")
    assert Meteor.english_only and not Metric.english_only


def test_japanese_captions_agree_with_ratings_where_the_tokenizer_needs_no_spaces():
    run = capbench.evaluate(None, "shapes_japanese", metrics=["cider", "cider_ptb"], limit=150, resamples=0)
    by_character, by_spaces = (r.value for r in run["shapes_japanese"].results if r.statistic == "kendall_b")
    assert by_character > 0.35 > 0.3 > by_spaces
    assert "without spaces" in run["shapes_japanese"].record.remarks[0]["reason"]
