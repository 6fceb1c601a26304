"""What a beam search has completed, as transformers 4.29 kept it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace


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


@dataclass(frozen=True)
class Chosen:
    """Continuations that a search goes on with.

    Attributes:
        parents: Beam that each of them continues.
        tokens: Their next tokens.
        scores: Their sums of log-probabilities.
    """

    parents: list[int]
    tokens: list[int]
    scores: list[float]


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
        self,
        ranked: Sequence[tuple[float, int, int]],
        sequences: Sequence[Sequence[int]],
        ends: set[int],
    ) -> Chosen:
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
        scores, parents, tokens = zip(*open_ones, strict=True)
        return Chosen(list(parents), list(tokens), list(scores))

    def best(self) -> Hypothesis:
        """Return the caption with the highest score, the last of several."""
        return max(reversed(self.found), key=lambda one: one.score)

    def _score(self, total: float, length: int) -> float:
        return total / (self.asked + length) ** self.length_penalty
