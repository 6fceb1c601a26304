"""Tokenisers for languages other than English: those of sacrebleu, and spaCy's rules."""

import re
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from ...errors import MetricError, did_you_mean

PTB = "ptb"
NAMES = (PTB, "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab")
"""PTB's and those of sacrebleu; ``spacy:LANGUAGE`` is another."""
OF_LANGUAGE = {
    "en": PTB,
    "ja": "ja-mecab",
    "ko": "ko-mecab",
    "zh": "zh",
    **dict.fromkeys(("bo", "km", "lo", "my", "th"), "char"),
}
"""Language (ISO 639-1) to the tokeniser of its tasks; others have ``13a``."""
_NEED_SPACES = (PTB, "13a", "intl")
_SPACY = re.compile(r"spacy:([a-z]{2,3})")


def check_name(name: str) -> None:
    """Raise if there is no such tokeniser.

    Raises:
        ValueError: It names those that there are.
    """
    if name not in NAMES and not _SPACY.fullmatch(name):
        raise ValueError(
            f"unknown tokenizer '{name}'.{did_you_mean(name, NAMES)} There are {', '.join(NAMES)}, and spacy:LANGUAGE, "
            "such as spacy:de"
        )


def needs_spaces(name: str) -> bool:
    """Return whether a tokeniser finds words by the spaces between them."""
    language = _SPACY.fullmatch(name)
    return (OF_LANGUAGE.get(language[1], "13a") if language else name) in _NEED_SPACES


@lru_cache(maxsize=8)
def load(name: str) -> tuple[Callable[[str], str], dict[str, Any]]:
    """Return a tokeniser other than PTB's, which joins tokens by single spaces, and its fingerprint.

    Case and punctuation are kept, as sacrebleu's BLEU does.

    Raises:
        MetricError: A package is missing; the hint says which.
    """
    if language := _SPACY.fullmatch(name):
        return _of_spacy(language[1])
    try:
        import sacrebleu

        tokenize = sacrebleu.BLEU(tokenize=name).tokenizer
    except (ImportError, RuntimeError) as error:
        raise MetricError(f"the tokenizer '{name}' is not installed.", "pip install 'capbench[languages]'") from error
    identity = {"sacrebleu": version("sacrebleu"), "signature": tokenize.signature()}
    return lambda text: " ".join(tokenize(text).split()), identity


def _of_spacy(language: str) -> tuple[Callable[[str], str], dict[str, Any]]:
    try:
        import spacy  # an extra

        pipeline = spacy.blank(language)
    except (ImportError, ValueError) as error:
        raise MetricError(
            f"spaCy has no tokenizer for '{language}' here: {str(error).strip().partition(chr(10))[0]}",
            "pip install 'capbench[spacy]'; some languages need a package more, which spaCy names.",
        ) from error

    def tokenize(text: str) -> str:
        return " ".join(" ".join(token.text for token in pipeline.make_doc(text)).split())

    return tokenize, {"spacy": version("spacy"), "language": language}
