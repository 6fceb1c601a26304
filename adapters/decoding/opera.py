"""OPERA: beams whose attention piles up on one token are penalised, and the search returns to where that began.

Huang et al.: OPERA: Alleviating Hallucination in Multi-Modal Large Language Models via Over-Trust Penalty and
Retrospection-Allocation, CVPR 2024. What is done is what released code does (61426ef, ``opera_beam_search``), which its
tests hold it to:

- Probabilities are of the candidates alone: with a weight of 0 it is still no beam search.
- Where the search returned to, the next token is chosen from the whole vocabulary, without a penalty.
- What was completed since the first return to a place stays when the search returns there again.

What is otherwise:

- The tokens of the image are those that the model's configuration names, wherever they lie; released code counts them
  from a start and, for InstructBLIP, is off by one.
- Attention is weighed in 32 bits, regardless of the model's precision.
- A return that fails is an error, where released code goes on with half of it done.

Over-trust: captions attend too much to a token that only sums up earlier ones. Rows of attention are those of the last
layer, the largest of its heads, divided by their sum. With W the rows and columns of a caption's own tokens, times
``scale``, the trust in token j is ``1e-7 prod_{i >= j} W_ij``. The token with the most is the candidate's location.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError, UsageError
from .contract import PLAIN_REMEDY, CaptionSample, Decoder, Host, Written, first_pass
from .generating import NOT_FINITE

if TYPE_CHECKING:
    import torch


_EARLY = 10
"""Up to this number of tokens, attention to the image is rewarded instead; no search returns to these tokens."""
PRECISIONS = ("half", "log")
_UNIT = 1e-7
_MOST = 500.0
"""Largest logarithm of trust in log space: differences of its exponentials stay numbers of 64 bits."""
_LEFT_OUT = -999.0
"""Logit of a token that is not to be chosen."""
_LOWEST = -900.0
"""Least logit of a candidate in log space: above every token that is none."""


@dataclass(frozen=True)
class OverTrust:
    """The penalty, and its settings.

    Attributes:
        scale: What attention is multiplied by.
        weight: Of the penalty.
        threshold: A search returns when, in every beam, more steps than these had one location.
        candidates: Next tokens that are looked at in each beam; how often a search returns to one place.
        window: Maximum length of a return in tokens; a search returns only to the first ``window`` tokens.
        precision: ``half`` stores trust in 16 bits, as released: above 65,504 it is infinite, and where it is so of all
            candidates others are written; below 6e-8 it is 0. ``log`` does neither: sums of logarithms in 64 bits.

    Raises:
        UsageError: There is no such precision, or no candidate can be preferred to another.
    """

    scale: float = 50.0
    weight: float = 1.0
    threshold: int = 15
    candidates: int = 5
    window: int = 512
    precision: str = "half"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(f"opera_precision={self.precision} is not known.", f"Known are {', '.join(PRECISIONS)}.")
        if self.scale <= 0:
            raise UsageError(f"opera_scale={self.scale:g} is not above 0.", "The released value is 50.")

    def extended(self, products: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return the column products of W with one token more.

        Args:
            products: ``[..., k - 1]`` without it, or their logarithms in log space; ``[..., 0]`` for no token.
            rows: ``[..., k]`` attention of the token to its caption, itself included.

        Returns:
            ``[..., k]`` in the same form.
        """
        import torch

        scaled = self.scale * rows
        column = torch.zeros_like(scaled[..., :1])
        if self.precision == "log":
            scaled = scaled.double().log()
            return scaled + torch.cat([products.double(), column], -1)
        return scaled * torch.cat([products, column + 1], -1)

    def penalties(self, products: torch.Tensor, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return penalty and location of candidates.

        Args:
            products: ``[..., k]`` column products of W with the candidate's own row.
            images: ``[...]`` share of the candidate's attention that is on the image.

        Returns:
            ``[...]`` the trust in the location, or for a caption's first tokens minus the share of the image; and
            ``[...]`` the location, counted from 0, the first of those that have the most.
        """
        if self.precision == "log":
            trust, locations = (products + math.log(_UNIT)).max(-1)
            trust = trust.clamp(max=_MOST).exp()
        else:
            trust, locations = (_UNIT * products).half().max(-1)
        return (-images if products.shape[-1] <= _EARLY else trust), locations

    def penalised(self, logits: torch.Tensor, penalties: torch.Tensor) -> torch.Tensor:
        """Return logits of candidates less their penalties.

        In log space what is common to a beam's candidates is taken away first, which changes no probability.

        Args:
            logits: ``[B, C]``.
            penalties: ``[B, C]``.
        """
        if self.weight == 0:
            # Even of trust that overflows.
            return logits
        if self.precision != "log":
            return logits - (self.weight * penalties).to(logits.device)
        above = (penalties - penalties.amin(-1, keepdim=True)).to(logits.device)
        values = logits.double() - self.weight * above
        return (values - values.amax(-1, keepdim=True)).clamp(min=_LOWEST).to(logits.dtype)


class Retrospection:
    """When a search returns, where to, and what it may not choose there again.

    Args:
        settings: Those of the penalty.
    """

    def __init__(self, settings: OverTrust) -> None:
        self._settings = settings
        self._locations: list[torch.Tensor] = []
        self._returns: Counter[int] = Counter()
        self._rejected: dict[int, torch.Tensor] = {}

    def place(self, locations: torch.Tensor) -> int | None:
        """Take a step's locations, and return where the search goes back to.

        A beam's location is the commonest of its candidates, the smallest of several; that of the step the commonest
        of its beams. If a place was returned to as often as it may be, the one before is taken.

        Args:
            locations: ``[B, C]``.

        Returns:
            The number of tokens that stay; None where the search goes on.
        """
        import torch

        of_beams = locations.mode(-1).values
        self._locations.append(of_beams)
        common = int(of_beams.mode().values)
        alike = (torch.stack(self._locations, -1) == common).sum(-1)
        if common < _EARLY or not bool((alike > self._settings.threshold).all()):
            return None
        # To where the location is there, and what follows it is not.
        for place in (common + 1, common):
            if self._returns[place] < self._settings.candidates:
                too_far = len(self._locations) - place > self._settings.window
                if too_far or place >= self._settings.window - 1:
                    return None
                self._returns[place] += 1
                return place
        return None

    def forget(self, place: int) -> int:
        """Forget the steps behind a place, and return the number of tokens that stay.

        With a threshold below 2 a place may lie ahead of what can be chosen otherwise; then one choice is taken back.
        """
        length = len(self._locations)
        left = min(place, length - 2)
        # As released, later rejections are kept, except at the next place and at the window's end.
        end = self._settings.window - (length - place - 2)
        self._rejected = {at: flat for at, flat in self._rejected.items() if at < end and at != place + 1}
        del self._locations[left + 1 :]
        return left

    def rejecting(self, logits: torch.Tensor, place: int, parents: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits in which what was chosen at a place before is the least of all.

        Args:
            logits: ``[B, vocabulary]`` at the place.
            place: Where the search returned to.
            parents: ``[B]`` beams that were continued there when it was left last.
            tokens: ``[B]`` by which tokens.
        """
        import torch

        flat = parents * logits.shape[-1] + tokens
        self._rejected[place] = torch.cat([self._rejected.get(place, flat[:0]), flat])
        lifted = logits - (logits.amin(-1, keepdim=True) - _LEFT_OUT)
        return lifted.flatten().index_fill(0, self._rejected[place], _LEFT_OUT).view_as(lifted)


@dataclass
class Completed:
    """The best captions that were completed so far, as many as there are beams.

    Attributes:
        beams: How many these are.
        asked: Tokens of the instruction, which count in the length of a caption.
        length_penalty: Exponent of the length; above 0 it favours long captions.
        early_stopping: Whether the search ends as soon as ``beams`` captions are complete; else when none in progress
            can become better at its present length.
        captions: Each with its score: the sum of its log-probabilities, divided by its length to the power
            of ``length_penalty``.
        done: Whether the search has ended.
    """

    beams: int
    asked: int
    length_penalty: float = 1.0
    early_stopping: bool = False
    captions: list[tuple[float, Written]] = field(default_factory=list)
    done: bool = False

    def add(self, total: float, ids: Sequence[int], cut: bool) -> None:
        """Let a caption compete.

        Args:
            total: Sum of its log-probabilities.
            ids: Its tokens without the end token.
            cut: Whether it has none.
        """
        score = self._score(total, len(ids))
        if len(self.captions) == self.beams:
            worst = min(self.captions, key=itemgetter(0))
            if score <= worst[0]:
                return
            self.captions.remove(worst)
        self.captions.append((score, Written(list(ids), cut)))

    def choose(
        self, ranked: Sequence[tuple[float, int, int]], sequences: Sequence[Sequence[int]], ends: set[int]
    ) -> list[tuple[float, int, int]]:
        """Complete captions that end, and return the best of the others.

        A caption that ends is complete if it is among the best as many continuations as there are beams.

        Args:
            ranked: Score, beam and token of continuations, the best first; enough of them do not end.
            sequences: Tokens of each beam.
            ends: End tokens.
        """
        open_ones = []
        for rank, (total, beam, token) in enumerate(ranked):
            if token not in ends:
                open_ones.append((total, beam, token))
            elif rank < self.beams:
                self.add(total, sequences[beam], cut=False)
            if len(open_ones) == self.beams:
                break
        length = len(sequences[0]) + 1
        if len(self.captions) == self.beams:
            worst = min(score for score, _ in self.captions)
            self.done = self.early_stopping or worst >= self._score(ranked[0][0], length)
        return open_ones

    def best(self) -> Written:
        """Return the caption with the highest score, the last of several."""
        return max(reversed(self.captions), key=itemgetter(0))[1]

    def _score(self, total: float, length: int) -> float:
        return total / (self.asked + length) ** self.length_penalty


_ATTENTION = "capbench_watched"


@dataclass
class Watch:
    """Sees how the last layer attends, the largest of its heads."""

    weights: torch.Tensor | None = None
    """``[queries, keys]`` of the last pass through the model, or None."""
    on: bool = False
    """Whether it looks: an instruction would cost its length squared."""


@contextmanager
def watching(model: Any) -> Iterator[Watch]:
    """Watch the last layer's attention; every layer computes as it would without.

    Raises:
        AdapterError: The model is not decoder-only, or its attention is not the library's.
    """
    from transformers import AttentionInterface

    decoder = None if model.config.is_encoder_decoder else model.get_decoder()
    layers = [
        layer
        for layer in (() if decoder is None else decoder.modules())
        if hasattr(layer, "layer_idx") and hasattr(layer, "config")
    ]
    if not layers:
        raise AdapterError(
            f"decoding=opera cannot find the last layer's attention in {type(model).__name__}.", PLAIN_REMEDY
        )
    AttentionInterface.register(_ATTENTION, _attend)
    last = max(layers, key=lambda layer: layer.layer_idx)
    before, last.config = last.config, copy.copy(last.config)
    last.config._attn_implementation = _ATTENTION
    last.watch = Watch()
    try:
        yield last.watch
    finally:
        last.config = before
        del last.watch


def _attend(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **settings: Any
) -> Any:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if module.watch.on:
        # [1, heads, queries, d] and [1, heads or groups of them, keys, d], rotated; the mask is added.
        grouped = query.unflatten(1, (key.shape[1], -1))
        scores = grouped @ key[:, :, None].transpose(-1, -2) * settings["scaling"] + mask[:, :, None]
        module.watch.weights = scores.float().softmax(-1).flatten(1, 2).amax(1)[0]
    return sdpa_attention_forward(module, query, key, value, mask, **settings)


@dataclass(frozen=True)
class TreeOutput:
    """The model's output for tokens, n in each of B beams.

    Attributes:
        logits: ``[B, n, vocabulary]`` of the next token of each.
        rows: ``[B, n, k]`` share of the token's attention on each token of its caption, itself the last; on the CPU.
        images: ``[B, n]`` share on the image; on the CPU.
    """

    logits: torch.Tensor
    rows: torch.Tensor
    images: torch.Tensor


class TokenTree:
    """The model with its cache.

    Args:
        model: The model of transformers.
        input_ids: ``[1, prompt]``.
        settings: The inputs that ``generate`` prepared for a custom loop.
        watch: Of the last layer.

    Attributes:
        logits: ``[vocabulary]`` of the first token.
        asked: Tokens of the instruction; an image counts as one of them.

    Raises:
        AdapterError: Image tokens or positions are not known of the model, or its cache forgets.
    """

    def __init__(self, model: Any, input_ids: torch.Tensor, settings: Mapping[str, Any], watch: Watch) -> None:
        self._model = model
        self._watch = watch
        self._prompt = input_ids.shape[1]
        # No token is -1.
        self._images = (input_ids[0] == getattr(model.config, "image_token_id", -1)).nonzero()[:, 0]
        positions = settings.get("position_ids")
        if not len(self._images) or positions is None:
            raise AdapterError(f"decoding=opera cannot find the image tokens of {type(model).__name__}.", PLAIN_REMEDY)
        self._next = positions[..., -1:] + 1
        self.asked = self._prompt - len(self._images) + 1
        outputs, _ = first_pass(model, input_ids, settings)
        self.logits = outputs.logits[0, -1].float().to(input_ids.device)
        self._cache = outputs.past_key_values
        if any(layer.is_sliding for layer in self._cache.layers):
            raise AdapterError(
                f"decoding=opera needs the whole caption; {type(model).__name__} drops its beginning.", PLAIN_REMEDY
            )

    def read(self, tokens: torch.Tensor, past: torch.Tensor) -> TreeOutput:
        """Read tokens, which are then the last in the cache, beam by beam.

        Args:
            tokens: ``[B, n]``, each of them what could follow in its beam.
            past: ``[B, k - 1]`` where the tokens of each beam lie, counted from the instruction's end.
        """
        import torch

        beams, each = tokens.shape
        count, start = tokens.numel(), self._cache.get_seq_length()
        device = tokens.device
        places = (self._prompt + past).repeat_interleave(each, 0)
        own = start + torch.arange(count, device=device)[:, None]
        caption = torch.cat([places, own], 1)
        seen = torch.zeros(count, start + count, dtype=torch.bool, device=device)
        seen[:, : self._prompt] = True
        seen.scatter_(1, caption, True)
        hidden = torch.finfo(self._model.dtype).min
        mask = torch.zeros(seen.shape, dtype=self._model.dtype, device=device).masked_fill(~seen, hidden)
        at = self._next + past.shape[1]
        self._watch.on = True
        outputs = self._model(
            input_ids=tokens.view(1, -1),
            attention_mask=mask[None, None],
            position_ids=at.expand(*at.shape[:-1], count),
            past_key_values=self._cache,
            use_cache=True,
            return_dict=True,
        )
        self._watch.on = False
        weights = self._watch.weights
        if weights is None:
            raise AdapterError(f"decoding=opera cannot read {type(self._model).__name__}'s attention.", PLAIN_REMEDY)
        # A model may lie on several devices.
        weights = (weights / weights.sum(-1, keepdim=True)).to(device)
        rows = weights.gather(1, caption).view(beams, each, -1)
        images = weights[:, self._images].sum(-1).view(beams, each)
        return TreeOutput(outputs.logits[0].float().to(device).view(beams, each, -1), rows.cpu(), images.cpu())

    def keep(self, places: torch.Tensor, read: int) -> None:
        """Keep some of the tokens that were read last, in this order.

        Args:
            places: Which of them, counted from the first.
            read: How many were read.
        """
        for layer in self._cache.layers:
            for states in (layer.keys, layer.values):
                newest = states[..., -read:, :]
                newest[..., : len(places), :] = newest[..., places.to(newest.device), :]
        self._cache.crop(len(places) - read)

    def drop(self, length: int) -> None:
        """Keep ``length`` tokens behind the instruction."""
        self._cache.crop(self._prompt + length - self._cache.get_seq_length())


_OF_THE_SEARCH = ("length_penalty", "early_stopping")
"""Settings of ``generate`` that are for beams, which are searched here."""
_OVERFLOW = "the over-trust penalty is no number in half precision (opera_precision=log has it)"


@dataclass(frozen=True)
class Opera(Decoder):
    """Beam search with an over-trust penalty and returns.

    The instruction is read once, and each step reads the candidates of all beams in one pass, whose states those that
    are chosen keep. Samples are written one after another.

    Attributes:
        max_new_tokens: Tokens that a caption may have.
        beams: Width of the search, 2 at least.
        trust: The penalty and its settings, with as many candidates as beams at least.
        more: Additional settings of ``generate``, including ``length_penalty`` and ``early_stopping`` of the search.

    Raises:
        UsageError: Beams and candidates do not go together.
    """

    max_new_tokens: int
    beams: int = 5
    trust: OverTrust = field(default_factory=OverTrust)
    more: Mapping[str, Any] = field(default_factory=dict)

    takes_inputs = False

    def __post_init__(self) -> None:
        if self.beams < 2:
            raise UsageError(f"opera_beams={self.beams} is below 2.", "Set it to 2 or more, or leave it out.")
        if self.trust.candidates < self.beams:
            raise UsageError(
                f"opera_candidates={self.trust.candidates} is below opera_beams={self.beams}: beams would begin with "
                "tokens that are no candidates.",
                "Set it to opera_beams or more; with one candidate the penalty has no effect: use decoding=greedy.",
            )

    @property
    def rows(self) -> int:  # pyrefly: ignore[bad-override]
        """What a sample counts in a batch."""
        return self.beams

    def write(
        self, host: Host, samples: Sequence[CaptionSample], inputs: Mapping[str, torch.Tensor] | None = None
    ) -> list[Written]:
        """Write captions; see ``Decoder.write``.

        Raises:
            AdapterError: The model is not decoder-only, or its image tokens or attention are not found.
        """
        return [self._write(host, sample) for sample in samples]

    def _write(self, host: Host, sample: CaptionSample) -> Written:
        import torch

        inputs = host.inputs([sample])
        tokens = host.room(inputs, self.max_new_tokens)
        others = {key: value for key, value in self.more.items() if key not in _OF_THE_SEARCH}

        def loop(model: Any, input_ids: torch.Tensor, **settings: Any) -> Written:
            with searching(self, model, input_ids, settings, set(host.end_ids)) as search:
                return search.run(tokens)

        with torch.inference_mode():
            return host.generate(
                inputs,
                generation_config=host.generation_config(max_new_tokens=tokens, num_beams=1, **others),
                custom_generate=loop,
            )


@contextmanager
def searching(
    strategy: Opera, model: Any, input_ids: torch.Tensor, settings: Mapping[str, Any], ends: set[int]
) -> Iterator[OperaSearch]:
    """Read an instruction, and search with the model watched.

    Args:
        strategy: The strategy.
        model: The model of transformers.
        input_ids: ``[1, prompt]``.
        settings: The inputs that ``generate`` prepared for a custom loop.
        ends: Tokens that end a caption.

    Raises:
        AdapterError: The model is not decoder-only, or its image tokens or attention are not found.
    """
    with watching(model) as watch:
        tree = TokenTree(model, input_ids, settings, watch)
        yield OperaSearch(strategy, tree, input_ids, ends, settings["logits_processor"])


@dataclass(frozen=True)
class BeamState:
    """A search before a choice.

    Attributes:
        ids: ``[B, k]`` tokens so far.
        scores: ``[B]`` their log-probabilities, summed.
        past: ``[B, k]`` where they lie in the cache, counted from the instruction's end.
        products: ``[B, k]`` column products of their attention.
        parents: ``[B]`` beams before the last choice that they continue.
        completed: The complete captions.
    """

    ids: torch.Tensor
    scores: torch.Tensor
    past: torch.Tensor
    products: torch.Tensor
    parents: torch.Tensor
    completed: Completed


@dataclass(eq=False)
class OperaSearch:
    """One caption's search.

    Args:
        settings: The strategy.
        tree: The model, with the instruction read.
        asked: ``[1, prompt]`` the instruction.
        ends: Tokens that end a caption.
        processors: What log-probabilities pass, called with tokens and them.

    Attributes:
        penalties: ``[B, C]`` of each step.
        locations: ``[B, C]`` of each step.
        returns: Step to the number of tokens that stayed when the search returned.
    """

    settings: Opera
    tree: TokenTree
    asked: torch.Tensor
    ends: set[int]
    processors: Any
    penalties: list[torch.Tensor] = field(default_factory=list)
    locations: list[torch.Tensor] = field(default_factory=list)
    returns: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.asked = self.asked.expand(self.settings.beams, -1)
        self._retrospection = Retrospection(self.settings.trust)

    def run(self, tokens: int) -> Written:
        """Write a caption of at most ``tokens`` tokens."""
        import torch

        trust, beams = self.settings.trust, self.settings.beams
        state, completed = self._start()
        logits = self.tree.logits.expand(beams, -1)
        states: list[BeamState] = []
        while True:
            if not bool(torch.isfinite(logits.amax(-1)).all()):
                return Written([], False, NOT_FINITE)
            # A snapshot, which later captions do not change.
            states.append(replace(state, completed=replace(completed, captions=list(completed.captions))))
            likely = logits.topk(trust.candidates)
            seen = self.tree.read(likely.indices, state.past)
            products = trust.extended(state.products[:, None].expand(-1, trust.candidates, -1), seen.rows)
            penalties, locations = trust.penalties(products, seen.images)
            penalised = trust.penalised(likely.values, penalties)
            if bool(penalised.isnan().any()):
                return Written([], False, _OVERFLOW)
            self.penalties.append(penalties)
            self.locations.append(locations)
            place = self._retrospection.place(locations)
            if place is None:
                scores = torch.full_like(logits, _LEFT_OUT).scatter(-1, likely.indices, penalised)
            else:
                left = self._retrospection.forget(place)
                self.returns[len(self.penalties)] = left
                chosen_there = states[left + 1]
                del states[left + 1 :]
                state = states[-1]
                completed = state.completed
                scores = self._retrospection.rejecting(
                    self._read_again(state), place, chosen_there.parents, chosen_there.ids[:, -1]
                )
            chosen = completed.choose(self._ranked(state, scores), state.ids.tolist(), self.ends)
            total, parents, newest = (
                torch.tensor(values, device=logits.device) for values in zip(*chosen, strict=True)
            )
            ids = torch.cat([state.ids[parents], newest[:, None]], 1)
            if completed.done or ids.shape[1] == tokens:
                if not completed.done:
                    for (score, _, _), sequence in zip(chosen, ids.tolist(), strict=True):
                        completed.add(score, sequence, cut=True)
                return completed.best()
            among = likely.indices[parents] == newest[:, None]
            if place is None and bool(among.any(-1).all()):
                branches = among.int().argmax(-1)
                self.tree.keep(parents * trust.candidates + branches, likely.indices.numel())
                logits = seen.logits[parents, branches]
                products = products[parents.cpu(), branches.cpu()]
            else:
                self.tree.drop(state.past.numel())
                seen = self.tree.read(newest[:, None], state.past[parents])
                logits = seen.logits[:, 0]
                products = trust.extended(state.products[parents.cpu()], seen.rows[:, 0])
            slots = state.past.numel() + torch.arange(beams, device=logits.device)
            past = torch.cat([state.past[parents], slots[:, None]], 1)
            state = BeamState(ids, total, past, products, parents, completed)

    def _start(self) -> tuple[BeamState, Completed]:
        import torch

        beams, device = self.settings.beams, self.asked.device
        named = {key: value for key, value in self.settings.more.items() if key in _OF_THE_SEARCH}
        completed = Completed(beams, self.tree.asked, **named)
        nothing = torch.zeros(beams, 0, dtype=torch.long, device=device)
        # The first choice is one beam's alone: all would choose the same.
        scores = torch.full((beams,), -1e9, device=device)
        scores[0] = 0
        products = torch.zeros(beams, 0)
        return BeamState(nothing, scores, nothing, products, nothing[:, :0].flatten(), completed), completed

    def _read_again(self, state: BeamState) -> torch.Tensor:
        """Return ``[B, vocabulary]`` logits of what follows a state, which is all that the cache has afterwards."""
        self.tree.drop(state.past[:, :-1].numel())
        return self.tree.read(state.ids[:, -1:], state.past[:, :-1]).logits[:, 0]

    def _ranked(self, state: BeamState, scores: torch.Tensor) -> list[tuple[float, int, int]]:
        """Return score, beam and token of the best continuations, enough that some for every beam do not end."""
        import torch

        log_probabilities = self.processors(torch.cat([self.asked, state.ids], 1), scores.log_softmax(-1))
        totals = log_probabilities + state.scores[:, None]
        wide = totals.shape[-1]
        best = totals.flatten().topk(self.settings.beams * max(2, 1 + len(self.ends)))
        numbers = best.indices.tolist()
        return [
            (total, number // wide, number % wide) for total, number in zip(best.values.tolist(), numbers, strict=True)
        ]
