"""A captioner of transformers for training: captions without gradients, and one pass with them."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError
from ..contracts import Alias, TrainableCaptioner, Writing
from ..decoding.contract import CaptionSample
from ..decoding.generating import FiniteLogits
from ..devices import padded

if TYPE_CHECKING:
    import torch
    from PIL import Image

    from .hf import HfCaptioner

_TYPES = ("token_type_ids", "mm_token_type_ids")
"""Inputs with the type of each token of the instruction; 0 is text."""


def trainable_captioner(captioner: HfCaptioner) -> TrainableCaptioner:
    """Return the trainable model of a captioner."""
    own = _TrainableMethods(captioner)
    model = captioner.model.float()
    has_grid = hasattr(getattr(model, "encoder", None), "grid")
    return TrainableCaptioner(
        module=model,
        device=model.device,
        write=own.write,
        inputs=own.inputs,
        grids=own.grids if has_grid else None,
        tower=model.encoder.vision_encoder if has_grid else None,
        write_captions=own.write_captions,
        given=own.given,
        chosen=own.chosen,
        log_probs=own.log_probs,
        texts=lambda rows: [captioner.text(ids) for ids in rows],
        tokens=own.tokens,
        positions=captioner.positions,
        processor=captioner.processor,
    )


class _TrainableMethods:
    """The methods of a trainable captioner; see ``TrainableCaptioner``."""

    def __init__(self, captioner: HfCaptioner) -> None:
        self._captioner = captioner
        self._model = captioner.model
        self._tokenizer = captioner.processor.tokenizer
        self._keeps_logits = "logits_to_keep" in inspect.signature(self._model.forward).parameters

    def write(self, folder: Path) -> Alias:
        if hasattr(getattr(self._model, "encoder", None), "grid"):
            from . import grid_encoder

            self._model.config.auto_map = grid_encoder.AUTO_MAP
            folder.mkdir(exist_ok=True)
            shutil.copyfile(grid_encoder.__file__, folder / "grid_encoder.py")
        self._model.save_pretrained(folder)
        self._captioner.processor.save_pretrained(folder)
        return {"adapter": "hf", "pretrained": f"./{folder.name}", **self._captioner.asking}

    def inputs(self, images: Sequence[Image.Image], prompt: str) -> dict[str, torch.Tensor]:
        return self._captioner.inputs([CaptionSample(str(n), prompt, image) for n, image in enumerate(images)])

    def grids(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        import torch

        with torch.no_grad():
            return {**inputs, "pixel_values": self._model.encoder.grid(inputs["pixel_values"])}

    def write_captions(self, inputs: Mapping[str, torch.Tensor], writing: Writing) -> list[list[int]]:
        import torch

        beams = 1 if writing.sampled else writing.each
        # Weights that are no numbers shall show in the loss, where the step is named.
        guard = FiniteLogits(self._captioner.end_ids, beams)
        sampling = {"do_sample": True, "top_k": 0} if writing.sampled else {}
        config = self._captioner.generation_config(
            max_new_tokens=writing.tokens, num_beams=beams, num_return_sequences=writing.each, **sampling
        )
        with torch.no_grad():
            sequences = self._captioner.generate(inputs, generation_config=config, logits_processor=[guard])
        ends = set(self._captioner.end_ids)
        return [_to_the_end(ids, ends) for ids in sequences[:, guard.start :].tolist()]

    def log_probs(self, inputs: Mapping[str, torch.Tensor], tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        import torch

        ids, there = self._filled(tokens)
        chosen = self.chosen(self._model(**self.given(inputs, tokens)).logits, ids)
        return torch.where(there.bool(), chosen, 0.0)

    def chosen(self, logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import log_softmax

        # Logits at a token of the instruction and the answer are those of the next.
        own = logits if self._captioner.has_encoder else logits[:, -ids.shape[1] - 1 : -1]
        return log_softmax(own.float(), -1).gather(-1, ids[..., None]).squeeze(-1)

    def given(self, inputs: Mapping[str, torch.Tensor], tokens: Sequence[Sequence[int]]) -> dict[str, Any]:
        ids, there = self._filled(tokens)
        whole = self._decoded(inputs, ids) if self._captioner.has_encoder else self._continued(inputs, ids, there)
        return {**whole, "use_cache": False}

    def _filled(self, tokens: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ``[n, t]`` tokens, filled up, and 1 where they are given."""
        return padded(tokens, self._captioner.end_ids[0], self._model.device)

    def _decoded(self, inputs: Mapping[str, torch.Tensor], ids: torch.Tensor) -> dict[str, Any]:
        """Return the inputs of a decoder that attends to an encoder's output."""
        import torch

        start = self._captioner.generation_config().decoder_start_token_id
        shifted = torch.cat([torch.full_like(ids[:, :1], start), ids[:, :-1]], 1)
        each = len(ids) // len(inputs["pixel_values"])
        if each == 1 or "input_ids" in inputs:
            whole = {name: value.repeat_interleave(each, 0) for name, value in inputs.items()}
        else:
            # An image's encoder output serves all its captions.
            states = self._model.get_encoder()(**inputs)[0]
            whole = {"encoder_outputs": (states.repeat_interleave(each, 0),)}
        return {**whole, "decoder_input_ids": shifted}

    def _continued(self, inputs: Mapping[str, torch.Tensor], ids: torch.Tensor, there: torch.Tensor) -> dict[str, Any]:
        """Return the inputs of a decoder that goes on from its instruction."""
        import torch

        whole, length = dict(self._repeated(inputs, len(ids))), ids.shape[1]
        mask = torch.cat([whole["attention_mask"], there.to(whole["attention_mask"].dtype)], 1)
        whole |= {"input_ids": torch.cat([whole["input_ids"], ids], 1), "attention_mask": mask}
        for name in _TYPES:
            if name in whole:
                whole[name] = torch.cat([whole[name], torch.zeros_like(ids, dtype=whole[name].dtype)], 1)
        settings = self._model.config.get_text_config(decoder=True)
        has_own = "mrope_section" in (getattr(settings, "rope_parameters", None) or {})
        if not mask[:, 0].all() and not has_own:
            # As generate counts them where instructions are padded.
            whole["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
        if self._keeps_logits:
            whole["logits_to_keep"] = length + 1
        return whole

    def _repeated(self, inputs: Mapping[str, torch.Tensor], rows: int) -> Mapping[str, Any]:
        """Return inputs in which each image stands as often as it has captions."""
        others = dict(inputs)
        ids = others.pop("input_ids")
        # The library knows of each model which inputs are not a row an image.
        ids, others = self._model._expand_inputs_for_generation(
            expand_size=rows // len(ids), is_encoder_decoder=False, input_ids=ids, **others
        )
        return {"input_ids": ids, **others}

    def tokens(self, texts: Sequence[str], prompt: str) -> list[list[int]]:
        asked = self._captioner.asked(prompt) or ""
        between = " " if asked and not asked[-1].isspace() else ""
        before = self._plain_ids(asked)
        rows = []
        for text in texts:
            whole = self._plain_ids(asked + between + text)
            if whole[: len(before)] != before:
                raise AdapterError(
                    f"{self._captioner.name}: tokens of the instruction change when an answer follows.",
                    "Change the recipe's objective.prompt or the model's prompt_format.",
                )
            rows.append([*whole[len(before) :], self._captioner.end_ids[0]])
        return rows

    def _plain_ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"] if text else []


def _to_the_end(ids: Sequence[int], ends: set[int]) -> list[int]:
    """Return the tokens up to the first that ends, which stays; what follows it is padding."""
    end = next((place for place, token in enumerate(ids) if token in ends), len(ids) - 1)
    return list(ids[: end + 1])
