"""FACTUAL (Li et al. 2023): a T5 that writes the scene graph of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...adapters.devices import BatchSize, find_device, padded
from ...downloads import Resource
from ...errors import MetricError, require_all
from ..contract import Context, kept
from ..vectors.checkpoints import Checkpoint, batches_that_fit
from . import nltk_text
from .scene_graphs import NO_GRAPH, CaptionParser, Graph, ParsedCaption, read_graph

if TYPE_CHECKING:
    import torch

RELEASED = "lizhuang144/flan-t5-base-VG-factual-sg"

InputLimit = Literal["0.5.0", "0.7"]
_PROMPT = "Generate Scene Graph: "
_INPUT_TOKENS = 64
_OUTPUT_TOKENS = 128
_BEAMS = 5
# Sentences of one caption that the released code gives to the model at once.
_RELEASED_BATCH = 32
# Each is searched with five beams.
_BATCH_ON_GPU, _BATCH_ON_CPU = 128, 32


@dataclass(frozen=True)
class _Input:
    """A sentence, and how many tokens of it the model reads.

    Attributes:
        sentence: The sentence, stripped.
        tokens: The limit.
        length: Tokens that it has with prompt and end of sequence.
    """

    sentence: str
    tokens: int
    length: int

    @property
    def key(self) -> str:
        """By what its graph is kept: the same whenever the same tokens are read."""
        limit = min(self.tokens, self.length)
        return self.sentence if limit in (self.length, _INPUT_TOKENS) else f"{limit} tokens: {self.sentence}"


class FactualParser(CaptionParser):
    """Parses with a T5 checkpoint as FactualSceneGraph does: beam search with 5 beams, 128 tokens at most.

    Sentences of all captions go through the model together, equal ones once, in batches of like length; each
    batch is kept in the context's cache when it is done. Batches become smaller when the device's memory is full.

    Args:
        checkpoint: The T5.
        input_limit: The rule of which version of FactualSceneGraph cuts long sentences. ``"0.5.0"``: to 64
            tokens. ``"0.7"``: also to the length of the longest of the caption's sentences (32 at once),
            counted without the end of sequence, so that the longest loses its last token.
        device: Where it runs; by default the GPU if there is one.
    """

    def __init__(self, checkpoint: Checkpoint, input_limit: InputLimit = "0.5.0", device: str | None = None) -> None:
        self._checkpoint = checkpoint
        self._input_limit = input_limit
        self._device = device
        self._loaded: tuple[Any, Any, torch.device] | None = None

    def check(self) -> None:
        """Raise if the checkpoint or one of NLTK's models is missing; see ``CaptionParser.check``."""
        require_all(nltk_text.check, self._checkpoint.check)

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        return [nltk_text.resource(), *self._checkpoint.resources()]

    def fingerprint(self) -> dict[str, Any]:
        """Return checkpoint, search and limits."""
        return {**self._producer(), "input_limit": self._input_limit, **nltk_text.fingerprint()}

    def parse(self, captions: Sequence[str], context: Context) -> dict[str, ParsedCaption | str]:
        """Return each caption parsed; see ``CaptionParser.parse``."""
        texts = nltk_text.read(captions, context)
        parsed: dict[str, ParsedCaption | str] = {}
        of_captions = self.graphs([text.sentences for text in texts.values()], context)
        for (caption, text), graphs in zip(texts.items(), of_captions, strict=True):
            usable = tuple(graph for graph in graphs if graph is not None)
            parsed[caption] = ParsedCaption(usable, text.nouns, len(graphs) - len(usable)) if usable else NO_GRAPH
        return parsed

    def graphs(self, captions: Sequence[Sequence[str]], context: Context) -> list[list[Graph | None]]:
        """Return the graph of each sentence, or None where the model wrote none.

        Args:
            captions: The sentences of each caption.
            context: Cache and progress.

        Raises:
            MetricError: The checkpoint cannot be loaded.
        """
        stripped = [[sentence.strip() for sentence in sentences] for sentences in captions]
        lengths = self._lengths([sentence for sentences in stripped for sentence in sentences], context)
        inputs = [self._inputs(sentences, lengths) for sentences in stripped]
        written = self._write([request for requests in inputs for request in requests], context)
        return [[read_graph(written[request.key]) for request in requests] for requests in inputs]

    def _producer(self) -> dict[str, Any]:
        return {
            "parser": "factual",
            "checkpoint": self._checkpoint.identity(),
            "beams": _BEAMS,
            "input_tokens": _INPUT_TOKENS,
            "output_tokens": _OUTPUT_TOKENS,
        }

    def _lengths(self, sentences: Sequence[str], context: Context) -> dict[str, int]:
        """Return how many tokens each sentence has with prompt and end of sequence."""

        def count(missing: list[str]) -> Iterator[dict[str, int]]:
            ids = self._load()[1]([_PROMPT + sentence for sentence in missing])["input_ids"]
            yield {sentence: len(tokens) for sentence, tokens in zip(missing, ids, strict=True)}

        producer = {"of": "input length", "checkpoint": self._checkpoint.identity()}
        return kept(context.cache, producer, sentences, count)

    def _inputs(self, sentences: Sequence[str], lengths: dict[str, int]) -> list[_Input]:
        inputs: list[_Input] = []
        for start in range(0, len(sentences), _RELEASED_BATCH):
            batch = sentences[start : start + _RELEASED_BATCH]
            limit = _INPUT_TOKENS
            if self._input_limit == "0.7":
                limit = min(limit, max(lengths[sentence] - 1 for sentence in batch))
            inputs += [_Input(sentence, limit, lengths[sentence]) for sentence in batch]
        return inputs

    def _write(self, inputs: Sequence[_Input], context: Context) -> dict[str, str]:
        """Return the model's output for each input, by its key."""
        by_key = {request.key: request for request in inputs}

        def write(missing: list[str]) -> Iterator[dict[str, str]]:
            # The longest come first, so that memory runs out at once or not at all.
            longest = sorted(
                (by_key[key] for key in missing), key=lambda request: min(request.tokens, request.length), reverse=True
            )
            _, _, device = self._load()
            size = BatchSize(_BATCH_ON_GPU if device.type == "cuda" else _BATCH_ON_CPU)
            for batch, texts in batches_that_fit(self._checkpoint.role, size, longest, self._generate):
                yield {request.key: text for request, text in zip(batch, texts, strict=True)}

        return kept(context.cache, self._producer(), by_key, write, context.progress)

    def _generate(self, batch: Sequence[_Input]) -> list[str]:
        import torch

        model, tokenizer, device = self._load()
        ids: list[list[int]] = [
            tokenizer(_PROMPT + request.sentence, truncation=True, max_length=request.tokens)["input_ids"]
            for request in batch
        ]
        rows, mask = padded(ids, tokenizer.pad_token_id, device)
        with torch.inference_mode():
            outputs = model.generate(
                rows,
                attention_mask=mask,
                use_cache=True,
                decoder_start_token_id=tokenizer.pad_token_id,
                num_beams=_BEAMS,
                max_length=_OUTPUT_TOKENS,
                early_stopping=True,
                num_return_sequences=1,
            )
        return tokenizer.batch_decode(outputs, skip_special_tokens=True, clean_up_tokenization_spaces=True)

    def _load(self) -> tuple[Any, Any, torch.device]:
        if self._loaded is None:
            import torch

            device = find_device(self._device, MetricError)
            tokenizer = self._checkpoint.load("AutoTokenizer")
            model = self._checkpoint.load("AutoModelForSeq2SeqLM", dtype=torch.float32)
            if tokenizer.pad_token_id is None:
                raise MetricError(
                    f"{self._checkpoint.role} '{self._checkpoint.name}': its tokenizer has no padding token.",
                    f"Name a T5 checkpoint such as {RELEASED}.",
                )
            self._loaded = model.eval().to(device), tokenizer, device
        return self._loaded
