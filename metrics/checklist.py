"""Coverage and precision of a caption by a checklist of its image, which a judge answers from the caption alone."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ..errors import require_counts
from .contract import Context, ShareMetric, labelled
from .items import Items, Scores
from .judging import MOST_CHARACTERS, PROMPTS, JudgeQuestion, PromptedMetric, ask_each, fill

SYSTEM, PROMPT = PROMPTS["capeval"]["system"], PROMPTS["capeval"]["verdicts"]

Verdict = Literal["yes", "no", "not_mentioned"]
_SPELLINGS: dict[str, Verdict] = {
    **dict.fromkeys(("yes", "y", "correct", "correctly_mentioned", "b"), "yes"),
    **dict.fromkeys(("no", "n", "incorrect", "incorrectly_mentioned", "c"), "no"),
    **dict.fromkeys(("not_mentioned", "notmentioned", "nm", "a", "unknown"), "not_mentioned"),
}
_GAP = r"[^{}]*?"
# Atomic groups, so that a long answer takes linear time.
_BROKEN_ENTRY = re.compile(
    rf'\{{(?>{_GAP}"item_index"\s*:\s*(\d+))(?>{_GAP}"verdict"\s*:\s*"([^"]*)")(?>{_GAP}"reasoning"\s*:\s*"[^"]*"){_GAP}\}}'
)
"""An entry of an answer that is no JSON as a whole."""


@dataclass(frozen=True)
class ChecklistItem:
    """A question of a checklist.

    Attributes:
        question: The question, about the caption or about what it describes.
        tags: Its tags, as the data has them: one text, separated by commas, semicolons or ``|``.
        type: The part of the checklist that it belongs to; empty for none.
    """

    question: str
    tags: str = ""
    type: str = ""

    def belongs_to(self, name: str) -> bool:
        """Return whether a name is its type, or one of its tags."""
        return name == self.type or name in (tag.strip() for tag in re.split("[,，;；|]", self.tags))


@dataclass(eq=False, repr=False)
class _JudgedChecklist(PromptedMetric, ShareMetric):
    """The computation that both metrics share through the cache.

    The references are the items of the image's checklist: each a question, or an object of JSON with ``question`` and,
    where it has them, ``tags`` (a text or a list) and ``type``. A judge reads the caption and all items, and answers
    each with yes, no or not mentioned. The system's value is pooled over items; a caption's value is that of its own
    items, and 0 where there are none to count, which adds nothing to the system's.

    An answer without any verdict leaves its caption without a value, and the reason is counted. An item that an
    answer leaves out, or gives an unknown verdict, is not mentioned, as released, and the caption has a remark. An
    empty caption mentions nothing, without a request; released code leaves it out.

    ``Scores.parts``: ``yes [n]``, ``no [n]`` and ``items [n]``, counts of items.

    Args:
        of: Count only the items of this type or tag; the judge reads all of them.
        prompt: A file with a prompt in place of CAPEval's, with ``{caption}`` and ``{items}``; its answers have the
            same form.
        max_tokens: Tokens that an answer may have.
        tries: Maximum number of requests for an answer.

    Raises:
        ValueError: A number is out of range.
    """

    needs = frozenset({"references", "judge"})
    own_files = frozenset({"prompt"})
    source = (
        "Liu, Wang, Zhang 2026 (CAPEval, arXiv:2608.02589); capeval/score/evaluate.py and capeval/metrics/aggregate.py "
        "of github.com/liuzhipenggg/CAPEval (40a92dd)"
    )
    _own = PROMPT
    _fields = ("caption", "items")

    of: str | None = None
    max_tokens: int = 8192
    tries: int = 1

    def __post_init__(self) -> None:
        require_counts(ValueError, max_tokens=self.max_tokens, tries=self.tries)
        variants = [self.of or "", "own prompt" if self.prompt else ""]
        self.label = labelled(self, [variant for variant in variants if variant])

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no judge, or the prompt cannot be read.
            AdapterError: The judge failed as a whole.
        """
        lists: dict[int, list[ChecklistItem]] = {}
        failures: dict[int, str] = {}
        for item, references in enumerate(items.references):
            try:
                lists[item] = [read_item(text) for text in references]
            except ValueError as error:
                failures[item] = str(error)
        prompt = self._prompt()
        asked = [item for item in lists if items.candidates[item].strip()]
        questions = [
            JudgeQuestion(
                fill(prompt, caption=items.candidates[item], items=listed(lists[item])),
                partial(read_verdicts, count=len(lists[item])),
                0.0,
                system=SYSTEM,
            )
            for item in asked
        ]
        verdicts: dict[int, list[Verdict | None]] = {item: ["not_mentioned"] * len(lists[item]) for item in lists}
        remarks: dict[int, str] = {}
        for item, answer in zip(asked, ask_each(questions, context, self.tries, 0, self.max_tokens), strict=True):
            if isinstance(answer, str):
                failures[item] = answer
                continue
            verdicts[item] = answer[0]
            if missing := verdicts[item].count(None):
                remarks[item] = f"{missing} of its {len(lists[item])} items: no verdict, counted as not_mentioned"
        counts = np.zeros((len(items), 3))
        for item, of_item in verdicts.items():
            if item not in failures:
                pairs = zip(lists[item], of_item, strict=True)
                kept = [verdict for entry, verdict in pairs if self.of is None or entry.belongs_to(self.of)]
                counts[item] = kept.count("yes"), kept.count("no"), len(kept)
        return self._shares(dict(zip(("yes", "no", "items"), counts.T.copy(), strict=True)), failures, remarks)


class ChecklistCoverage(_JudgedChecklist):
    """The share of a checklist's items that the captions mention, rightly or wrongly: (yes + no) / items."""

    label = "Coverage"
    undefined = "no checklist has an item that counts"

    def terms(self, scores: Scores) -> np.ndarray:
        """Return the items of each caption that it mentions, and all of them."""
        return np.stack([scores.parts["yes"] + scores.parts["no"], scores.parts["items"]], axis=1)


class ChecklistPrecision(_JudgedChecklist):
    """The share of the mentioned items that the captions have right: yes / (yes + no)."""

    label = "Precision"
    undefined = "no caption mentions an item that counts"

    def terms(self, scores: Scores) -> np.ndarray:
        """Return the items of each caption that it has right, and those that it mentions."""
        return np.stack([scores.parts["yes"], scores.parts["yes"] + scores.parts["no"]], axis=1)


def read_item(text: str) -> ChecklistItem:
    """Return the item that a reference is: a question, or an object of JSON with ``question``, ``tags`` and ``type``.

    Raises:
        ValueError: It is an object of JSON that is no item.
    """
    try:
        value: Any = json.loads(text) if text.lstrip().startswith("{") else {"question": text}
    except ValueError:
        raise ValueError(f"an item of its checklist begins with '{{' and is not JSON: {text[:60]!r}") from None
    tags = value.get("tags") or ""
    tags = ",".join(map(str, tags)) if isinstance(tags, list) else tags
    question, kind = value.get("question"), value.get("type") or ""
    if not (isinstance(question, str) and question.strip() and isinstance(tags, str) and isinstance(kind, str)):
        raise ValueError(f"an item of its checklist has no 'question', or other 'tags' or 'type' than text: {text:.60}")
    return ChecklistItem(question.strip(), tags, kind)


def listed(items: Sequence[ChecklistItem]) -> str:
    """Return the items as the question to the judge shows them, one a line."""
    return "\n".join(
        f"  item_index={number}  tag={item.tags!r}  type={item.type}  Q: {item.question}"
        for number, item in enumerate(items)
    )


def read_verdicts(answer: str, count: int) -> list[Verdict | None]:
    """Return the verdict on each of ``count`` items, as the released parser reads them; None for one without.

    What stands behind the end of a thought is read, from the first brace to the last. Where that is no JSON, whole
    entries in it count. Of two verdicts on an item the last counts.

    Raises:
        ValueError: The answer has none.
    """
    if len(answer) > MOST_CHARACTERS:
        raise ValueError("the judge's answer is too long")
    for end in ("</think>", "</thinking>"):
        answer = answer.split(end, 1)[-1]
    first, last = answer.find("{"), answer.rfind("}")
    text = answer[first : last + 1] if 0 <= first < last else answer
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if value is None:
        pairs: list[tuple[Any, Any]] = _BROKEN_ENTRY.findall(text)
        if not pairs:
            raise ValueError("the judge's answer is not JSON, and has no whole entry")
    else:
        entries = value.get("gt_verdicts") if isinstance(value, dict) else None
        if not isinstance(entries, list):
            raise ValueError("the judge's answer has no list 'gt_verdicts'")
        pairs = [(entry.get("item_index"), entry.get("verdict", "")) for entry in entries if isinstance(entry, dict)]
    verdicts: list[Verdict | None] = [None] * count
    for index, verdict in pairs:
        try:
            place = int(index)
        except (TypeError, ValueError, OverflowError):
            continue
        if 0 <= place < count:
            verdicts[place] = _SPELLINGS.get(str(verdict).lower().strip())
    return verdicts
