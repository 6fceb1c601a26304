"""Which synonym sets of WordNet a phrase is in, by the tables inside of METEOR's jar: no Java is started."""

from __future__ import annotations

import zipfile
from functools import cache, lru_cache

from ..java.jars import find_jar
from ..meteor.jar import JAR
from ..meteor.synonyms import Synonyms, synonyms_of

FINGERPRINT = {"synonyms": f"WordNet of {JAR}"}

_HOLDS = "ful"


def check() -> None:
    """Raise if the jar is missing.

    Raises:
        MetricError: The hint says how to get it.
    """
    find_jar(JAR)


@lru_cache(maxsize=200_000)
def synonym_sets(phrase: str) -> frozenset[int]:
    """Return the numbers of the synonym sets of a phrase and of its base forms; upper case counts as lower.

    Base forms are METEOR's, and what "-ful" stands behind ("hand" of "handful").

    Raises:
        MetricError: The jar is missing.
    """
    table = _table()
    word = "_".join(phrase.lower().split())
    found = set(table.of([word])[0].tolist())
    if word.endswith(_HOLDS):
        found |= set(table.of_form(word.removesuffix(_HOLDS)).tolist())
    return frozenset(found)


@cache
def _table() -> Synonyms:
    with zipfile.ZipFile(find_jar(JAR)) as jar:
        return synonyms_of(jar)
