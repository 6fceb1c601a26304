"""The SPICE jar: what it needs besides the pycocoevalcap wheel, and how it is run."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...drafts import temporary_folder
from ...errors import MetricError, require_all
from ...paths import cache_folder
from .jars import find_jar, find_javas, run_java

JAR = "spice/spice-1.0.jar"
MAIN = "edu.anu.spice.SpiceScorer"
OPTIONS = ("-subset", "-silent")
CORENLP = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
CORENLP_SOURCE = "http://nlp.stanford.edu/software/stanford-corenlp-full-2015-12-09.zip"
CATEGORIES = ("All", "Object", "Attribute", "Relation", "Color", "Size", "Cardinality")

# Where Debian and Ubuntu put Rhino (package librhino-java).
RHINO = Path("/usr/share/java/js.jar")
_ENGINE_SERVICE = "META-INF/services/javax.script.ScriptEngineFactory"
# Java 15 removed Nashorn, the JavaScript engine that the jar prints its JSON with.
_FIRST_JAVA_WITHOUT_ENGINE = 15
# The jar's own words where the engine is missing; Java below 15 names the line alone.
_NO_ENGINE = ('"scriptEngine" is null', "SpiceScorer.java:128")
_ENGINE_REMEDY = (
    "Add one: apt-get install librhino-java (Debian 12 or later; found by itself), or put the jar of Rhino "
    "1.7.14 or later beside CoreNLP's jars. Or point JAVA_HOME to a full Java 8 to 14, which has one."
)


def fingerprint() -> dict[str, object]:
    """Return what can change a value: programs and options."""
    return {"producer": "spice", "jar": JAR, "corenlp": CORENLP[0], "options": list(OPTIONS)}


def folders() -> list[Path]:
    """Return where CoreNLP's jars are looked for, first one first."""
    named = os.environ.get("CAPBENCH_SPICE")
    return [*([Path(named).expanduser()] if named else []), cache_folder() / "spice", find_jar(JAR).parent / "lib"]


@dataclass(frozen=True)
class Program:
    """What SPICE runs with.

    Attributes:
        java: The path of ``java``.
        jars: The class path.
    """

    java: str
    jars: list[Path]


def find_program() -> Program:
    """Return the first Java that can run SPICE, and its jars.

    Raises:
        MetricError: The jar, one of CoreNLP's jars, Java or a JavaScript engine is missing; all that is, is named.
    """
    jar = find_jar(JAR)
    searched = folders()
    first = {
        name: next(folder / name for folder in searched if (folder / name).is_file())
        for name in CORENLP
        if any((folder / name).is_file() for folder in searched)
    }
    shipped = sorted(path for path in (jar.parent / "lib").glob("*.jar") if path.name not in CORENLP)
    # What else lies beside CoreNLP's jars, such as a JavaScript engine.
    added = [
        path
        for folder in dict.fromkeys(path.parent for path in first.values()) or searched
        for path in sorted(folder.glob("*.jar"))
        if path.name not in CORENLP and path not in shipped and not path.name.startswith("stanford-corenlp")
    ]
    # SPICE's manifest names jars beside it: what was put elsewhere must come first to be used.
    jars = [*first.values(), jar, *shipped, *added]
    require_all(lambda: _require_corenlp(first, searched), lambda: _find_java(added))
    java, engine = _find_java(added)
    return Program(java, [*jars, *engine])


def _require_corenlp(found: Collection[str], searched: Sequence[Path]) -> None:
    if missing := " and ".join(name for name in CORENLP if name not in found):
        raise MetricError(
            f"SPICE needs {missing}, which pycocoevalcap does not ship (looked in {', '.join(map(str, searched))}).",
            f"Fetch {CORENLP_SOURCE} (Stanford CoreNLP 3.6.0), and put {missing} of it into {searched[0]}, or into "
            "a folder that CAPBENCH_SPICE names.",
        )


def _find_java(added: Sequence[Path]) -> tuple[str, list[Path]]:
    """Return the first Java that can run SPICE with the jars that were added, and the engine that it wants besides."""
    javas = find_javas()
    if any(map(_has_engine, added)):
        return javas[0], []
    for java in javas:
        if java_version(java) < _FIRST_JAVA_WITHOUT_ENGINE:
            return java, []
        if RHINO.is_file() and _has_engine(RHINO):
            return java, [RHINO]
    raise MetricError(
        f"SPICE prints its results with a JavaScript engine, and Java {java_version(javas[0])} has "
        'none: it would end with "scriptEngine is null".',
        _ENGINE_REMEDY,
    )


@cache
def java_version(java: str) -> int:
    """Return the major version of a Java (8 for ``1.8.0_392``).

    Raises:
        MetricError: It does not say.
    """
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MetricError(f"{java} -version failed: {error}", "Reinstall Java, or point JAVA_HOME at one.") from error
    found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    if found is None:
        raise MetricError(f"{java} -version does not tell its version: {asked.stderr[:200]!r}")
    return int(found[1])


def _has_engine(jar: Path) -> bool:
    """Tell whether a jar offers a script engine."""
    try:
        with zipfile.ZipFile(jar) as content:
            return _ENGINE_SERVICE in content.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def command(program: Program, question: Path, answer: Path, memory: str) -> list[str]:
    """Return what follows ``java``.

    The jar's own cache of parses is not asked for: the library that keeps it does not run on Java 16 or
    later (InaccessibleObjectException in FST), and needs native code that is there for x86-64 only.
    """
    jars = os.pathsep.join(map(str, program.jars))
    return [f"-Xmx{memory}", "-cp", jars, MAIN, str(question), "-out", str(answer), *OPTIONS]


def evaluate(texts: Sequence[tuple[str, Sequence[str]]], memory: str, timeout: float) -> list[dict[str, Any]]:
    """Return the scores of candidates against their references, from one run of the jar.

    Args:
        texts: Candidate and references, tokenised; distinct.
        memory: Java's heap (``"8G"``).
        timeout: Seconds until the process is stopped.

    Raises:
        MetricError: Something is missing, or the jar failed or did not finish in time.
    """
    program = find_program()
    names = ids(len(texts))
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
        try:
            run_java(command(program, question, answer, memory), "", timeout, "SPICE", program.java)
        except MetricError as error:
            if any(words in error.hint for words in _NO_ENGINE):
                raise MetricError(
                    "SPICE's Java has no JavaScript engine to print its results with.", _ENGINE_REMEDY
                ) from error
            raise
        content = answer.read_text(encoding="utf-8") if answer.is_file() else ""
    return parse(content, names)


def ids(count: int) -> list[str]:
    """Return names for items that sort in the order of the items, as the released wrapper sorts by them."""
    width = len(str(max(count - 1, 0)))
    return [f"{number:0{width}}" for number in range(count)]


def parse(content: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each name, in order, the jar's scores by category.

    Args:
        content: What the jar wrote: a list of ``{image_id, scores: {category: {f, pr, re, tp, fp, fn}}}``, null
            for a share of nothing.
        names: The names that were sent.

    Returns:
        By category ``[f, precision, recall]``, None where it is not a number.

    Raises:
        MetricError: Not that, or not of these names.
    """
    try:
        found = {row["image_id"]: row["scores"] for row in json.loads(content)}
        scores = [
            {category: [_number(found[name][category][key]) for key in ("f", "pr", "re")] for category in CATEGORIES}
            for name in names
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise MetricError(
            f"SPICE wrote something else than the scores of the {len(names)} items that it was sent: "
            f"{type(error).__name__}: {error} in {content[:200]!r}",
            "Run again; if it stays so, please report it to capbench.",
        ) from error
    return scores


def _number(value: Any) -> float | None:
    # The jar writes null; other builds of it "NaN", as text or bare.
    if value is None or isinstance(value, str):
        return None
    number = float(value)
    return number if math.isfinite(number) else None
