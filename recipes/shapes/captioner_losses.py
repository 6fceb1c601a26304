"""What the captioner is trained for: to tell patches apart, and to answer instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...tasks.shapes.drawing import pixels
from ...tasks.shapes.scene import COLOURS, SHAPES, SIZES, TEXTURES, Scene
from .architecture import normalised
from .instructions import Ask
from .patches import CLASSES, labels_of
from .pool import GRID, as_seen

if TYPE_CHECKING:
    import torch
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

_IGNORED = -100
_KINDS: tuple[tuple[str, ...], ...] = (SHAPES, COLOURS, SIZES, TEXTURES)


@dataclass(frozen=True)
class Drawn:
    """A picture to train on.

    Attributes:
        scene: What it shows.
        pixels: ``[side, side, 3]`` uint8, as the model sees it.
        labels: ``[8, patches]``; see ``patches.labels_of``.
        things: ``[things, 4]`` int64: shape, colour, size and texture of each, by number.
    """

    scene: Scene
    pixels: np.ndarray
    labels: np.ndarray
    things: np.ndarray

    @classmethod
    def of(cls, scene: Scene) -> Drawn:
        """Draw a scene."""
        things = [
            [
                names.index(one)
                for names, one in zip(_KINDS, (t.shape, t.colour, t.size, t.texture), strict=True)
            ]
            for t in scene.things
        ]
        return cls(scene, as_seen(pixels(scene)), labels_of(scene), np.array(things))


def make_probes(model: LlavaForConditionalGeneration) -> torch.nn.ModuleDict:
    """Return what predicts from patches what they show, and from words which thing they are on.

    Both see what the language model sees of patches, and makes of words; they are thrown away after training.
    """
    import torch

    width = model.lm_head.in_features
    return torch.nn.ModuleDict(
        {
            "patches": torch.nn.Linear(width, sum(CLASSES)),
            "things": torch.nn.Linear(width, sum(map(len, _KINDS))),
        }
    )


def patches_loss(
    model: LlavaForConditionalGeneration, probes: torch.nn.ModuleDict, pictures: Sequence[Drawn]
) -> torch.Tensor:
    """Return how badly the probe tells what patches show: a mean cross entropy."""
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        # Typed as a tuple, which it is only where that is asked for.
        seen: Any = model.model.get_image_features(pixels_of(pictures))
        return _of_patches(probes["patches"], torch.stack(list(seen.pooler_output)), pictures)


def losses(
    model: LlavaForConditionalGeneration,
    processor: LlavaProcessor,
    probes: torch.nn.ModuleDict,
    pictures: Sequence[Drawn],
    mix: Mapping[Ask, float],
    rng: np.random.Generator,
) -> dict[str, torch.Tensor]:
    """Return the losses of a step.

    Args:
        model: The model.
        processor: Its processor.
        probes: See :func:`make_probes`.
        pictures: What is shown.
        mix: The share of pictures with each instruction.
        rng: Decides what is asked and answered.

    Returns:
        ``patches``: see :func:`patches_loss`. ``words``: the mean cross entropy of the answers' tokens. ``things``:
        how badly the states of a description's words tell, from the first word of a sentence on, what thing it is
        on; so the model looks for the right patches at every word, not only where a word gives it away.
    """
    import torch
    from torch.nn.functional import cross_entropy

    words, things, patches = [], [], []
    ends = np.cumsum([round(share * len(pictures)) for share in mix.values()])
    for ask, part in zip(mix, np.split(np.arange(len(pictures)), ends[:-1]), strict=True):
        shown = [pictures[at] for at in part]
        ids, answers = conversations(processor, [ask(one.scene, rng) for one in shown])
        told = things_told(answers, _end_of_sentence(processor), shown)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            # Padding is on the right, where nothing that counts can see it.
            found = model.model(input_ids=ids, pixel_values=pixels_of(shown))
            said = answers[:, 1:] != _IGNORED
            states = found.last_hidden_state[:, :-1][said]
            words.append((model.lm_head(states).float(), answers[:, 1:][said]))
            things.append((probes["things"](states).float(), told[:, 1:][said]))
            seen = found.image_hidden_states.unflatten(0, (len(shown), -1))
            patches.append(_of_patches(probes["patches"], seen, shown) * len(shown))
    kinds = torch.cat([one for one, _ in things]).split([len(names) for names in _KINDS], dim=1)
    true = torch.cat([one for _, one in things])
    return {
        "words": cross_entropy(torch.cat([one for one, _ in words]), torch.cat([one for _, one in words])),
        "things": torch.stack(
            [cross_entropy(kind, true[:, row], ignore_index=_IGNORED) for row, kind in enumerate(kinds)]
        ).mean(),
        "patches": torch.stack(patches).sum() / len(pictures),
    }


def things_told(answers: torch.Tensor, stop: int, pictures: Sequence[Drawn]) -> torch.Tensor:
    """Return the thing that each token's sentence is on, where an answer has a sentence for each thing.

    Args:
        answers: ``[b, n]`` tokens of answers, and -100 elsewhere.
        stop: The token that ends a sentence.
        pictures: What the answers are on.

    Returns:
        ``[b, n, 4]`` shape, colour, size and texture by number; -100 for tokens of no sentence, and in other answers.
    """
    import torch

    stops = answers == stop
    sentence = stops.cumsum(1) - stops.long()
    told = torch.full((*answers.shape, len(_KINDS)), _IGNORED)
    for row, one in enumerate(pictures):
        count = len(one.scene.things)
        if int(stops[row].sum()) == count:
            where = (answers[row] != _IGNORED) & (sentence[row] < count)
            told[row, where] = torch.from_numpy(one.things)[sentence[row, where]]
    return told


def _end_of_sentence(processor: LlavaProcessor) -> int:
    tokenizer: Any = processor.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    return tokenizer.convert_tokens_to_ids(".")


def conversations(
    processor: LlavaProcessor, asked: Sequence[tuple[str, str]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return instructions with their answers as the model is trained on them.

    Args:
        processor: The model's.
        asked: Instructions and answers.

    Returns:
        ``[b, n]`` tokens, padded on the right; and the same, with -100 where there is no token of an answer.
    """
    import torch

    tokenizer: Any = processor.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    rows = []
    for instruction, answer in asked:
        talk = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": instruction}]}]
        prompt = processor.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
        before = tokenizer(prompt.replace("<image>", "<image>" * GRID**2))["input_ids"]
        after = tokenizer(f" {answer}", add_special_tokens=False)["input_ids"]
        rows.append((before, [*after, tokenizer.eos_token_id]))
    length = max(len(before) + len(after) for before, after in rows)
    ids = torch.full((len(rows), length), tokenizer.pad_token_id)
    answers = torch.full((len(rows), length), _IGNORED)
    for row, (before, after) in enumerate(rows):
        end = len(before) + len(after)
        ids[row, :end] = torch.tensor([*before, *after])
        answers[row, len(before) : end] = torch.tensor(after)
    return ids, answers


def pixels_of(pictures: Sequence[Drawn]) -> torch.Tensor:
    """Return pictures ``[b, 3, side, side]`` as the model takes them."""
    import torch

    return normalised(torch.from_numpy(np.stack([one.pixels for one in pictures])))


def _of_patches(probe: torch.nn.Module, seen: torch.Tensor, pictures: Sequence[Drawn]) -> torch.Tensor:
    """Return the mean cross entropy of what patches show; ``seen [b, patches, d]``."""
    import torch
    from torch.nn.functional import cross_entropy

    labels = torch.from_numpy(np.stack([one.labels for one in pictures])).long()
    parts = probe(seen).float().split(CLASSES, dim=2)
    return torch.stack(
        [cross_entropy(part.flatten(0, 1), labels[:, row].flatten()) for row, part in enumerate(parts)]
    ).mean()
