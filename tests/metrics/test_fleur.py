from typing import Any

import numpy as np
import pytest

from capbench.adapters import ImageHandle, Judge, Judgement, JudgeToken, VideoHandle
from capbench.errors import AdapterError, MetricError
from capbench.metrics import Context, Items
from capbench.metrics.fleur import Fleur, RefFleur, read_rating, smoothed

P = {"6": 0.1, "7": 0.2, "8": 0.6, "9": 0.05}


def answer(text: str, **places: dict[str, float]) -> Judgement:
    """Return an answer of one token a character; ``places`` gives the probabilities at ``at_N``."""
    return Judgement(text, [JudgeToken(char, places.get(f"at_{n}", {char: 1.0})) for n, char in enumerate(text)])


def items(*candidates: str, images: Any = None) -> Items:
    count = len(candidates)
    handles = images or [ImageHandle(f"image {n}".encode()) for n in range(count)]
    names = [f"i{n}" for n in range(count)]
    return Items(names, candidates, [("a dog", "one dog")] * count, np.ones(count), images=handles)


@pytest.mark.parametrize(
    ("text", "places", "value"),
    [
        # 0.1 * (0.1 * 6 + 0.2 * 7 + 0.6 * 8 + 0.05 * 9)
        ("0.8", {"at_2": P}, 0.725),
        # The second decimal is added where it was printed.
        ("0.85", {"at_2": P, "at_3": {"5": 0.5, "0": 0.5}}, 0.725 + 0.01 * 2.5),
        # One is weighed against nought in the place of the one, nought is looked up behind the point.
        ("1.0", {"at_0": {"1": 0.7, "0": 0.3}}, 0.7 + 0.9 * 0.3),
        ("0.0", {"at_2": {"0": 0.5, "1": 0.5}}, 0.05),
        ("0.66", {"at_2": {"6": 1.0}, "at_3": {"6": 0.5, "8": 0.5}}, 0.6 + 0.01 * 7),
    ],
)
def test_decimals_are_the_expected_digits_in_their_places(text: str, places: dict[str, dict[str, float]], value: float):
    assert smoothed(float(text), answer(text, **places)) == pytest.approx(value)


# What expert.py of hjkim811/EXPERT (74bbef4) makes of these answers with such probabilities.
EXPERT = {
    "0.8": 0.2993621927812333, "0.85": 0.34138383335860795, "1.0": 0.03832965226229866, "0.0": 0.3752095179582069,
    "0.66": 0.36621252975631086, "0.05": 0.3599567408971919, "0.90": 0.41701096251994724, "0.1": 0.2978619766101003,
    "0.33": 0.25651273150384823, "0.7": 0.2644934461012143,
}  # fmt: skip


@pytest.mark.parametrize(("seed", "text"), list(enumerate(EXPERT)))
def test_values_are_those_of_the_released_code_of_expert(seed: int, text: str):
    rng = np.random.default_rng(seed)
    places = [rng.dirichlet(np.ones(13)) for _ in text]
    tokens = [
        JudgeToken(char, dict(zip("0123456789", place, strict=False))) for char, place in zip(text, places, strict=True)
    ]
    assert smoothed(read_rating(text), Judgement(text, tokens)) == pytest.approx(EXPERT[text], abs=1e-12)


@pytest.mark.parametrize(
    ("text", "rating"), [("0.8", 0.8), ("Score: 0.85.", 0.85), ("1", 1.0), ("1.0\n", 1.0), ("...0.3...", 0.3)]
)
def test_rating_is_what_is_left_without_all_but_digits_and_dots(text: str, rating: float):
    assert read_rating(text) == rating


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "has no number"),
        ("It is good.", "has no number"),
        ("0.8 of 1.0", "not one number"),
        ("2.5", "not between 0 and 1"),
        ("8", "not between 0 and 1"),
    ],
)
def test_answer_that_is_no_rating_is_named(text: str, fault: str):
    with pytest.raises(ValueError, match=fault):
        read_rating(text)


@pytest.mark.parametrize(
    ("rating", "judgement", "fault"),
    [
        (0.85, Judgement("0.85", [JudgeToken("0", {}), JudgeToken(".", {}), JudgeToken("85", {})]), "not single"),
        (0.8, Judgement("0.8"), "gives no token probabilities"),
        (0.8, answer("0.8", at_2={}), "gives no token probabilities"),
        (0.00001, answer("0.00001"), "too many decimals"),
    ],
)
def test_rating_that_cannot_be_smoothed_is_named(rating: float, judgement: Judgement, fault: str):
    with pytest.raises(ValueError, match=fault):
        smoothed(rating, judgement)


def test_each_caption_has_its_own_value_or_failure_and_never_that_of_another(tmp_path, answers):
    (tmp_path / "prompt.txt").write_text("Rate {candidate}!")
    tokens = [["0", {"0": 1}], [".", {}], ["8", {"8": 0.6, "7": 0.4}]]
    rows = [
        {"prompt": "Rate a dog runs!", "response": "0.8", "tokens": tokens},
        {"prompt": "Rate prose!", "response": "It is fine."},
        {"prompt": "Rate large!", "response": "7.5", "tokens": tokens},
    ]
    captions = items("a dog  runs", "prose", "large", "unknown", "film", "gone", "a dog\nruns")
    images = list(captions.images)
    images[4] = VideoHandle(tmp_path / "a.mp4")
    images[5] = ImageHandle(tmp_path / "gone.jpg")
    captions = items(*captions.candidates, images=images)
    judge = answers(rows)
    scores = Fleur(prompt=str(tmp_path / "prompt.txt")).score(captions, Context(judge=judge))
    assert scores.values == pytest.approx([0.76, *[np.nan] * 5, 0.76], nan_ok=True)
    assert scores.parts["printed"] == pytest.approx([0.8, *[np.nan] * 5, 0.8], nan_ok=True)
    assert scores.failures == {
        1: "the judge's answer has no number",
        2: "the judge's rating is not between 0 and 1",
        3: "judge: is not among the recorded responses",
        4: f"FLEUR takes images, and this is a video: {tmp_path / 'a.mp4'}",
        5: "image file: No such file or directory",
    }


def test_one_caption_of_two_images_is_asked_about_twice(tmp_path, answers):
    (tmp_path / "prompt.txt").write_text("Rate {candidate}!")
    captions = items("a dog", "a dog")
    rows = [
        {
            "prompt": "Rate a dog!",
            "image": image.digest(),
            "response": f"0.{digit}",
            "tokens": [["0", {}], [".", {}], [digit, {digit: 1}]],
        }
        for image, digit in zip(captions.images, "38", strict=True)
    ]
    judge = answers(rows)
    scores = Fleur(prompt=str(tmp_path / "prompt.txt")).score(captions, Context(judge=judge))
    assert scores.values == pytest.approx([0.3, 0.8])


def test_references_go_into_the_prompt_a_line_each(tmp_path, answers):
    prompt = "Captions by people: a dog\none dog\n\nCaption to rate: the dog\n"
    (tmp_path / "prompt.txt").write_text("Captions by people: {references}\n\nCaption to rate: {candidate}\n")
    tokens = [["0", {}], [".", {}], ["5", {"5": 1}]]
    judge = answers([{"prompt": prompt, "response": "0.5", "tokens": tokens}])
    metric = RefFleur(prompt=str(tmp_path / "prompt.txt"))
    assert metric.score(items("the dog"), Context(judge=judge)).values == pytest.approx([0.5])


def test_judge_of_texts_is_refused_since_it_would_not_see_the_image():
    class Blind(Judge):
        def fingerprint(self) -> dict[str, Any]:
            return {}

    with pytest.raises(AdapterError, match="supports no images, token probabilities"):
        Fleur().score(items("a dog"), Context(judge=Blind()))


@pytest.mark.parametrize(
    ("metric", "text", "fault"),
    [
        (Fleur, None, "No such file"),
        (Fleur, "Rate it!", "does not contain {candidate}"),
        (RefFleur, "Rate {candidate}!", "does not contain {references}"),
    ],
)
def test_prompt_that_cannot_be_used_is_found_before_anything_is_asked(tmp_path, metric, text, fault):
    if text is not None:
        (tmp_path / "prompt.txt").write_text(text)
    with pytest.raises(MetricError, match=fault):
        metric(prompt=str(tmp_path / "prompt.txt")).check()
