"""The contrastive trainer: pairs of images and texts, with additional positives and negatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import torch
from PIL import Image
from pydantic import AfterValidator, Field, model_validator
from torch.nn.functional import cross_entropy, normalize, softplus

from ...adapters import ImageHandle
from ...adapters.contracts import TrainableEncoder
from ...adapters.encoders.open_clip_transform import open_clip_transform
from ...adapters.images.reading import read_image
from ...adapters.images.transforms import ImageTransform, Prepared
from ...errors import UsageError
from .contract import VALIDATION_SEED, TrainingCall
from .loop import SteppedTrainer
from .rows import Batches, BatchSample, BatchSampler, Rows, Sampler, TrainingRow, no_rows
from .schema import Positive, Recipe, Share, Strict
from .towers import Encoding, ImageReader, Inputs, pass_back, saved_bytes

Pooling = Literal["average", "hardest", "hardest_released"]
AreaShare = Annotated[float, Field(gt=0, le=1)]
NegativesLoss = Literal["none", "bce", "negclip", "pairwise"]
_RATIOS = math.log(3 / 4), math.log(4 / 3)
_TRIALS = 10


@dataclass(frozen=True)
class RandomView(ImageHandle):
    """A random crop of an image.

    Attributes:
        seed: Decides the crop.
    """

    seed: tuple[int, ...] = ()


def random_crop(image: Image.Image, size: int, shares: tuple[float, float], rng: np.random.Generator) -> Image.Image:
    """Return a random crop of an image as a square, by the rule of torchvision's ``RandomResizedCrop``.

    Of ten crops with a random share of the area and a random ratio from 3:4 to 4:3 the first is taken that lies within
    the image; if none does, the largest in its middle with such a ratio.

    Args:
        image: The image.
        size: Pixels a side of the square.
        shares: The least and the greatest share of the area that a crop keeps.
        rng: The source of random numbers.
    """
    width, height = image.size
    for _ in range(_TRIALS):
        area, ratio = width * height * rng.uniform(*shares), math.exp(rng.uniform(*_RATIOS))
        wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < tall <= height:
            left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - tall + 1))
            break
    else:
        least, greatest = (math.exp(end) for end in _RATIOS)
        wide, tall = min(width, round(height * greatest)), min(height, round(width / least))
        left, top = (width - wide) // 2, (height - tall) // 2
    return image.crop((left, top, left + wide, top + tall)).resize((size, size), Image.Resampling.BICUBIC)


def info_nce(pairs: torch.Tensor) -> torch.Tensor:
    """Return the mean of the cross entropies of both directions; the right partner is on the diagonal.

    Source: CLIP (Radford et al. 2021, figure 3); PAC-S++ equations 1 and 2.

    Args:
        pairs: ``[b, b]``.
    """
    own = torch.arange(len(pairs), device=pairs.device)
    return (cross_entropy(pairs, own) + cross_entropy(pairs.T, own)) / 2


def pooled(similarities: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Return one similarity of each image with each row's captions.

    ``average`` is their mean, the default of DCI's code. ``hardest`` follows DCI's paper: of an
    image's own captions the least similar, of others' the most similar. ``hardest_released`` follows its code: the
    most similar throughout, since it pools before it selects the own ones (loss.py, ``clip_loss``).

    Args:
        similarities: ``[b, n, m]``.
        pooling: How.

    Returns:
        ``[b, n]``.
    """
    if pooling == "average":
        return similarities.mean(2)
    most = similarities.amax(2)
    if pooling == "hardest_released":
        return most
    own = torch.eye(*most.shape, dtype=torch.bool, device=most.device)
    return torch.where(own, similarities.amin(2), most)


def pooled_positives(similarities: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Return the similarity of each image with its own captions, for losses of negatives.

    Here DCI's code takes the least similar where it takes the hardest, as its paper says.

    Args:
        similarities: ``[b, b, m]``.
        pooling: How.

    Returns:
        ``[b]``.
    """
    return pooled(similarities, "average" if pooling == "average" else "hardest").diagonal()


def negatives_bce(positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
    """Return the binary cross entropy of similarities that should be 1 and 0, as numbers on their own.

    Source: DCI, loss.py, ``negatives_loss_pairwise``: it pulls similarities to either side of 0, and ranks no pairs.

    Args:
        positive: ``[b]``.
        negative: ``[b]``.
    """
    return (softplus(-positive) + softplus(negative)).mean() / 2


def negatives_pairwise(positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of choosing the true text of the two.

    Args:
        positive: ``[b]``.
        negative: ``[b]``.
    """
    return softplus(negative - positive).mean()


def negclip(pairs: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
    """Return InfoNCE in which images choose among false texts too.

    Source: NegCLIP (Yuksekgonul et al. 2023), src/open_clip/loss.py: images choose among true and false texts of all
    rows, true texts among images; the mean of both.

    Args:
        pairs: ``[b, b]``: images with true texts.
        negatives: ``[b, n]``: images with false texts.
    """
    own = torch.arange(len(pairs), device=pairs.device)
    of_images = cross_entropy(torch.cat([pairs, negatives], dim=1), own)
    return (of_images + cross_entropy(pairs.T, own)) / 2


def _require_others(batch: int) -> int:
    if batch < 2:
        raise ValueError(
            f"a contrastive loss needs 2 rows or more, not {batch}; a smaller 'piece' saves memory instead"
        )
    return batch


class ContrastiveSettings(Strict):
    """The objective of contrastive training: ``α CE + λv CE_v + λt CE_t + β N``."""

    batch: Annotated[int, AfterValidator(_require_others)]
    """Rows per step, over all processes; at least 2, as the other rows of a batch are negatives."""
    piece: Positive | None = None
    """Images or texts per forward pass; it does not change the batch."""
    sampler: Sampler = "random"
    """How rows are grouped into batches."""
    captions: Positive = 1
    """Number of captions per row and step; rows with fewer are left out."""
    pick: Literal["first", "random"] = "random"
    """Which captions of a row with more are used."""
    pooling: Pooling = "average"
    """How several captions of a row become one similarity; see ``pooled``."""
    each_caption: bool = False
    """Whether each caption is a separate row."""
    contrastive: Share = 1.0
    """α, the weight of InfoNCE."""
    further_images: Share = 0.0
    """λv, the weight of InfoNCE between additional images and captions."""
    further_texts: Share = 0.0
    """λt, the weight of InfoNCE between images and additional captions."""
    negatives: NegativesLoss = "none"
    """How a row's negatives enter the loss."""
    negatives_of: Literal["row", "caption"] = "row"
    """Which of them a step uses. ``row``: always the same, as in DCI. ``caption``: one of the caption that it draws, as
    in NegCLIP; a row then has the same number for each caption, in the order of captions."""
    negatives_weight: Share = 1.0
    """β, the weight of the loss of negatives; ``negclip`` has them in InfoNCE."""
    temperature: Annotated[float, Field(gt=0)] | Literal["model"] = "model"
    """τ, or the model's own, which is trained where its logit scale is."""
    prompt: str = ""
    """A prefix of each caption."""
    similar: bool = False
    """Whether each row with ``similar`` brings one of them, an image like its own, with its texts: NegCLIP's hard
    images, which ``batch`` does not count."""
    crop: tuple[AreaShare, AreaShare] | None = None
    """The least and the greatest share of an image's area that a random crop keeps, which is resized to a square; by
    default images are those of evaluation. See ``random_crop``."""

    @model_validator(mode="after")
    def _fits(self) -> ContrastiveSettings:
        if self.similar and self.each_caption:
            raise ValueError("'similar' names rows, and does not go with 'each_caption', which makes others of them")
        if self.crop and self.crop[0] > self.crop[1]:
            raise ValueError("crop: the least share exceeds the greatest")
        return self


class ContrastiveTrainer(SteppedTrainer):
    """Trains a dual encoder; see ``Trainer`` and ``ContrastiveSettings``.

    Sources: Sarto et al. 2024 (PAC-S++), equations 1-3; Urbanek et al. 2024 (DCI), section 5 and its train code;
    Yuksekgonul et al. 2023 (NegCLIP).

    Args:
        call: The training call.

    Raises:
        BenchError: The recipe, its data or its model are invalid.
    """

    Settings = ContrastiveSettings

    def __init__(self, call: TrainingCall) -> None:
        self._settings: ContrastiveSettings = call.loaded.settings(self.Settings)
        super().__init__(call)
        self._trainable = self.load_trainable(
            TrainableEncoder, "is not a dual encoder.", "The contrastive trainer requires one."
        )
        self._scale = self._scale_of(self._trainable, self.name)
        self._ks = {name: _places(name) for name in self.recipe.measure.metrics}
        transform = _transform(self.recipe, self._trainable)
        self._size = _size(transform) if self._settings.crop else 0
        self._reader = ImageReader(lambda image: self._prepared(transform, image), transform.collate)
        self.batches = self._batches_of(self.rows.rows, self.recipe.seed)
        if self.validation:
            self._watched = self._batches_of(self.validation, VALIDATION_SEED)
        self._drawing = self._drawing_of(self.recipe.seed)
        self._by_id = {row.id: row for row in self.rows.rows}

    def backward(self, step: int) -> dict[str, float]:
        """Add the gradients of a step; see ``Trainer.backward``."""
        drawn = self._drawn(step)
        self.module.train()
        encodings = self._encode(drawn, step, self._views(drawn, step))
        self._reader.ask(self.processes.part(self._views(self._drawn(step + 1), step + 1)))
        (images, own_images), (texts, own_texts) = self._gathered(drawn, encodings)
        scale = self._scale()
        held = scale.detach().requires_grad_(scale.requires_grad)
        parts = self._losses(drawn, images, texts, held)
        leaves = [own_images, own_texts, *([held] if held.requires_grad else [])]
        gradients = torch.autograd.grad(parts["loss"], leaves)
        pass_back(encodings, gradients[:2], self.parameters.values(), half=self.recipe.precision == "fp16")
        if held.requires_grad:
            # All processes compute the whole loss, and their gradients are summed.
            scale.backward(gradients[-1] / self.processes.count)
        self.processes.add_up(self.parameters.values())
        return {name: part.item() for name, part in parts.items()}

    def validate(self) -> dict[str, float]:
        """Validate by batches of fixed texts; see ``SteppedTrainer.validate``."""
        self.module.eval()
        drawing, losses = self._drawing_of(VALIDATION_SEED), []
        with torch.no_grad():
            for batch in range(self._watched.in_an_epoch):
                drawn = drawing.draw([self.validation[at] for at in self._watched.rows(batch)], None)
                (images, _), (texts, _) = self._gathered(drawn, self._encode(drawn, batch, drawn.images))
                losses.append(self._losses(drawn, images, texts, self._scale())["loss"].item())
        return {"validation_loss": sum(losses) / len(losses), **(self._recalls() if self._ks else {})}

    def _recalls(self) -> dict[str, float]:
        """Return ``recall@K`` among all validation rows, whose first captions count."""
        drawing, size = self._drawing_of(VALIDATION_SEED), self._settings.batch
        images, texts = list[torch.Tensor](), list[torch.Tensor]()
        with torch.no_grad():
            for start in range(0, len(self.validation), size):
                drawn = drawing.draw(self.validation[start : start + size], None)
                (seen, _), (read, _) = self._gathered(drawn, self._encode(drawn, start, drawn.images))
                images.append(normalize(seen[: len(drawn.rows)], dim=1))
                texts.append(normalize(read[: len(drawn.rows) * drawn.captions : drawn.captions], dim=1))
        similarities = torch.cat(images) @ torch.cat(texts).T
        return {name: recall(similarities, places) for name, places in self._ks.items()}

    def memory(self) -> dict[str, int]:
        """Return the memory of one piece of a step; see ``Trainer.memory``."""
        drawn = self._drawn(0)
        piece = self._settings.piece or max(len(drawn.images), len(drawn.texts))
        images, ids = self.processes.part(drawn.images)[:piece], self.processes.part(_ids(drawn))[:piece]
        texts = self._text_inputs(self.processes.part(drawn.texts)[:piece])
        pixels = self._reader.read(images, ids)
        with self.lower():
            both = lambda: (self._trainable.encode_images(pixels), self._trainable.encode_texts(texts))  # noqa: E731
            return {"activations": saved_bytes(self.module, both)}

    def usable(self, rows: Rows) -> Rows:
        """Return the rows that the objective can use, one per caption with ``each_caption``; see ``Trainer.usable``."""
        settings = self._settings
        for kind, weight, key in (
            ("further_images", settings.further_images, "objective.further_images"),
            ("further_captions", settings.further_texts, "objective.further_texts"),
            ("negatives", settings.negatives != "none", "objective.negatives"),
            ("similar", settings.similar, "objective.similar"),
        ):
            if weight and not any(getattr(row, kind) for row in rows.rows):
                raise UsageError(f"{key} needs {kind}, but no row has any.", "Add them to the data, or remove the key.")
        chosen, left_out = list(rows.rows), dict(rows.left_out)
        own = settings.negatives_of == "caption"
        if own:
            uneven = {
                row.id: f"has {len(row.negatives)} negatives, and not as many for each of {len(row.captions)} captions"
                for row in chosen
                if row.captions and len(row.negatives) % len(row.captions)
            }
            left_out |= uneven
            chosen = [row for row in chosen if row.id not in uneven]
            if not chosen:
                raise no_rows("data: no row can be used with objective.negatives_of: caption", left_out)
        if settings.each_caption:
            chosen = [
                replace(
                    row,
                    id=f"{row.id}#{number}",
                    captions=(caption,),
                    negatives=row.negatives_of(number) if own else row.negatives,
                )
                for row in chosen
                for number, caption in enumerate(row.captions)
            ]
        few = [row for row in chosen if len(row.captions) < settings.captions]
        left_out |= {row.id: f"has {len(row.captions)} captions of {settings.captions}" for row in few}
        chosen = [row for row in chosen if len(row.captions) >= settings.captions]
        if settings.similar:
            ids = {row.id for row in chosen}
            left_out |= {
                f"{row.id}, similar": f"'{name}' is no row that can be used"
                for row in chosen
                for name in row.similar
                if name not in ids
            }
            chosen = [replace(row, similar=tuple(name for name in row.similar if name in ids)) for row in chosen]
        return Rows(chosen, left_out)

    def _batches_of(self, rows: Sequence[TrainingRow], seed: int) -> Batches:
        settings = self._settings
        size = min(settings.batch, len(rows)) if rows is self.validation else settings.batch
        if size < 2 or len(rows) < size:
            raise UsageError(
                f"data: {len(rows)} rows with {settings.captions} captions are less than a batch of {max(size, 2)}.",
                "Add rows, or set a smaller objective.batch.",
            )
        return Batches([row.group for row in rows], size, settings.sampler, seed)

    def _drawing_of(self, seed: int) -> BatchSampler:
        settings = self._settings
        return BatchSampler(
            settings.captions, settings.pick, settings.negatives != "none", settings.further_images > 0,
            settings.further_texts > 0, settings.prompt, seed, settings.negatives_of == "caption",
        )  # fmt: skip

    def _drawn(self, step: int) -> BatchSample:
        rows = self.rows_of(step)
        if self._settings.similar:
            rows += [self._by_id[name] for name in self._drawing.similar(rows, step)]
        return self._drawing.draw(rows, step)

    def _views(self, drawn: BatchSample, step: int) -> Sequence[ImageHandle]:
        """Return the images of a step as it looks at them."""
        if self._settings.crop is None:
            return drawn.images
        seed = self.recipe.seed
        return [RandomView(image.source, image.box, (seed, step, at)) for at, image in enumerate(drawn.images)]

    def _prepared(self, transform: ImageTransform, image: ImageHandle) -> Prepared:
        if self._settings.crop is None or not isinstance(image, RandomView):
            return transform.read(image)
        read, rng = read_image(image), np.random.default_rng(image.seed)
        cropped = random_crop(read.image.convert("RGB"), self._size, self._settings.crop, rng)
        return replace(transform.of_frame(cropped), remarks=read.remarks, handle=image)

    def _encode(self, drawn: BatchSample, step: int, views: Sequence[ImageHandle]) -> tuple[Encoding, Encoding]:
        """Encode this process' part of the images and of the texts."""
        part, piece = self.processes.part, self._settings.piece
        images = self._reader.read(part(views), part(_ids(drawn)))
        seeds = [(self.recipe.seed, step, kind, self.processes.number) for kind in (0, 1)]
        return (
            Encoding(self._trainable.encode_images, images, piece, self.lower, seeds[0]),
            Encoding(self._trainable.encode_texts, self._text_inputs(part(drawn.texts)), piece, self.lower, seeds[1]),
        )

    def _gathered(
        self, drawn: BatchSample, encodings: tuple[Encoding, Encoding]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the features of all images and of all texts, each with this process' part."""
        counts = len(drawn.images), len(drawn.texts)
        return [self.processes.whole(part.features, count) for part, count in zip(encodings, counts, strict=True)]

    def _text_inputs(self, texts: Sequence[str]) -> Inputs:
        inputs = self._trainable.text_inputs(texts)
        return {name: value.to(self._trainable.device) for name, value in inputs.items()}

    def _scale_of(self, trainable: TrainableEncoder, name: str) -> Callable[[], torch.Tensor]:
        """Return a function that gives the scale of cosines."""
        if self._settings.temperature != "model":
            fixed = torch.tensor(1 / self._settings.temperature, device=trainable.device)
            return lambda: fixed
        logarithm = getattr(trainable.module, "logit_scale", None)
        if not isinstance(logarithm, torch.Tensor):
            raise UsageError(f"{name} has no logit scale.", "Set objective.temperature to a number.")
        return lambda: logarithm.exp()

    def _losses(
        self, drawn: BatchSample, images: torch.Tensor, texts: torch.Tensor, scale: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Return the loss and its parts.

        Args:
            drawn: The samples of the step.
            images: ``[n, d]`` features of its images.
            texts: ``[m, d]`` of its texts.
            scale: The factor of cosines.
        """
        settings, count = self._settings, len(drawn.rows)
        images, texts = normalize(images, dim=1), scale * normalize(texts, dim=1)
        captions, negatives, further = texts.split(
            [count * drawn.captions, len(drawn.with_negative), len(drawn.with_text)]
        )
        by_row = (images @ captions.T).unflatten(1, (count, drawn.captions))
        own = by_row[:count]
        pairs = pooled(own, settings.pooling)
        parts: dict[str, torch.Tensor] = {}
        weights = settings.model_dump() | {"negatives": settings.negatives_weight}
        if settings.negatives == "negclip":
            parts["contrastive"] = negclip(pairs, images[:count] @ negatives.T)
        else:
            parts["contrastive"] = info_nce(pairs)
        # A single one has no other to be compared with.
        if len(drawn.with_image) > 1:
            parts["further_images"] = info_nce(pooled(by_row[count:, drawn.with_image], settings.pooling))
        if len(drawn.with_text) > 1:
            parts["further_texts"] = info_nce(images[drawn.with_text] @ further.T)
        if drawn.with_negative and settings.negatives != "negclip":
            loss = negatives_bce if settings.negatives == "bce" else negatives_pairwise
            false = (images[drawn.with_negative] * negatives).sum(1)
            parts["negatives"] = loss(pooled_positives(own, settings.pooling)[drawn.with_negative], false)
        total = torch.stack([weights[name] * value for name, value in parts.items()]).sum()
        return {"loss": total, **parts}


def recall(similarities: torch.Tensor, places: int) -> float:
    """Return the share of images and of texts that have the right partner among the nearest, the mean of both.

    Args:
        similarities: ``[n, n]``; the right partner is on the diagonal. Of equal ones the right one comes last.
        places: How many are the nearest.
    """
    others = similarities.masked_fill(torch.eye(len(similarities), dtype=torch.bool, device=similarities.device), -9.0)
    own = similarities.diagonal()
    before = torch.stack([(others >= own[:, None]).sum(1), (others >= own[None]).sum(0)])
    return (before < places).double().mean().item()


def _places(metric: str) -> int:
    name, _, places = metric.partition("@")
    if name != "recall" or not places.isdecimal() or not int(places):
        raise UsageError(
            f"measure.metrics: '{metric}' is no metric of an encoder in training.", "Name such as recall@1 or recall@5."
        )
    return int(places)


def _size(transform: ImageTransform) -> int:
    """Return the pixels a side of the square that a model sees."""
    inputs, _ = transform.collate([transform.of_frame(Image.new("RGB", (8, 8)))])
    shapes = {tuple(value.shape[-2:]) for value in inputs.values() if value.ndim == 4}
    if len(shapes) != 1 or len(sides := set(shapes.pop())) != 1:
        raise UsageError("objective.crop: the model sees no squares.", "Remove the key.")
    return sides.pop()


def _ids(drawn: BatchSample) -> list[str]:
    """Return the id of the row of each image."""
    ids = [row.id for row in drawn.rows]
    return ids + [ids[number] for number in drawn.with_image]


def _transform(recipe: Recipe, trainable: TrainableEncoder) -> ImageTransform:
    """Return the image transform of the model that will read the result."""
    if recipe.result != "pac":
        return trainable.transform
    size = trainable.module.get_parameter("visual.positional_embedding").shape[0] - 1
    patch = trainable.module.get_submodule("visual.conv1").kernel_size
    return open_clip_transform({"size": round(size**0.5) * int(patch[0])}, "exact", trainable.device)  # pyrefly: ignore[bad-index]
