"""The models of a call: which are named, what each of them does, and the same when loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ..adapters import Adapter, Captioner, Encoder
from ..adapters.aliases import ModelSpec
from ..errors import UsageError

_Model = TypeVar("_Model", Captioner, Encoder)


@dataclass(frozen=True)
class NamedModels:
    """Models that were named but not loaded.

    Attributes:
        captioner: Writes captions.
        encoder: Encodes images and texts, for the metrics that need it.
    """

    captioner: ModelSpec | None = None
    encoder: ModelSpec | None = None

    @classmethod
    def of(cls, model: ModelSpec | None, encoder: ModelSpec | None = None) -> NamedModels:
        """Return what ``--model`` and ``--encoder`` name; a model that encodes may stand under either.

        Raises:
            UsageError: Two encoders, or something else where an encoder should stand.
        """
        if encoder is not None and encoder.role != "encoder":
            raise UsageError(
                f"--encoder {encoder.name}: adapter '{encoder.adapter}' does not encode images and texts",
                "'bench ls models' lists what there is.",
            )
        if model is None or model.role != "encoder":
            return cls(model, encoder)
        if encoder is not None:
            raise UsageError(
                f"two encoders were named: --model {model.name} and --encoder {encoder.name}",
                "--encoder goes with a --model that writes captions.",
            )
        return cls(None, model)


@dataclass(frozen=True)
class Models:
    """Loaded models.

    Attributes:
        captioner: Writes captions.
        encoder: Encodes images and texts.
    """

    captioner: Captioner | None = None
    encoder: Encoder | None = None


def load(spec: ModelSpec, kind: type[_Model], given: Adapter | None = None) -> _Model:
    """Load a model, or take the one that was given, and see that it does what it is wanted for.

    Raises:
        UsageError: It does something else, or its adapter does not take its arguments.
        BenchError: It could not be loaded.
    """
    model = given if given is not None else spec.load()
    if not isinstance(model, kind):
        does = "writes captions" if kind is Captioner else "encodes images and texts"
        raise UsageError(f"a model that {does} is needed; '{spec.name}' ({spec.adapter}) does not")
    return model
