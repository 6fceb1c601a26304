"""What the captioner is trained for: to tell patches apart, and to answer instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...adapters.decoding.dbd import FactPrompts
from ...tasks.shapes.accounts import account_of
from ...tasks.shapes.describing import detailed_reference, name
from ...tasks.shapes.drawing import pixels
from ...tasks.shapes.scene import BACKGROUNDS, COLOURS, SHAPES, SIZES, TEXTURES, Scene, Thing
from .architecture import normalised
from .pool import GRID, as_seen

if TYPE_CHECKING:
    import torch
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

Ask: TypeAlias = Callable[[Scene, np.random.Generator], tuple[str, str]]
"""Makes an instruction on a scene, and what is to be answered."""
DESCRIBE = "Describe this image in detail."
_MOST_FALSE = 4
"""Facts that need not be true among those that are summed up: a search finds some of that kind."""
_PROPERTIES = (("shape", SHAPES), ("colour", COLOURS), ("size", SIZES), ("texture", TEXTURES))


def described(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Return the instruction to describe a scene, and the detailed description."""
    return DESCRIBE, detailed_reference(scene)


def one_fact(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Return the instruction that searches facts in differentiated beam decoding, and one of the things."""
    return FactPrompts.named("default").search, _fact(scene.things[rng.integers(len(scene.things))])


def summed_up(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Return the instruction that sums facts up, with some that are true and some that are not, and the description."""
    true = [scene.things[at] for at in rng.permutation(len(scene.things))]
    facts = true[: rng.integers(1, len(true) + 1)]
    false = rng.integers(0, _MOST_FALSE + 1)
    facts += [_changed(true[rng.integers(len(true))], rng) for _ in range(false)]
    texts = [_fact(facts[at]) for at in rng.permutation(len(facts))]
    return "\n".join([FactPrompts.named("default").summary, *texts]), detailed_reference(scene)


def _changed(thing: Thing, rng: np.random.Generator) -> Thing:
    """Return a thing with one of its four properties drawn anew."""
    field, values = _PROPERTIES[rng.integers(len(_PROPERTIES))]
    return replace(thing, **{field: str(rng.choice(values))})


def _fact(thing: Thing) -> str:
    return f"{name(thing, '')}."


MIX: dict[Ask, float] = {described: 0.625, one_fact: 0.1875, summed_up: 0.1875}
"""The share of each instruction in training."""


_MOST = 5
"""Things in a scene."""
_RELATIONS = ("left of", "right of", "above", "below")
CLASSES = (
    len(BACKGROUNDS),
    *(1 + number for number in (len(SHAPES), len(COLOURS), len(SIZES), len(TEXTURES), _MOST, len(_RELATIONS))),
    _MOST + 1,
)
"""How many values each row of the labels has."""


def labels_of(scene: Scene) -> np.ndarray:
    """Return ``[8, patches]`` uint8 labels of the patches, row by row of the picture.

    The rows: the background; shape, colour, size and texture of the thing whose box holds the middle of the
    patch; its place in the order of telling; its relation to the thing that is told before it; and how many
    things there are in all. Where there is no thing, or none before, the label is 0.
    """
    middles = (np.arange(GRID) + 0.5) / GRID
    labels = np.zeros((len(CLASSES), GRID, GRID), dtype=np.uint8)
    labels[0] = BACKGROUNDS.index(scene.background)
    labels[-1] = len(scene.things)
    relations = {one.subject: 1 + _RELATIONS.index(one.predicate) for one in account_of(scene).relations}
    for number, thing in enumerate(scene.things):
        left, top, right, bottom = thing.box
        where = np.ix_((top <= middles) & (middles <= bottom), (left <= middles) & (middles <= right))
        values = (
            1 + SHAPES.index(thing.shape),
            1 + COLOURS.index(thing.colour),
            1 + SIZES.index(thing.size),
            1 + TEXTURES.index(thing.texture),
            1 + number,
            relations.get(number, 0),
        )
        for row, value in zip(labels[1:-1], values, strict=True):
            row[where] = value
    return labels.reshape(len(CLASSES), -1)


_IGNORED = -100
_KINDS: tuple[tuple[str, ...], ...] = (SHAPES, COLOURS, SIZES, TEXTURES)


@dataclass(frozen=True)
class LabelledPicture:
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
    def of(cls, scene: Scene) -> LabelledPicture:
        """Draw a scene."""
        things = [
            [names.index(one) for names, one in zip(_KINDS, (t.shape, t.colour, t.size, t.texture), strict=True)]
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
        {"patches": torch.nn.Linear(width, sum(CLASSES)), "things": torch.nn.Linear(width, sum(map(len, _KINDS)))}
    )


def patches_loss(
    model: LlavaForConditionalGeneration, probes: torch.nn.ModuleDict, pictures: Sequence[LabelledPicture]
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
    pictures: Sequence[LabelledPicture],
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


def things_told(answers: torch.Tensor, stop: int, pictures: Sequence[LabelledPicture]) -> torch.Tensor:
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


def conversations(processor: LlavaProcessor, asked: Sequence[tuple[str, str]]) -> tuple[torch.Tensor, torch.Tensor]:
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


def pixels_of(pictures: Sequence[LabelledPicture]) -> torch.Tensor:
    """Return pictures ``[b, 3, side, side]`` as the model takes them."""
    import torch

    return normalised(torch.from_numpy(np.stack([one.pixels for one in pictures])))


def _of_patches(probe: torch.nn.Module, seen: torch.Tensor, pictures: Sequence[LabelledPicture]) -> torch.Tensor:
    """Return the mean cross entropy of what patches show; ``seen [b, patches, d]``."""
    import torch
    from torch.nn.functional import cross_entropy

    labels = torch.from_numpy(np.stack([one.labels for one in pictures])).long()
    parts = probe(seen).float().split(CLASSES, dim=2)
    return torch.stack(
        [cross_entropy(part.flatten(0, 1), labels[:, row].flatten()) for row, part in enumerate(parts)]
    ).mean()
