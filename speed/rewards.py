"""What rewards cost: ``capbench.reward`` beside the metric itself, and those of an SCST step beside a loop.

``python speed/rewards.py`` prints both. ``capbench.reward`` scores steps of 64 completions, 8 an image, warm, and may
take 1.2 times as long as the metric's ``score``. Each is timed where it is the first to see the texts.

Of an SCST step it prints core-seconds of either, their ratio, and by how much the rewards differ. The loop is what one
writes by hand: pycocoevalcap's CIDEr with document frequencies that are counted beforehand, and CLIPScore's
cosine by transformers, a caption with its image at a time; beside it stands a loop that encodes each image once. Exit
code 1 where that ratio is below 3, or the other above 1.2.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pycocoevalcap.cider.cider_scorer import CiderScorer
from transformers import AutoTokenizer, CLIPModel

import capbench
from capbench.adapters import ImageHandle
from capbench.adapters.aliases import resolve_model
from capbench.benchmarks.inputs.items import CaptionRow, gather
from capbench.benchmarks.inputs.models import NamedModels, named_or_given
from capbench.benchmarks.inputs.settings import read_metric
from capbench.benchmarks.interchange.as_reward import written_corpus
from capbench.benchmarks.running.rows import plan_rows
from capbench.metrics import Context, NoCache
from capbench.metrics.clip_s import PROMPT
from capbench.metrics.words.ptb import tokenize_text
from capbench.recipes.shapes.rows import described
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import opened
from capbench.recipes.training.processes import TrainingProcesses
from capbench.recipes.training.rows import TrainingRow
from capbench.recipes.training.schema import load_recipe

BAR, OVERHEAD = 3.0, 1.2
IMAGES, EACH, WARM, MEASURED = 8, 8, 15, 30
REWARD = "[{metric: cider, document_frequencies: images}, {metric: clip_s, encoder: shapes-clip}]"


class _OfMany(list[Any]):
    """References of a caption, counted as those of all images, as CIDEr's idf wants their number."""

    def __init__(self, of_caption: Sequence[Any], images: int) -> None:
        super().__init__(of_caption)
        self._images = images

    def __len__(self) -> int:
        return self._images


class Loop:
    """Scores captions one by one.

    Args:
        rows: What is trained on; its captions are counted.
        model: Folder of a CLIP of transformers.
    """

    def __init__(self, rows: Sequence[TrainingRow], model: str) -> None:
        counted = CiderScorer()
        for row in rows:
            counted.cook_append(None, [tokenize_text(one) for one in row.captions])
        counted.compute_doc_freq()
        self._frequency, self._images = counted.document_frequency, len(rows)
        self._clip = CLIPModel.from_pretrained(model, dtype=torch.float32).eval()
        self._tokenizer = AutoTokenizer.from_pretrained(model)
        # The encoder's own transform, so that the pixels are the same.
        self._transform = resolve_model("shapes-clip").to_trainable("cpu").transform

    def score(self, rows: Sequence[TrainingRow], captions: Sequence[str], each: int, keeps_images: bool) -> np.ndarray:
        """Return the reward of captions, ``each`` a row; either keeps the image of a row, or encodes it each time."""
        found = []
        for number, row in enumerate(rows):
            kept = self._image(row) if keeps_images else None
            for caption in captions[number * each : (number + 1) * each]:
                image = self._image(row) if kept is None else kept
                found.append(self._cider(caption, row.captions) + self._clip_s(image, caption))
        return np.array(found)

    def _cider(self, caption: str, references: Sequence[str]) -> float:
        # By capbench's tokenizer, as the loop would else pay for the start of a Java process each caption.
        scorer = CiderScorer(tokenize_text(caption), [tokenize_text(one) for one in references])
        scorer.document_frequency = self._frequency
        scorer.crefs = _OfMany(scorer.crefs, self._images)
        return float(scorer.compute_cider()[0])

    @torch.no_grad()
    def _image(self, row: TrainingRow) -> torch.Tensor:
        inputs, _ = self._transform.collate([self._transform.read(row.image)])
        (pixels,) = inputs.values()
        found = self._clip.get_image_features(pixel_values=pixels)
        return torch.nn.functional.normalize(getattr(found, "pooler_output", found), dim=1)

    @torch.no_grad()
    def _clip_s(self, image: torch.Tensor, caption: str) -> float:
        inputs = self._tokenizer([PROMPT + caption], return_tensors="pt", truncation=True, max_length=77)
        found = self._clip.get_text_features(**inputs)
        text = torch.nn.functional.normalize(getattr(found, "pooler_output", found), dim=1)
        return 2.5 * max(float((image * text).sum()), 0.0)


def overheads(folder: Path) -> dict[str, tuple[float, float]]:
    """Return core-milliseconds of a step by metric: of ``capbench.reward``, and of the metric itself."""
    rows, rng = list(described(WARM * IMAGES)), random.Random(0)  # noqa: S311 - no secret
    texts = [text.split() for row in rows for text in row["captions"]]
    file = written_corpus(({"references": row["captions"], "image": row["id"]} for row in rows), "image")
    images: list[bytes] = [row["image"].read_bytes() for row in rows]
    encoder: Any = resolve_model("shapes-clip").on("cpu").load()
    spent: dict[str, tuple[float, float]] = {}
    for name in (f"cider[document_frequencies={file}]", "meteor", "clip_s"):
        entry = read_metric(name).model_copy(update={"name": str(read_metric(name).metric)})
        (planned,) = plan_rows([entry], NamedModels(encoder=named_or_given(encoder, "")))
        reward = capbench.reward(name, model=encoder if name == "clip_s" else None, store=folder / "store.sqlite")
        times: tuple[list[float], list[float]] = [], []
        for step in range(2 * (WARM + MEASURED)):
            of = [(step * IMAGES + number // EACH) % len(rows) for number in range(IMAGES * EACH)]
            completions = [" ".join(rng.sample(words, min(len(words), 9))) for words in rng.sample(texts, len(of))]
            columns = {"references": [rows[at]["captions"] for at in of], "image": [images[at] for at in of]}
            items, item_of_row, _ = gather(
                CaptionRow(str(at), str(at), text, tuple(rows[at]["captions"]), pixels=ImageHandle(images[at]))
                for at, text in zip(of, completions, strict=True)
            )
            ways: list[Callable[[], Any]] = [
                partial(reward, completions=completions, **columns),
                partial(planned.metric.score, items, Context(NoCache(), encoder=encoder)),
            ]
            # The first to meet a word tokenises it: the other is not timed, and they take turns.
            timed, began = step % 2, time.process_time()
            first = ways[timed]()
            times[timed].append(time.process_time() - began)
            second = ways[1 - timed]()
            values, scores = (second, first) if timed else (first, second)
            np.testing.assert_allclose(np.array(values, float), scores.values[item_of_row], atol=1e-6)
        ours, bare = (float(np.median(of_way[WARM:])) * 1000 for of_way in times)
        spent[planned.name] = ours, bare
    return spent


def main() -> int:
    """Measure both, in turn, so that what else the machine does falls on both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        each_metric = overheads(Path(folder))
    for name, (ours, bare) in each_metric.items():
        print(f"{name:7} reward {ours:.1f} ms, metric {bare:.1f} ms a step of {IMAGES * EACH}: ratio {ours / bare:.2f}")
    changes = [
        f"objective.reward={REWARD}", f"objective.batch={options.batch}",
        # Samples have control characters now and then, which the loop's tokenizer reads and open_clip's leaves out.
        "objective.candidates=beams",
        f"data.arguments.scenes={options.batch * (options.steps + 1)}", "judge=[]", "probe=null",
    ]  # fmt: skip
    trainer: Any = opened(TrainingCall(load_recipe("shapes_scst_cider", changes), TrainingProcesses("cpu")))
    loop = Loop(trainer.rows.rows, "adapters/models/shapes-clip")
    spent, apart = dict.fromkeys(("rewards", "one by one", "each image once"), 0.0), 0.0
    for step in range(options.steps + 1):
        rows = trainer.rows_of(step)
        written = trainer._written([trainer.inputs(rows)], trainer._writing, step)
        texts = trainer.trainable.texts(written)
        ways: dict[str, Callable[[], np.ndarray]] = {
            "rewards": partial(_total, trainer, rows, written),
            "one by one": partial(loop.score, rows, texts, 5, keeps_images=False),
            "each image once": partial(loop.score, rows, texts, 5, keeps_images=True),
        }
        found = {}
        for name, way in ways.items():
            began = time.process_time()
            found[name] = way()
            # The first step warms all up.
            spent[name] += time.process_time() - began if step else 0.0
        apart = max(apart, *(float(np.abs(found["rewards"] - one).max()) for one in found.values()))
    for name, seconds in spent.items():
        print(f"{name:15} {seconds / options.steps:.3f} core-seconds a step of {options.batch} images with 5 captions")
    ratio, kinder = (spent[name] / spent["rewards"] for name in ("one by one", "each image once"))
    print(f"ratio {ratio:.2f}, at least {BAR:g} is asked for; {kinder:.2f} where each image is encoded once")
    print(f"rewards differ by {apart:.1e} at most")
    is_fast = all(ours <= OVERHEAD * bare for ours, bare in each_metric.values())
    return 0 if ratio >= BAR and apart < 1e-5 and is_fast else 1


def _total(trainer: Any, rows: Sequence[TrainingRow], written: Sequence[list[int]]) -> np.ndarray:
    return trainer._scored(rows, written, 5).total


if __name__ == "__main__":
    sys.exit(main())
