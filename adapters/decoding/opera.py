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
- Attention is weighed in 32 bits, whatever the model's own precision.
- A return that fails is an error, where released code goes on with half of it done.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError, UsageError
from .contract import PLAIN_REMEDY, CaptionSample, Decoder, Host, Written, first_pass
from .generating import NOT_FINITE
from .overtrust import LEFT_OUT, OverTrust, Retrospection

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Hypothesis:
    """A caption that competes.

    Attributes:
        score: Sum of its tokens' log-probabilities, divided by its length to the power of ``length_penalty``.
        ids: Its tokens, the end token left out.
        cut: Whether it has no end token.
    """

    score: float
    ids: tuple[int, ...]
    cut: bool


@dataclass
class Completed:
    """The best captions that were completed so far, as many as there are beams.

    Attributes:
        beams: How many these are.
        asked: Tokens of the instruction, which count in the length of a caption.
        length_penalty: Exponent of the length; above 0 it favours long captions.
        early_stopping: Whether the search ends as soon as so many captions are complete; else when none in progress
            can become better, as far as its present length says.
        found: The captions.
        done: Whether the search has ended.
    """

    beams: int
    asked: int
    length_penalty: float = 1.0
    early_stopping: bool = False
    found: list[Hypothesis] = field(default_factory=list)
    done: bool = False

    def copy(self) -> Completed:
        """Return what is known by now, which later captions do not change."""
        return replace(self, found=list(self.found))

    def add(self, total: float, ids: Sequence[int], cut: bool) -> None:
        """Let a caption compete.

        Args:
            total: Sum of its log-probabilities.
            ids: Its tokens without the end token.
            cut: Whether it has none.
        """
        score = self._score(total, len(ids))
        if len(self.found) == self.beams:
            worst = min(range(self.beams), key=lambda number: self.found[number].score)
            if score <= self.found[worst].score:
                return
            del self.found[worst]
        self.found.append(Hypothesis(score, tuple(ids), cut))

    def choose(
        self, ranked: Sequence[tuple[float, int, int]], sequences: Sequence[Sequence[int]], ends: set[int]
    ) -> list[tuple[float, int, int]]:
        """Complete what ends, and return the best of what does not.

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
        if len(self.found) == self.beams:
            worst = min(one.score for one in self.found)
            self.done = self.early_stopping or worst >= self._score(ranked[0][0], length)
        return open_ones

    def best(self) -> Hypothesis:
        """Return the caption with the highest score, the last of several."""
        return max(reversed(self.found), key=lambda one: one.score)

    def _score(self, total: float, length: int) -> float:
        return total / (self.asked + length) ** self.length_penalty


_ATTENTION = "capbench_watched"


class Watch:
    """Sees how the last layer attends, the largest of its heads."""

    def __init__(self) -> None:
        self.weights: torch.Tensor | None = None
        """``[queries, keys]`` of the last pass through the model, or None."""
        self.on = False
        """Whether it looks: an instruction would cost its length squared."""


@contextmanager
def watching(model: Any) -> Iterator[Watch]:
    """Watch the last layer's attention; every layer computes as it would without.

    Raises:
        AdapterError: The model is no decoder alone, or its attention is none of the library's.
    """
    from transformers import AttentionInterface

    decoder = None if model.config.is_encoder_decoder else model.get_decoder()
    layers = [
        one
        for one in (() if decoder is None else decoder.modules())
        if hasattr(one, "layer_idx") and hasattr(one, "config")
    ]
    if not layers:
        raise AdapterError(
            f"decoding=opera does not find how the last layer of {type(model).__name__} attends.", PLAIN_REMEDY
        )
    AttentionInterface.register(_ATTENTION, _attend)
    last = max(layers, key=lambda one: one.layer_idx)
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
    """What the model made of tokens, n in each of B beams.

    Attributes:
        logits: ``[B, n, vocabulary]`` of what follows each.
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
        settings: What ``generate`` has prepared for a loop of its own.
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
            raise AdapterError(
                f"decoding=opera does not know which tokens of {type(model).__name__} are its image.", PLAIN_REMEDY
            )
        self._next = positions[..., -1:] + 1
        self.asked = self._prompt - len(self._images) + 1
        found, _ = first_pass(model, input_ids, settings)
        self.logits = found.logits[0, -1].float().to(input_ids.device)
        self._cache = found.past_key_values
        if any(layer.is_sliding for layer in self._cache.layers):
            raise AdapterError(
                f"decoding=opera looks at all of a caption, and {type(model).__name__} forgets its beginning.",
                PLAIN_REMEDY,
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
        found = self._model(
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
            raise AdapterError(f"decoding=opera does not see how {type(self._model).__name__} attends.", PLAIN_REMEDY)
        # A model may lie on several devices.
        weights = (weights / weights.sum(-1, keepdim=True)).to(device)
        rows = weights.gather(1, caption).view(beams, each, -1)
        images = weights[:, self._images].sum(-1).view(beams, each)
        return TreeOutput(found.logits[0].float().to(device).view(beams, each, -1), rows.cpu(), images.cpu())

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
        """Leave so many tokens behind the instruction."""
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
        more: Further settings of ``generate``, those of the search (``length_penalty``, ``early_stopping``) among them.

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
            raise UsageError(f"opera_beams={self.beams} is no beam search.", "Set it to 2 or more, or leave it out.")
        if self.trust.candidates == 1:
            raise UsageError(
                "opera_candidates=1 is greedy search: where there is one candidate no penalty counts.",
                "Use decoding=greedy, or opera_candidates of as many as opera_beams.",
            )
        if self.trust.candidates < self.beams:
            raise UsageError(
                f"opera_candidates={self.trust.candidates} is below opera_beams={self.beams}: beams would begin with "
                "tokens that are no candidates.",
                "Set it to as many as opera_beams, or more.",
            )

    @property
    def rows(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What a sample counts in a batch."""
        return self.beams

    def write(
        self, host: Host, samples: Sequence[CaptionSample], inputs: Mapping[str, torch.Tensor] | None = None
    ) -> list[Written]:
        """Write captions; see ``Decoder.write``.

        Raises:
            AdapterError: The model is no decoder alone, or image or attention are not found in it.
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
        settings: What ``generate`` has prepared for a loop of its own.
        ends: Tokens that end a caption.

    Raises:
        AdapterError: The model is no decoder alone, or image or attention are not found in it.
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
        completed: What was complete.
    """

    ids: torch.Tensor
    scores: torch.Tensor
    past: torch.Tensor
    products: torch.Tensor
    parents: torch.Tensor
    completed: Completed


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

    def __init__(self, settings: Opera, tree: TokenTree, asked: torch.Tensor, ends: set[int], processors: Any) -> None:
        self._settings = settings
        self._tree = tree
        self._asked = asked.expand(settings.beams, -1)
        self._ends = ends
        self._processors = processors
        self._retrospection = Retrospection(settings.trust)
        self.penalties: list[torch.Tensor] = []
        self.locations: list[torch.Tensor] = []
        self.returns: dict[int, int] = {}

    def run(self, tokens: int) -> Written:
        """Write a caption of so many tokens at most."""
        import torch

        trust, beams = self._settings.trust, self._settings.beams
        state, completed = self._start()
        logits = self._tree.logits.expand(beams, -1)
        states: list[BeamState] = []
        while True:
            if not bool(torch.isfinite(logits.amax(-1)).all()):
                return Written([], False, NOT_FINITE)
            states.append(replace(state, completed=completed.copy()))
            likely = logits.topk(trust.candidates)
            seen = self._tree.read(likely.indices, state.past)
            products = trust.extended(state.products[:, None].expand(-1, trust.candidates, -1), seen.rows)
            penalties, locations = trust.penalties(products, seen.images)
            penalised = trust.penalised(likely.values, penalties)
            if bool(penalised.isnan().any()):
                return Written([], False, _OVERFLOW)
            self.penalties.append(penalties)
            self.locations.append(locations)
            place = self._retrospection.place(locations)
            if place is None:
                scores = torch.full_like(logits, LEFT_OUT).scatter(-1, likely.indices, penalised)
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
            chosen = completed.choose(self._ranked(state, scores), state.ids.tolist(), self._ends)
            total, parents, newest = (
                torch.tensor(values, device=logits.device) for values in zip(*chosen, strict=True)
            )
            ids = torch.cat([state.ids[parents], newest[:, None]], 1)
            if completed.done or ids.shape[1] == tokens:
                if not completed.done:
                    for (score, _, _), one in zip(chosen, ids.tolist(), strict=True):
                        completed.add(score, one, cut=True)
                best = completed.best()
                return Written(list(best.ids), best.cut)
            among = likely.indices[parents] == newest[:, None]
            if place is None and bool(among.any(-1).all()):
                branches = among.int().argmax(-1)
                self._tree.keep(parents * trust.candidates + branches, likely.indices.numel())
                logits = seen.logits[parents, branches]
                products = products[parents.cpu(), branches.cpu()]
            else:
                self._tree.drop(state.past.numel())
                seen = self._tree.read(newest[:, None], state.past[parents])
                logits = seen.logits[:, 0]
                products = trust.extended(state.products[parents.cpu()], seen.rows[:, 0])
            slots = state.past.numel() + torch.arange(beams, device=logits.device)
            past = torch.cat([state.past[parents], slots[:, None]], 1)
            state = BeamState(ids, total, past, products, parents, completed)

    def _start(self) -> tuple[BeamState, Completed]:
        import torch

        beams, device = self._settings.beams, self._asked.device
        named = {key: value for key, value in self._settings.more.items() if key in _OF_THE_SEARCH}
        completed = Completed(beams, self._tree.asked, **named)
        nothing = torch.zeros(beams, 0, dtype=torch.long, device=device)
        # The first choice is one beam's alone: all would choose the same.
        scores = torch.full((beams,), -1e9, device=device)
        scores[0] = 0
        products = torch.zeros(beams, 0)
        return BeamState(nothing, scores, nothing, products, nothing[:, :0].flatten(), completed), completed

    def _read_again(self, state: BeamState) -> torch.Tensor:
        """Return ``[B, vocabulary]`` logits of what follows a state, which is all that the cache has afterwards."""
        self._tree.drop(state.past[:, :-1].numel())
        return self._tree.read(state.ids[:, -1:], state.past[:, :-1]).logits[:, 0]

    def _ranked(self, state: BeamState, scores: torch.Tensor) -> list[tuple[float, int, int]]:
        """Return score, beam and token of the best continuations, enough that some for every beam do not end."""
        import torch

        log_probabilities = self._processors(torch.cat([self._asked, state.ids], 1), scores.log_softmax(-1))
        totals = log_probabilities + state.scores[:, None]
        wide = totals.shape[-1]
        best = totals.flatten().topk(self._settings.beams * max(2, 1 + len(self._ends)))
        numbers = best.indices.tolist()
        return [
            (total, number // wide, number % wide) for total, number in zip(best.values.tolist(), numbers, strict=True)
        ]
