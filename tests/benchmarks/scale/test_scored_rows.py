"""Rows that an engine scores with models, over results that are shared: only what was scored before is taken."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_shards import AnyOrder
from PIL import Image
from tiny_clip import TinyClip, make_tiny_clip

import capbench
from capbench.adapters.aliases import ModelSpec
from capbench.benchmarks.running.execution import Execution
from capbench.benchmarks.scale.executors import Resources


@dataclass
class Scoring:
    """Scores four captions of four images by a model that is named.

    Attributes:
        folder: Where the images are.
        shared: The results that calls share.
    """

    folder: Path
    shared: Path

    def draw(self, number: int, seed: int) -> None:
        pixels = np.random.default_rng(seed).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(self.folder / f"{number}.png")

    def __call__(self, clip: Path | str, *, shared: bool = True) -> tuple[list[float], int]:
        """Return the scores, and how many results of shards were made for them."""
        rows = [
            {"candidate": f"a dog {n}", "references": [f"a dog {n}"], "image": self.folder / f"{n}.png"}
            for n in range(4)
        ]
        model = {"model": "open_clip", "model_args": {"pretrained": str(clip), "device": "cpu"}}
        where: dict[str, Any] = {"engine": Execution(AnyOrder(), folder=self.shared)} if shared else {}
        before = set(self.shared.glob("scores-*"))
        table = capbench.score(rows, "clip_s,length", **model, **where)
        return [row["clip_s"] for row in table.rows], len({*self.shared.glob("scores-*")} - before)


@pytest.fixture
def scoring(tmp_path: Path) -> Scoring:
    (tmp_path / "images").mkdir()
    scoring = Scoring(tmp_path / "images", tmp_path / "shared")
    for number in range(4):
        scoring.draw(number, number)
    return scoring


def test_same_call_computes_nothing_again(scoring: Scoring, tiny_clip: TinyClip):
    alone, _ = scoring(tiny_clip.open_clip_folder, shared=False)
    assert scoring(tiny_clip.open_clip_folder) == (alone, 2)
    assert scoring(tiny_clip.open_clip_folder) == (alone, 0)


def test_texts_are_scored_on_a_cluster_with_pools_of_models_alone():
    engine = Execution(AnyOrder(pools={"judge": Resources(gpus=1)}))
    scored = capbench.score([{"candidate": "a dog"}, {"candidate": "a cat"}], "length", engine=engine)
    assert [row["length"] for row in scored.rows] == [2, 2]


def test_encoder_that_was_trained_anew_at_the_same_place_has_scores_of_its_own(scoring: Scoring, tmp_path: Path):
    for seed in range(2):
        (tmp_path / str(seed)).mkdir()
        make_tiny_clip(tmp_path / str(seed), seed)
    place = tmp_path / "0" / "open_clip"
    first, _ = scoring(place)
    name = "open_clip_model.safetensors"
    (tmp_path / "1" / "open_clip" / name).replace(place / name)
    second, computed = scoring(place)
    assert computed == 1
    assert second == scoring(place, shared=False)[0] != first


def test_changed_image_of_the_same_name_has_another_score(scoring: Scoring, tiny_clip: TinyClip):
    first, _ = scoring(tiny_clip.open_clip_folder)
    scoring.draw(2, seed=17)
    second, computed = scoring(tiny_clip.open_clip_folder)
    assert computed == 1
    assert [score == other for score, other in zip(first, second, strict=True)] == [True, True, False, True]
    assert second == scoring(tiny_clip.open_clip_folder, shared=False)[0]


def test_who_hands_out_the_work_loads_no_model(scoring: Scoring, tiny_clip: TinyClip, monkeypatch: pytest.MonkeyPatch):
    def load(spec: ModelSpec) -> Any:
        raise AssertionError("it was loaded")

    def interrupt(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(ModelSpec, "load", load)
    monkeypatch.setattr(AnyOrder, "map", interrupt)
    with pytest.raises(KeyboardInterrupt):
        scoring(tiny_clip.open_clip_folder)
