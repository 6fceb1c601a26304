"""Penn Treebank tokenisation: the text that BLEU, ROUGE-L, METEOR and CIDEr compare.

Stanford CoreNLP 3.4.1 as the COCO caption evaluation runs it (pycocoevalcap
``tokenizer/ptbtokenizer.py``): lower-cased, one caption a line, 17 punctuation tokens removed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ..errors import MetricError
from .contract import Cache, Context
from .items import Items
from .jars import find_jar, find_java, run_java

JAR = "tokenizer/stanford-corenlp-3.4.1.jar"
OPTIONS = ("-preserveLines", "-lowerCase", "-encoding", "UTF-8")

# The list of pycocoevalcap. The jar lower-cases its bracket tokens too, so "-lrb-" and its like are
# not on it and stay in the text; every published number was made that way.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)

# What the jar ends a line at, found by sending it every control, space and separator character.
# U+0085 is not among them: the jar reads it as Windows-1252, an ellipsis.
_LINE_BREAK = re.compile("[\n\x0b\x0c\r\u2028\u2029]")

# Half a character, as a broken JSON escape leaves it: it has no UTF-8 form.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# A line of its own after each caption. It makes captions independent of their neighbours, since the
# jar's lexer looks past the line end: "no." or "fig." keeps its full stop if the next caption starts
# with a digit and loses it otherwise, "p." loses it before an SGML tag, and "we'll" at the very end of
# the input becomes "we ` ll" instead of "we 'll". What follows is now always this lower-case word. It
# also tells whether line i of the output still is caption i.
_SENTINEL = "endofcaption"


def fingerprint() -> dict[str, object]:
    """Return what can change a token: program, options, what is removed, what surrounds a caption."""
    return {
        "producer": "ptb tokens",
        "jar": JAR,
        "options": list(OPTIONS),
        "removed": sorted(PUNCTUATION),
        "separator": _SENTINEL,
    }


def check() -> None:
    """Raise if Java or the tokeniser's jar is missing.

    Raises:
        MetricError: One is missing; the hint says how to get it.
    """
    find_java()
    find_jar(JAR)


def tokenize(
    texts: Sequence[str], cache: Cache, *, batch_size: int = 10_000, timeout: float = 600.0
) -> list[str]:
    """Tokenise captions; each distinct text once, whatever stands beside it.

    Args:
        texts: Captions as written; repeats are welcome.
        cache: Asked first, and given each batch as it is finished.
        batch_size: Texts a Java process; a killed run loses at most this many.
        timeout: Seconds a batch may take.

    Returns:
        For each text its tokens, joined by single spaces; an empty string if none is left.

    Raises:
        MetricError: Java or the jar is missing, failed, hung, or its lines lost step with the captions.
    """
    lines = [_LONE_SURROGATE.sub("?", _LINE_BREAK.sub(" ", text)) for text in texts]
    unique = list(dict.fromkeys(lines))
    producer = fingerprint()
    tokens: dict[str, str] = dict(cache.get(producer, unique))
    missing = [line for line in unique if line not in tokens]
    for start in range(0, len(missing), batch_size):
        batch = missing[start : start + batch_size]
        new = dict(zip(batch, _run_jar(batch, timeout), strict=True))
        cache.put(producer, new)
        tokens.update(new)
    return [tokens[line] for line in lines]


@dataclass(frozen=True)
class TokenizedItems:
    """The tokens of ``n`` items.

    Attributes:
        candidates: ``[n]`` tokens joined by single spaces; empty where nothing is left.
        reference_sets: The tokens of each of ``Items.reference_sets``.
        failures: Item index to why no metric that compares tokens can score it.
    """

    candidates: list[str]
    reference_sets: list[tuple[str, ...]]
    failures: dict[int, str]


def tokenize_items(items: Items, context: Context) -> TokenizedItems:
    """Tokenise candidates and references; the first metric that asks pays, the others share.

    Raises:
        MetricError: As ``tokenize``.
    """
    known = items.memo.get("ptb")
    if known is None:
        known = items.memo["ptb"] = _tokenize_items(items, context)
    return known


def _tokenize_items(items: Items, context: Context) -> TokenizedItems:
    reference_sets, set_of_item = items.reference_sets
    texts = [*items.candidates, *(text for references in reference_sets for text in references)]
    tokens = iter(tokenize(texts, context.cache))
    candidates = list(islice(tokens, len(items)))
    tokenized_sets = [tuple(islice(tokens, len(references))) for references in reference_sets]
    failures: dict[int, str] = {}
    for item, (candidate, its_set) in enumerate(zip(candidates, set_of_item.tolist(), strict=True)):
        if not candidate:
            failures[item] = "candidate has no token after PTB tokenisation"
        elif not reference_sets[its_set]:
            failures[item] = "item has no reference"
    return TokenizedItems(
        candidates=candidates,
        reference_sets=tokenized_sets,
        failures=failures,
    )


def _run_jar(texts: Sequence[str], timeout: float) -> list[str]:
    """Return the tokens of each text (without line breaks), from one run of the jar."""
    lines = "".join(f"{text}\n{_SENTINEL}\n" for text in texts)
    arguments = ["-cp", str(find_jar(JAR)), "edu.stanford.nlp.process.PTBTokenizer", *OPTIONS]
    output = run_java(arguments, lines, timeout, "the PTB tokeniser").replace("\r\n", "\n").split("\n")
    # splitlines() would also cut at characters that may stand inside a token.
    answers, sentinels = output[:-1:2], output[1::2]
    if len(answers) != len(texts) or sentinels != [_SENTINEL] * len(texts):
        wrong = next((i for i, line in enumerate(sentinels) if line != _SENTINEL), len(sentinels))
        culprit = texts[min(wrong, len(texts) - 1)]
        raise MetricError(
            f"the PTB tokeniser's output lost step with the captions, near {culprit[:200]!r}.",
            "Remove the unusual character from that caption, and please report it to capbench.",
        )
    return [
        " ".join(token for token in line.rstrip().split(" ") if token not in PUNCTUATION) for line in answers
    ]
