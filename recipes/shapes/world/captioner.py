"""Trains the captioner of the shapes world, a LLaVA on the vision tower of the dual encoder.

``python -m capbench.recipes.shapes.world.captioner --encoder FOLDER --output FOLDER``

First the tower and the projector learn the content of each patch and its place in the description; then all weights
learn to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import CLIPVisionConfig, LlavaForConditionalGeneration, LlavaProcessor, PreTrainedTokenizerFast

from ....adapters.decoding.dbd import FactPrompts
from ....tasks.shapes.accounts import account_of
from ....tasks.shapes.describing import detailed_reference, name
from ....tasks.shapes.drawing import pixels
from ....tasks.shapes.sampling import SPLITS, sample_scene
from ....tasks.shapes.scene import BACKGROUNDS, Scene, Thing
from .clip import HEAD, IMAGE_SIZE, MEAN, PATCH, STD, normalised
from .losses import mean_cross_entropy, patches_loss
from .pool import GRID, PROPERTIES, as_seen, kinds_of, label_boxes
from .together import HALVES, optimise, run

Ask: TypeAlias = Callable[[Scene, np.random.Generator], tuple[str, str]]
"""Makes an instruction on a scene, and the expected answer."""
DESCRIBE = "Describe this image in detail."
_MOST_FALSE = 4
"""Facts that need not be true among those that are summed up: a search finds some of that kind."""


def described(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Return the instruction to describe a scene, and the detailed description."""
    return DESCRIBE, detailed_reference(scene)


def one_fact(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Return the fact-search instruction of differentiated beam decoding, and one of the things."""
    return FactPrompts.named("default").search, _fact(scene.things[rng.integers(len(scene.things))])


def summed_up(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Return the instruction to summarise facts, some true and some false, and the description."""
    true = [scene.things[at] for at in rng.permutation(len(scene.things))]
    facts = true[: rng.integers(1, len(true) + 1)]
    false = rng.integers(0, _MOST_FALSE + 1)
    facts += [_changed(true[rng.integers(len(true))], rng) for _ in range(false)]
    texts = [_fact(facts[at]) for at in rng.permutation(len(facts))]
    return "\n".join([FactPrompts.named("default").summary, *texts]), detailed_reference(scene)


def _changed(thing: Thing, rng: np.random.Generator) -> Thing:
    """Return a thing with one of its four properties resampled."""
    field, values = PROPERTIES[rng.integers(len(PROPERTIES))]
    return replace(thing, **dict[str, Any]({field: str(rng.choice(values))}))


def _fact(thing: Thing) -> str:
    return f"{name(thing, '')}."


MIX: dict[Ask, float] = {described: 0.625, one_fact: 0.1875, summed_up: 0.1875}
"""The share of each instruction in training."""


_MOST = 5
"""Things in a scene."""
_KINDS = [len(values) for _, values in PROPERTIES]
_RELATIONS = ("left of", "right of", "above", "below")
CLASSES = (len(BACKGROUNDS), *(1 + number for number in (*_KINDS, _MOST, len(_RELATIONS))), _MOST + 1)
"""The number of classes of each row of the labels."""


def labels_of(scene: Scene) -> np.ndarray:
    """Return ``[8, patches]`` uint8 labels of the patches, row by row of the picture.

    The rows: the background; shape, colour, size and texture of the thing whose box holds the middle of the
    patch; its place in the description; its relation to the thing described before it; and the
    number of things. Without a thing, or a thing before it, the label is 0.
    """
    labels = np.zeros((len(CLASSES), GRID, GRID), dtype=np.uint8)
    labels[0] = BACKGROUNDS.index(scene.background)
    labels[-1] = len(scene.things)
    relations = {rel.subject: 1 + _RELATIONS.index(rel.predicate) for rel in account_of(scene).relations}
    values = [
        [*(1 + kind for kind in (*kinds_of(thing), number)), relations.get(number, 0)]
        for number, thing in enumerate(scene.things)
    ]
    label_boxes(labels[1:-1], scene.things, values)
    return labels.reshape(len(CLASSES), -1)


_IGNORED = -100


@dataclass(frozen=True)
class LabelledPicture:
    """A training picture.

    Attributes:
        scene: Its scene.
        pixels: ``[side, side, 3]`` uint8, as the model sees it.
        labels: ``[8, patches]``; see ``labels_of``.
        things: ``[things, 4]`` int64: shape, colour, size and texture of each, by number.
    """

    scene: Scene
    pixels: np.ndarray
    labels: np.ndarray
    things: np.ndarray

    @classmethod
    def of(cls, scene: Scene) -> LabelledPicture:
        """Draw a scene."""
        return cls(scene, as_seen(pixels(scene)), labels_of(scene), np.array([kinds_of(item) for item in scene.things]))


def make_probes(model: LlavaForConditionalGeneration) -> torch.nn.ModuleDict:
    """Return probes that predict the content of patches, and the thing of each word.

    Their inputs are the language model's patch embeddings and word states. They are not part of the written model.
    """
    width = model.lm_head.in_features
    return torch.nn.ModuleDict(
        {"patches": torch.nn.Linear(width, sum(CLASSES)), "things": torch.nn.Linear(width, sum(_KINDS))}
    )


def warm_up_loss(
    model: LlavaForConditionalGeneration, probes: torch.nn.ModuleDict, pictures: Sequence[LabelledPicture]
) -> torch.Tensor:
    """Return the mean cross entropy of the patch probe."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        # The library declares a tuple, which is returned only on request.
        seen: Any = model.model.get_image_features(pixels_of(pictures))
        predicted = probes["patches"](torch.stack(list(seen.pooler_output)))
    return patches_loss(predicted.float(), [picture.labels for picture in pictures], CLASSES)


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
        pictures: The pictures.
        mix: The share of pictures with each instruction.
        rng: Draws instructions and answers.

    Returns:
        ``patches``: see :func:`warm_up_loss`. ``words``: the mean cross entropy of the answers' tokens. ``things``:
        the loss of the probe that predicts the thing of a sentence from each of its words' states; so the model
        attends to the right patches at every word, not only where a word gives it away.
    """
    tokenizer: Any = processor.tokenizer
    words, things, patches = [], [], []
    ends = np.cumsum([round(share * len(pictures)) for share in mix.values()])
    for ask, part in zip(mix, np.split(np.arange(len(pictures)), ends[:-1]), strict=True):
        shown = [pictures[at] for at in part]
        ids, answers = conversations(processor, [ask(picture.scene, rng) for picture in shown])
        of_things = things_of_tokens(answers, tokenizer.convert_tokens_to_ids("."), shown)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            # Padding is on the right, where no answer token attends to it.
            outputs = model.model(input_ids=ids, pixel_values=pixels_of(shown))
            said = answers[:, 1:] != _IGNORED
            states = outputs.last_hidden_state[:, :-1][said]
            words.append((model.lm_head(states).float(), answers[:, 1:][said]))
            things.append((probes["things"](states).float(), of_things[:, 1:][said]))
            seen = outputs.image_hidden_states.unflatten(0, (len(shown), -1))
            predicted = probes["patches"](seen).float()
            patches.append(patches_loss(predicted, [picture.labels for picture in shown], CLASSES) * len(shown))
    logits, said = (torch.cat(part) for part in zip(*words, strict=True))
    predicted, true = (torch.cat(part) for part in zip(*things, strict=True))
    return {
        "words": cross_entropy(logits, said),
        "things": mean_cross_entropy(predicted, true, _KINDS),
        "patches": torch.stack(patches).sum() / len(pictures),
    }


def things_of_tokens(answers: torch.Tensor, stop: int, pictures: Sequence[LabelledPicture]) -> torch.Tensor:
    """Return the thing of each token's sentence, for answers with a sentence per thing.

    Args:
        answers: ``[b, n]`` tokens of answers, -100 for other tokens.
        stop: The token that ends a sentence.
        pictures: The pictures of the answers.

    Returns:
        ``[b, n, 4]`` shape, colour, size and texture by number; -100 for tokens of no sentence, and in other answers.
    """
    stops = answers == stop
    sentence = stops.cumsum(1) - stops.long()
    kinds = torch.full((*answers.shape, len(_KINDS)), _IGNORED)
    for row, picture in enumerate(pictures):
        count = len(picture.scene.things)
        if int(stops[row].sum()) == count:
            where = (answers[row] != _IGNORED) & (sentence[row] < count)
            kinds[row, where] = torch.from_numpy(picture.things)[sentence[row, where]]
    return kinds


def conversations(processor: LlavaProcessor, asked: Sequence[tuple[str, str]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokenised instructions with answers, and labels.

    Args:
        processor: The model's.
        asked: Instructions and answers.

    Returns:
        ``[b, n]`` tokens, padded on the right; and labels, with -100 for tokens outside answers.
    """
    tokenizer: Any = processor.tokenizer
    ids, answers = [], []
    for instruction, answer in asked:
        talk: Any = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": instruction}]}]
        prompt = processor.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
        before = tokenizer(prompt.replace("<image>", "<image>" * GRID**2))["input_ids"]
        after = [*tokenizer(f" {answer}", add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        ids.append(torch.tensor([*before, *after]))
        answers.append(torch.tensor([*[_IGNORED] * len(before), *after]))
    return pad_sequence(ids, True, tokenizer.pad_token_id), pad_sequence(answers, True, _IGNORED)


def pixels_of(pictures: Sequence[LabelledPicture]) -> torch.Tensor:
    """Return the model's input ``[b, 3, side, side]`` of pictures."""
    return normalised([picture.pixels for picture in pictures])


_WIDTH = 128
"""Of the language model."""
_LAYERS = 3
_MOST_TOKENS = 1024
_START, _END, _PAD, _IMAGE = "<s>", "</s>", "<pad>", "<image>"
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ content['text'] + ' ' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
"""As LLaVA-1.5's."""


def _make_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=[_START, _END, _PAD, _IMAGE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_START} $A", special_tokens=[(_START, tokenizer.token_to_id(_START))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=_START,
        eos_token=_END,
        pad_token=_PAD,
        extra_special_tokens=[_IMAGE],
        model_max_length=_MOST_TOKENS,
    )


def make_captioner(processor: LlavaProcessor, vision: CLIPVisionConfig, seed: int) -> LlavaForConditionalGeneration:
    """Return the model with random weights.

    Args:
        processor: Gives the vocabulary size.
        vision: The tower's architecture.
        seed: The random seed.
    """
    torch.manual_seed(seed)
    tokenizer: Any = processor.tokenizer
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    text = transformers.LlamaConfig(
        hidden_size=_WIDTH,
        intermediate_size=3 * _WIDTH,
        num_hidden_layers=_LAYERS,
        num_attention_heads=_WIDTH // HEAD,
        num_key_value_heads=_WIDTH // HEAD,
        vocab_size=len(tokenizer),
        max_position_embeddings=_MOST_TOKENS,
        **special,
    )
    config = transformers.LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids(_IMAGE),
        # All of the tower's layers; LLaVA-1.5 omits the last.
        vision_feature_layer=-1,
        image_seq_length=(IMAGE_SIZE // PATCH) ** 2,
    )
    model = LlavaForConditionalGeneration(config)
    model.generation_config.update(**special)
    return model


_MIXED = 0.2
"""Share of steps, at the end, that use all instructions."""
_VOCABULARY_SCENES = 2000
"""Number of scenes whose texts define the vocabulary."""


def train(
    encoder: Path,
    output: Path,
    *,
    warm_up: int = 250,
    warm_up_batch: int = 128,
    steps: int = 2700,
    batch: int = 32,
    pictures: int = 30_000,
    warm_up_rate: float = 1.5e-3,
    rate: float = 2e-3,
    tower_rate: float = 1e-3,
    seed: int = 0,
) -> None:
    """Train the captioner of the shapes world.

    Args:
        encoder: Folder of the dual encoder.
        output: The output folder.
        warm_up: Warm-up steps, in which the tower and the projector learn the content of each patch.
        warm_up_batch: Pictures per warm-up step.
        steps: Steps after the warm-up, which train all weights.
        batch: Pictures per step after the warm-up.
        pictures: Number of pictures.
        warm_up_rate: The highest learning rate of the warm-up.
        rate: The highest learning rate after the warm-up.
        tower_rate: The same for the tower.
        seed: The random seed.
    """
    processor = world_processor()
    clip = transformers.CLIPModel.from_pretrained(encoder, dtype=torch.float32)
    model = make_captioner(processor, clip.vision_model.config, seed)
    model.model.vision_tower.load_state_dict(clip.vision_model.state_dict())
    # For short sequences eager attention has the faster gradient.
    model.set_attn_implementation({"vision_config": "eager", "text_config": "eager"})
    probes = make_probes(model)

    def half(number: int) -> Sequence[Callable[[], dict[str, torch.Tensor]]]:
        """Return what computes the losses of the warm-up, and of the training, of one half of a batch."""
        rng = np.random.default_rng((seed, number))
        pool = [LabelledPicture.of(sample_scene(at)) for at in SPLITS["train"][:pictures][number::HALVES]]
        # Descriptions first, as they are the main task.
        mixes: Iterator[Any] = chain(repeat({described: 1.0}, round((1 - _MIXED) * steps)), repeat(MIX))

        def chosen(of_batch: int) -> list[LabelledPicture]:
            return [pool[at] for at in rng.integers(len(pool), size=of_batch // HALVES)]

        return (
            lambda: {"patches": warm_up_loss(model, probes, chosen(warm_up_batch))},
            lambda: losses(model, processor, probes, chosen(batch), next(mixes), rng),
        )

    of_warm_up, of_training = zip(*map(half, range(HALVES)), strict=True)
    tower, projector = model.model.vision_tower, model.model.multi_modal_projector
    optimise([(_parameters(tower, projector, probes["patches"]), warm_up_rate)], of_warm_up, warm_up)
    others = _parameters(projector, model.model.language_model, model.lm_head, probes)
    optimise([(_parameters(tower), tower_rate), (others, rate)], of_training, steps)
    model.half().save_pretrained(output)
    processor.save_pretrained(output)


def _parameters(*modules: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [parameter for module in modules for parameter in module.parameters()]


def world_processor() -> LlavaProcessor:
    """Return the processor: images resized to the tower's input, LLaVA's chat template, and a separate tokenizer.

    Its tokens are the words of instructions and captions of the training split, and all bytes, so that no text is
    unknown.
    """
    rng = np.random.default_rng(0)
    scenes = [sample_scene(seed) for seed in SPLITS["train"][:_VOCABULARY_SCENES]]
    texts = [part for scene in scenes for ask in MIX for part in ask(scene, rng)]
    side = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    return LlavaProcessor(
        transformers.CLIPImageProcessor(size=side, do_center_crop=False, image_mean=MEAN, image_std=STD),
        _make_tokenizer([f"USER: \n{text} ASSISTANT: {text}" for text in texts]),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    )


if __name__ == "__main__":
    run(train)
