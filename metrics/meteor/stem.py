"""The English stemmer of Snowball ("Porter 2"), in the version that METEOR's jar holds.

The algorithm: https://snowballstem.org/algorithms/english/stemmer.html. Later versions stem some
words otherwise, so a library's stemmer would not find the matches that the jar finds.
"""

import re


def _table(pairs: str) -> dict[str, str]:
    """Return the words or suffixes before each slash with what stands behind it; blanks separate them."""
    return {before: after for before, _, after in (pair.partition("/") for pair in pairs.split())}


_EXCEPTIONS = _table("""
    skis/ski skies/sky dying/die lying/lie tying/tie idly/idl gently/gentl ugly/ugli early/earli only/onli
    singly/singl sky/sky news/news howe/howe atlas/atlas cosmos/cosmos bias/bias andes/andes
""")
# Words that are done when the plural is off.
_DONE = frozenset(("inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"))

# Regions begin after the first consonant that follows a vowel; a "y" that is a consonant is a "Y".
_REGION = re.compile("[aeiouy][^aeiouy]")
_IRREGULAR_REGION = re.compile("gener|commun|arsen")
_VOWEL = re.compile("[aeiouy]")
_VOWEL_BEFORE_LAST = re.compile("[aeiouy].")
_SHORT_SYLLABLE_AT_END = re.compile("(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy])$", re.DOTALL)
_DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")

# Suffix to replacement. "": deleted. Of those that a word ends with, the longest decides.
# "ogi" after an "l", "li" after one of cdeghkmnrt.
_STEP_2 = _table("""
    tional/tion enci/ence anci/ance abli/able entli/ent ization/ize izer/ize ational/ate ation/ate ator/ate
    alism/al aliti/al alli/al fulness/ful ousness/ous ousli/ous iveness/ive iviti/ive biliti/ble bli/ble
    fulli/ful lessli/less ogi/og li/
""")
# "ative" in the second region.
_STEP_3 = _table("tional/tion ational/ate alize/al icate/ic iciti/ic ical/ic ful/ ness/ ative/")
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
    *("ism", "ate", "iti", "ous", "ive", "ize", "ion"),
)


def _longest_suffix(suffixes: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds the longest of the suffixes that a word ends with."""
    return re.compile(f"(?:{'|'.join(suffixes)})$")  # a search finds the leftmost: the longest


_SUFFIX_2 = _longest_suffix(tuple(_STEP_2))
_SUFFIX_3 = _longest_suffix(tuple(_STEP_3))
_SUFFIX_4 = _longest_suffix(_STEP_4)


def stem(word: str) -> str:
    """Return the stem of a lower-case word."""
    if word in _EXCEPTIONS:
        return _EXCEPTIONS[word]
    if len(word) < 3:
        return word
    word = _mark_consonant_y(word.removeprefix("'"))
    region_1, region_2 = _regions(word)
    word = _without_plural(_without_genitive(word))
    if word not in _DONE:
        word = _without_past_or_participle(word, region_1)
        if word[-1:] in ("y", "Y") and len(word) > 2 and not _VOWEL.match(word[-2]):
            word = word[:-1] + "i"
        word = _without_suffixes(word, region_1, region_2)
    return word.replace("Y", "y")


def _mark_consonant_y(word: str) -> str:
    """Return the word with a ``Y`` for each ``y`` that begins it or follows a vowel."""
    letters = list(word)
    for position, letter in enumerate(letters):
        if letter == "y" and (position == 0 or letters[position - 1] in "aeiouy"):
            letters[position] = "Y"
    return "".join(letters)


def _regions(word: str) -> tuple[int, int]:
    """Return where the two regions begin in which suffixes may go."""
    region = _IRREGULAR_REGION.match(word) or _REGION.search(word)
    region_1 = region.end() if region else len(word)
    region = _REGION.search(word, region_1)
    return region_1, region.end() if region else len(word)


def _without_genitive(word: str) -> str:
    for suffix in ("'s'", "'s", "'"):
        if word.endswith(suffix):
            return word.removesuffix(suffix)
    return word


def _without_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _VOWEL_BEFORE_LAST.search(word[:-1]):
        return word[:-1]
    return word


def _without_past_or_participle(word: str, region_1: int) -> str:
    for suffix in ("eedly", "ingly", "edly", "eed", "ing", "ed"):
        if word.endswith(suffix):
            break
    else:
        return word
    base = word.removesuffix(suffix)
    if suffix.startswith("eed"):
        return base + "ee" if len(base) >= region_1 else word
    if not _VOWEL.search(base):
        return word
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if base.endswith(_DOUBLES):
        return base[:-1]
    return base + "e" if len(base) == region_1 and _SHORT_SYLLABLE_AT_END.search(base) else base


def _without_suffixes(word: str, region_1: int, region_2: int) -> str:
    """Return the word after the steps 2 to 5."""
    match = _SUFFIX_2.search(word)
    if match and match.start() >= region_1:
        base, suffix = word[: match.start()], match.group()
        if not (
            (suffix == "ogi" and not base.endswith("l")) or (suffix == "li" and not base.endswith(tuple("cdeghkmnrt")))
        ):
            word = base + _STEP_2[suffix]
    match = _SUFFIX_3.search(word)
    if match and match.start() >= (region_2 if match.group() == "ative" else region_1):
        word = word[: match.start()] + _STEP_3[match.group()]
    match = _SUFFIX_4.search(word)
    if match and match.start() >= region_2:
        base = word[: match.start()]
        if match.group() != "ion" or base.endswith(("s", "t")):
            word = base
    last = len(word) - 1
    if word.endswith("e"):
        in_region_1 = last >= region_1 and not _SHORT_SYLLABLE_AT_END.search(word[:-1])
        return word[:-1] if last >= region_2 or in_region_1 else word
    return word[:-1] if word.endswith("ll") and last >= region_2 else word
