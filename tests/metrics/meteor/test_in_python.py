import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from capbench.metrics.meteor import metric as meteor_python
from capbench.metrics.meteor.lexicon import java_hash


def ours(keys: Sequence[str], timeout: float = 60) -> dict[str, list[float] | str]:
    return {key: answer for batch in meteor_python.align(keys, timeout) for key, answer in batch.items()}


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


def test_statistics_of_captions_are_those_of_the_jar(coco_keys: list[str], recorded):
    assert len(coco_keys) > 400
    assert ours(coco_keys) == recorded.statistics("coco", coco_keys)


def test_answers_do_not_depend_on_what_else_is_aligned(composed, keys_of, monkeypatch: pytest.MonkeyPatch):
    keys = keys_of(composed)[:30]
    together = ours(keys)
    monkeypatch.setattr(meteor_python, "_CHARACTERS_A_BATCH", 300)
    assert ours(keys[::-1]) == together
    assert len(list(meteor_python.align(keys, 60))) > 10
    monkeypatch.setattr("capbench.metrics.meteor.lexicon._WORDS_KEPT", 20)
    assert ours(keys) == together


def test_threads_share_what_is_known_of_words(composed, keys_of, monkeypatch: pytest.MonkeyPatch):
    keys = keys_of(composed)[:30]
    together = ours(keys)
    monkeypatch.setattr(meteor_python, "_CHARACTERS_A_BATCH", 300)
    monkeypatch.setattr("capbench.metrics.meteor.lexicon._WORDS_KEPT", 20)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ours, [keys[start:] for start in range(4)])) == [
            {key: together[key] for key in keys[start:]} for start in range(4)
        ]


def test_statistics_are_those_of_the_jar_where_many_alignments_compete(competing_keys, composed, keys_of, recorded):
    for name, keys in (("competing", competing_keys), ("composed", keys_of(composed))):
        jar = recorded.statistics(name, keys)
        assert [key for key, answer in ours(keys).items() if answer != jar[key]] == []


@pytest.mark.data
def test_statistics_of_flickr8k_expert_and_of_long_captions_are_those_of_the_jar(data_items, keys_of, recorded):
    keys = keys_of(data_items)
    jar = recorded.statistics("data", keys)
    assert len(keys) > 300
    assert [key for key, answer in ours(keys).items() if answer != jar[key]] == []
