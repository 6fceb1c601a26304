"""Questions to a judge: each is asked once, and its answer is kept."""

import ast
import hashlib
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ..adapters import ImageHandle, Judge, Judgement, JudgeRequest, JudgeToken
from ..errors import MetricError, require_counts
from ..rows import load_yaml
from .contract import PARSEABLE, Context, Metric, require_choice

PROMPTS: Mapping[str, Mapping[str, str]] = load_yaml(Path(__file__).parent / "prompts.yaml")
"""The prompts of metrics, by metric and by what they ask."""

_QUOTED = 60
"""Characters of an answer that cannot be used that are quoted."""


@dataclass(eq=False, repr=False)
class PromptedMetric(Metric):
    """A metric that asks a judge with a prompt, which may be a user's own.

    Args:
        prompt: A file with the prompt; the metric's own unless given.
    """

    longest_caption = PARSEABLE
    _own: ClassVar[str]
    """The prompt where the user gives none."""
    _fields: ClassVar[tuple[str, ...]]
    """Required fields of a prompt, in braces."""

    prompt: str | None = None

    def check(self) -> None:
        """Raise if there is no prompt, or it cannot be used."""
        self._prompt()

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and which prompt is used, by its hash."""
        return {**super().fingerprint(), "prompt": prompt_digest(self._prompt())}

    def _prompt(self) -> str:
        return self._own if self.prompt is None else read_prompt(self.prompt, self._fields)


def ask(requests: Sequence[JudgeRequest], context: Context, attempt: int = 0) -> list[Judgement | str]:
    """Return the judge's answer to each request, or the reason why there is none.

    Equal requests are asked once. Answers are kept by the judge's fingerprint, the prompt, the image and
    the rest of the request, usable or not; the next run requests missing ones again.

    Args:
        requests: The requests.
        context: Cache, progress, judge.
        attempt: Distinguishes answers to the same request, where a metric repeats it.

    Raises:
        MetricError: The context has no judge.
        AdapterError: The judge failed as a whole.
    """
    judge = require_judge(context)
    producer = {"judge": judge.fingerprint(), "of": "answer"}
    answers: dict[int, Judgement | str] = {}
    key_of: dict[int, str] = {}
    for position, request in enumerate(requests):
        try:
            key_of[position] = _key(request, attempt)
        except OSError as error:
            # Without the path, so that all files that are missing are one kind of failure.
            answers[position] = f"image file: {error.strerror or error}"
    unique = {key: position for position, key in reversed(key_of.items())}
    judgements: dict[str, Judgement | str] = {
        key: _from_json(value) for key, value in context.cache.get(producer, list(unique)).items()
    }
    missing = [key for key in reversed(unique) if key not in judgements]
    context.progress(len(judgements), len(unique))
    for batch in judge.stream([requests[unique[key]] for key in missing]) if missing else ():
        new = {missing[at]: answer for at, answer in batch.judgements.items()}
        context.cache.put(producer, {key: _to_json(answer) for key, answer in new.items()})
        judgements |= new
        judgements |= {missing[at]: f"judge: {reason}" for at, reason in batch.failures.items()}
        context.progress(len(judgements), len(unique))
    answers |= {position: judgements.get(key, "judge: gave no answer") for position, key in key_of.items()}
    return [answers[position] for position in range(len(requests))]


def ask_until_read(
    items: Iterable[int],
    request: Callable[[int, int], JudgeRequest],
    context: Context,
    tries: int,
    read: Callable[[int, Judgement], bool],
) -> tuple[dict[int, str], list[int]]:
    """Repeat the requests whose answers cannot be parsed.

    Args:
        items: Numbers of items.
        request: Takes an item and the number of tries before; returns the request.
        context: Cache, progress, judge.
        tries: Maximum number of requests for an item, 1 or more.
        read: Takes an item and its answer; returns whether the answer was usable. A ``ValueError`` is the item's
            failure, and the request is not repeated.

    Returns:
        The failures by item, and the items without a usable answer.

    Raises:
        MetricError: The context has no judge.
        AdapterError: The judge failed as a whole.
    """
    failures: dict[int, str] = {}
    waiting = list(items)
    for attempt in range(tries):
        answers = ask([request(item, attempt) for item in waiting], context, attempt)
        again: list[int] = []
        for item, answer in zip(waiting, answers, strict=True):
            try:
                if isinstance(answer, str):
                    raise ValueError(answer)
                if not read(item, answer):
                    again.append(item)
            except ValueError as error:
                failures[item] = str(error)
        waiting = again
    return failures, waiting


@dataclass(frozen=True)
class JudgeQuestion:
    """A question to a judge that draws its answers.

    Attributes:
        prompt: The prompt.
        read: Returns what an answer says, and raises ``ValueError`` for one that cannot be used.
        temperature: The temperature at which it is drawn; 0 for the likeliest.
        image: The image that it is about.
        number: Distinguishes questions that are repeated.
        system: The system prompt; None is the judge's own.
    """

    prompt: str
    read: Callable[[str], Any]
    temperature: float
    image: ImageHandle | None = None
    number: int = 0
    system: str | None = None


def ask_each(
    questions: Sequence[JudgeQuestion], context: Context, tries: int, seed: int, max_tokens: int, repeated: int = 1
) -> list[tuple[Any, str] | str]:
    """Return what each answer says, with the remark on its image; or why there is none.

    Args:
        questions: The questions.
        context: Cache, progress, judge.
        tries: Maximum number of requests for an answer; each draws with another seed.
        seed: The first seed.
        max_tokens: Tokens that an answer may have.
        repeated: How many answers to a question there may be: one more than the highest ``number``.

    Raises:
        MetricError: The context has no judge.
        AdapterError: The judge failed as a whole.
    """
    results: dict[int, tuple[Any, str] | str] = {}

    def request(place: int, attempt: int) -> JudgeRequest:
        question = questions[place]
        decoding = {"temperature": question.temperature, "seed": seed + attempt * repeated + question.number}
        return JudgeRequest(question.prompt, question.image, max_tokens, system=question.system, decoding=decoding)

    def read(place: int, answer: Judgement) -> bool:
        try:
            results[place] = questions[place].read(answer.text), answer.remark
        except ValueError as error:
            results[place] = f"{error} ({tries} tries): {quoted(answer.text)}"
        return not isinstance(results[place], str)

    failures, _ = ask_until_read(range(len(questions)), request, context, tries, read)
    results |= failures
    return [results[place] for place in range(len(questions))]


@dataclass(kw_only=True, eq=False, repr=False)
class DrawingMetric(Metric):
    """A metric whose judge draws each answer, with its own seed; ``fingerprint`` has the settings.

    Args:
        tries: Maximum number of requests for an answer.
        temperature: That of the answers.
        seed: The first seed of the answers.
        max_tokens: Tokens that an answer may have.
    """

    longest_caption = PARSEABLE

    tries: int = 5
    temperature: float = 1.0
    seed: int = 0
    max_tokens: int = 256

    def __post_init__(self) -> None:
        require_counts(ValueError, tries=self.tries, max_tokens=self.max_tokens)
        require_drawing(self.seed, self.temperature)

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings."""
        return self._settings()

    def _ask(
        self, questions: Sequence[JudgeQuestion], context: Context, repeated: int = 1
    ) -> list[tuple[Any, str] | str]:
        return ask_each(questions, context, self.tries, self.seed, self.max_tokens, repeated)


MOST_CHARACTERS = 100_000
"""An answer that is longer is not read."""

_FENCE = "```"
_Kind = TypeVar("_Kind", list[Any], dict[Any, Any])


def read_list(answer: str) -> list[Any]:
    """Return the list of an answer: from its first bracket to its last, behind the last fence of JSON if it has one.

    Raises:
        ValueError: There is none.
    """
    return _read_literal(answer, "[", "]", list, "list")


def read_object(answer: str) -> dict[Any, Any]:
    """Return the object of an answer: from its first brace to its last, as of :func:`read_list`.

    Raises:
        ValueError: There is none.
    """
    return _read_literal(answer, "{", "}", dict, "object")


def _read_literal(answer: str, opening: str, closing: str, kind: type[_Kind], name: str) -> _Kind:
    """Return what stands between two marks: a literal of Python, or JSON."""
    if len(answer) > MOST_CHARACTERS:
        raise ValueError("the judge's answer is too long")
    _, fence, part = answer.rpartition(f"{_FENCE}json")
    part = part.split(_FENCE)[0] if fence else part
    text = part[part.find(opening) : part.rfind(closing) + 1]
    try:
        with warnings.catch_warnings():
            # An unknown escape keeps its backslash; the user needs no warning.
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, kind):
        raise ValueError(f"the judge's answer is not a JSON {name}")
    return value


def quoted(answer: str) -> str:
    """Return how an answer that cannot be used begins, on one line."""
    start = " ".join(answer.split())
    return f"'{start[:_QUOTED]}…'" if len(start) > _QUOTED else f"'{start}'"


def require_tries(max_tokens: int, tries: int, on_failure: str) -> None:
    """Raise where a metric cannot ask so.

    Raises:
        ValueError: An argument is out of range.
    """
    require_counts(ValueError, max_tokens=max_tokens, tries=tries)
    require_choice("on_failure", on_failure, ("fail", "zero"))


def require_drawing(seed: int, *temperatures: float) -> None:
    """Raise where answers cannot be drawn so.

    Raises:
        ValueError: An argument is out of range.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"'seed' must be a whole number of at least 0, not {seed!r}")
    for number in temperatures:
        if not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise ValueError(f"temperatures must be finite numbers of at least 0, not {number!r}")


def require_judge(context: Context) -> Judge:
    """Return the context's judge.

    Raises:
        MetricError: There is none.
    """
    if context.judge is None:
        raise MetricError(
            "needs a model that judges; none is set.", "Name a judge with --judge ('bench ls adapters' lists them)."
        )
    return context.judge


def read_prompt(path: str, fields: Sequence[str]) -> str:
    """Read a prompt from a file.

    Args:
        path: The file, UTF-8.
        fields: Required fields, in braces.

    Raises:
        MetricError: It cannot be read, or lacks a field.
    """
    try:
        prompt = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise MetricError(f"prompt {path}: {reason}") from error
    for field in fields:
        if f"{{{field}}}" not in prompt:
            raise MetricError(
                f"prompt {path}: does not contain {{{field}}}",
                f"It needs {', '.join(f'{{{field}}}' for field in fields)} where the texts go.",
            )
    return prompt


def fill(prompt: str, **texts: str) -> str:
    """Put texts in the place of ``{name}``; braces in the texts themselves stay as they are."""
    return re.sub(r"\{(" + "|".join(texts) + r")\}", lambda match: texts[match[1]], prompt)


def prompt_digest(prompt: str) -> str:
    """Return the SHA-256 of a prompt."""
    return hashlib.sha256(prompt.encode("utf-8")).hexdigest()


def _key(request: JudgeRequest, attempt: int) -> str:
    image = request.image.digest() if request.image is not None else None
    asked = [request.prompt, image, request.max_tokens, request.candidates, attempt]
    if request.system is not None or request.decoding:
        asked += [request.system, dict(sorted(request.decoding.items()))]
    return json.dumps(asked, ensure_ascii=False)


def _to_json(answer: Judgement) -> dict[str, Any]:
    tokens = [[token.text, dict(token.probabilities)] for token in answer.tokens]
    remark = {"remark": answer.remark} if answer.remark else {}
    return {"text": answer.text, **({"tokens": tokens} if tokens else {}), **remark}


def _from_json(value: Mapping[str, Any]) -> Judgement:
    tokens = tuple(JudgeToken(text, probabilities) for text, probabilities in value.get("tokens", ()))
    return Judgement(value["text"], tokens, value.get("remark", ""))
