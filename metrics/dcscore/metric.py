"""DCScore: the facts of a detailed caption, held against its image and against the facts of an oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...adapters import ImageHandle, VideoHandle
from ...errors import MetricError, require_all
from ..contract import PARSEABLE, Context, Metric, Need
from ..items import Items, Scores
from ..judging import prompt_digest, read_prompt, require_counts
from ..score_file import bare_name, score_file_digest
from .answers import PARTS, Join
from .questions import Case, FactCheck, FactQuestions, OracleCaption, read_oracle

FACTS = """\
Break a caption of an image down into its smallest statements: facts that say one thing each and together say all that \
the caption says. Say each once.

Number things of one kind ("dog_0", "dog_1") and call them so in every fact. Where a fact names a thing for the first \
time, give that name as its "identifier". The "relevance" of a fact is 1 if it says what is to be seen, and 0 if it is \
a conclusion, a mood or an opinion.

Answer with a JSON list and nothing else:
[{"fact": "...", "identifier": "...", "relevance": 1}, ...]

Caption: Two brown dogs run over wet sand, enjoying their freedom.
[{"fact": "There are two dogs_0.", "identifier": "dogs_0", "relevance": 1},
 {"fact": "The dogs_0 are brown.", "relevance": 1},
 {"fact": "The dogs_0 run.", "relevance": 1},
 {"fact": "There is sand_0 below the dogs_0.", "identifier": "sand_0", "relevance": 1},
 {"fact": "The sand_0 is wet.", "relevance": 1},
 {"fact": "The dogs_0 enjoy their freedom.", "relevance": 0}]

Caption: {caption}
"""
"""For the facts of a caption."""

MATCH = """\
Two lists of facts are of one image: the first was taken out of a caption to be tested, the second, the oracle, is \
what people know of the image. Say for every fact of the first list which fact of the oracle is about the same, even \
if it is wrong in it, such as a colour or a place. Both lists number things on their own: find out first which are the \
same.

Answer with a JSON list and nothing else, one entry for each fact of the first list, which repeats the entry and adds \
"matched_oracle_id": the "id" of the fact of the oracle, or "None" where no fact of it is about the same.

Facts to be tested:
{predicted_atomic_facts}

The oracle:
{oracle_atomic_facts}
"""
"""For the oracle's fact that each fact of a caption is about."""

VERIFY = """\
You see an image, and what a person wrote of it. Say of every fact of a list whether it is true of the image: trust \
your eyes and the person's caption.

Answer with a JSON list and nothing else, one entry for each fact, which repeats the entry and adds "verification": 1 \
if it is true, 0 if it is not.

The person's caption:
{reference_caption}

Facts:
{atomic_facts}
"""
"""For whether each fact of a caption is true."""


_PROMPTS = {
    "facts": (FACTS, ("caption",)),
    "match": (MATCH, ("predicted_atomic_facts", "oracle_atomic_facts")),
    "verify": (VERIFY, ("reference_caption", "atomic_facts")),
}


class DcScore(Metric):
    """The mean of two F1 of a caption's facts: over all of them, and over those that say what is to be seen.

    A judge takes the facts out of the caption; says of each which fact of the oracle it is about, ``answers`` times;
    and looks at the image and the oracle's caption and says which are true, as often. Each pair of
    such answers is a trial: precision is the share of true facts, recall how much of the oracle they have
    (:func:`capbench.metrics.dcscore.answers.trial`). Trials are averaged, then items.

    Answers are drawn at a temperature, each with a seed of its own, and all are kept: another run from the same store
    asks nothing, and has the same values. An answer that cannot be used (no list, a fact without a verdict, no relevant
    fact) is asked for again, as often as ``tries`` allows; then the caption has no value, and the reason is counted.
    Released code begins such a caption anew, as a whole. A caption that says nothing is not asked about, and has 0.

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
        answers: How often each of matching and verifying is asked.
        tries: How often an answer is asked for.
        temperature: That of facts and matching.
        verify_temperature: That of verifying.
        seed: The first seed of the answers.
        max_tokens: Tokens that an answer may have.

    Raises:
        ValueError: A setting is out of range.
    """

    longest_caption = PARSEABLE
    label = "DCScore"
    own_files = frozenset({"facts", "facts_prompt", "match_prompt", "verify_prompt"})
    set_by_data = frozenset({"facts"})
    source = (
        "Ye et al., ICLR 2025; eval/evaluation_decapbench.py and compute_results.py of github.com/MAGAer13/DeCapBench "
        "(e356ed7); prompts in other words"
    )
    needs: frozenset[Need] = frozenset({"image", "judge"})

    def __init__(
        self,
        facts: str | None = None,
        oracle: Literal["people", "judge"] = "people",
        facts_prompt: str | None = None,
        match_prompt: str | None = None,
        verify_prompt: str | None = None,
        join: Join = "number",
        invalid: Literal["exclude", "zero"] = "exclude",
        answers: int = 3,
        tries: int = 5,
        temperature: float = 1.0,
        verify_temperature: float = 0.3,
        seed: int = 0,
        max_tokens: int = 2000,
    ) -> None:
        for what, value, known in (
            ("oracle", oracle, ("people", "judge")),
            ("join", join, ("number", "text")),
            ("invalid", invalid, ("exclude", "zero")),
        ):
            if value not in known:
                raise ValueError(f"{what} is {' or '.join(known)}, not {value}")
        require_counts(answers=answers, tries=tries, max_tokens=max_tokens)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ValueError(f"'seed' is a whole number of at least 0, not {seed!r}")
        for one in (temperature, verify_temperature):
            if not isinstance(one, int | float) or not 0 <= one < math.inf:
                raise ValueError(f"temperatures are finite numbers of at least 0, not {one!r}")
        if facts is not None and oracle == "judge":
            raise ValueError("takes facts from a file (facts) or from a judge (oracle=judge), not both")
        self.oracle = oracle
        self.join: Join = join
        self.invalid = invalid
        self.answers = answers
        self.tries = tries
        self.temperature = temperature
        self.verify_temperature = verify_temperature
        self.seed = seed
        self.max_tokens = max_tokens
        # Private: the fingerprint has what they hold, not where they are.
        self._facts = None if facts is None else Path(facts).expanduser()
        self._paths = {"facts": facts_prompt, "match": match_prompt, "verify": verify_prompt}
        if oracle == "judge":
            self.needs = frozenset({"image", "references", "judge"})
        variant = [
            *(["oracle by the judge"] if oracle == "judge" else []),
            *(["invalid 0"] if invalid == "zero" else []),
        ]
        self.label = f"{type(self).label} ({', '.join(variant)})" if variant else type(self).label

    def check(self) -> None:
        """Raise if a prompt or the oracle's facts cannot be read."""
        require_all(self._prompts, lambda: self._known if self.oracle == "people" else None)

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and the prompts and the oracle's facts by their hashes."""
        settings = super().fingerprint()
        for name in ("label", "needs"):
            settings.pop(name, None)
        return {
            **settings,
            "prompts": {name: prompt_digest(text) for name, text in self._prompts().items()},
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
                relevant = sum(one.relevant for one in account.facts)
                values[item] = account.value
                parts[item] = (*account.parts, len(account.facts), relevant, len(account.oracle))
                remarks |= {item: account.remark} if account.remark else {}
            elif self.invalid == "zero":
                values[item] = 0.0
                remarks[item] = f"{account}; counts 0"
            else:
                failures[item] = account
        return Scores(values, dict(zip(names, parts.T.copy(), strict=True)), failures, remarks)

    def accounts(self, items: Items, context: Context) -> list[FactCheck | str]:
        """Return what the judge said of each item, for people to read; or why it has no value.

        What the context's cache holds is not asked again.

        Raises:
            MetricError: There is no judge, the items have no images, or the oracle's facts or a prompt cannot be read.
            AdapterError: The judge failed as a whole.
        """
        if not items.images:
            raise MetricError(f"{self.label} looks at images, and these captions come without.")
        questions = FactQuestions(
            self._prompts(),
            self.join,
            self.answers,
            self.tries,
            self.temperature,
            self.verify_temperature,
            self.seed,
            self.max_tokens,
        )
        cases: dict[int, Case] = {}
        found: dict[int, FactCheck | str] = {}
        for item, known in enumerate(self._oracles(items, questions, context)):
            image = items.images[item]
            if not items.candidates[item].strip():
                found[item] = "says nothing"
            elif isinstance(known, str):
                found[item] = known
            elif not isinstance(image, ImageHandle):
                found[item] = "image: is a video"
            else:
                cases[item] = Case(items.candidates[item], image, known)
        found |= zip(cases, questions.accounts(list(cases.values()), context), strict=True)
        return [found[item] for item in range(len(items))]

    def explain(
        self,
        candidate: str,
        references: Sequence[str],
        image: ImageHandle | VideoHandle | None,
        image_name: str,
        context: Context | None = None,
    ) -> FactCheck:
        """Return what the judge says of a caption, which may be made up, and what follows.

        Args:
            candidate: The caption.
            references: What the oracle's facts are taken out of with ``oracle=judge``; else they are not looked at.
            image: What it is of; None is an error.
            image_name: What the file of facts calls that.
            context: Cache, progress and judge.

        Raises:
            MetricError: It has no value, or something is missing.
            AdapterError: The judge failed as a whole.
        """
        images = [] if image is None else [image]
        items = Items(["0"], [candidate], [tuple(references)], np.ones(1), images=images, image_names=[image_name])
        (account,) = self.accounts(items, context or Context())
        if isinstance(account, str):
            raise MetricError(f"DCScore cannot explain this: {account}.")
        return account

    def _oracles(self, items: Items, questions: FactQuestions, context: Context) -> list[OracleCaption | str]:
        """Return what is known of the image of each item, or why nothing is."""
        if self.oracle == "people":
            if not items.image_names:
                raise MetricError(
                    "DCScore finds the oracle's facts by image, and what is scored has no names of images",
                    "oracle=judge takes them out of the references.",
                )
            example = next(iter(self._known))
            return [
                self._known.get(
                    bare_name(name), f"{self._file.name} has no row of its image: '{name}', but of '{example}'"
                )
                for name in items.image_names
            ]
        texts = ["\n\n".join(one for one in its if one.strip()) for its in items.references]
        facts = questions.facts([text for text in texts if text], context)
        found: list[OracleCaption | str] = []
        for text in texts:
            its = facts.get(text, "say nothing")
            found.append(f"references: {its}" if isinstance(its, str) else OracleCaption(text, its))
        return found

    def _prompts(self) -> dict[str, str]:
        """Return the prompts, as the arguments of these names say."""
        return {
            name: own if (path := self._paths[name]) is None else read_prompt(path, fields)
            for name, (own, fields) in _PROMPTS.items()
        }

    @cached_property
    def _known(self) -> dict[str, OracleCaption]:
        return read_oracle(self._file)

    @property
    def _file(self) -> Path:
        if self._facts is None:
            raise MetricError(
                "DCScore has no facts of an oracle: none are shipped, as the released ones have no licence.",
                "Name the file: dcscore[facts=human_annotated_oracle_facts.jsonl], of DeCapBench's folder eval; "
                "dcscore[oracle=judge] takes them out of the references.",
            )
        return self._facts
