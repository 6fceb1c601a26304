"""Explanation of the score of a caption, which may be of a task: what each metric matched, and what that counts."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path

import numpy as np
from rapidfuzz.distance import LCSseq

from ...errors import MetricError, UsageError, did_you_mean
from ...metrics import Context, CorpusMetric, Items, Metric, Scores, State
from ...metrics.aloha import Aloha
from ...metrics.bertscore import BertScore
from ...metrics.bleu import Bleu, bleu
from ...metrics.capture.matching import KINDS, Element, KindScore
from ...metrics.capture.metric import Capture
from ...metrics.chair import ChairI, ChairS, tokens
from ...metrics.cider import Cider, WeightedNGram
from ...metrics.clip_f1 import ClipF1
from ...metrics.dcscore import PARTS, CaptionFact, DcScore, trial
from ...metrics.graph_spice import FactualSpice, SoftSpice
from ...metrics.meteor import metric as meteor
from ...metrics.rouge_l import RougeL, f_measure, precision_and_recall
from ...metrics.words.ngrams import MAX_ORDER
from ...metrics.words.ptb import tokenize_items
from ...progress import Progress
from ...rows import load_yaml
from ...tasks.locate import DataLocations
from ..inputs.failures import FailureLog
from ..inputs.models import Models
from ..inputs.settings import RunSettings
from ..running.plan import PlannedRun
from ..running.planned_metrics import PlannedMetric
from ..running.runner import prepare
from ..running.scoring import corpora
from ..store.store import Store
from .explanations import ExplanationPart, ExplanationTable, MatchRow, ScoreExplanation, TextSpan, marked

_METHODS: Mapping[str, Mapping[str, str]] = load_yaml(Path(__file__).parent / "methods.yaml")
_MOST = 10
"""Rows of a table of n-grams or tokens of one kind."""
_SIDES = {"candidate": "unmatched", "reference": "missing"}
"""The texts that are compared, and the kind of words that one of them has alone."""
_Parts = Iterator[ExplanationPart]


def require_explainable(planned: PlannedMetric) -> str:
    """Return the registered name of a metric that can be explained.

    Raises:
        UsageError: It cannot.
    """
    name = planned.entry and planned.entry.metric
    if not isinstance(name, str) or name not in EXPLAINERS:
        hint = f"Choose one of {', '.join(EXPLAINERS)}; with settings as 'capture[key=value,...]'."
        raise UsageError(f"metric '{planned.name}' cannot be explained", hint)
    return name


def explain(planned: PlannedMetric, items: Items, context: Context, state: State | None = None) -> ScoreExplanation:
    """Return the explanation of a caption's score.

    Args:
        planned: The metric.
        items: The caption alone, with the image where the metric needs one.
        context: Cache, progress, and a judge or encoder where the metric needs one.
        state: State of the corpus that the caption is scored in, where the metric needs it; None where it is alone.

    Raises:
        UsageError: The metric cannot be explained.
        MetricError: The caption has no score, or something is missing.
    """
    name, metric = require_explainable(planned), planned.metric
    if metric.corpus_dependent and state is None:
        raise UsageError(
            f"{metric.label} weighs n-grams by the number of images whose references have them; one image is no corpus",
            "Name a sample of a task (--task NAME --sample ID), or a file of captions to count n-grams in: "
            "--metric 'cider[document_frequencies=FILE]'.",
        )
    scores = metric.score(items, context, *filter(None, [state]))
    for reason in scores.failures.values():
        raise MetricError(f"{metric.label} cannot explain this: {reason}.")
    parts = list(EXPLAINERS[name](metric, items, scores, context, state))
    mean = "the mean over references of " * (len(parts) > 1)
    said = {how: text.format(metric=metric, mean=mean) for how, text in _METHODS[name.partition("_")[0]].items()}
    meanings = {how: said[how] for how in said if any(how in part.kinds for part in parts)}
    return ScoreExplanation(metric.label, float(scores.values[0]), said["score"], meanings, parts)


def find_sample(
    planned: PlannedRun, sample: str, models: Models, *, locations: DataLocations, store: Store, progress: Progress
) -> tuple[Items, State | None]:
    """Return the caption of a task by id, as its protocol scores it, and the state of a metric that sees the corpus.

    Raises:
        UsageError: There is none.
        BenchError: The data or the model fails.
    """
    failures = FailureLog(strict=False)
    job = prepare(planned, RunSettings(), models, locations=locations, cache=store, progress=progress)
    metric, row, own = planned.metrics[0].metric, None, 0
    samples: list[str] = []
    states: dict[int, list[State]] = {}
    for shard in planned.protocol.collect(job, failures):
        # Rows that are no single captions consist of items with separate ids.
        single, items = "candidate" in shard.columns, shard.items
        ids = list(shard.columns["id"] if single else items.ids)
        if isinstance(metric, CorpusMetric) and metric.corpus_dependent:
            for corpus, which in corpora(items):
                part = items if which is None else items.subset(which)
                states.setdefault(corpus, []).append(metric.state_map(part, Context()))
        if row is None and sample in ids:
            at = ids.index(sample)
            item = int(shard.item_of_sample[at]) if single else at
            row, own = items.subset(np.array([item])), 0 if items.corpus is None else int(items.corpus[item])
        if row is not None and not states:
            return row, None
        samples += ids
    if row is not None and isinstance(metric, CorpusMetric):
        return row, metric.join([metric.merge(states[own])])
    reasons = [f"{failure.subject} {failure.reason}" for failure in failures.entries if failure.sample == sample]
    if reasons:
        raise UsageError(f"task '{planned.task.task}': sample '{sample}' is not scored: {reasons[0]}")
    raise UsageError(
        f"task '{planned.task.task}' has no sample '{sample}'.{did_you_mean(sample, samples)}",
        f"The task has {len(samples):,} samples; the first is '{samples[0] if samples else ''}'.",
    )


def _tokens(items: Items, tokenizer: str) -> list[str]:
    """Return the tokens of the candidate and of each reference, joined by spaces."""
    tokenized = tokenize_items(items, tokenizer)
    return [*tokenized.candidates, *tokenized.reference_sets[0]]


def _words(text: str, hows: Mapping[str, str]) -> list[TextSpan]:
    """Return tokens in parts, by the kind of match of each that has one."""
    words = text.split()
    return marked(words, [((at, at + 1), hows[word]) for at, word in enumerate(words) if word in hows])


def _plain(items: Items, *tables: ExplanationTable) -> ExplanationPart:
    """Return a part in which no word is marked."""
    return ExplanationPart([TextSpan(items.candidates[0])], [[TextSpan(text)] for text in items.references[0]], tables)


# --- BLEU, ROUGE-L, CIDEr


def _bleu(metric: Bleu, items: Items, scores: Scores, *_: object) -> _Parts:
    texts, tables = _tokens(items, metric.tokenizer), list[ExplanationTable]()
    correct, guessed, length, closest = (part.tolist()[0] for part in scores.parts.values())
    for order, right, total in zip(range(1, metric.order + 1), correct, guessed, strict=True):
        runs = (zip(*(text.split()[at:] for at in range(order)), strict=False) for text in texts)
        own, *others = (Counter(map(" ".join, grams)) for grams in runs)
        rows: list[MatchRow] = []
        for gram, times in own.items():
            most = max(other[gram] for other in others)
            how = "equal" if times <= most else "clipped" if most else "unmatched"
            rows.append(MatchRow(how, (gram, str(times), str(min(times, most)))))
        note = f"{right:g} of {total:g}, precision {right / max(total, 1):.4f}"
        tables.append(ExplanationTable(f"{order}-grams", ("n-gram", "times", "counted"), rows, note, numbers=2))
    hows = {row.cells[0]: row.how for row in tables[0].rows}
    references = [_words(text, dict.fromkeys(hows, "equal")) for text in texts[1:]]
    penalty = scores.values[0] / bleu(*np.array([[correct], [guessed]]), *np.full((2, 1), closest))[0]
    facts = {"words": f"{length:g}, of the closest reference {closest:g}", "brevity penalty": f"{penalty:.4f}"}
    yield ExplanationPart(_words(texts[0], hows), references, tables, facts)


def _rouge_l(metric: RougeL, items: Items, *_: object) -> _Parts:
    candidate, *references = _tokens(items, metric.tokenizer)
    of_references = [precision_and_recall(candidate, [reference]) for reference in references]
    largest = np.argmax(of_references, axis=0).tolist()
    for at, (reference, numbers) in enumerate(zip(references, of_references, strict=True)):
        texts, facts = (candidate.split(" "), reference.split(" ")), dict[str, str]()
        for name, number, words, first in zip(("precision", "recall"), numbers, texts, largest, strict=True):
            is_largest = ", the largest" if at == first else ""
            facts[name] = f"{number * len(words):.0f} of {len(words)} words, {number:.4f}{is_largest}"
        equal = [block for block in LCSseq.opcodes(*texts) if block.tag == "equal"]
        mine = marked(texts[0], [((block.src_start, block.src_end), "equal") for block in equal], "unmatched")
        theirs = marked(texts[1], [((block.dest_start, block.dest_end), "equal") for block in equal], "missing")
        yield ExplanationPart(mine, [theirs], (), facts, f_measure(*np.array(numbers)[:, None]).item())


def _cider(metric: Cider, items: Items, _: Scores, __: Context, state: State | None) -> _Parts:
    def kind(gram: WeightedNGram) -> str:
        return "missing" if not gram.candidate else "equal" if gram.reference else "unmatched"

    candidate, *references = _tokens(items, metric.tokenizer)
    for reference, grams in zip(references, metric.explain(items, state), strict=True):
        grams = sorted(grams, key=lambda gram: (gram.added, gram.candidate + gram.reference), reverse=True)
        tables: list[ExplanationTable] = []
        for how, title in {"equal": "found", "missing": "missed", "unmatched": "not in the reference"}.items():
            columns, of_kind = 3 if how == "equal" else 2, [gram for gram in grams if kind(gram) == how]
            cells = [(gram.words, f"{gram.reference or gram.candidate:.3f}", f"{gram.added:.4f}") for gram in of_kind]
            rows = [MatchRow(how, row[:columns]) for row in cells[:_MOST]]
            note = f"{len(cells)} n-grams" + f", the {_MOST} largest" * (len(cells) > _MOST)
            tables.append(ExplanationTable(title, ("n-gram", "tf-idf", "adds")[:columns], rows, note, columns - 1))
        hows = {gram.words: kind(gram) for gram in grams}
        by_order = [sum(gram.added for gram in grams if gram.words.count(" ") == order) for order in range(MAX_ORDER)]
        facts = {"added by 1- to 4-grams": ", ".join(f"{added:.4f}" for added in by_order)}
        yield ExplanationPart(_words(candidate, hows), [_words(reference, hows)], tables, facts, sum(by_order))


# --- BERTScore, CLIP-F1, soft-SPICE


def _bertscore(metric: BertScore, items: Items, *_: object) -> _Parts:
    for numbers, *sides in metric.explain(items.candidates[0], items.references[0]):
        tables, spans = list[ExplanationTable](), list[list[TextSpan]]()
        for side, matched in zip(_SIDES, sides, strict=True):
            rows = [MatchRow("equal" if a == b else "similar", (a, b, f"{cosine:.4f}")) for a, b, cosine in matched]
            spans.append(marked([a for a, *_ in matched], [((at, at + 1), row.how) for at, row in enumerate(rows)]))
            rows.sort(key=lambda row: float(row.cells[2]))
            note = f"{len(rows)}, the lowest cosine first" + f"; the {_MOST} lowest and highest" * (
                len(rows) > 2 * _MOST
            )
            shown = rows if len(rows) <= 2 * _MOST else rows[:_MOST] + rows[-_MOST:]
            tables.append(ExplanationTable(f"tokens of the {side}", ("token", "nearest", "cosine"), shown, note))
        facts = {name: f"{number:.4f}" for name, number in numbers.items()}
        yield ExplanationPart(spans[0], spans[1:], tables, facts, numbers[metric.of])


def _nearest(metric: ClipF1 | SoftSpice, items: Items, scores: Scores, context: Context, _: object) -> _Parts:
    """Yield a table a side: parts with the nearest of the other side and numbers, by the last of them."""
    phrases = "phrases of the candidate", "phrases of the references"
    titles, heads = ("phrases", "regions"), ("part", "nearest", "cosine", "represented")
    titles, heads = (phrases, heads[:3]) if isinstance(metric, SoftSpice) else (titles, heads)
    tables: list[ExplanationTable] = []
    for title, mean, parts in zip(titles, ("precision", "recall"), metric.explain(items, context), strict=True):
        ordered = sorted(parts, key=itemgetter(-1))
        rows = [
            MatchRow("equal" if a == b else "similar", (a, b, *map("{:.4f}".format, row))) for a, b, *row in ordered
        ]
        note = f"{mean} {scores.parts[mean][0]:.4f}, the mean of {len(rows)}"
        tables.append(ExplanationTable(title, heads, rows, note, numbers=len(heads) - 2))
    yield _plain(items, *tables)


# --- METEOR, CAPTURE


def _meteor(_: Metric, items: Items, *__: object) -> _Parts:
    for alignment in meteor.explain(items.candidates[0], items.references[0]):
        facts, spans = dict[str, str](), list[list[TextSpan]]()
        for side, alone in _SIDES.items():
            words, places = getattr(alignment, side), [(getattr(pair, side), pair.how) for pair in alignment.aligned]
            spans.append(marked(words, places, alone))
            facts[f"aligned words of the {side}"] = f"{sum(end - start for (start, end), _ in places)} of {len(words)}"
        facts["chunks"] = str(alignment.chunks)
        facts |= {name: f"{factor:.4f}" for name, factor in alignment.factors.items()}
        yield ExplanationPart(spans[0], spans[1:], (), facts, alignment.value)


def _capture(metric: Capture, items: Items, _: Scores, context: Context, __: object) -> _Parts:
    candidate, references = items.candidates[0], items.references[0]
    for reference, matches in zip(references, metric.explain(candidate, references, context), strict=True):
        graphs = matches.candidate, matches.reference
        left = [MatchRow("left out", (word, "", why)) for word, why in graphs[0].left_out]
        left += [MatchRow("left out", ("", word, why)) for word, why in graphs[1].left_out]
        tables = [ExplanationTable("left out", (*_SIDES, "reason"), left, numbers=0)] if left else []
        hows = [{word.lower(): "left out" for word, _ in graph.left_out if word} for graph in graphs]
        # A word that is an attribute and an object is marked as an object.
        for kind in reversed(KINDS):
            matched, rows = matches.matched[kind], list[MatchRow]()
            for how, pair, counted, remark in _matches(matched):
                rows.append(MatchRow(how, (*map(_name, pair), remark)))
                for side in counted if kind != "relation" else ():
                    if (element := pair[side]) is not None and element.words[0]:
                        hows[side][element.words[0].lower()] = how
            note = f"precision {matched.precision:.4f}, recall {matched.recall:.4f}, F1 {matched.f1:.4f}"
            tables.insert(0, ExplanationTable(f"{kind}s", (*_SIDES, "cosine"), rows, note))
        yield ExplanationPart(_named(candidate, hows[0]), [_named(reference, hows[1])], tables, value=matches.value)


def _matches(matched: KindScore) -> Iterator[tuple[str, tuple[Element | None, Element | None], tuple[int, ...], str]]:
    """Yield how elements of one kind match, the two, which of them count, and a remark: one-to-one matches first."""
    mine, theirs = matched.pairing.candidate, matched.pairing.reference
    for how, pairs in (("equal", matched.pairing.equal), ("synonym", matched.pairing.synonymous)):
        yield from ((how, (mine[a], theirs[b]), (0, 1), "") for a, b in pairs)
    for pair in matched.candidate_similar:
        yield "similar", (mine[pair.element], theirs[pair.nearest]), (0,), f"{pair.similarity:.3f} of the candidate's"
    for pair in matched.reference_similar:
        yield "similar", (mine[pair.nearest], theirs[pair.element]), (1,), f"{pair.similarity:.3f} of the reference's"
    if not matched.candidate_similar:
        left_mine, left_theirs = matched.pairing.left_over()
        yield from (("unmatched", (mine[a], None), (0,), "") for a in left_mine)
        yield from (("unmatched", (None, theirs[b]), (1,), "") for b in left_theirs)


def _name(element: Element | None) -> str:
    if element is None:
        return ""
    return f"{element.words[0]} ({element.owner})" if element.owner else " – ".join(element.words)


def _named(text: str, how: Mapping[str, str]) -> list[TextSpan]:
    """Return a caption in parts, with the words that name its objects and attributes marked.

    Graphs have no positions of words: an element is searched as text, in singular or plural, for display only.
    """
    longest_first = sorted(how, key=len, reverse=True)
    # One group a word, in singular or plural: the number of the matched group gives the word.
    pattern = re.compile(rf"\b(?:{'|'.join(map(_forms, longest_first))})\b", flags=re.IGNORECASE)
    parts: list[TextSpan] = []
    end = 0
    for match in pattern.finditer(text) if how else ():
        parts += [
            TextSpan(text[end : match.start()]),
            TextSpan(match[0], how[longest_first[(match.lastindex or 1) - 1]]),
        ]
        end = match.end()
    return [*parts, TextSpan(text[end:])]


def _forms(word: str) -> str:
    """Return the pattern of a word and its plural, as one group."""
    if word.endswith("y") and not word.endswith(("ay", "ey", "oy", "uy")):
        return f"({re.escape(word[:-1])}(?:y|ies))"
    return f"({re.escape(word)}(?:e?s)?)"


# --- SPICE


def _spice(metric: FactualSpice, items: Items, scores: Scores, context: Context, _: object) -> _Parts:
    rows, hows = list[MatchRow](), (dict[str, str](), dict[str, str]())
    # A word that is an attribute and an object is marked as an object.
    matched = metric.explain(items, context)
    for how, *sides in sorted(matched, key=lambda match: -len(match[1] or match[2] or ())):
        for fact, words in zip(sides, hows, strict=True):
            words.update(dict.fromkeys(fact[-1] if fact and len(fact) < 3 else (), how))
    for how, *sides in matched:
        rows.append(MatchRow(how, [" – ".join("/".join(sorted(words)) for words in fact or ()) for fact in sides]))
    note = ", ".join(f"{name} {scores.parts[name][0]:.4f}" for name in ("precision", "recall"))
    table = ExplanationTable("tuples", [*_SIDES], rows, note, numbers=0)
    references = [_named(text, hows[1]) for text in items.references[0]]
    yield ExplanationPart(_named(items.candidates[0], hows[0]), references, [table])


# --- CHAIR, ALOHa, DCScore


def _chair(metric: ChairI | ChairS, items: Items, scores: Scores, *_: object) -> _Parts:
    table, marked_objects, rows = metric.table(), items.objects[0], list[MatchRow]()
    texts = [tokens(text.lower()) for text in (items.candidates[0], *items.references[0])]
    candidate, *references = map(table.places, texts)
    annotated = {table.objects[name] for name in marked_objects}
    for name, (start, end) in candidate:
        by = ["annotators"] * (name in annotated)
        by += [f"reference {at}" for at, named in enumerate(references, 1) if name in dict(named)]
        words = " ".join(texts[0][start:end])
        rows.append(MatchRow("present" if by else "hallucinated", (words, name, ", ".join(by))))
    mine = marked(texts[0], [(place, row.how) for (_, place), row in zip(candidate, rows, strict=True)])
    places = [[(place, "present") for _, place in named] for named in references]
    present = annotated.union(name for named in references for name, _ in named)
    facts = {"objects of the image": ", ".join(sorted(present)) or "none"}
    note = " of ".join(f"{scores.parts[part][0]:g} {part}" for part in ("hallucinated", "mentions"))
    tables = [ExplanationTable("objects", ("words", "object", "in the image by"), rows, note, numbers=0)]
    yield ExplanationPart(mine, list(map(marked, texts[1:], places)), tables, facts)


def _aloha(metric: Aloha, items: Items, _: Scores, context: Context, __: object) -> _Parts:
    matched, rows = metric.explain(items.candidates[0], items.references[0], context), list[MatchRow]()
    for entry in matched.objects:
        how = "unmatched" if entry.reference is None else "equal" if entry.name == entry.reference else "similar"
        cosine = f"{entry.similarity:.3f}" if how == "similar" else ""
        rows.append(MatchRow(how, (entry.name, entry.reference or "", cosine)))
    unknown = [MatchRow("left out", (word, "", "")) for word in matched.unknown]
    yield _plain(items, ExplanationTable("objects", (*_SIDES, "cosine"), rows + unknown))


def _dcscore(metric: DcScore, items: Items, _: Scores, context: Context, __: object) -> _Parts:
    (account,) = metric.accounts(items, context)
    if isinstance(account, str):
        raise MetricError(f"DCScore cannot explain this: {account}.")
    mine, theirs = list[MatchRow](), list[MatchRow]()
    for place, fact in enumerate(account.facts):
        truths = [answers[place] for answers in account.verifications]
        about = ["–" if (number := answers[place]) is None else str(number + 1) for answers in account.matchings]
        said = f"true {' '.join(str(int(truth)) for truth in truths)}, about {' '.join(about)}"
        mine.append(_fact(place, fact, truths, ("true", "false"), said))
    for place, fact in enumerate(account.oracle):
        pairs = product(account.matchings, account.verifications)
        had = [any(truths[at] for at, match in enumerate(matches) if match == place) for matches, truths in pairs]
        numbers = sorted({at for matches in account.matchings for at, match in enumerate(matches, 1) if match == place})
        said = f"about it {', '.join(map(str, numbers))}" if numbers else "none about it"
        theirs.append(_fact(place, fact, had, ("had", "missing"), said))
    trials = [
        (f"matching {matcher}, verifying {other}", trial(account.facts, account.oracle, matches, truths))
        for matcher, matches in enumerate(account.matchings, 1)
        for other, truths in enumerate(account.verifications, 1)
    ]
    rows = [MatchRow("", (name, *map("{:.4f}".format, parts))) for name, parts in [*trials, ("mean", account.parts)]]
    heads = ("answers", *(part.replace("_", ", ").replace("f1", "F1") for part in PARTS))
    facts = {"caption": mine, "oracle": theirs}.items()
    tables = [ExplanationTable(f"facts of the {of}", ("fact", "answers"), rows, numbers=0) for of, rows in facts]
    yield _plain(items, *tables, ExplanationTable("trials", heads, rows, str(len(trials)), len(PARTS)))


def _fact(place: int, fact: CaptionFact, answers: Sequence[bool], verdicts: tuple[str, str], said: str) -> MatchRow:
    how = verdicts[0] if all(answers) else "divided" if any(answers) else verdicts[1]
    return MatchRow(how, (f"{place + 1} {fact.text}", said + ("" if fact.relevant else ", not relevant")))


EXPLAINERS: Mapping[str, Callable[..., _Parts]] = {
    "aloha": _aloha, "bertscore": _bertscore, **{f"bleu_{order}": _bleu for order in range(1, MAX_ORDER + 1)},
    "capture": _capture, "chair_i": _chair, "chair_s": _chair, "cider": _cider, "dcscore": _dcscore,
    "factual_spice": _spice, "meteor": _meteor, "rouge_l": _rouge_l, "soft_spice": _nearest,
    **dict.fromkeys(("clip_f1", "clip_precision", "clip_recall"), _nearest),
}  # fmt: skip
"""Registered name of a metric to what explains it."""
