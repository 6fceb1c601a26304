"""SPICE: agreement with the references in scene graphs."""

import json
import math
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..atomic_files import temporary_folder
from ..downloads import Files, Resource
from ..errors import MetricError, require_all
from ..paths import cache_folder
from .contract import PARSEABLE, Context, kept
from .items import Items, Scores
from .java import find_jar, find_java, run_java
from .sources import sources
from .words import ptb

_BATCH = 2_000


class Spice(ptb.TokenMetric):
    """F1 of the objects, attributes and relations of the caption against those of all references together.

    The released jar parses and compares; it needs the jars of Stanford CoreNLP 3.6.0, which no package
    ships (``bench score --metrics spice`` says which are missing and where they come from). As released, an
    item whose references hold no tuple scores 0. So does a caption without a token, which the jar is not asked
    about: it holds no tuple.

    ``Scores.parts``: ``precision [n]``, ``recall [n]``, and F1 of the tuples of one kind: ``object [n]``,
    ``attribute [n]``, ``relation [n]``, ``color [n]``, ``size [n]``, ``cardinality [n]``, NaN where the references
    have none of the kind.

    Args:
        timeout: Seconds that 2,000 items may take; finished items are stored.
        memory: Java's heap.

    Raises:
        ValueError: The timeout is not above 0.
    """

    longest_caption = PARSEABLE
    english_only = True
    label = "SPICE"
    needs = frozenset({"references"})
    source = "Anderson et al., ECCV 2016; spice-1.0.jar with CoreNLP 3.6.0, as pycocoevalcap spice/spice.py"

    def __init__(self, timeout: float = 7200.0, memory: str = "8G") -> None:
        if timeout <= 0:
            raise ValueError("'timeout' must be above 0 seconds")
        # Private, as neither changes a value.
        self._timeout = timeout
        self._memory = memory

    def check(self) -> None:
        """Raise if Java, the jar, CoreNLP's jars, a JavaScript engine or the tokeniser's jar is missing."""
        find_program()

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        return [Files(sources()["corenlp"], cache_folder() / "spice", _require_corenlp)]

    def fingerprint(self) -> dict[str, Any]:
        """Return what parses and what tokenises."""
        return {**super().fingerprint(), **_fingerprint()}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: Something is missing, or the jar failed or did not finish in time.
        """
        tokenized = ptb.tokenize_items(items)
        failures = dict(tokenized.failures)
        set_of_item = items.reference_sets[1].tolist()
        keys = {
            item: json.dumps([candidate, *tokenized.reference_sets[set_of_item[item]]], ensure_ascii=False)
            for item, candidate in enumerate(tokenized.candidates)
            if candidate and item not in failures
        }
        known = kept(context.cache, _fingerprint(), keys.values(), self._evaluate, context.progress)
        numbers = np.full((len(CATEGORIES), 3, len(items)), np.nan)
        for item, candidate in enumerate(tokenized.candidates):
            if not candidate and item not in failures:
                numbers[0, :, item] = 0.0
        for item, key in keys.items():
            numbers[:, :, item] = np.array([known[key][category] for category in CATEGORIES], np.float64)
            if np.isnan(numbers[0, 0, item]):
                failures[item] = "SPICE gave NaN: neither the caption nor its references hold a tuple"
        f1, precision, recall = numbers[0]
        kinds = {
            category.lower(): of_kind for category, (of_kind, _, _) in zip(CATEGORIES[1:], numbers[1:], strict=True)
        }
        return Scores(values=f1, parts={"precision": precision, "recall": recall, **kinds}, failures=failures)

    def _evaluate(self, keys: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the jar's scores by key."""
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            texts = [(candidate, references) for candidate, *references in map(json.loads, batch)]
            yield dict(zip(batch, evaluate(texts, self._memory, self._timeout), strict=True))


JAR = "spice/spice-1.0.jar"
MAIN = "edu.anu.spice.SpiceScorer"
OPTIONS = ("-subset", "-silent")
CORENLP = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
CATEGORIES = ("All", "Object", "Attribute", "Relation", "Color", "Size", "Cardinality")

# Where Debian and Ubuntu put Rhino (package librhino-java).
RHINO = Path("/usr/share/java/js.jar")
_ENGINE_SERVICE = "META-INF/services/javax.script.ScriptEngineFactory"
# Java 15 removed Nashorn, the JavaScript engine that the jar prints its JSON with.
_FIRST_JAVA_WITHOUT_ENGINE = 15
_ENGINE_REMEDY = (
    "Add one: apt-get install librhino-java (Debian 12 or later; found automatically), or put the jar of Rhino "
    "1.7.14 or later next to CoreNLP's jars. Or point JAVA_HOME to a full Java 8 to 14, which has one."
)


def _fingerprint() -> dict[str, object]:
    """Return everything that can change a value: programs and options."""
    return {"producer": "spice", "jar": JAR, "corenlp": CORENLP[0], "options": list(OPTIONS)}


def folders() -> list[Path]:
    """Return where CoreNLP's jars are looked for, first one first."""
    named = os.environ.get("CAPBENCH_SPICE")
    fetched = cache_folder() / "spice"
    first = [Path(named).expanduser()] if named else []
    return [*first, fetched, fetched / "stanford-corenlp-full-2015-12-09", find_jar(JAR).parent / "lib"]


def find_program() -> list[Path]:
    """Return the class path that Java can run SPICE with.

    Raises:
        MetricError: The jar, one of CoreNLP's jars, Java or a JavaScript engine is missing; all that is, is named.
    """
    jar = find_jar(JAR)
    searched = folders()
    first = [paths[0] for paths in _corenlp().values() if paths]
    shipped = sorted(path for path in (jar.parent / "lib").glob("*.jar") if path.name not in CORENLP)
    # Other jars in CoreNLP's folder, such as a JavaScript engine.
    added = [
        path
        for folder in dict.fromkeys(path.parent for path in first) or searched
        for path in sorted(folder.glob("*.jar"))
        if path.name not in CORENLP and path not in shipped and not path.name.startswith("stanford-corenlp")
    ]
    require_all(_require_corenlp, lambda: _engine(added))
    # SPICE's manifest names jars in its own folder: jars in other folders must come first to be used.
    return [*first, jar, *shipped, *added, *_engine(added)]


def _corenlp() -> dict[str, list[Path]]:
    """Return where each of CoreNLP's jars is."""
    return {name: [folder / name for folder in folders() if (folder / name).is_file()] for name in CORENLP}


def _require_corenlp() -> None:
    if missing := " and ".join(name for name, paths in _corenlp().items() if not paths):
        searched = folders()
        raise MetricError(
            f"SPICE needs {missing}, which pycocoevalcap does not ship (looked in {', '.join(map(str, searched))}).",
            f"{sources()['corenlp'].offer('spice')} Or put {missing} of Stanford CoreNLP 3.6.0 into {searched[0]}, or "
            "into a folder that CAPBENCH_SPICE names.",
        )


def _engine(added: Sequence[Path]) -> list[Path]:
    """Return the jar of the JavaScript engine that Java needs besides the added jars, if it needs one."""
    version = java_version(find_java())
    if version < _FIRST_JAVA_WITHOUT_ENGINE or any(map(_has_engine, added)):
        return []
    if _has_engine(RHINO):
        return [RHINO]
    raise MetricError(f"SPICE needs a JavaScript engine, which Java {version} lacks.", _ENGINE_REMEDY)


@cache
def java_version(java: str) -> int:
    """Return the major version of a Java (8 for ``1.8.0_392``).

    Raises:
        MetricError: It prints no version.
    """
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MetricError(f"{java} -version failed: {error}", "Reinstall Java, or point JAVA_HOME at one.") from error
    match = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    if match is None:
        raise MetricError(f"{java} -version prints no version: {asked.stderr[:200]!r}")
    return int(match[1])


def _has_engine(jar: Path) -> bool:
    """Tell whether a jar offers a script engine."""
    try:
        with zipfile.ZipFile(jar) as content:
            return _ENGINE_SERVICE in content.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def command(jars: Sequence[Path], question: Path, answer: Path, memory: str) -> list[str]:
    """Return the arguments of ``java``.

    The jar's own cache of parses is not used: its library does not run on Java 16 or later
    (InaccessibleObjectException in FST), and needs native code that exists for x86-64 only.
    """
    path = os.pathsep.join(map(str, jars))
    return [f"-Xmx{memory}", "-cp", path, MAIN, str(question), "-out", str(answer), *OPTIONS]


def evaluate(texts: Sequence[tuple[str, Sequence[str]]], memory: str, timeout: float) -> list[dict[str, Any]]:
    """Return the scores of candidates against their references, from one run of the jar.

    Args:
        texts: Candidate and references, tokenised; distinct.
        memory: Java's heap (``"8G"``).
        timeout: Seconds until the process is stopped.

    Raises:
        MetricError: Something is missing, or the jar failed or did not finish in time.
    """
    jars = find_program()
    names = list(map(str, range(len(texts))))
    with temporary_folder() as folder:
        question, answer = folder / "question.json", folder / "answer.json"
        question.write_text(
            json.dumps(
                [
                    {"image_id": name, "test": candidate, "refs": list(references)}
                    for name, (candidate, references) in zip(names, texts, strict=True)
                ]
            ),
            encoding="utf-8",
        )
        run_java(command(jars, question, answer, memory), "", timeout, "SPICE")
        content = answer.read_text(encoding="utf-8") if answer.is_file() else ""
    return parse(content, names)


def parse(content: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each name, in order, the jar's scores by category.

    Args:
        content: The jar's output: a list of ``{image_id, scores: {category: {f, pr, re, tp, fp, fn}}}``, null
            for a share of nothing.
        names: The names that were sent.

    Returns:
        By category ``[f, precision, recall]``, None where it is not a number.

    Raises:
        MetricError: Not that, or not of these names.
    """
    try:
        by_name = {row["image_id"]: row["scores"] for row in json.loads(content)}
        scores = [
            {category: [_number(by_name[name][category][key]) for key in ("f", "pr", "re")] for category in CATEGORIES}
            for name in names
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise MetricError(
            f"SPICE did not return the scores of the {len(names)} items: "
            f"{type(error).__name__}: {error} in {content[:200]!r}",
            "Run again; if it fails again, please report it to capbench.",
        ) from error
    return scores


def _number(value: Any) -> float | None:
    # The jar writes null; other builds of it "NaN", as text or bare.
    if value is None or isinstance(value, str):
        return None
    number = float(value)
    return number if math.isfinite(number) else None
