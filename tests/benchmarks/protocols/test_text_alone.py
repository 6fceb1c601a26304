"""What rules reach that see no image."""

from __future__ import annotations

from capbench.adapters import ImageHandle
from capbench.benchmarks.protocols.matching.documents import MatchEntry
from capbench.benchmarks.protocols.matching.protocol import RULES, TextAlone


def entries(*choices: tuple[list[str], list[str]], images: str = "") -> tuple[list[MatchEntry], dict[str, str]]:
    """Return an entry for each list of captions and of negatives; ``images`` has a letter for the image of each."""
    made = [
        MatchEntry(str(n), str(n), ImageHandle(b""), tuple(own), tuple(others))
        for n, (own, others) in enumerate(choices)
    ]
    return made, {str(n): (images or "abcdefgh")[n] for n in range(len(made))}


def credits_of(*choices: tuple[list[str], list[str]], images: str = "", ties: str = "wrong") -> list[dict]:
    made, names = entries(*choices, images=images)
    alone = TextAlone(made, names, ties)  # type: ignore[arg-type]
    return [dict(zip(RULES, alone.credit(one), strict=True)) for one in made]


def test_chance_is_that_all_own_captions_come_before_all_negatives():
    own = [(["a"], ["b"]), (["a"], ["b", "c", "d", "e"]), (["a", "b"], ["c"])]
    assert [one["chance"] for one in credits_of(*own)] == [1 / 2, 1 / 5, 1 / 3]


def test_length_decides_in_both_directions_and_ties_as_the_task_says():
    choices = (["a dog"], ["a small dog"]), (["a red cat"], ["a cat"]), (["one"], ["two"])
    found = credits_of(*choices)
    assert [one["shorter"] for one in found] == [1, 0, 0]
    assert [one["longer"] for one in found] == [0, 1, 0]
    assert [credits_of(*choices, ties=tie)[2]["shorter"] for tie in ("wrong", "half", "right")] == [0, 0.5, 1]


def test_every_own_caption_must_beat_every_negative():
    (found,) = credits_of((["a", "ccc"], ["bb"]))
    assert (found["shorter"], found["longer"]) == (0, 0)


def test_words_of_other_images_give_the_true_caption_away():
    choices = [([f"a dog on a {place}"], [f"a dog a on {place}"]) for place in ("bed", "car", "hill")]
    assert [one["words"] for one in credits_of(*choices)] == [1, 1, 1]


def test_words_of_the_own_image_tell_nothing():
    choices = [([f"a dog on a {place}"], [f"a dog a on {place}"]) for place in ("bed", "car", "hill")]
    assert [one["words"] for one in credits_of(*choices, images="aaa")] == [0, 0, 0]
    # An image alone has the others to learn from, and the others have it.
    assert [one["words"] for one in credits_of(*choices, images="aab")] == [1, 1, 1]


def test_words_are_judged_by_their_mean_not_by_their_number():
    seen = [(["red"], ["blue"]), (["red"], ["blue"])]
    # "red blue": one good and one bad word, and no pair that is known but at its ends.
    long = (["red"], ["red red red"])
    assert credits_of(*seen, long)[2]["words"] == 1


def test_the_same_words_in_two_orders_that_occur_nowhere_else_tie():
    seen = [(["a b c d e f g"], ["g f a b"]), (["c d e"], ["f g"])]
    found = credits_of(*seen, (["b d f a c e g"], ["g c f b e a d"]), ties="half")[2]
    assert found["words"] == 0.5
