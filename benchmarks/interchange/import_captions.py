"""Converts captions recorded by other harnesses to a file for ``--model captions:FILE``.

lm-eval and lmms-eval log samples (``--log_samples``) as a JSON object a line: ``doc_id``, ``target``,
``filtered_resps``, ``resps``, and what the task's ``process_results`` returned, by metric. lm-eval, and lmms-eval
before 0.5, add the document as ``doc``; later lmms-eval leaves it out, and flattens lists of one answer. Source:
``EvaluationTracker.save_results_samples`` of lm-eval 0.4.13 and lmms-eval 0.7.3.

VLMEvalKit writes tables of predictions, whose row is a question: ``index``, ``question``, ``answer`` (a Python list
printed as text), ``prediction``, and what else the data set has (``image_path``, ``question_id``). Source:
``vlmeval.smp.file.dump`` and ``vlmeval.dataset.image_caption`` of VLMEvalKit 0.2rc1. Its pickles are not read, as
unpickling executes code.
"""

import json
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path, PureWindowsPath
from statistics import fmean
from typing import Any, NamedTuple

from ...atomic_files import write_whole
from ...errors import DataError, UsageError, did_you_mean, extra, writing
from ...rows import BadRow, is_number, load_json, parse_number, read_lines, read_rows
from ..inputs.items import references_of

KEYS = (
    "image_id", "id", "question_id", "image", "image_path", "filename", "file_name", "index", "doc_id",
    "input_media",
)  # fmt: skip
"""Fields with ids of documents, in order of preference."""
_IMAGE_KEYS = ("image", "image_path", "image_name", "filename", "file_name", "input_media")
LONGEST_NAME = 1000
"""Maximum length of names; longer texts in an image column are encoded images."""
_OWN_KEYS = (
    "doc_id", "doc", "target", "arguments", "input", "input_media", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash", "token_counts",
)  # fmt: skip
_REFERENCES = ("references", "answer", "answers", "captions", "caption", "sentences")
_FAILED = "Failed to obtain answer"
_METRICS = ("hit", "score")
_NOT_A_NAME = frozenset({"prediction", "question", "answer", "thinking", *_METRICS})


@dataclass(frozen=True)
class LoggedRow:
    """A caption recorded by another harness.

    Attributes:
        place: ``file:line`` or the like.
        caption: The caption.
        fields: Fields that may identify the document: name to value.
        references: The references, if the file has them.
        metrics: Scores of this caption by the harness.
        remark: Which of several answers was chosen; usually empty.
    """

    place: str
    caption: str
    fields: Mapping[str, Any]
    references: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    remark: str = ""


def texts_of(value: Any) -> tuple[str, ...]:
    """Return the texts in a list, a text, or a printed Python list; empty if there are none.

    Harnesses print lists of references with ``str``; only literals are parsed, nothing is evaluated.
    """
    value = references_of(value)
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        return ()
    return tuple(text for text in value if text.strip())


def name_of(value: Any) -> str | int | None:
    """Return a value as the id of a document, or None for long texts, fractions and lists.

    An absolute path, which is invalid on other machines, gives the name of its file.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        name = PureWindowsPath(value).name if re.match(r"/|[A-Za-z]:\\", value) else value
        return name if name.strip() and len(value) <= LONGEST_NAME else None
    return value if isinstance(value, int) else None


def is_value(value: Any) -> bool:
    """Return whether a value is a bool or a number that is finite as float64."""
    return isinstance(value, bool) or is_number(value)


# --- sample logs of lm-eval and lmms-eval


def read_samples(path: Path) -> Iterator[LoggedRow | BadRow]:
    """Yield the captions of a sample log.

    If a task has several filters, a document has a row for each; only the first filter of the file is read.

    Args:
        path: The ``.jsonl`` file.

    Yields:
        A caption, or the error of a line.
    """
    first_filter = None
    # Both harnesses write NaN for an undefined metric; the caption of that row is still valid.
    for place, row in read_lines(path, nan=True):
        if isinstance(row, BadRow):
            yield row
            continue
        first_filter = first_filter or row.get("filter")
        if row.get("filter") != first_filter:
            yield BadRow(place, f"is of filter '{row.get('filter')}'; those of '{first_filter}' are read")
        else:
            yield _logged_sample(place, row)


def logged_results(path: Path) -> dict[str, float]:
    """Return the task's values from the results file in the folder of a sample log.

    Args:
        path: ``samples_TASK_DATE.jsonl`` (lm-eval) or ``DATE_samples_TASK.jsonl`` (lmms-eval).

    Returns:
        Metric to value; empty if there is no such file, or it does not list the task.
    """
    if path.stem.startswith("samples_"):
        task, _, date = path.stem.removeprefix("samples_").rpartition("_")
        beside = path.with_name(f"results_{date}.json")
    else:
        date, _, task = path.stem.partition("_samples_")
        beside = path.with_name(f"{date}_results.json")
    try:
        # Like the samples, results may contain NaN.
        results = json.loads(beside.read_bytes())["results"][task]
        return {
            key.removesuffix(",none"): float(value)
            for key, value in results.items()
            if "_stderr" not in key and "," in key and is_value(value)
        }
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}


def _logged_sample(place: str, row: Mapping[str, Any]) -> LoggedRow | BadRow:
    responses = next((row[key] for key in ("filtered_resps", "resps") if row.get(key) is not None), None)
    if responses is None:
        return BadRow(place, f"has no filtered_resps and no resps; its keys are {', '.join(row)}")
    answers = _answers(responses)
    if not answers:
        return BadRow(place, "has no answer that is a text (its task asks for no text, or it was cut)")
    extra = {key: value for key, value in row.items() if key not in _OWN_KEYS}
    # Inputs of aggregations from process_results often identify the document if the log omits it.
    handed = [value for value in extra.values() if isinstance(value, dict)]
    document = row["doc"] if isinstance(row.get("doc"), dict) else {}
    media = row.get("input_media")
    only = {"input_media": media[0]} if isinstance(media, list) and len(media) == 1 else {}
    fields = dict(ChainMap({"doc_id": row.get("doc_id")}, document, *handed, only))
    references = next((texts for key in _REFERENCES if (texts := texts_of(fields.get(key)))), ())
    return LoggedRow(
        place,
        answers[0],
        fields,
        references or texts_of(row.get("target")),
        {key: float(value) for key, value in extra.items() if is_value(value)},
        f"has {len(answers)} answers; the first is taken" if len(answers) > 1 else "",
    )


def _answers(responses: Any) -> list[str]:
    """Return the texts among answers: a text, a list of texts, or a list of such lists."""
    if isinstance(responses, list) and len(responses) == 1 and isinstance(responses[0], list):
        (responses,) = responses
    if isinstance(responses, str):
        return [responses]
    if not isinstance(responses, list) or not all(isinstance(text, str) for text in responses):
        return []
    # A log-likelihood with its greedy flag, both as text, is not an answer.
    is_likelihood = len(responses) == 2 and responses[1] in ("True", "False") and _number(responses[0]) is not None
    return [] if is_likelihood else responses


# --- tables of VLMEvalKit


def logged_scores(path: Path) -> dict[str, float]:
    """Return the values of ``NAME_score.json``, which VLMEvalKit's caption scorer writes next to ``NAME.xlsx``.

    Values are multiplied by 100. ``Bleu`` is a list and becomes ``Bleu_1`` to ``Bleu_4``.
    """
    beside = path.with_name(f"{path.stem}_score.json")
    scores = load_json(beside) if beside.is_file() else {}
    numbers: dict[str, float] = {}
    for name, value in scores.items() if isinstance(scores, dict) else ():
        listed = {f"{name}_{n}": item for n, item in enumerate(value, 1)} if isinstance(value, list) else {name: value}
        numbers |= {key: float(number) for key, number in listed.items() if is_value(number)}
    return numbers


def _logged_prediction(place: str, row: Mapping[str, Any]) -> LoggedRow | BadRow:
    if "prediction" not in row:
        return BadRow(place, f"has no prediction; its columns are {', '.join(map(str, row))}")
    caption = row["prediction"]
    # An empty cell is an empty text; tables cannot distinguish it from a missing one.
    caption = "" if caption is None else str(caption)
    if caption.startswith(_FAILED):
        return BadRow(place, f"the model gave no answer ('{caption:.60}')")
    metrics = {name: value for name in _METRICS if (value := _number(row.get(name))) is not None}
    fields = {key: value for key, value in row.items() if key not in _NOT_A_NAME}
    return LoggedRow(place, caption, fields, texts_of(row.get("answer")), metrics)


def _number(value: Any) -> float | None:
    try:
        return parse_number(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _xlsx(path: Path) -> Iterator[dict[str, Any]]:
    import pandas

    with extra("xlsx", f"{path}: reading .xlsx needs openpyxl", DataError):
        from openpyxl.utils.escape import unescape
    try:
        table = pandas.read_excel(path, dtype=object, na_filter=False)
    except Exception as error:
        # The errors of damaged workbooks have no common class.
        raise DataError(f"{path}: cannot be read as an .xlsx workbook: {error}", "Is the file complete?") from error
    for row in table.to_dict("records"):
        if any(cell != "" for cell in row.values()):
            yield {str(name): unescape(cell) if isinstance(cell, str) else cell for name, cell in row.items()}


# --- all formats


class Format(NamedTuple):
    """Readers for a harness's captions and for its results."""

    label: str
    read: Callable[[Path], Iterator[LoggedRow | BadRow]]
    results: Callable[[Path], dict[str, float]]


def _logged_result(place: str, row: Mapping[str, Any]) -> LoggedRow | BadRow:
    if not isinstance(row.get("caption"), str):
        return BadRow(place, f"has no caption that is a text; its keys are {', '.join(row)}")
    return LoggedRow(place, row["caption"], {key: row[key] for key in row if key != "caption"})


def _read_table(
    logged: Callable[[str, Mapping[str, Any]], LoggedRow | BadRow], path: Path
) -> Iterator[LoggedRow | BadRow]:
    """Yield the captions of a table (``.xlsx``, ``.tsv``, ``.csv`` or ``.json``), each from its place and row."""
    for number, row in enumerate(_xlsx(path) if path.suffix == ".xlsx" else read_rows(path), 1):
        yield row if isinstance(row, BadRow) else logged(f"{path.name}: row {number}", row)


FORMATS = {
    "lmms-eval": Format("sample log of lmms-eval", read_samples, logged_results),
    "lm-eval": Format("sample log of lm-eval", read_samples, logged_results),
    "vlmevalkit": Format("table of VLMEvalKit", partial(_read_table, _logged_prediction), logged_scores),
    "coco": Format("COCO result file", partial(_read_table, _logged_result), lambda path: {}),
}


@dataclass
class CaptionImport:
    """Imported captions.

    Attributes:
        rows: ``id``, ``caption``, and if known ``image``, ``references`` and ``logged_METRIC``.
        key: The field used as id.
        other_keys: Other fields that could be used as id.
        formats: File to the name of its format.
        bad_rows: Unusable rows.
        remarks: Captions that were chosen among several answers.
        duplicates: Rows with an id that already has a caption; the first caption is kept.
        logged: Metric to the harness's own result, or to the mean of its scores.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    key: str = ""
    other_keys: list[str] = field(default_factory=list)
    formats: dict[str, str] = field(default_factory=dict)
    bad_rows: list[BadRow] = field(default_factory=list)
    remarks: list[BadRow] = field(default_factory=list)
    duplicates: list[BadRow] = field(default_factory=list)
    logged: dict[str, float] = field(default_factory=dict)

    @property
    def empty(self) -> int:
        """Number of empty captions."""
        return sum(not row["caption"].strip() for row in self.rows)


def import_captions(files: Sequence[Path], fmt: str = "auto", key: str = "") -> CaptionImport:
    """Read captions recorded by other harnesses.

    Args:
        files: Their files.
        fmt: ``auto`` or one of ``FORMATS``.
        key: The field with the id of the document; by default the first of ``KEYS`` with distinct values.

    Returns:
        The captions; unusable rows are listed.

    Raises:
        DataError: A file is missing or has an unknown format, or no caption could be read.
        UsageError: No caption has the field ``key``.
    """
    imported = CaptionImport()
    logged: list[LoggedRow] = []
    results: list[dict[str, float]] = []
    for path in files:
        if not path.is_file():
            raise DataError(f"{path}: there is no such file")
        name = detect(path) if fmt == "auto" else fmt
        imported.formats[str(path)] = name
        for row in FORMATS[name].read(path):
            if isinstance(row, BadRow):
                imported.bad_rows.append(row)
            else:
                logged.append(row)
        results.append(FORMATS[name].results(path))
    imported.remarks = [BadRow(row.place, row.remark) for row in logged if row.remark]
    if not logged:
        faults = "".join(f"\n{bad.place}: {bad.reason}" for bad in imported.bad_rows[:5])
        raise DataError(f"no caption could be read from {', '.join(map(str, files))}{faults}")
    imported.key, imported.other_keys = _choose_key(logged, key)
    _collect(logged, imported)
    # Several files are several tasks or shards, so there is no single result.
    imported.logged = results[0] if len(files) == 1 and results[0] else _means(imported.rows)
    return imported


def detect(path: Path) -> str:
    """Return the name of a file's format.

    Raises:
        DataError: The format is unknown.
    """
    if path.suffix == ".xlsx":
        return "vlmevalkit"
    # The first line may be broken, so check a few.
    lines = path.suffix in (".jsonl", ".ndjson")
    first = islice((row for _, row in read_lines(path, nan=True)) if lines else read_rows(path), 20)
    rows = [row for row in first if isinstance(row, dict)]
    for row in rows:
        if "doc_id" in row and ("filtered_resps" in row or "resps" in row):
            return "lm-eval" if "prompt_hash" in row else "lmms-eval"
        if "prediction" in row:
            return "vlmevalkit"
        if "image_id" in row and "caption" in row:
            return "coco"
    columns = f"; its columns are {', '.join(map(str, rows[0]))}" if rows else ""
    raise DataError(
        f"{path}: has an unknown format{columns}",
        f"Known: {', '.join(f'{name} ({layout.label})' for name, layout in FORMATS.items())}. "
        "Files with the columns id and caption need no import: --model captions:FILE.",
    )


def write_captions(imported: CaptionImport, path: Path) -> None:
    """Write the captions as JSON Lines.

    Raises:
        UsageError: The file cannot be written.
    """
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in imported.rows)
    with writing(f"-o {path}"):
        # An unpaired surrogate cannot be encoded; a backslash escape makes it valid JSON.
        write_whole(path, text.encode("utf-8", "backslashreplace"))


def _choose_key(logged: Sequence[LoggedRow], wanted: str) -> tuple[str, list[str]]:
    """Return the field used as id, and other possible ones."""
    fields = dict.fromkeys(field for row in logged for field in row.fields)
    distinct = {
        field: len(names)
        for field in fields
        if (names := {name for row in logged if (name := name_of(row.fields.get(field))) is not None})
    }
    known = [field for field in ([wanted] if wanted else KEYS) if field in distinct]
    if not known:
        fault = f"--key {wanted}: no caption has this field.{did_you_mean(wanted, distinct)}"
        raise UsageError(
            fault if wanted else "no known field identifies the documents",
            f"Name one with --key: {', '.join(distinct) or 'the file has none'}.",
        )
    # Several questions on the same image have its id, which then does not identify them.
    most = max(distinct[field] for field in known)
    best, *others = [field for field in known if distinct[field] == most]
    return best, others


def _collect(logged: Sequence[LoggedRow], imported: CaptionImport) -> None:
    """Add rows to ``imported`` by the chosen key; the first caption of an id is kept."""
    seen: dict[str, str] = {}
    for row in logged:
        identity = name_of(row.fields.get(imported.key))
        if identity is None:
            imported.bad_rows.append(BadRow(row.place, f"has no '{imported.key}' that names its document"))
        elif str(identity) in seen:
            reason = f"is a second caption for '{identity}'; that of {seen[str(identity)]} is kept"
            imported.duplicates.append(BadRow(row.place, reason))
        else:
            seen[str(identity)] = row.place
            named = (name_of(row.fields.get(key)) for key in _IMAGE_KEYS)
            image = next((name for name in named if isinstance(name, str)), None)
            known = {"id": identity, "image": image, "caption": row.caption, "references": list(row.references)}
            values = {f"logged_{name}": value for name, value in row.metrics.items()}
            imported.rows.append({key: value for key, value in known.items() if value not in (None, [])} | values)


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    names = dict.fromkeys(name for row in rows for name in row if name.startswith("logged_"))
    return {name.removeprefix("logged_"): fmean(row[name] for row in rows if name in row) for name in names}
