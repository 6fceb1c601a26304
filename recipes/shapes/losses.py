"""What the dual encoder is trained for: batches of pictures with true and false texts, and the losses on them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from open_clip import CLIP
from torch.nn import functional
from torch.nn.functional import cross_entropy
from transformers import CLIPTokenizer

from ...tasks.shapes.scene import BACKGROUNDS
from ..training.contrastive import info_nce
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
"""How much more a fact that holds weighs than one that does not, of which there are many."""


def true_text_of(view: View, rng: np.random.Generator) -> str:
    """Return a text that is true of a view."""
    return clip_text(view.clip, rng) if view.clip else true_text(view.scene, view.things, rng)


def encode_texts(model: CLIP, ids: torch.Tensor) -> torch.Tensor:
    """Return features ``[b, d]`` of texts ``[b, n]``; those of like length are encoded together."""
    order = ids.argmax(1).argsort()
    found = [text_features(model, ids[part, : int(ids[part].argmax(1).max()) + 1]) for part in order.chunk(_PIECES)]
    return torch.cat(found)[order.argsort()]


def make_probes(sizes: TowerSizes = LARGE) -> torch.nn.ModuleDict:
    """Return what predicts from states of patches what they show, and from features which facts hold.

    Both are thrown away after training.
    """
    facts = torch.nn.Linear(sizes.dimension, len(FACTS))
    # Features have norm 1.
    torch.nn.init.normal_(facts.weight, std=1.0)
    return torch.nn.ModuleDict({"patches": torch.nn.Linear(sizes.width, sum(_CLASSES)), "facts": facts})


def mean_cross_entropy(predicted: torch.Tensor, labels: torch.Tensor, classes: Sequence[int]) -> torch.Tensor:
    """Return how badly labels of several kinds are told: the mean over kinds of their mean cross entropies.

    Args:
        predicted: ``[n, sum of classes]``, the kinds side by side.
        labels: ``[n, kinds]`` int64; what is -100 is not asked for.
        classes: How many there are of each kind.
    """
    parts = predicted.split(list(classes), dim=1)
    return torch.stack([cross_entropy(part, labels[:, kind]) for kind, part in enumerate(parts)]).mean()


def patches_loss(predicted: torch.Tensor, labels: Sequence[np.ndarray], classes: Sequence[int]) -> torch.Tensor:
    """Return how badly what patches show is told.

    Args:
        predicted: ``[b, patches, sum of classes]``.
        labels: ``[kinds, patches]`` of each picture.
        classes: How many there are of each kind.
    """
    true = torch.from_numpy(np.stack(labels)).long().transpose(1, 2)
    return mean_cross_entropy(predicted.flatten(0, 1), true.flatten(0, 1), classes)


def dense_loss(model: CLIP, probes: torch.nn.ModuleDict, views: Sequence[View]) -> torch.Tensor:
    """Return how badly the states of patches tell what each shows."""
    with torch.autocast("cpu", torch.bfloat16):
        states = image_features(model, normalised([view.pixels for view in views]))[1]
    return patches_loss(probes["patches"](states.float()), [view.labels for view in views], _CLASSES)


def losses(
    model: CLIP, probes: torch.nn.ModuleDict, views: Sequence[View], tokenizer: CLIPTokenizer, rng: np.random.Generator
) -> dict[str, torch.Tensor]:
    """Return the losses on views with texts, for each two true ones and two that were made false of them.

    Returns:
        ``dense``: how badly the states of patches tell what each shows. ``facts``: how badly a probe, the same
        for both, tells from features of views and of texts which facts hold. ``kernel``: how far cosines of views
        and texts are from those of their facts, over all pairs and over pairs of a view with its own texts.
        ``image`` and ``text``: contrastive losses of both directions; a text that is true of another view too is
        not held against it. ``hard``: that of a true text and the false one made of it. ``accuracy``: how often
        the true one is nearer to the view.
    """
    said: list[str] = []
    for view in views:
        true = [true_text_of(view, rng) for _ in range(_TRUE)]
        said += [*true, *(false_text(text, view.things, rng) for text in true)]
    # [b, facts] and [4 b, facts], 1 where a fact holds in a view, or a text states it.
    in_views = torch.from_numpy(np.stack([facts_of_things(v.things, v.scene.background) for v in views])).float()
    in_texts = torch.from_numpy(np.stack([facts_of_text(text) for text in said])).float()
    # The towers alone: small differences of cosines would be lost in bfloat16.
    with torch.autocast("cpu", torch.bfloat16):
        images, patches = image_features(model, normalised([view.pixels for view in views]))
        texts = encode_texts(model, token_ids(tokenizer, said))
    images = functional.normalize(images.float(), dim=1)
    texts = functional.normalize(texts.float(), dim=1)
    cosines = images @ texts.T
    logits = cosines * model.logit_scale.exp().clamp(max=_LARGEST_SCALE)
    own = torch.arange(len(texts)).reshape(len(images), _TEXTS)
    holds = (1 - in_views) @ in_texts.T == 0
    # Which share of weighted facts views and texts have in common, as a cosine.
    weights = torch.from_numpy(WEIGHTS)
    shared = (in_views * weights) @ in_texts.T
    norms = (in_views @ weights)[:, None] * (in_texts @ weights)[None]
    gap = (cosines - shared / norms.sqrt().clamp(min=1e-6)) ** 2
    # What is true is not held against a view.
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
