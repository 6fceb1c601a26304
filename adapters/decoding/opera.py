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

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from .beams import Completed
from .contract import Decoder, Host, Sample, Written
from .generating import NOT_FINITE
from .overtrust import LEFT_OUT, OverTrust, Retrospection
from .tree import Tree, watching

if TYPE_CHECKING:
    import torch

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
            raise UsageError(
                f"opera_beams={self.beams} is no beam search.", "Set it to 2 or more, or leave it out."
            )
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
        self, host: Host, samples: Sequence[Sample], inputs: Mapping[str, torch.Tensor] | None = None
    ) -> list[Written]:
        """Write captions; see ``Decoder.write``.

        Raises:
            AdapterError: The model is no decoder alone, or image or attention are not found in it.
        """
        return [self._write(host, sample) for sample in samples]

    def _write(self, host: Host, sample: Sample) -> Written:
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
) -> Iterator[Search]:
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
        tree = Tree(model, input_ids, settings, watch)
        yield Search(strategy, tree, input_ids, ends, settings["logits_processor"])


@dataclass(frozen=True)
class State:
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


class Search:
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

    def __init__(
        self, settings: Opera, tree: Tree, asked: torch.Tensor, ends: set[int], processors: Any
    ) -> None:
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
        states: list[State] = []
        while True:
            if not bool(torch.isfinite(logits.amax(-1)).all()):
                return Written([], False, NOT_FINITE)
            states.append(replace(state, completed=completed.copy()))
            likely = logits.topk(trust.candidates)
            seen = self._tree.read(likely.indices, state.past)
            products = trust.extended(_each(state.products, trust.candidates), seen.rows)
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
            parents = torch.tensor(chosen.parents, device=logits.device)
            newest = torch.tensor(chosen.tokens, device=logits.device)
            ids = torch.cat([state.ids[parents], newest[:, None]], 1)
            if completed.done or ids.shape[1] == tokens:
                return self._finished(completed, ids, chosen.scores)
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
            total = torch.tensor(chosen.scores, device=logits.device)
            state = State(ids, total, past, products, parents, completed)

    def _start(self) -> tuple[State, Completed]:
        import torch

        beams, device = self._settings.beams, self._asked.device
        named = {key: value for key, value in self._settings.more.items() if key in _OF_THE_SEARCH}
        completed = Completed(beams, self._tree.asked, **named)
        nothing = torch.zeros(beams, 0, dtype=torch.long, device=device)
        # The first choice is one beam's alone: all would choose the same.
        scores = torch.full((beams,), -1e9, device=device)
        scores[0] = 0
        products = torch.zeros(beams, 0)
        return State(nothing, scores, nothing, products, nothing[:, :0].flatten(), completed), completed

    def _read_again(self, state: State) -> torch.Tensor:
        """Return ``[B, vocabulary]`` logits of what follows a state, which is all that the cache has afterwards."""
        self._tree.drop(state.past[:, :-1].numel())
        return self._tree.read(state.ids[:, -1:], state.past[:, :-1]).logits[:, 0]

    def _ranked(self, state: State, scores: torch.Tensor) -> list[tuple[float, int, int]]:
        """Return score, beam and token of the best continuations, enough that some for every beam do not end."""
        import torch

        log_probabilities = self._processors(torch.cat([self._asked, state.ids], 1), scores.log_softmax(-1))
        totals = log_probabilities + state.scores[:, None]
        wide = totals.shape[-1]
        best = totals.flatten().topk(self._settings.beams * max(2, 1 + len(self._ends)))
        numbers = best.indices.tolist()
        return [
            (total, number // wide, number % wide)
            for total, number in zip(best.values.tolist(), numbers, strict=True)
        ]

    def _finished(self, completed: Completed, ids: torch.Tensor, scores: Sequence[float]) -> Written:
        if not completed.done:
            for total, one in zip(scores, ids.tolist(), strict=True):
                completed.add(total, one, cut=True)
        best = completed.best()
        return Written(list(best.ids), best.cut)


def _each(values: torch.Tensor, count: int) -> torch.Tensor:
    """Return ``[B, count, k]``: what is a beam's, for each of its candidates."""
    return values[:, None].expand(-1, count, -1)
