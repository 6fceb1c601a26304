import random
import zipfile

from capbench.metrics.java import find_jar, run_java
from capbench.metrics.meteor.resources import JAR
from capbench.metrics.meteor.stem import stem


def test_stem_is_the_one_that_snowballs_rules_give():
    # A short word gets its "e" back, the first "y" is a consonant, and "gener" is not cut further.
    words = ["hoping", "hopping", "youth", "saying", "generously", "gas", "dogs'", "is", ""]
    assert list(map(stem, words)) == ["hope", "hop", "youth", "say", "generous", "gas", "dog", "is", ""]


def test_stems_of_wordnets_words_and_of_made_up_ones_are_those_of_the_jar():
    with zipfile.ZipFile(find_jar(JAR)) as archive:
        words = archive.read("synonym/english.synsets").decode().splitlines()[::20]
    rng = random.Random(6)  # noqa: S311
    endings = "s ed ing ly ness ful ation ational 's ' ied ies y eedly ll ousli logi us ss bbed e yed".split()  # noqa: SIM905
    words += [word[: rng.randint(1, 8)] + rng.choice(endings) + rng.choice(endings) for word in words]
    words = [word for word in words if word.islower()]  # the jar's program keeps no line without a word
    output = run_java(["-cp", str(find_jar(JAR)), "Stemmer", "en"], "\n".join(words) + "\n", 60, "the stemmer")
    assert list(map(stem, words)) == output.splitlines()
