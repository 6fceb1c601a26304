"""DCScore: the facts of a detailed caption, compared with its image and with the facts of an oracle."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from ..adapters import ImageHandle
from ..errors import DataError, MetricError, require_all, require_counts
from ..rows import BadRow, first_fault, read_rows
from .contract import Context, images_of, labelled, require_choice
from .items import Items, Scores
from .judging import PROMPTS, DrawingMetric, JudgeQuestion, fill, prompt_digest, read_list, read_prompt, require_drawing
from .recorded import bare_name, score_file_digest

_FIELDS = {
    "facts": ("caption",),
    "match": ("predicted_atomic_facts", "oracle_atomic_facts"),
    "verify": ("reference_caption", "atomic_facts"),
}


@dataclass(eq=False, repr=False)
class DcScore(DrawingMetric):
    """The mean of two F1 of a caption's facts: over all of them, and over those that describe the image.

    A judge extracts the caption's facts. It matches each with a fact of the oracle, ``answers`` times. From the image
    and the oracle's caption it verifies each fact, ``answers`` times, too. Each pair of
    such answers is a trial: precision is the share of true facts, recall how much of the oracle they have
    (:func:`capbench.metrics.dcscore.trial`). Trials are averaged, then items.

    Answers are drawn at a temperature, each with its own seed, and all are stored: another run from the same store
    sends no request, and has the same values. An unusable answer (no list, a fact without a verdict, no relevant
    fact) is requested again, up to ``tries`` times; then the caption has no value, and the reason is counted.
    Released code starts such a caption again from its first step. An empty caption has 0, without a request.

    The released prompts have no licence, so they are not shipped: the defaults ask for the same in other words.

    ``Scores.parts``: ``precision [n]``, ``recall [n]``, ``f1 [n]``, and the same of relevant facts (``_relevant``);
    ``facts [n]``, ``relevant [n]`` and ``oracle [n]``, how many there are.

    Args:
        facts: The file with the oracle's facts, rows of ``image_name``, ``oracle_caption`` and ``oracle_facts``.
            Images are compared without folders and suffix.
        oracle: ``people``: the facts of that file; ``judge``: the facts that the judge takes out of the references, all
            of them as one text.
        facts_prompt: A file with the prompt for facts, with ``{caption}``; ours unless given.
        match_prompt: That for matching, with ``{predicted_atomic_facts}`` and ``{oracle_atomic_facts}``.
        verify_prompt: That for verifying, with ``{reference_caption}`` and ``{atomic_facts}``.
        join: How entries of answers are joined with facts: by the ``number`` that questions give them, or by their
            ``text``, as released, where an answer that words a fact otherwise cannot be used.
        invalid: An item whose answers cannot be used has no value (``exclude``: released code leaves it out of the
            mean), or 0 (``zero``).
        answers: Number of answers to each of matching and verifying.
        tries: Maximum number of requests for an answer.
        temperature: That of facts and matching.
        verify_temperature: That of verifying.
        seed: The first seed of the answers.
        max_tokens: Tokens that an answer may have.

    Raises:
        ValueError: A setting is out of range.
    """

    label = "DCScore"
    own_files = frozenset({"facts", "facts_prompt", "match_prompt", "verify_prompt"})
    set_by_data = frozenset({"facts"})
    source = (
        "Ye et al., ICLR 2025; eval/evaluation_decapbench.py and compute_results.py of github.com/MAGAer13/DeCapBench "
        "(e356ed7); prompts in other words"
    )
    needs = frozenset({"image", "judge"})

    facts: str | None = None
    oracle: Literal["people", "judge"] = "people"
    # Not in the fingerprint, which has what they hold, not where they are.
    facts_prompt: InitVar[str | None] = None
    match_prompt: InitVar[str | None] = None
    verify_prompt: InitVar[str | None] = None
    join: Join = "number"
    invalid: Literal["exclude", "zero"] = "exclude"
    answers: int = 3
    verify_temperature: float = 0.3
    _: KW_ONLY
    max_tokens: int = 2000

    def __post_init__(self, facts_prompt: str | None, match_prompt: str | None, verify_prompt: str | None) -> None:
        super().__post_init__()
        require_choice("oracle", self.oracle, ("people", "judge"))
        require_choice("join", self.join, ("number", "text"))
        require_choice("invalid", self.invalid, ("exclude", "zero"))
        require_counts(ValueError, answers=self.answers)
        require_drawing(self.seed, self.verify_temperature)
        if self.facts is not None and self.oracle == "judge":
            raise ValueError("'facts' names a file and oracle=judge asks a judge; give one of them")
        self._paths = {"facts": facts_prompt, "match": match_prompt, "verify": verify_prompt}
        variants = []
        if self.oracle == "judge":
            self.needs = frozenset({"image", "references", "judge"})
            variants.append("oracle by the judge")
        self.label = labelled(self, [*variants, *["invalid 0"] * (self.invalid == "zero")])

    def check(self) -> None:
        """Raise if a prompt or the oracle's facts cannot be read."""
        require_all(lambda: self._prompts, lambda: self._known if self.oracle == "people" else None)

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and the prompts and the oracle's facts by their hashes."""
        return {
            **self._settings(),
            "prompts": {name: prompt_digest(text) for name, text in self._prompts.items()},
            "facts": score_file_digest(self._file) if self.oracle == "people" else None,
        }

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no judge, the items have no images, or the oracle's facts or a prompt cannot be read.
            AdapterError: The judge failed as a whole.
        """
        names = (*PARTS, "facts", "relevant", "oracle")
        values, parts = np.full(len(items), np.nan), np.full((len(items), len(names)), np.nan)
        failures: dict[int, str] = {}
        remarks: dict[int, str] = {}
        for item, account in enumerate(self.accounts(items, context)):
            if not items.candidates[item].strip():
                values[item] = 0.0
            elif isinstance(account, FactCheck):
                values[item] = account.value
                parts[item] = (*account.parts, *map(len, (account.facts, _relevant(account.facts), account.oracle)))
                remarks |= {item: account.remark} if account.remark else {}
            elif self.invalid == "zero":
                values[item] = 0.0
                remarks[item] = f"{account}; counts 0"
            else:
                failures[item] = account
        return Scores(values, dict(zip(names, parts.T.copy(), strict=True)), failures, remarks)

    def accounts(self, items: Items, context: Context) -> list[FactCheck | str]:
        """Return the judge's verdicts on each item, for people to read; or why it has no value.

        Answers in the context's cache are not requested again.

        Raises:
            MetricError: There is no judge, the items have no images, or the oracle's facts or a prompt cannot be read.
            AdapterError: The judge failed as a whole.
        """
        images, failures = images_of(self, items)
        checks: dict[int, FactCheck | str] = {**failures}
        oracles = self._oracles(items, context)
        facts = self._extract(
            [items.candidates[item] for item in images if not isinstance(oracles[item], str)], context
        )
        cases: dict[int, Case] = {}
        for item, image in images.items():
            oracle, own = oracles[item], facts.get(items.candidates[item], "is empty")
            if isinstance(oracle, str):
                checks[item] = oracle
            elif isinstance(own, str):
                checks[item] = own
            else:
                cases[item] = Case(own, image, oracle)
        matching = self._several(map(self._matching, cases.values()), context)
        verifying = self._several(map(self._verifying, cases.values()), context)
        checks |= zip(cases, map(_account, cases.values(), matching, verifying), strict=True)
        return [checks[item] for item in range(len(items))]

    def _oracles(self, items: Items, context: Context) -> list[OracleCaption | str]:
        """Return the oracle of each item's image, or why there is none."""
        if self.oracle == "people":
            if not items.image_names:
                raise MetricError(
                    "DCScore finds the oracle's facts by image name; the scored rows name no images",
                    "Use oracle=judge to take facts from the references.",
                )
            example = next(iter(self._known))
            return [
                self._known.get(
                    bare_name(name), f"{self._file.name} has no row of its image: '{name}', but of '{example}'"
                )
                for name in items.image_names
            ]
        texts = ["\n\n".join(caption for caption in captions if caption.strip()) for captions in items.references]
        facts = self._extract(texts, context)
        return [
            f"references: {extracted}"
            if isinstance(extracted := facts.get(text, "are empty"), str)
            else OracleCaption(text, extracted)
            for text in texts
        ]

    def _extract(self, texts: Sequence[str], context: Context) -> dict[str, tuple[CaptionFact, ...] | str]:
        """Return the facts of each text that is not empty, or why there are none."""
        unique = list(dict.fromkeys(text for text in texts if text.strip()))
        asked = [
            JudgeQuestion(fill(self._prompts["facts"], caption=text), read_facts, self.temperature) for text in unique
        ]
        return {
            text: f"facts: {answer}" if isinstance(answer, str) else answer[0]
            for text, answer in zip(unique, self._ask(asked, context, self.answers), strict=True)
        }

    def _matching(self, case: Case) -> JudgeQuestion:
        oracle = case.oracle.facts
        texts = {"predicted_atomic_facts": listed(case.facts, self.join), "oracle_atomic_facts": listed(oracle, "id")}
        return JudgeQuestion(
            fill(self._prompts["match"], **texts),
            lambda answer: read_matches(answer, case.facts, len(oracle), self.join),
            self.temperature,
        )

    def _verifying(self, case: Case) -> JudgeQuestion:
        texts = {"reference_caption": case.oracle.caption, "atomic_facts": listed(case.facts, self.join)}
        return JudgeQuestion(
            fill(self._prompts["verify"], **texts),
            lambda answer: read_verdicts(answer, case.facts, self.join),
            self.verify_temperature,
            case.image,
        )

    def _several(self, questions: Iterable[JudgeQuestion], context: Context) -> list[list[tuple[Any, str]] | str]:
        """Return of each question as many answers as are wanted; or why one of them is missing."""
        every = [replace(question, number=number) for question in questions for number in range(self.answers)]
        read = self._ask(every, context, self.answers)
        several = (read[start : start + self.answers] for start in range(0, len(read), self.answers))
        return [
            next((why for why in answers if isinstance(why, str)), None)
            or [answer for answer in answers if not isinstance(answer, str)]
            for answers in several
        ]

    @cached_property
    def _prompts(self) -> dict[str, str]:
        """The prompts, as the arguments of these names say."""
        return {
            name: PROMPTS["dcscore"][name] if (path := self._paths[name]) is None else read_prompt(path, fields)
            for name, fields in _FIELDS.items()
        }

    @cached_property
    def _known(self) -> dict[str, OracleCaption]:
        return read_oracle(self._file)

    @property
    def _file(self) -> Path:
        if self.facts is None:
            raise MetricError(
                "DCScore needs a file of oracle facts; capbench ships none, as the released ones have no licence.",
                "Name the file: dcscore[facts=human_annotated_oracle_facts.jsonl], of DeCapBench's folder eval; "
                "dcscore[oracle=judge] takes them out of the references.",
            )
        return Path(self.facts).expanduser()


_HINT = (
    'A row is {"image_name": NAME, "oracle_caption": TEXT, "oracle_facts": [TEXT, ...]}, as in DeCapBench\'s '
    "eval/human_annotated_oracle_facts.jsonl."
)


@dataclass(frozen=True)
class OracleCaption:
    """The oracle of an image.

    Attributes:
        caption: A person's caption.
        facts: The facts of that, one or more.
    """

    caption: str
    facts: tuple[CaptionFact, ...]


def read_oracle(path: Path) -> dict[str, OracleCaption]:
    """Return the oracle of each image, by its name without folders and suffix.

    Facts that people wrote are all relevant, as released.

    Raises:
        MetricError: The file cannot be read, or a row is not as it must be, or of an image that another is of.
    """
    oracles: dict[str, OracleCaption] = {}
    try:
        for number, row in enumerate(read_rows(path), 1):
            if isinstance(row, BadRow):
                raise MetricError(f"{row.place}: {row.reason}", _HINT)
            place = f"{path}: row {number}"
            try:
                read = _OracleRow.model_validate(row)
            except ValidationError as error:
                raise MetricError(f"{place}: {first_fault(error)}", _HINT) from None
            if (name := bare_name(read.image_name)) in oracles:
                raise MetricError(f"{place}: image '{name}' already has a row", "Remove one of them.")
            facts = tuple(CaptionFact(fact, relevant=True) for fact in read.oracle_facts)
            oracles[name] = OracleCaption(read.oracle_caption, facts)
    except DataError as error:
        raise MetricError(error.message, error.hint or _HINT) from error
    if not oracles:
        raise MetricError(f"{path}: has no row", _HINT)
    return oracles


_Text = Annotated[str, Field(pattern=r"\S")]


class _OracleRow(BaseModel):
    """A row of the file of facts; the released one has a blank fact, which counts."""

    image_name: _Text
    oracle_caption: _Text
    oracle_facts: list[str] = Field(min_length=1)


_T = TypeVar("_T")


@dataclass(frozen=True)
class Case:
    """The facts of a caption, its image, and the image's oracle."""

    facts: tuple[CaptionFact, ...]
    image: ImageHandle
    oracle: OracleCaption


@dataclass(frozen=True)
class FactCheck:
    """A judge's verdicts on a caption, and the scores.

    Attributes:
        facts: ``n`` facts of the caption.
        oracle: The facts that it is compared with.
        matchings: Of each answer ``n`` places among the oracle's facts; None for a fact that is about none.
        verifications: Of each answer ``n``, whether each fact is true.
        parts: ``[6]`` means of ``PARTS`` over the trials, 0 to 1.
        remark: An unusual step in reading the image; empty for none.
    """

    facts: tuple[CaptionFact, ...]
    oracle: tuple[CaptionFact, ...]
    matchings: tuple[tuple[int | None, ...], ...]
    verifications: tuple[tuple[bool, ...], ...]
    parts: np.ndarray
    remark: str

    @property
    def value(self) -> float:
        """The mean of F1 over all facts and over relevant ones, 0 to 1."""
        return float(self.parts[PARTS.index("f1")] + self.parts[PARTS.index("f1_relevant")]) / 2


def _account(
    case: Case, matching: list[tuple[Any, str]] | str, verifying: list[tuple[Any, str]] | str
) -> FactCheck | str:
    if isinstance(matching, str):
        return f"matching: {matching}"
    if isinstance(verifying, str):
        return f"verifying: {verifying}"
    facts, oracle = case.facts, case.oracle.facts
    matchings, verifications = (tuple(value for value, _ in answers) for answers in (matching, verifying))
    parts = np.mean([trial(facts, oracle, *pair) for pair in product(matchings, verifications)], axis=0)
    return FactCheck(facts, oracle, matchings, verifications, parts, verifying[0][1])


_EPSILON = 1e-8

PARTS = ("precision", "recall", "f1", "precision_relevant", "recall_relevant", "f1_relevant")
"""The results of a trial, in order."""


def trial(
    facts: Sequence[CaptionFact], oracle: Sequence[CaptionFact], matches: Sequence[int | None], truths: Sequence[bool]
) -> np.ndarray:
    """Return ``[6]`` float64, the ``PARTS`` of one trial, each 0 to 1.

    Precision is the share of facts that are true. Facts that are about one fact of the oracle share its weight of 1,
    false ones too; recall is the weight of the true ones, and 1 for each true one that is about none, over the facts of
    the oracle and these. The relevant parts count facts that describe the image, on both sides; weights stay
    those among all facts, as released (``compute_precision_recall`` in ``eval/evaluation_decapbench.py`` of DeCapBench,
    e356ed7). There people's facts are all relevant; a relevant fact that is about another one counts as about none.

    Args:
        facts: ``n`` facts of the caption, of which one or more are relevant.
        oracle: Facts of the oracle, of which one or more are relevant.
        matches: ``n`` places among the oracle's facts; None for a fact that is about none.
        truths: ``n``, whether each is true.
    """
    sharing = Counter(matches)

    def scores(which: Sequence[int], known: Sequence[int]) -> tuple[float, float, float]:
        true = [matches[fact] for fact in which if truths[fact]]
        shares = [1 / sharing[match] for match in true if match in known]
        beyond = len(true) - len(shares)
        precision, recall = len(true) / len(which), (sum(shares) + beyond) / (len(known) + beyond)
        return precision, recall, 2 * precision * recall / (precision + recall + _EPSILON)

    every = range(len(facts)), range(len(oracle))
    return np.array([*scores(*every), *scores(_relevant(facts), _relevant(oracle))])


def _relevant(facts: Sequence[CaptionFact]) -> list[int]:
    return [place for place, fact in enumerate(facts) if fact.relevant]


Join = Literal["number", "text"]
"""How entries of answers are joined with facts: by the number that each was given, or by their text."""


@dataclass(frozen=True)
class CaptionFact:
    """A fact of a caption.

    Attributes:
        text: The fact.
        relevant: Whether it describes the image.
        identifier: Its name for the object that it names for the first time; empty for none.
    """

    text: str
    relevant: bool
    identifier: str = ""


def listed(facts: Sequence[CaptionFact], key: Literal["number", "text", "id"]) -> str:
    """Return facts as questions show them: a JSON list, one a line.

    Args:
        facts: The facts.
        key: What they are found by: the caption's by ``number`` or ``text``, the oracle's by ``id``.
    """
    entries = (
        {
            **({} if key == "text" else {key: number}),
            "fact": fact.text,
            **({"identifier": fact.identifier} if fact.identifier and key != "id" else {}),
        }
        for number, fact in enumerate(facts)
    )
    return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]"


def read_entries(answer: str) -> list[Mapping[str, Any]]:
    """Return the list of an answer; see ``read_list``.

    Raises:
        ValueError: There is none, or it is no list of mappings.
    """
    entries = read_list(answer)
    if not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError("the judge's answer is not a list of objects")
    return entries


def read_facts(answer: str) -> tuple[CaptionFact, ...]:
    """Return the facts of an answer, in order.

    Raises:
        ValueError: It cannot be read, an entry has no fact or no relevance of 0 or 1, or no fact is relevant.
    """
    facts: list[CaptionFact] = []
    for entry in read_entries(answer):
        identifier = entry.get("identifier")
        relevant = _flag(entry, "relevance")
        facts.append(CaptionFact(_text(entry), relevant, identifier if isinstance(identifier, str) else ""))
    if not any(fact.relevant for fact in facts):
        raise ValueError(f"the judge's answer has no {'relevant ' if facts else ''}fact")
    return tuple(facts)


def read_matches(answer: str, facts: Sequence[CaptionFact], oracle: int, join: Join) -> tuple[int | None, ...]:
    """Return for each fact of a caption the place of the oracle's fact that it is about; None for none.

    Args:
        answer: The answer.
        facts: The facts of the caption.
        oracle: How many facts the oracle has.
        join: How entries are joined with facts.

    Raises:
        ValueError: It cannot be read, does not judge each fact once, or names a fact that the oracle does not have.
    """
    return _joined(read_entries(answer), facts, join, lambda entry: _match(entry, oracle))


def read_verdicts(answer: str, facts: Sequence[CaptionFact], join: Join) -> tuple[bool, ...]:
    """Return for each fact of a caption whether it is true.

    Raises:
        ValueError: It cannot be read, does not judge each fact once, or by another number than 0 and 1.
    """
    return _joined(read_entries(answer), facts, join, lambda entry: _flag(entry, "verification"))


def _joined(
    entries: Sequence[Mapping[str, Any]],
    facts: Sequence[CaptionFact],
    join: Join,
    value: Callable[[Mapping[str, Any]], _T],
) -> tuple[_T, ...]:
    """Return the value of each fact. Facts of one text are judged in their order."""
    if join == "number":
        keys: list[Any] = list(range(len(facts)))
        answered: list[Any] = [_whole(entry.get("number")) for entry in entries]
    else:
        keys, answered = [fact.text for fact in facts], [_text(entry) for entry in entries]
    if Counter(keys) != Counter(answered):
        raise ValueError(f"the judge's answer does not have one entry for each fact, matched by {join}")
    values: dict[Any, list[_T]] = {}
    for key, entry in zip(answered, entries, strict=True):
        values.setdefault(key, []).append(value(entry))
    return tuple(values[key].pop(0) for key in keys)


def _text(entry: Mapping[str, Any]) -> str:
    text = entry.get("fact")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("an entry of the judge's answer has no fact")
    return text


def _flag(entry: Mapping[str, Any], key: str) -> bool:
    value = entry.get(key)
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError(f"an entry of the judge's answer has a {key} other than 0 or 1")
    return value == 1


def _match(entry: Mapping[str, Any], oracle: int) -> int | None:
    if "matched_oracle_id" not in entry:
        raise ValueError("an entry of the judge's answer has no matched_oracle_id")
    value = entry["matched_oracle_id"]
    if value in (None, "None"):
        return None
    place = _whole(value)
    if place is None or place >= oracle:
        raise ValueError("an entry of the judge's answer names an unknown oracle fact")
    return place


def _whole(value: Any) -> int | None:
    """Return a whole number from 0, which may be written as text; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
