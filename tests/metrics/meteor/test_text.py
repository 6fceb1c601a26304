import random

import pytest

from capbench.metrics.java import find_jar, run_java
from capbench.metrics.meteor import resources as meteor_resources
from capbench.metrics.meteor.resources import JAR
from capbench.metrics.meteor.text import prefixes_of, words

PREFIXES = prefixes_of(["# comment", "", "Mr", "No #NUMERIC_ONLY#"])
PIECES = (
    list("abzAZ019.,'`‘’“”–—-_\"!?;:()$%&*@#/\\~<>[]{}=+ …éÉßİΣσςЖꙀ中😀½£ﬁ\u00a0\u2003\u3000\x0b\t\x1c")
    + "'' ... .. -- St. U.S. p.m. no. No. Art. pp. 's n't 1,000 3.5 e.g. DOTMULTI 1990's t-shirt".split()  # noqa: SIM905
    + [" ", " ", " dog ", " runs "]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a red-brown t-shirt", "a red brown t shirt"),
        ("the dog's ball isn't", "the dog 's ball isn 't"),
        ("Mr. Smith", "mr. smith"),
        ("No. 5 says No. Never", "no. 5 says no . never"),
        ("in the U.S. today", "in the us today"),
        ("a box. and more", "a box. and more"),  # before a small letter a dot may end an abbreviation
        ("“so” – ‘he’ says", "\" so \" - ' he ' says"),
        (" . ", "."),
        ("x\ud800y", "x ? y"),
    ],
)
def test_text_becomes_the_words_that_are_compared(text: str, expected: str):
    assert words(text, PREFIXES) == expected.split()


def test_words_of_any_text_are_those_of_the_jar():
    rng = random.Random(7)  # noqa: S311
    texts = ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 15))) for _ in range(2000)]
    texts = [text.strip("\t\v\f\x1c ") for text in texts]  # the jar strips them before it normalises
    command = ["-cp", str(find_jar(JAR)), "edu.cmu.meteor.util.Normalizer", "en", "true"]
    lines = run_java(command, "\n".join(texts) + "\n", 60, "the normaliser").split("\n")[:-1]
    prefixes = meteor_resources.load().prefixes
    for text, line in zip(texts, lines, strict=True):
        # By Java's white space, of which Python's has more.
        expected = [word for word in line.lower().replace("\t", " ").replace("\f", " ").split(" ") if word]
        assert words(text, prefixes) == expected, ascii(text)
