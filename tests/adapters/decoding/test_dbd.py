"""Differentiated beam decoding against a search that looks at every sequence anew."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from tiny_images import noise_image
from tiny_lvlm import continued

from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.decoding.contract import CaptionSample
from capbench.adapters.decoding.dbd import DifferentiatedBeams, FactPrompts
from capbench.adapters.decoding.generating import Generating


@dataclass
class Sequence:
    """A sequence with what the model says of it."""

    ids: list[int]
    log_likelihood: float
    hidden: list[np.ndarray]

    def difference(self, other: Sequence) -> float:
        """Return the sequence-level differential score: minus the mean cosine of all pairs of tokens."""
        cosines = [float(a @ b / math.sqrt((a @ a) * (b @ b))) for a in self.hidden for b in other.hidden]
        return -sum(cosines) / len(cosines)


class BruteForce:
    """Searches without a cache and without sums that are carried on."""

    def __init__(self, host: HfCaptioner, sample: CaptionSample, decoder: DifferentiatedBeams) -> None:
        self.model = host.model
        self.inputs = host.inputs([replace(sample, prompt=decoder.prompts.search)])
        self.ends = set(host.end_ids)
        self.decoder = decoder

    def look(self, ids: list[int]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the next token's log-probabilities, and the hidden state of each token of a sequence."""
        with torch.inference_mode():
            output = self.model(**continued(self.inputs, ids), output_hidden_states=True, use_cache=False)
        hidden = output.hidden_states[-1][0, self.inputs["input_ids"].shape[1] :].double().numpy()
        return output.logits[0, -1].double().log_softmax(-1).numpy(), list(hidden)

    def search(self) -> list[Sequence]:
        complete: list[Sequence] = []
        candidates = [Sequence([], 0.0, [])]
        for step in range(1, self.decoder.max_fact_tokens + 1):
            alpha = self.decoder.alpha if step <= self.decoder.alpha_steps else self.decoder.later_alpha
            remaining: list[Sequence] = []
            for beam in candidates:
                log_probabilities, _ = self.look(beam.ids)
                for token in np.argsort(-log_probabilities)[: self.decoder.top_k].tolist():
                    ids = [*beam.ids, token]
                    remaining.append(Sequence(ids, beam.log_likelihood + log_probabilities[token], self.look(ids)[1]))
            picked: list[Sequence] = []
            while remaining and len(picked) < self.decoder.beams:
                hybrid = [
                    fact.log_likelihood + alpha * sum(fact.difference(other) for other in picked) for fact in remaining
                ]
                best = remaining.pop(int(np.argmax(hybrid)))
                (complete if best.ids[-1] in self.ends else picked).append(best)
            candidates = picked
        return complete

    def select(self, complete: list[Sequence]) -> list[Sequence]:
        remaining, selected = list(complete), []
        while remaining and len(selected) < self.decoder.facts:
            scores = [
                fact.log_likelihood / len(fact.ids)
                + self.decoder.selection_alpha * sum(fact.difference(other) for other in selected)
                for fact in remaining
            ]
            selected.append(remaining.pop(int(np.argmax(scores))))
        return selected


@pytest.mark.parametrize("kind", ["llava", "qwen2_vl", "idefics3"])
@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        (0, {"beams": 3, "top_k": 4, "max_fact_tokens": 5, "facts": 3}),
        (1, {"beams": 2, "top_k": 5, "max_fact_tokens": 6, "facts": 2, "alpha": 4.0, "alpha_steps": 1}),
        # Fewer continuations than candidates: all of them are picked.
        (2, {"beams": 5, "top_k": 2, "max_fact_tokens": 4, "facts": 10, "later_alpha": 0.5}),
    ],
)
def test_search_and_selection_are_those_of_brute_force(kind, seed, settings, request):
    host: HfCaptioner = request.getfixturevalue(kind)
    decoder = DifferentiatedBeams(Generating(8), prompts=FactPrompts("the dog", "the facts"), **settings)
    sample = CaptionSample(str(seed), "unused", noise_image(seed))
    brute = BruteForce(host, sample, decoder)
    expected = brute.search()
    facts = decoder.search(host, sample)
    assert facts is not None
    assert expected, "no fact was completed: the test shows nothing"
    assert [list(fact.ids) for fact in facts] == [fact.ids for fact in expected]
    assert [fact.log_likelihood for fact in facts] == pytest.approx(
        [fact.log_likelihood for fact in expected], abs=1e-4
    )
    selected = [list(fact.ids) for fact in decoder.select(facts)]
    assert selected == [fact.ids for fact in brute.select(expected)]


def test_weight_falls_after_the_first_steps():
    decoder = DifferentiatedBeams(Generating(8))
    assert [decoder.weight(step) for step in (1, 2, 3, 4, 50)] == [10, 10, 10, 5, 5]


def test_caption_is_the_greedy_summary_of_image_and_selected_facts(llava: HfCaptioner):
    prompts = FactPrompts("the dog", "the facts of the image")
    decoder = DifferentiatedBeams(Generating(8), beams=3, top_k=4, max_fact_tokens=5, facts=2, prompts=prompts)
    samples = [CaptionSample(str(number), "unused", noise_image(number)) for number in range(3)]
    expected = []
    for sample in samples:
        facts = decoder.search(llava, sample)
        assert facts
        texts = [llava.text(fact.ids).strip() for fact in decoder.select(facts)]
        assert len(texts) == 2
        prompt = "\n".join([prompts.summary, *texts])
        expected += Generating(8).write(llava, [replace(sample, prompt=prompt)])
    assert decoder.write(llava, samples) == expected


def test_image_without_a_complete_fact_is_a_failure_of_its_own(llava: HfCaptioner):
    decoder = DifferentiatedBeams(Generating(8), beams=2, top_k=2, max_fact_tokens=1)
    samples = [CaptionSample(str(number), "unused", noise_image(number)) for number in range(6)]
    faults = [written.fault for written in decoder.write(llava, samples)]
    assert "no fact was complete within dbd_max_fact_tokens=1 tokens" in faults
