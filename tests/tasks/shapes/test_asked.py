"""Questions, choices and squares of the shapes world: true is true, false is false, and a model that learnt tells."""

from pathlib import Path

import numpy as np
import pytest

import capbench
from capbench.benchmarks.tables.results import Run
from capbench.errors import TaskError
from capbench.tasks.shapes.asked import false_captions, questions, questions_of, squares_of
from capbench.tasks.shapes.sampling import sample_scene

pytestmark = pytest.mark.costly

SEEDS = range(200)


@pytest.mark.parametrize("negatives", ["random", "adversarial"])
def test_answers_are_those_of_the_scene_and_half_are_yes(negatives):
    for seed in SEEDS:
        scene = sample_scene(seed)
        there = {(thing.colour, thing.shape) for thing in scene.things}
        questions = questions_of(scene, np.random.default_rng(seed), negatives)
        assert all(question.answer == (question.thing in there) for question in questions)
        assert sum(question.answer for question in questions) * 2 == len(questions)
        assert len({question.thing for question in questions}) == len(questions)
        if negatives == "adversarial":
            colours, shapes = {colour for colour, _ in there}, {shape for _, shape in there}
            assert all(question.thing[0] in colours and question.thing[1] in shapes for question in questions)
        else:
            assert len(questions) == 4


def test_unknown_kind_of_question_is_named():
    with pytest.raises(TaskError, match=r"negatives 'adverserial' is unknown\. Did you mean 'adversarial'"):
        list(questions(1, "adverserial"))  # type: ignore[arg-type]


def test_false_captions_differ_from_the_true_one_as_their_category_says():
    for seed in SEEDS:
        captions = {category: texts for category, *texts in false_captions(sample_scene(seed))}
        assert {"replace_obj", "replace_att", "add_obj"} <= set(captions)
        assert all(caption != negative for caption, negative in captions.values())
        if swap := captions.get("swap_att"):
            # The same words, but for "a" and "an".
            words = [sorted(text.lower().replace(" an ", " a ").split()) for text in swap]
            assert {w.strip(".") for w in words[0]} - {"an"} == {w.strip(".") for w in words[1]} - {"an"}
        assert len(captions["add_obj"][1]) > len(captions["add_obj"][0])


def test_second_scene_of_a_square_is_drawn_as_its_caption_says():
    for seed in SEEDS:
        first = sample_scene(seed)
        for category, second, captions in squares_of(first):
            assert [thing.box for thing in first.things] == [thing.box for thing in second.things]
            changed = [(a, b) for a, b in zip(first.things, second.things, strict=True) if a != b]
            if category == "replace_obj":
                ((thing, other),) = changed
                assert other.shape not in {thing.shape for thing in first.things}
                assert other.shape in captions[1]
                assert thing.colour == other.colour
            else:
                (thing, other), (two, another) = changed
                assert (thing.colour, two.colour) == (another.colour, other.colour)
            assert captions[0] != captions[1]


def values(run: Run, task: str, metric: str) -> dict[str, float]:
    return {result.category: result.value for result in run[task].results if result.metric == metric}  # type: ignore[misc]


def test_true_captions_are_preferred_and_with_random_weights_guessed(measure):
    trained, guessing = (values(run, "shapes_choices", "neg") for run in measure("shapes_choices", limit=96))
    print(f"choices: {trained}, with random weights {guessing}")
    assert trained["replace_obj"] >= 0.85
    assert trained["replace_att"] >= 0.7
    # 27 pairs: two standard errors.
    assert abs(guessing["replace_obj"] - 0.5) < 0.2


def test_squares_are_solved_by_shapes_and_with_random_weights_guessed(measure):
    runs = measure("shapes_squares", limit=40)
    for measured, bar, chance in (("text", 0.7, 0.25), ("image", 0.7, 0.25), ("group", 0.6, 1 / 6)):
        trained, guessing = (values(run, "shapes_squares", measured)["replace_obj"] for run in runs)
        print(f"squares, {measured}: {trained:.3f}, with random weights {guessing:.3f}, chance {chance:.3f}")
        assert trained >= bar
        assert guessing < chance + 0.18


def test_questions_are_answered_and_by_a_model_that_did_not_learn_to_are_not(tmp_path: Path):

    def accuracy(model: str, task: str) -> dict[str, float | None]:
        options = {"limit": 24, "resamples": 0, "store": tmp_path / "store.sqlite"}
        run = capbench.evaluate(model, task, **options)[task]
        return {result.metric: result.value for result in run.results if result.statistic == "accuracy"}

    learnt, before = (accuracy(name, "shapes_pope_adversarial") for name in ("shapes-answers", "shapes-llava"))
    print(f"yes or no: {learnt}, before it learnt {before}")
    assert learnt["strict"] is not None and learnt["strict"] >= 0.85
    assert learnt["released"] == learnt["strict"]
    # It describes the picture, which released code takes for a yes.
    assert before == {"released": 0.5, "strict": 0}
