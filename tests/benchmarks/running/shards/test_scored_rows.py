"""Rows that an engine scores with models, over results that are shared: only what was scored before is taken."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_shards import RankOf
from PIL import Image
from tiny_clip import TinyClip, make_tiny_clip

import capbench
from capbench.adapters import ImageHandle
from capbench.adapters.aliases import ModelSpec
from capbench.benchmarks.engines.contract import Outcome
from capbench.benchmarks.engines.local import LocalEngine
from capbench.benchmarks.inputs.items import CaptionRow, gather
from capbench.benchmarks.protocols.job import Shard, Summary, caption_columns
from capbench.benchmarks.running.planned_metrics import PlannedMetric
from capbench.benchmarks.running.shards.gathering import Gathering
from capbench.benchmarks.running.shards.placing import Placing
from capbench.benchmarks.running.shards.shelf import MemoryShelf
from capbench.benchmarks.running.units import Unit, WorkSpec
from capbench.metrics import Metric
from capbench.metrics.cider import Cider
from capbench.metrics.clip_s import ClipS
from capbench.metrics.length import Length


@dataclass
class Watched:
    """An engine of this process, and what it found and computed."""

    engine: LocalEngine = field(default_factory=LocalEngine)
    units: list[Unit] = field(default_factory=list)
    computed: int = 0

    def carry_out(self, spec: WorkSpec, units: Iterable[Unit], **options: Any) -> Outcome:
        outcome = self.engine.carry_out(spec, units, **options)
        self.units = [one.unit for one in outcome.units.values()]
        self.computed = outcome.computed
        return outcome


@dataclass
class Scoring:
    """Scores four captions of four images by a model that is named.

    Attributes:
        folder: Where the images are.
        shared: The results that calls share.
    """

    folder: Path
    shared: str

    def draw(self, number: int, seed: int) -> None:
        pixels = np.random.default_rng(seed).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(self.folder / f"{number}.png")

    def __call__(self, clip: Path | str, *, shared: bool = True) -> tuple[list[float], int]:
        """Return the scores, and how many units were computed for them."""
        rows = [
            {"candidate": f"a dog {n}", "references": [f"a dog {n}"], "image": self.folder / f"{n}.png"}
            for n in range(4)
        ]
        watched = Watched()
        model = {"model": "open_clip", "model_args": {"pretrained": str(clip), "device": "cpu"}}
        where: dict[str, Any] = {"store": self.shared, "engine": watched} if shared else {}
        found = capbench.score(rows, "clip_s,length", **model, **where)
        return [row["clip_s"] for row in found.rows], watched.computed


@pytest.fixture
def scoring(tmp_path: Path) -> Scoring:
    (tmp_path / "images").mkdir()
    scoring = Scoring(tmp_path / "images", (tmp_path / "shared").as_uri())
    for number in range(4):
        scoring.draw(number, number)
    return scoring


def test_same_call_computes_nothing_again(scoring: Scoring, tiny_clip: TinyClip):
    alone, _ = scoring(tiny_clip.open_clip_folder, shared=False)
    assert scoring(tiny_clip.open_clip_folder) == (alone, 2)
    assert scoring(tiny_clip.open_clip_folder) == (alone, 0)


def test_another_encoder_has_scores_of_its_own(scoring: Scoring, tiny_clip: TinyClip, tmp_path: Path):
    (tmp_path / "other").mkdir()
    other = make_tiny_clip(tmp_path / "other", seed=1).open_clip_folder
    first, _ = scoring(tiny_clip.open_clip_folder)
    second, computed = scoring(other)
    assert second == scoring(other, shared=False)[0] != first
    # What needs no model is not computed again.
    assert computed == 1


def test_encoder_that_was_trained_anew_at_the_same_place_has_scores_of_its_own(
    scoring: Scoring, tmp_path: Path
):
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
    assert [one == other for one, other in zip(first, second, strict=True)] == [True, True, False, True]
    assert second == scoring(tiny_clip.open_clip_folder, shared=False)[0]


class Nobody:
    """An engine that does nothing."""

    def carry_out(self, spec: WorkSpec, units: Iterable[Unit], **options: Any) -> Outcome:
        list(units)
        raise KeyboardInterrupt


def test_who_hands_out_the_work_loads_no_model(
    scoring: Scoring, tiny_clip: TinyClip, monkeypatch: pytest.MonkeyPatch
):
    def load(spec: ModelSpec) -> Any:
        raise AssertionError("it was loaded")

    monkeypatch.setattr(ModelSpec, "load", load)
    monkeypatch.setattr(LocalEngine, "carry_out", Nobody.carry_out)
    with pytest.raises(KeyboardInterrupt):
        scoring(tiny_clip.open_clip_folder)


def test_nothing_to_score_is_no_unit():
    planned = [PlannedMetric(type(one).__name__, one, "mean", True) for one in (Cider(), RankOf())]
    assert list(Placing(planned, Gathering(MemoryShelf()), {}).units([])) == []


class OfTwoModels(ClipS):
    """Asks a judge besides."""

    needs = ClipS.needs | {"judge"}


def key(metric: Metric, hash_images: bool = True, error: str = "", **models: str) -> str:
    """Return the key of the unit that scores a caption."""

    def collected() -> Generator[Shard, None, Summary]:
        row = CaptionRow("1", "1.png", "a dog", (), pixels=ImageHandle(Path("1.png")))
        yield Shard(*gather([row]), caption_columns([row], [None]))
        return Summary(1)

    gathering = Gathering(MemoryShelf(), hash_images)
    placing = Placing([PlannedMetric("one", metric, "mean", True, error)], gathering, models)
    (unit,) = placing.units(gathering.gather(collected()))
    return unit.key


def test_key_cannot_lack_a_model_nor_what_images_hold():
    with pytest.raises(ValueError, match="have keys of what these hold"):
        key(ClipS(), hash_images=False, encoder="one")
    with pytest.raises(KeyError, match="encoder"):
        key(ClipS(), judge="one")
    of_two = {
        key(OfTwoModels(), encoder=encoder, judge=judge) for encoder in ("1", "2") for judge in ("1", "2")
    }
    assert len(of_two) == 4
    # What a metric does not need changes nothing; one that cannot run needs nothing.
    assert key(ClipS(), encoder="1", judge="1") == key(ClipS(), encoder="1", judge="2")
    assert key(Length()) == key(Length(), hash_images=False, encoder="1")
    assert key(ClipS(), error="is not here") == key(ClipS(), hash_images=False, error="is not here")
