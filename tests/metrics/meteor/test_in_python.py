from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from pycocoevalcap.meteor.meteor import Meteor as ReleasedMeteor

from capbench.metrics import Items
from capbench.metrics.java import find_jar
from capbench.metrics.meteor import metric as meteor_python
from capbench.metrics.meteor.lexicon import java_hash
from capbench.metrics.words.ptb import tokenize_items


def line(key: str) -> str:
    candidate, *references = json.loads(key)
    return " ||| ".join(["SCORE", *references, candidate])


def ours(keys: Sequence[str], timeout: float = 60) -> dict[str, list[float] | str]:
    return {key: answer for batch in meteor_python.align(keys, timeout) for key, answer in batch.items()}


@pytest.fixture
def of_the_jar(released: ReleasedMeteor) -> Callable[[Sequence[str]], dict[str, list[float]]]:
    """A function that asks the jar of pycocoevalcap."""
    jar = released.meteor_p

    def answer(key: str) -> list[float]:
        jar.stdin.write(f"{line(key)}\n".encode())
        jar.stdin.flush()
        return [float(number) for number in jar.stdout.readline().split()]

    return lambda keys: {key: answer(key) for key in keys}


def keys_of(items: Items) -> list[str]:
    tokenized = tokenize_items(items)
    sets = items.reference_sets[1]
    keys = [
        json.dumps([candidate, *tokenized.reference_sets[sets[item]]])
        for item, candidate in enumerate(tokenized.candidates)
    ]
    return list(dict.fromkeys(keys))


def statistics(candidate: str, *references: str) -> list[float]:
    key = json.dumps([candidate, *references])
    answer = ours([key])[key]
    assert isinstance(answer, list)
    return answer


def expected(words: Sequence[int], *matches: Sequence[int], chunks: int, matched: Sequence[int]) -> list[int]:
    """Statistics from those of the matchers, none for a matcher that is not given."""
    counts = [number for of_matcher in (*matches, *[(0, 0, 0, 0)] * (4 - len(matches))) for number in of_matcher]
    return [*words, *counts, chunks, *matched]


def test_exact_words_are_matched_and_chunks_counted():
    # Function words: a, on, the; is. Two chunks, as "sat" and "is" differ.
    assert statistics("a cat sat on the mat", "a cat is on the mat") == expected(
        (6, 6, 3, 4), (2, 2, 3, 3), chunks=2, matched=(5, 5)
    )


def test_word_that_is_stem_and_paraphrase_of_another_is_left_out_where_it_only_adds_a_chunk():
    # In the search a match of one word that is not exact weighs half a word, rounded down.
    assert statistics("glories", "glory") == expected((1, 1, 0, 0), chunks=0, matched=(0, 0))
    assert statistics("red glories", "red glory")[20:] == [1, 2, 2]


def test_words_that_share_a_hash_in_java_are_equal_as_in_the_jar():
    assert java_hash("an") == java_hash("c0") == 3117
    assert java_hash("polygenelubricants") == 2**31  # known for its hash
    # "an" is a function word, "c0" is none.
    assert statistics("c0", "an") == expected((1, 1, 0, 1), (1, 0, 0, 1), chunks=1, matched=(1, 1))


def test_nothing_to_match_gives_zeros_after_the_word_counts():
    assert statistics("", "") == [0] * 23
    assert statistics("...", "dog") == [1, 1] + [0] * 21
    assert statistics("", "the dog") == [0, 2, 0, 1] + [0] * 19


def test_item_that_takes_too_long_fails_alone():
    loop = json.dumps(["a dog and " * 150, "the dog and a dog and a man and " * 20])
    short = json.dumps(["a dog", "a dog"])
    answers = ours([loop, short], timeout=1e-4)
    assert answers[loop] == "METEOR did not align it within 0.0001 s"
    assert answers[short] == statistics("a dog", "a dog")


def pairs_of(texts: Sequence[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(json.dumps(pair) for pair in texts))


def test_statistics_of_captions_are_those_of_the_jar(of_the_jar: Callable):
    with zipfile.ZipFile(find_jar("spice/spice-1.0.jar")) as jar:
        coco = json.loads(jar.read("coco/annotations/captions_val2014.json"))["annotations"]
    texts: dict[int, list[str]] = {}
    for annotation in coco[:5000]:
        texts.setdefault(annotation["image_id"], []).append(" ".join(annotation["caption"].lower().split()))
    several = [of_image for of_image in texts.values() if len(of_image) > 1][:300]
    keys = pairs_of([(candidate, reference) for candidate, *others in several for reference in others])
    assert len(keys) > 400
    assert ours(keys) == of_the_jar(keys)


def test_answers_do_not_depend_on_what_else_is_aligned(composed: Items, monkeypatch: pytest.MonkeyPatch):
    keys = keys_of(composed)[:60]
    together = ours(keys)
    monkeypatch.setattr(meteor_python, "_CHARACTERS_A_BATCH", 300)
    assert ours(keys[::-1]) == together
    assert len(list(meteor_python.align(keys, 60))) > 10
    monkeypatch.setattr("capbench.metrics.meteor.lexicon._WORDS_KEPT", 20)
    assert ours(keys) == together


def test_threads_share_what_is_known_of_words(composed: Items, monkeypatch: pytest.MonkeyPatch):
    keys = keys_of(composed)[:60]
    together = ours(keys)
    monkeypatch.setattr(meteor_python, "_CHARACTERS_A_BATCH", 300)
    monkeypatch.setattr("capbench.metrics.meteor.lexicon._WORDS_KEPT", 20)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ours, [keys[start:] for start in range(4)])) == [
            {key: together[key] for key in keys[start:]} for start in range(4)
        ]


def test_statistics_are_those_of_the_jar_where_many_alignments_compete(composed: Items, of_the_jar: Callable):
    """Short lists of related words, in any order: repeats, stems, synonyms and paraphrases all overlap."""
    rng = random.Random(8)  # noqa: S311
    related = (
        "run runs running race walk walks walking man men guy fellow person people child children kid kids boy "
        "dog dogs hound lake ocean sea big large huge jump jumps leap leaps two several group of people in front "
        "of next to a lot of playing with the the a an"
    )
    words = related.split()

    def text(pool: Sequence[str], most: int) -> str:
        return " ".join(rng.choice(pool) for _ in range(rng.randint(1, most)))

    keys = []
    # An integer has bits for 64 words.
    for most in (8, 25, 100):
        for _ in range(10):
            pool = [rng.choice(words) for _ in range(rng.randint(3, 30))]
            keys.append(json.dumps([text(pool, most) for _ in range(rng.randint(2, 4))]))
    keys = list(dict.fromkeys(keys + keys_of(composed)))
    jar = of_the_jar(keys)
    assert [key for key, answer in ours(keys).items() if answer != jar[key]] == []


@pytest.mark.data
def test_statistics_of_flickr8k_expert_and_of_long_captions_are_those_of_the_jar(flickr8k_expert, iiw, of_the_jar):
    keys = [*keys_of(flickr8k_expert.subset(np.arange(300))), *keys_of(iiw.subset(np.arange(40)))]
    jar = of_the_jar(keys)
    assert len(keys) == 340
    assert [key for key, answer in ours(keys).items() if answer != jar[key]] == []
