"""The tokenizer and the metrics of words."""

from __future__ import annotations

from collections.abc import Iterator

from ....metrics import Context, Metric, build_metric
from ....metrics.golden import golden_items, read_golden
from .components import Component, Values

_METRICS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "meteor")


def components() -> Iterator[Component]:
    """Yield the components."""
    yield Component("PTB tokenizer", "stanford-corenlp-3.4.1.jar, by pycocoevalcap 1.2", 0, _tokens)
    for name in _METRICS:
        yield _metric(name, build_metric(name, {}))
    yield _metric("meteor", build_metric("meteor", {"backend": "jar", "processes": 1}), ", by Java")


def _tokens() -> Values:
    from ....metrics.words.ptb_lexer import tokenize_text

    texts, tokens = zip(*read_golden("ptb_hard_strings")["cases"], strict=True)
    return Values.of_answers(map(tokenize_text, texts), tokens)


def _metric(name: str, metric: Metric, how: str = "") -> Component:
    def compute() -> Values:
        golden = read_golden("captions")
        items = golden_items(*zip(*golden["items"], strict=True))
        scores = metric.score(items, Context())
        ours = [*scores.values, metric.corpus(scores, items.weights)]
        return Values.of_numbers(ours, [*golden["values"][name], golden["corpus"][name]])

    source = f"pycocoevalcap 1.2 ({name.partition('_')[0]})"
    return Component(f"{metric.label}{how}", source, 1e-9, compute, metric.check)
