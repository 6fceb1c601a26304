"""Reads the samples that lm-eval and lmms-eval log (``--log_samples``).

Both write a JSON object a line: ``doc_id``, ``target``, ``filtered_resps``, ``resps``, and what the task's
``process_results`` returned, by metric. lm-eval, and lmms-eval before 0.5, add the document as ``doc``; later
lmms-eval leaves it out, and flattens lists of one answer. Source: ``EvaluationTracker.save_results_samples`` of
lm-eval 0.4.13 and lmms-eval 0.7.3.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...rows import BadRow, decode_line, unique_keys
from .logged_captions import LoggedRow, is_number, texts_of

_OWN_KEYS = frozenset(
    (
        "doc_id", "doc", "target", "arguments", "input", "input_media", "resps", "filtered_resps", "filter",
        "metrics", "doc_hash", "prompt_hash", "target_hash", "token_counts",
    )
)  # fmt: skip
_REFERENCES = ("references", "answer", "answers", "captions", "caption", "sentences")


def is_sample(row: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is a logged sample."""
    return "doc_id" in row and ("filtered_resps" in row or "resps" in row)


def read_samples(path: Path) -> Iterator[LoggedRow | BadRow]:
    """Yield the captions of a sample log.

    Where a task has several filters, a document has a row for each; the first filter of the file counts.

    Args:
        path: The ``.jsonl`` file.

    Yields:
        A caption, or what is wrong with a line.
    """
    first_filter = None
    for place, row in objects_of(path):
        if isinstance(row, str):
            yield BadRow(place, row)
            continue
        first_filter = first_filter or row.get("filter")
        if row.get("filter") != first_filter:
            yield BadRow(place, f"is of filter '{row.get('filter')}'; those of '{first_filter}' are read")
        else:
            yield _logged(place, row)


def objects_of(path: Path) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Yield the place of each line that is not empty, and its JSON object or what is wrong with it."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                yield f"{path.name}:{number}", _parse(line)


def logged_results(path: Path) -> dict[str, float]:
    """Return the task's values from the results file that the harness wrote beside a sample log.

    Args:
        path: ``samples_TASK_DATE.jsonl`` (lm-eval) or ``DATE_samples_TASK.jsonl`` (lmms-eval).

    Returns:
        Metric to value; empty where there is no such file, or it does not list the task.
    """
    stem = path.stem
    if stem.startswith("samples_"):
        task, _, date = stem.removeprefix("samples_").rpartition("_")
        beside = path.with_name(f"results_{date}.json")
    else:
        date, _, task = stem.partition("_samples_")
        beside = path.with_name(f"{date}_results.json")
    if not task or not beside.is_file():
        return {}
    try:
        # Like the samples, results may hold NaN.
        results = json.loads(beside.read_bytes())["results"][task]
        return {
            key.removesuffix(",none"): float(value)
            for key, value in results.items()
            if "_stderr" not in key and "," in key and is_number(value)
        }
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}


def _parse(line: bytes) -> dict[str, Any] | str:
    """Return a line's object, or what is wrong with it."""
    text = decode_line(line)
    if text is None:
        return "not UTF-8"
    try:
        # Both harnesses write NaN for a metric that is undefined; the caption beside it is as good as any.
        row = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        cut = "" if text.endswith("}") else " (is the line cut off?)"
        return f"not JSON{cut}: {error}"
    return row if isinstance(row, dict) else "not a JSON object"


def _logged(place: str, row: Mapping[str, Any]) -> LoggedRow | BadRow:
    given = next((row[key] for key in ("filtered_resps", "resps") if row.get(key) is not None), None)
    if given is None:
        return BadRow(place, f"has no filtered_resps and no resps; its keys are {', '.join(row)}")
    answers = _answers(given)
    if not answers:
        return BadRow(place, "has no answer that is a text (its task asks for no text, or it was cut)")
    extra = {key: value for key, value in row.items() if key not in _OWN_KEYS}
    # What process_results hands to an aggregation often names the document where the log leaves it out.
    handed = [value for value in extra.values() if isinstance(value, dict)]
    document = row["doc"] if isinstance(row.get("doc"), dict) else {}
    media = row.get("input_media")
    fields: dict[str, Any] = {}
    for source in (document, *handed):
        fields = {**source, **fields}
    if isinstance(media, list) and len(media) == 1:
        fields.setdefault("input_media", media[0])
    fields["doc_id"] = row.get("doc_id")
    references = next((found for key in _REFERENCES if (found := texts_of(fields.get(key)))), ())
    return LoggedRow(
        place,
        answers[0],
        fields,
        references or texts_of(row.get("target")),
        {key: float(value) for key, value in extra.items() if is_number(value)},
        f"has {len(answers)} answers; the first is taken" if len(answers) > 1 else "",
    )


def _answers(given: Any) -> list[str]:
    """Return the texts among answers, which are a text, a list of texts, or a list of such lists."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], list):
        (given,) = given
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        return []
    # A log-likelihood and whether it is the greediest, both as text, are no answers.
    return [] if len(given) == 2 and given[1] in ("True", "False") and _is_float(given[0]) else given


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
