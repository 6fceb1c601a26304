"""Losses of the dual encoder on batches of pictures with true and false texts."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from open_clip import CLIP
from torch.nn import functional
from torch.nn.functional import cross_entropy
from transformers import CLIPTokenizer

from ....tasks.shapes.scene import BACKGROUNDS
from ...training.contrastive import info_nce
from .clip import LARGE, TowerSizes, image_features, normalised, text_features, token_ids
from .pool import PROPERTIES, View
from .texts import FACTS, WEIGHTS, clip_text, facts_of_text, facts_of_things, false_text, true_text

LOSSES = {"dense": 1.0, "kernel": 5.0, "image": 1.0, "text": 1.0, "hard": 1.0, "facts": 3.0}
"""The weight of each loss; see :func:`losses`."""

_CLASSES = [*(1 + len(values) for _, values in PROPERTIES), len(BACKGROUNDS)]
_TRUE = 2
_TEXTS = 2 * _TRUE
_PIECES = 3
_LARGEST_SCALE = 50
_HELD = 4.0
"""Weight of a fact that holds, relative to the many that do not."""


def true_text_of(view: View, rng: np.random.Generator) -> str:
    """Return a text that is true of a view."""
    return clip_text(view.clip, rng) if view.clip else true_text(view.scene, view.things, rng)


def encode_texts(model: CLIP, ids: torch.Tensor) -> torch.Tensor:
    """Return features ``[b, d]`` of texts ``[b, n]``; texts of similar length are encoded together."""
    order = ids.argmax(1).argsort()
    parts = [text_features(model, ids[part, : int(ids[part].argmax(1).max()) + 1]) for part in order.chunk(_PIECES)]
    return torch.cat(parts)[order.argsort()]


def make_probes(sizes: TowerSizes = LARGE) -> torch.nn.ModuleDict:
    """Return probes that predict the content of patches from their states, and facts from features.

    They are not part of the written model.
    """
    facts = torch.nn.Linear(sizes.dimension, len(FACTS))
    # Features have norm 1.
    torch.nn.init.normal_(facts.weight, std=1.0)
    return torch.nn.ModuleDict({"patches": torch.nn.Linear(sizes.width, sum(_CLASSES)), "facts": facts})


def mean_cross_entropy(predicted: torch.Tensor, labels: torch.Tensor, classes: Sequence[int]) -> torch.Tensor:
    """Return the mean over kinds of labels of their mean cross entropies.

    Args:
        predicted: ``[n, sum of classes]``, the kinds concatenated.
        labels: ``[n, kinds]`` int64; -100 is ignored.
        classes: Number of classes of each kind.
    """
    parts = predicted.split(list(classes), dim=1)
    return torch.stack([cross_entropy(part, labels[:, kind]) for kind, part in enumerate(parts)]).mean()


def patches_loss(predicted: torch.Tensor, labels: Sequence[np.ndarray], classes: Sequence[int]) -> torch.Tensor:
    """Return the cross entropy of the content of patches; see :func:`mean_cross_entropy`.

    Args:
        predicted: ``[b, patches, sum of classes]``.
        labels: ``[kinds, patches]`` of each picture.
        classes: Number of classes of each kind.
    """
    true = torch.from_numpy(np.stack(labels)).long().transpose(1, 2)
    return mean_cross_entropy(predicted.flatten(0, 1), true.flatten(0, 1), classes)


def dense_loss(model: CLIP, probes: torch.nn.ModuleDict, views: Sequence[View]) -> torch.Tensor:
    """Return the cross entropy of the content of patches, predicted from their states."""
    with torch.autocast("cpu", torch.bfloat16):
        states = image_features(model, normalised([view.pixels for view in views]))[1]
    return patches_loss(probes["patches"](states.float()), [view.labels for view in views], _CLASSES)


def losses(
    model: CLIP, probes: torch.nn.ModuleDict, views: Sequence[View], tokenizer: CLIPTokenizer, rng: np.random.Generator
) -> dict[str, torch.Tensor]:
    """Return the losses on views, each with two true texts and a false variant of each.

    Returns:
        ``dense``: cross entropy of the content of patches. ``facts``: loss of a shared probe that predicts facts from
        features of views and of texts. ``kernel``: difference between the cosines of features and those of facts,
        over all pairs and over pairs of a view with its texts. ``image`` and ``text``: contrastive losses of both
        directions; a text that is also true of another view is not a negative of it. ``hard``: contrastive loss of
        a true text and its false variant. ``accuracy``: share of true texts with a higher score than their
        false variant.
    """
    said: list[str] = []
    for view in views:
        true = [true_text_of(view, rng) for _ in range(_TRUE)]
        said += [*true, *(false_text(text, view.things, rng) for text in true)]
    # [b, facts] and [4 b, facts], 1 where a fact holds in a view, or a text states it.
    in_views = torch.from_numpy(np.stack([facts_of_things(v.things, v.scene.background) for v in views])).float()
    in_texts = torch.from_numpy(np.stack([facts_of_text(text) for text in said])).float()
    # Only the towers use bfloat16, which would lose small differences of cosines.
    with torch.autocast("cpu", torch.bfloat16):
        images, patches = image_features(model, normalised([view.pixels for view in views]))
        texts = encode_texts(model, token_ids(tokenizer, said))
    images = functional.normalize(images.float(), dim=1)
    texts = functional.normalize(texts.float(), dim=1)
    cosines = images @ texts.T
    logits = cosines * model.logit_scale.exp().clamp(max=_LARGEST_SCALE)
    own = torch.arange(len(texts)).reshape(len(images), _TEXTS)
    holds = (1 - in_views) @ in_texts.T == 0
    # The cosine of the weighted facts of views and texts.
    weights = torch.from_numpy(WEIGHTS)
    shared = (in_views * weights) @ in_texts.T
    norms = (in_views @ weights)[:, None] * (in_texts @ weights)[None]
    gap = (cosines - shared / norms.sqrt().clamp(min=1e-6)) ** 2
    # True texts of other views are not negatives.
    false = logits.masked_fill(holds, -math.inf)
    true = logits.gather(1, own[:, :_TRUE])
    changed = logits.gather(1, own[:, _TRUE:])
    is_false = ~holds.gather(1, own[:, _TRUE:])
    against_text = false[:, own[:, :_TRUE].flatten()].logsumexp(0).reshape(true.shape)
    probed = probes["facts"](torch.cat([images, texts]))
    return {
        "dense": patches_loss(probes["patches"](patches.float()), [view.labels for view in views], _CLASSES),
        "kernel": gap.mean() + gap.gather(1, own).mean(),
        "image": functional.softplus(false.logsumexp(1, keepdim=True) - true).mean(),
        "text": functional.softplus(against_text - true).mean(),
        "hard": (functional.softplus(changed - true) * is_false).sum() / is_false.sum(),
        "accuracy": ((true > changed) * is_false).sum() / is_false.sum(),
        "facts": functional.binary_cross_entropy_with_logits(
            probed, torch.cat([in_views, in_texts]), pos_weight=torch.tensor(_HELD)
        ),
    }


def contrast(model: CLIP, images: torch.Tensor, texts: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the contrastive loss of images and the texts on each, ``[b, d]`` features of norm 1."""
    return {"contrast": info_nce(images @ texts.T * model.logit_scale.exp().clamp(max=100))}
