"""What a metric says of the shapes world must come from its model: the trained one tells, a random one guesses."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import capbench
from capbench.benchmarks.tables.results import Run
from capbench.tasks.shapes.accounts import account_of, chain
from capbench.tasks.shapes.describing import detailed
from capbench.tasks.shapes.grading import add_thing
from capbench.tasks.shapes.pictures import DrawnPicture
from capbench.tasks.shapes.sampling import SPLITS, sample_scene

pytestmark = pytest.mark.costly

SCENES = 20
_FIRST = SPLITS["test"].start + 60_000
"""Scenes that no task uses."""


def value(run: Run, task: str, metric: str, statistic: str | None = None) -> float:
    """Return a result of a run."""
    frame = run.to_pandas()
    frame = frame[(frame.task == task) & (frame.metric == metric)]
    if statistic is not None:
        frame = frame[frame.statistic == statistic]
    return float(frame.value.iloc[0])


def test_clip_s_finds_the_foil_and_with_random_weights_guesses(measure):
    trained, guessing = measure("shapes_foil", metrics=["clip_s"], limit=60)
    accuracy, guessed = (value(run, "shapes_foil", "clip_s", "accuracy") for run in (trained, guessing))
    print(f"FOIL accuracy of CLIP-S: {accuracy:.3f}, with random weights {guessed:.3f}")
    assert accuracy >= 0.85
    assert abs(guessed - 0.5) < 0.14


def test_clip_s_agrees_with_raters_far_better_than_length_and_random_weights(measure):
    task = "shapes_expert"
    trained, guessing = measure(task, metrics=["clip_s", "length"], limit=120)
    tau, guessed = (value(run, task, "clip_s", "kendall_b") for run in (trained, guessing))
    length = value(trained, task, "length", "kendall_b")
    print(f"tau-b of CLIP-S {tau:.3f}, of length {length:.3f}, with random weights {guessed:.3f}")
    assert tau > length + 0.2
    assert abs(guessed) < 0.1


def test_crops_find_their_captions_and_with_random_weights_guess(measure):
    trained, guessing = measure("shapes_dci_all_scm", limit=12)
    accuracy, guessed = (float(run.to_pandas().value.iloc[0]) for run in (trained, guessing))
    print(f"SCM: {accuracy:.3f}, with random weights {guessed:.3f}, chance 0.125")
    assert accuracy > 0.7
    assert guessed < 0.25


def rows(texts: Callable[[int], str]) -> Iterator[dict[str, object]]:
    """Yield a caption of each scene with its picture and the boxes of its things."""
    for seed in range(_FIRST, _FIRST + SCENES):
        scene = sample_scene(seed, least=3)
        boxes = [[128 * end for end in thing.box] for thing in scene.things]
        yield {"id": str(seed), "image": DrawnPicture(scene).read_bytes(), "boxes": boxes, "candidate": texts(seed)}


def told(texts: Callable[[int], str], model: str, model_args: dict[str, str], store: Path) -> np.ndarray:
    """Return ``[scenes, 2]``: CLIP-Precision and CLIP-Recall of each scene's caption."""
    names = ["clip_precision[k=3]", "clip_recall[k=3]"]
    table = capbench.score(rows(texts), names, model=model, model_args=model_args, store=store)
    return np.array([[row[name] for name in names] for row in table.rows], dtype=float)


@pytest.fixture(scope="module")
def proportions(tmp_path_factory: pytest.TempPathFactory, random_clip: Path):
    """Return by model ``[scenes, 2]`` of the full caption, of its first thing alone, and with one thing too many."""
    store = tmp_path_factory.mktemp("store") / "store.sqlite"

    def full(seed: int) -> str:
        return detailed(account_of(sample_scene(seed, least=3)))

    def first_thing(seed: int) -> str:
        scene = sample_scene(seed, least=3)
        return detailed(chain(scene.things[:1], scene.background))

    def one_too_many(seed: int) -> str:
        scene = sample_scene(seed, least=3)
        return detailed(add_thing(account_of(scene), scene, np.random.default_rng(seed)))

    return {
        name: [told(texts, model, arguments, store) for texts in (full, first_thing, one_too_many)]
        for name, model, arguments in (
            ("trained", "shapes-clip", {}),
            ("random", "open_clip", {"pretrained": str(random_clip)}),
        )
    }


def test_clip_precision_falls_when_a_thing_is_made_up_and_recall_rises_with_details(proportions):
    full, first_thing, _ = proportions["trained"]
    assert np.mean(full[:, 1] > first_thing[:, 1]) >= 0.9
    falls = {name: float(np.mean(too_many[:, 0] < full[:, 0])) for name, (full, _, too_many) in proportions.items()}
    print(f"CLIP-Precision falls with a hallucination in {falls['trained']:.0%}, random {falls['random']:.0%}")
    assert falls["trained"] >= 0.9
    assert falls["random"] < 0.75
