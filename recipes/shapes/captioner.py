"""Trains the captioner of the shapes world, a LLaVA on the vision tower of the dual encoder.

``python -m capbench.recipes.shapes.captioner --encoder FOLDER --output FOLDER``

First the tower and the projector learn what each patch shows and when that is told; then all learns to write.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...tasks.shapes.sampling import SPLITS, sample_scene
from .architecture import HEAD, IMAGE_SIZE, MEAN, PATCH, STD
from .arguments import run
from .captioner_losses import MIX, LabelledPicture, described, losses, make_probes, patches_loss
from .together import optimise

if TYPE_CHECKING:
    import torch
    from transformers import CLIPVisionConfig, LlavaForConditionalGeneration, LlavaProcessor, PreTrainedTokenizerFast

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


def make_processor(texts: Iterable[str]) -> LlavaProcessor:
    """Return the processor: pictures squashed to the tower's size, LLaVA's conversation, a tokenizer of the texts.

    Args:
        texts: Instructions and captions; each of their words becomes a token. All bytes are tokens too, so that
            none is unknown.
    """
    from transformers import CLIPImageProcessor, LlavaProcessor

    side = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    return LlavaProcessor(
        CLIPImageProcessor(size=side, do_center_crop=False, image_mean=MEAN, image_std=STD),
        _make_tokenizer(texts),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    )


def _make_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

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
        processor: Says how many tokens there are.
        vision: The tower's architecture.
        seed: Other seeds give other weights.
    """
    import torch
    from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    torch.manual_seed(seed)
    tokenizer: Any = processor.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    text = LlamaConfig(
        hidden_size=_WIDTH,
        intermediate_size=3 * _WIDTH,
        num_hidden_layers=_LAYERS,
        num_attention_heads=_WIDTH // HEAD,
        num_key_value_heads=_WIDTH // HEAD,
        vocab_size=len(tokenizer),
        max_position_embeddings=_MOST_TOKENS,
        **special,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids(_IMAGE),
        # All of the tower's layers, where LLaVA-1.5 leaves out the last.
        vision_feature_layer=-1,
        image_seq_length=(IMAGE_SIZE // PATCH) ** 2,
    )
    model = LlavaForConditionalGeneration(config)
    for name, number in special.items():
        setattr(model.generation_config, name, number)
    return model


def write_captioner(model: LlavaForConditionalGeneration, processor: LlavaProcessor, folder: Path) -> None:
    """Write the model in half precision, and its processor.

    Args:
        model: The model; it is changed to half precision.
        processor: Its processor.
        folder: Made if it is not there.
    """
    model.half().save_pretrained(folder)
    processor.save_pretrained(folder)


_MIXED = 0.2
"""Share of the steps, the last ones, that have all instructions."""
_TOLD = 2000
"""Scenes whose texts make the tokenizer."""


@dataclass(frozen=True)
class CaptionerTraining:
    """How the captioner is trained.

    Attributes:
        warm_up: Steps in which the tower and the projector learn what each patch shows.
        warm_up_batch: Pictures in each of them, of all processes together.
        steps: Steps after these, in which all learns to write.
        batch: Pictures in each of them.
        pictures: How many pictures are drawn.
        warm_up_rate: The highest learning rate of the warm-up.
        rate: That of the steps after it.
        tower_rate: That of the tower in these.
        seed: Other seeds give other weights.
        processes: How many train together; two with a thread each are faster than one with two threads.
    """

    warm_up: int = 250
    warm_up_batch: int = 128
    steps: int = 2700
    batch: int = 32
    pictures: int = 30_000
    warm_up_rate: float = 1.5e-3
    rate: float = 2e-3
    tower_rate: float = 1e-3
    seed: int = 0
    processes: int = 2


def train(settings: CaptionerTraining, encoder: Path, folder: Path) -> None:
    """Train the captioner and write it.

    Args:
        settings: How it is trained.
        encoder: Folder of the dual encoder.
        folder: Where the captioner's files go.
    """
    from torch.multiprocessing.spawn import spawn

    with tempfile.TemporaryDirectory() as shared:
        spawn(_work, (settings, encoder, folder, f"file://{shared}/store"), settings.processes)


def _work(rank: int, settings: CaptionerTraining, encoder: Path, folder: Path, store: str) -> None:
    """Be one of the processes: each has its own pictures, and all take each step together."""
    import torch
    from torch import distributed
    from transformers import CLIPModel

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=settings.processes)
    rng = np.random.default_rng((settings.seed, rank))
    seeds = SPLITS["train"][: settings.pictures][rank :: settings.processes]
    pictures = [LabelledPicture.of(sample_scene(seed)) for seed in seeds]
    processor = world_processor()
    clip = CLIPModel.from_pretrained(encoder, dtype=torch.float32)
    model = make_captioner(processor, clip.vision_model.config, settings.seed)
    model.model.vision_tower.load_state_dict(clip.vision_model.state_dict())
    # For sequences as short as these the plain product has the faster gradient.
    model.set_attn_implementation({"vision_config": "eager", "text_config": "eager"})
    probes = make_probes(model)

    def chosen(number: int) -> list[LabelledPicture]:
        return [pictures[at] for at in rng.integers(len(pictures), size=number // settings.processes)]

    tower, projector = model.model.vision_tower, model.model.multi_modal_projector
    optimise(
        [(_parameters(tower, projector, probes["patches"]), settings.warm_up_rate)],
        lambda: {"patches": patches_loss(model, probes, chosen(settings.warm_up_batch))},
        settings.warm_up,
        "warm-up",
    )
    # Descriptions first, as they are most of what there is to learn.
    mixes = chain(repeat({described: 1.0}, round((1 - _MIXED) * settings.steps)), repeat(MIX))
    optimise(
        [
            (_parameters(tower), settings.tower_rate),
            (_parameters(projector, model.model.language_model, model.lm_head, probes), settings.rate),
        ],
        lambda: losses(model, processor, probes, chosen(settings.batch), next(mixes), rng),
        settings.steps,
        "training",
    )
    if rank == 0:
        write_captioner(model, processor, folder)
    distributed.destroy_process_group()


def _parameters(*modules: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [one for module in modules for one in module.parameters()]


def world_processor() -> LlavaProcessor:
    """Return the processor, whose tokenizer is made from texts on pictures of the training split."""
    rng = np.random.default_rng(0)
    scenes = [sample_scene(seed) for seed in SPLITS["train"][:_TOLD]]
    texts = [part for scene in scenes for ask in MIX for part in ask(scene, rng)]
    return make_processor([f"USER: \n{text} ASSISTANT: {text}" for text in texts])


if __name__ == "__main__":
    run(
        "Train the captioner of the shapes world.", CaptionerTraining, train,
        encoder="the folder of the dual encoder", output="the folder that its files go to",
    )  # fmt: skip
