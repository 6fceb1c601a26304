"""``checklist``: rules change human captions; does a metric notice?"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from ....errors import DataError
from ...inputs.failures import Failure, FailureLog
from ...inputs.items import CaptionRow, gather, numbers_of, references_fault, references_of
from ...inputs.recorded import RecordedCheck
from ...statistics import Draws
from ...statistics.contract import Statistic, Statistics, UndefinedStatistic
from ...statistics.influence import Ratio, ratio_intervals
from ...statistics.near_ties import settle
from ...statistics.rated_rows import first_seen
from ...statistics.significance import Ranking, rank
from ..checks import run_checks
from ..choices import compare_credit
from ..contract import IMAGE_KEYS, TEXTS, ComparedRows, PairedEstimates, Protocol, ProtocolSettings
from ..document_reader import Document, UnusableDocument, read_each
from ..job import INTERVALS, Collected, Job, Result, RowScores, ScoredMetric, ScoredMetrics, Shard, Summary
from .captions import load, sentences, words_of
from .readers import CaptionReader, ListsReader, SpacyReader
from .rules import CHANGES, RULES, VERSION, ChangeRule, Donor, NothingToChange, RuleInput, SourceCorpus, typical

CLEAN = "clean"
NAMES = (CLEAN, *(rule.name for rule in CHANGES))
"""The versions of a caption: unchanged, and changed by each rule."""


class ChecklistSettings(ProtocolSettings):
    """The settings of a checklist that affect its numbers."""

    reader: Literal["lists", "spacy"] = "lists"
    """The reader, which finds nouns, adjectives, phrases and verbs."""
    pipeline: str = "en_core_web_md"
    """The pipeline of ``spacy``: a package's name or a folder."""
    captions: Literal["first", "all"] = "first"
    """Which captions of a document are changed."""
    least_seen: int = Field(default=3, ge=1)
    """The least number of captions with a noun that replaces an object."""
    seed: int = 0
    """Seed of the choice among several tokens, with the rule and the caption."""
    rules: int = VERSION
    """The version of the rules."""
    words: str = Field(default_factory=lambda: load().digest)
    """Hash of the word lists."""

    meanings: ClassVar = TEXTS["checklist"]["meanings"]

    def idle(self) -> Set[str]:
        """Return the pipeline setting where the reader does not use it."""
        return set() if self.reader == "spacy" else {"pipeline"}

    def caption_reader(self) -> CaptionReader:
        """Return the reader of captions."""
        return SpacyReader(self.pipeline, load()) if self.reader == "spacy" else ListsReader(load())


NEAR_ZERO = 1e-6
"""An unchanged caption whose score is no further from 0, where more is better, is not counted in shares.

Its score cannot fall, or by noise alone: of detailed captions, CIDEr's penalty of lengths leaves 1e-10.
"""

LABELS = {"falls": "falls", "equal": "stays", "rises": "rises", "change": "change in SD", "pays": "× clean mean"}
"""Labels of the results of a rule in tables."""

COMPARED: dict[str, ChangeRule] = {
    f"{'falls' if rule.expected == 'fall' else 'equal'}.{rule.name}": rule for rule in RULES
}
"""What metrics are compared by: of each rule the share of captions that do as they should. Games are of no honest
caption, so that no metric is the better one for its value."""


class Checklist(Protocol[ChecklistSettings]):
    """Scores of captions that rules changed, by rule.

    ``doc_to_target`` gives two or more human captions of an image: one is changed, the others are its references. A
    rule makes at most one changed caption; where it finds nothing to change, the sample is listed with the reason.

    For rules that make a caption worse, ``falls`` should be 1: the share of changed captions with a lower score;
    ``equal`` and ``rises`` follow the rule of near ties. For rules that keep the meaning, ``equal`` should be 1.
    ``change`` is the mean change in standard deviations of the scores of unchanged captions, absolute for rules that
    keep the meaning. For games ``pays`` is the mean score divided by that of the unchanged captions. A caption that
    the metric cannot score is a miss; shares leave out those whose unchanged score is within 1e-6 of 0. There is no
    total: a pure recall metric need not fall for additions.
    """

    Settings = ChecklistSettings
    reads = (*IMAGE_KEYS, "metric_list")
    needs = frozenset({"doc_to_target", "metric_list"})
    counted = "captions that a rule changed; of shares, without those that score 0 (1e-6) unchanged"
    steps = (INTERVALS,)
    about = TEXTS["checklist"]["about"]
    statistic = "falls"
    sample = "changed caption"
    by_rule = True
    comparable = True

    @property
    def compared_by(self) -> Sequence[str]:
        """The share of captions of each rule whose score changes as expected: falls, or stays."""
        return list(COMPARED)

    def read(self, job: Job, failures: FailureLog) -> Summary:
        """Return the number of documents with captions that can be changed, and the data checks."""
        captions = self._captions(job, failures)
        return Summary(_documents(captions), data_checks=_checks(job, captions))

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read all captions, then change them a shard at a time.

        Raises:
            DataError: There are none, the reader's pipeline is missing, or the task has other rules or words.
        """
        captions = self._captions(job, failures)
        checks = _checks(job, captions)
        remarks = [Failure(job.task.task, "candidate", f"is parsed with {self.settings.caption_reader().said()}")]
        versions = changed(captions, self.settings)
        rows = 0
        while some := list(islice(versions, max(1, job.shard // len(NAMES)))):
            yield _shard(some, rows, job.by_id)
            rows += len(some)
            remarks += [
                Failure(caption.id, "candidate", f"{version} ({name})")
                for caption, of_caption in some
                for name, version in zip(NAMES, of_caption, strict=True)
                if isinstance(version, str)
            ]
        return Summary(_documents(captions), data_checks=checks, remarks=remarks)

    def _captions(self, job: Job, failures: FailureLog) -> list[CaptionRow]:
        for name, here in (("rules", VERSION), ("words", load().digest)):
            asked = getattr(self.settings, name)
            if asked != here:
                raise DataError(
                    f"task '{job.task.task}' needs protocol.{name} {asked}, but this version has {here}",
                    "Remove the key from the task, or install the version of capbench that it was written for.",
                )
        captions = list(read_each(job, self.document_keys, self._source, failures))
        if len({caption.image for caption in captions}) < 2:
            raise DataError(
                f"task '{job.task.task}': rules need captions of two images; {len(captions)} captions are usable",
                "; ".join(f"{f.sample}: {f.subject} {f.reason}" for f in failures.entries[:3]),
            )
        return captions

    def _source(self, document: Document) -> Iterator[CaptionRow]:
        """Yield the captions of a document for the rules to change."""
        captions = references_of(document["doc_to_target"])
        if fault := references_fault(captions):
            raise UnusableDocument("candidate", fault.replace("reference", "caption"))
        if len(captions) < 2:
            reason = "is missing: a document needs one caption to change and one or more as references"
            raise UnusableDocument("reference", reason)
        document.check_view()
        for number in range(len(captions) if self.settings.captions == "all" else 1):
            identity, references = f"{document.id}#{number}", (*captions[:number], *captions[number + 1 :])
            yield CaptionRow(identity, document.image, captions[number], references, pixels=document.pixels)

    def results(self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics) -> list[Result]:
        """Return every value of each rule, with bootstrap intervals over images."""
        results: list[Result] = []
        report = job.progress(INTERVALS)
        applies, settings = _applies(collected), job.settings
        images, draws = first_seen(collected.numbers["image"]), settings.draws()
        for done, metric in enumerate(scored, 1):
            if metric.scores is None:
                results += [_result(metric, rule, name, reason=metric.error) for rule, name in _names()]
                report(done, len(scored))
                continue
            table = _table(collected, metric)
            unit = float(np.nanstd(table[:, 0], ddof=1)) if np.isfinite(table[:, 0]).sum() > 1 else 0.0
            places: dict[str, int] = {}
            defined: dict[str, Ratio] = {}
            for number, rule in enumerate(CHANGES, 1):
                changed = applies[:, number]
                counted = changed & _counted(table[:, 0], metric.metric.higher_is_better)
                # Rules that changed no caption are remarked, with the reasons.
                values = (
                    rule_values(rule, table[:, 0], table[:, number], changed, counted, unit) if changed.any() else {}
                )
                for name, ratio in values.items():
                    n = int((counted if ratio.is_share else changed).sum())
                    key = f"{rule.name}.{name}"
                    places[key] = len(results)
                    try:
                        results.append(_result(metric, rule, name, ratio.value(), n))
                        defined[key] = ratio
                    except UndefinedStatistic as error:
                        results.append(_result(metric, rule, name, n=n, reason=str(error)))
            for key, interval in ratio_intervals(defined, images, draws, settings.level).items():
                results[places[key]] = results[places[key]].with_interval(interval)
            report(done, len(scored))
        return results

    def ranking(
        self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics, results: Sequence[Result]
    ) -> dict[str, Ranking]:
        """Return which metrics differ, rule by rule; of those that count half of its captions or more."""
        having = [metric for metric in scored if metric.scores is not None]
        if len(having) < 2 or not job.settings.resamples:
            return {}
        images = first_seen(collected.numbers["image"])
        scores, _ = self.row_scores(collected, having)
        rows = ComparedRows(
            np.repeat(images, len(NAMES)),
            scores,
            categories=NAMES * len(images),
            lower_is_better={scored.name for scored in having if not scored.metric.higher_is_better},
        )
        applies = _applies(collected)
        counted = {m.name: _counted(_table(collected, m)[:, 0], m.metric.higher_is_better) for m in having}
        rankings: dict[str, Ranking] = {}
        for name, rule in COMPARED.items():
            changed = applies[:, NAMES.index(rule.name)]
            kept = {metric for metric, mask in counted.items() if 2 * (changed & mask).sum() >= changed.sum()}
            if len(kept) < 2:
                continue
            of_kept = {metric: values for metric, values in scores.items() if metric in kept}
            try:
                compared = self.compare(replace(rows, scores=of_kept, by=name), None, job.settings.draws())
            except UndefinedStatistic:
                continue
            rankings[name] = rank(compared.estimates, higher_is_better=True)
        return rankings

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return the share of expected changes by metric, over the captions of a rule that all metrics scored."""
        return compare_rule(rows, draws)

    def row_scores(self, collected: Collected, scored: ScoredMetrics) -> RowScores:
        """Return the scores of each version of each caption; a version that was not made has none."""
        row_of_sample = collected.numbers["caption"] * len(NAMES) + collected.numbers["version"]
        of_samples, reasons = super().row_scores(collected, scored)
        values = {name: np.full(collected.rows, np.nan) for name in of_samples}
        for name, of_rows in values.items():
            of_rows[row_of_sample] = of_samples[name]
        return values, {int(row_of_sample[sample]): reason for sample, reason in reasons.items()}


def changed(
    captions: Sequence[CaptionRow], settings: ChecklistSettings
) -> Iterator[tuple[CaptionRow, list[CaptionRow | str]]]:
    """Yield each caption with its versions, in the order of :data:`NAMES`: one to score, or why a rule made none.

    Raises:
        DataError: A dependency of the reader is missing.
    """
    corpus = _corpus(captions, settings)
    findings = corpus.reader.read([caption.candidate for caption in captions])
    for caption, read in zip(captions, findings, strict=True):
        source = RuleInput(caption.image, caption.candidate, read, caption.references, corpus)
        yield caption, [caption, *(_version(caption, rule, source) for rule in CHANGES)]


def _version(caption: CaptionRow, rule: ChangeRule, source: RuleInput) -> CaptionRow | str:
    try:
        text = rule.change(source)
    except NothingToChange as reason:
        return str(reason)
    # Document frequencies count the captions of an image once, not once per version.
    return caption._replace(id=f"{caption.id}|{rule.name}", candidate=text, weight=0)


def _corpus(captions: Sequence[CaptionRow], settings: ChecklistSettings) -> SourceCorpus:
    words, reader = load(), settings.caption_reader()
    seen: Counter[str] = Counter()
    for texts in {caption.image: (caption.candidate, *caption.references) for caption in captions}.values():
        for text in texts:
            seen.update(words_of(text))
    last = [sentences(caption.candidate)[-1] for caption in captions]
    donors = [
        Donor(caption.image, sentence, read.nouns)
        for caption, sentence, read in zip(captions, last, reader.read(last), strict=True)
        # What is seen in most places could be true of the other image.
        if any(token.head and token.lemma in words.telling for token in read.tokens)
    ]
    best = typical([caption.candidate for caption in captions], seen)
    return SourceCorpus(words, reader, settings.seed, seen, settings.least_seen, donors, best)


def rule_values(
    rule: ChangeRule, clean: np.ndarray, changed: np.ndarray, applies: np.ndarray, counted: np.ndarray, unit: float
) -> dict[str, Ratio]:
    """Return the results of a rule by name; see ``Checklist``. The first is the share of expected changes, or ``pays``.

    Args:
        rule: The rule.
        clean: ``[n]`` scores of the unchanged captions, higher being better.
        changed: ``[n]`` those of the changed captions; one without a score counts for no share.
        applies: ``[n]`` whether the rule changed them.
        counted: ``[n]`` which of these shares count.
        unit: Standard deviation of the scores of all captions.
    """
    used = applies & np.isfinite(clean) & np.isfinite(changed)
    difference = np.where(used, changed - clean, 0.0)
    if rule.expected == "stay":
        difference = np.abs(difference)
    change = Ratio(difference, np.zeros(len(used)), "all captions have the same score before they are changed")
    if unit > 0:
        change = Ratio(difference / unit, used.astype(float), "no changed caption has a score")
    if rule.expected == "game":
        of_changed, of_clean = (np.where(used, scores, 0.0) for scores in (changed, clean))
        pays = Ratio(of_changed, of_clean, "the mean of the captions as they were is not above 0")
        return {"pays": pays, "change": change}
    before, after, every = settle(clean), settle(changed), counted.astype(float)
    with np.errstate(invalid="ignore"):
        masks = {"falls": after < before, "equal": after == before, "rises": after > before}
    values = {
        name: Ratio((mask & counted).astype(float), every, "no unchanged caption has a score above 0", is_share=True)
        for name, mask in masks.items()
    }
    return {**({"equal": values["equal"]} if rule.expected == "stay" else {}), **values, "change": change}


def _counted(clean: np.ndarray, higher_is_better: bool) -> np.ndarray:
    """Return ``[n]`` the mask of unchanged scores that shares count; without a score a caption is a miss."""
    return ~(np.abs(clean) <= NEAR_ZERO) if higher_is_better else np.ones(len(clean), bool)


def compare_rule(rows: ComparedRows, draws: Draws) -> PairedEstimates:
    """Compare metrics by the share of expected changes, over the changed captions that all of them scored.

    Args:
        rows: Captions, each unchanged and then its versions; a version that was not made has no score.
        draws: The bootstrap resamples, over images.

    Raises:
        UndefinedStatistic: There is no such caption.
    """
    rule, version = COMPARED[rows.by], np.asarray(rows.categories)
    clean = version == CLEAN
    changed = np.flatnonzero(version == rule.name)
    scored = [np.isfinite(values[changed]) for values in rows.scores.values()]
    changed = changed[np.logical_or.reduce(scored)]
    unchanged = np.flatnonzero(clean)[np.cumsum(clean)[changed] - 1]
    credit: dict[str, np.ndarray] = {}
    for name, values in rows.scores.items():
        sign = -1.0 if name in rows.lower_is_better else 1.0
        before, after = sign * values[unchanged], sign * values[changed]
        used = np.isfinite(before) & np.isfinite(after) & _counted(before, name not in rows.lower_is_better)
        share = next(iter(rule_values(rule, before, after, used, used, 0.0).values()))
        credit[name] = np.where(used, share.of, np.nan)
    return compare_credit(ComparedRows(np.asarray(rows.images)[changed], credit), draws)


def _names() -> Iterator[tuple[ChangeRule, str]]:
    """Yield each rule with the name of each of its results."""
    nothing = np.zeros(0)
    none = nothing.astype(bool)
    for rule in CHANGES:
        for name in rule_values(rule, nothing, nothing, none, none, 0.0):
            yield rule, name


def _result(
    scored: ScoredMetric, rule: ChangeRule, name: str, value: float | None = None, n: int = 0, reason: str = ""
) -> Result:
    label = scored.metric.label, f"{rule.label}: {LABELS[name]}"
    # Of rules that are not games, the first result alone.
    better = name == ("falls" if rule.expected == "fall" else "equal")
    return Result(scored.name, name, label, value, n, better, reason=reason, category=rule.name)


def _table(collected: Collected, scored: ScoredMetric) -> np.ndarray:
    """Return ``[captions, versions]`` the scores, higher being better; NaN where there is none."""
    table = np.full(_applies(collected).shape, np.nan)
    assert scored.scores is not None  # noqa: S101 - the caller checked
    values = scored.scores.values[collected.item_of_sample]
    sign = 1.0 if scored.metric.higher_is_better else -1.0
    table[collected.numbers["caption"], collected.numbers["version"]] = sign * values
    return table


def _applies(collected: Collected) -> np.ndarray:
    """Return ``[captions, versions]`` the mask of versions that were made."""
    present = np.zeros((len(collected.numbers["image"]), len(NAMES)), dtype=bool)
    present[collected.numbers["caption"], collected.numbers["version"]] = True
    return present


def _shard(captions: Sequence[tuple[CaptionRow, list[CaptionRow | str]]], first: int, by_id: bool) -> Shard:
    versions = [version for _, of_caption in captions for version in of_caption]
    samples = [version for version in versions if not isinstance(version, str)]
    items, item_of_sample, item_numbers = gather(samples, by_id)
    places = np.array([at for at, version in enumerate(versions) if not isinstance(version, str)], dtype=np.int64)
    named = [(caption, name) for caption, _ in captions for name in NAMES]
    return Shard(
        items,
        item_of_sample,
        {
            "id": [f"{caption.id}|{name}" for caption, name in named],
            "image": [caption.image for caption, _ in named],
            "category": [name for _, name in named],
            "caption": [None if isinstance(version, str) else version.candidate for version in versions],
            "references": [caption.references for caption, _ in named],
            "unchanged": [version if isinstance(version, str) else None for version in versions],
        },
        {
            "image": numbers_of(caption.image for caption, _ in captions),
            "caption": first + places // len(NAMES),
            "version": places % len(NAMES),
        },
        [sample.content() for sample in samples],
        item_numbers,
    )


def _documents(captions: Sequence[CaptionRow]) -> int:
    return len({caption.id.rpartition("#")[0] for caption in captions})


def _checks(job: Job, captions: Sequence[CaptionRow]) -> list[RecordedCheck]:
    return run_checks(
        job,
        rows=len(captions),
        items=len({(caption.image, caption.candidate) for caption in captions}),
        images=len({caption.image for caption in captions}),
    )
