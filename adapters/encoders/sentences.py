"""Sentence encoders of the transformers library: texts alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from ...errors import AdapterError
from ..devices import require_known, torch_dtype
from ..hf_checkpoint import HfModel, file_of, require_fit, stated_pooling
from .clip_tokens import cut_to, reserved_positions
from .torch_encoder import TorchEncoder

if TYPE_CHECKING:
    import torch

    from .torch_encoder import Inputs


@dataclass(eq=False, repr=False)
class SentenceEncoder(HfModel, TorchEncoder):
    """A text's vector is the mean of the last layer's token states, or the state of the first token.

    That is what sentence-transformers computes for checkpoints of these two kinds of pooling, such as all-MiniLM,
    mpnet, BGE and GTE; others are refused. It encodes no images: it is for tasks that compare texts with each other.

    Args:
        pretrained: A hub id (``sentence-transformers/all-MiniLM-L6-v2``), or a folder.
        revision: Branch, tag or commit of a hub id.
        pooling: ``mean`` or ``cls``; by default what the checkpoint says, else ``mean``.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Texts to start with; halved when the device runs out of memory.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or makes a text's vector in another way.
    """

    pretrained: str
    revision: str | None = None
    _: KW_ONLY
    pooling: Literal["mean", "cls"] | None = None
    adapter = "sentences"
    family: ClassVar[str] = "sentences"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._find(self.pretrained, self.revision)
        require_known((None, "mean", "cls"), pooling=self.pooling)
        if not (pooling := self.pooling or stated_pooling(self._read)):
            raise AdapterError(
                f"{self.pretrained}: makes a text's vector neither by the mean of tokens nor by the first one.",
                "Name another encoder, such as sentence-transformers/all-mpnet-base-v2, or set 'pooling'.",
            )
        self.pooling = pooling
        self._tokenizer = self._source.part("AutoTokenizer", "tokenizer")
        model, info = self._source.load("AutoModel", torch_dtype(self.dtype), ignore_mismatched_sizes=True)
        # The library's own pooler has no part in the vectors, and checkpoints may lack it.
        missing = [name for name in info["missing_keys"] if not name.startswith("pooler.")]
        require_fit(self._source, {"missing_keys": missing, "mismatched_keys": info["mismatched_keys"]})
        self._model = model.eval().requires_grad_(False).to(self._device)
        places = (getattr(self._source.config, "max_position_embeddings", None) or 512) - reserved_positions(model)
        said = (self._read("sentence_bert_config.json") or {}).get("max_seq_length") or places
        self.context_length = int(min(places, said, self._tokenizer.model_max_length))

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        used = {"dtype": self.dtype, "pooling": self.pooling, "context": self.context_length}
        return self._identity(self._model, **used, tokenizer=type(self._tokenizer).__name__)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text; see ``Encoder.token_ids``."""
        return self._tokenizer(list(texts), verbose=False)["input_ids"] if texts else []

    def _text_inputs(self, texts: Sequence[str], ids: Sequence[list[int]]) -> Inputs:
        import torch

        rows = torch.tensor([cut_to(self.context_length, tokens) for tokens in ids])
        return {"input_ids": rows, "attention_mask": torch.ones_like(rows)}

    def _text_vectors(self, inputs: Inputs) -> torch.Tensor:
        states = self._model(**inputs).last_hidden_state
        return states.mean(dim=1) if self.pooling == "mean" else states[:, 0]

    def _read(self, name: str) -> Any:
        """Return what a JSON file of the checkpoint holds; None if it has no such file."""
        with self._source.reading(f"{name}: "):
            file = file_of(self._source.path, name, self._source.revision)
            return json.loads(file.read_text(encoding="utf-8")) if file else None

    def _refuse(self, *inputs: Any, **named: Any) -> NoReturn:
        raise AdapterError(
            f"{self.name} encodes texts alone.", "Tasks and metrics of images take a dual encoder ('bench ls models')."
        )

    images = tokens = frames = _image_vectors = _token_vectors = _write = to_trainable = _refuse
