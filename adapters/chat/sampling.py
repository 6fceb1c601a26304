"""Decoding settings of a task in the names that servers and engines take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import AdapterError

_LIMITS = ("max_new_tokens", "max_gen_toks", "max_tokens")
_AS_THEY_ARE = (
    "frequency_penalty",
    "min_p",
    "presence_penalty",
    "repetition_penalty",
    "seed",
    "temperature",
    "top_k",
    "top_p",
)
_KNOWN = (*_LIMITS, *_AS_THEY_ARE, "do_sample", "num_beams", "until")
_DRAWING: dict[str, tuple[float, ...]] = {"temperature": (0,), "top_p": (1,), "top_k": (0, -1), "min_p": (0,)}
"""Settings by which tokens are drawn, each with the values that ask for nothing."""


def sampling_settings(generation_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return decoding settings as the OpenAI API and vLLM's ``SamplingParams`` name them.

    ``max_new_tokens`` (or ``max_gen_toks``) becomes ``max_tokens``, ``until`` becomes ``stop``. Without
    ``do_sample: true`` the temperature is 0, unless one is given. A setting that is None is left out. One of those by
    which tokens are drawn is refused where none are, unless its value asks for nothing.

    Args:
        generation_kwargs: Settings as tasks write them, in the names of transformers and lm-eval.

    Raises:
        AdapterError: A setting has no counterpart, such as beams, or does nothing beside another.
    """
    given = {name: value for name, value in generation_kwargs.items() if value is not None}
    if unknown := sorted(given.keys() - set(_KNOWN)):
        raise AdapterError(
            f"decoding setting '{unknown[0]}' cannot be passed on by this adapter",
            f"It passes on {', '.join(sorted(_KNOWN))}. --gen_kwargs {unknown[0]}=null leaves out a task's own.",
        )
    if given.get("num_beams", 1) != 1:
        raise AdapterError(
            f"num_beams={given['num_beams']}: this adapter decodes without beams",
            "Set --gen_kwargs num_beams=1, or use an adapter that has beams.",
        )
    settings = {name: given[name] for name in _AS_THEY_ARE if name in given}
    if not given.get("do_sample"):
        settings.setdefault("temperature", 0.0)
    greedy = given.get("do_sample") is False or settings.get("temperature") == 0
    for name, neutral in _DRAWING.items():
        if greedy and name in given and given[name] not in neutral:
            beside = "do_sample=False" if given.get("do_sample") is False else "temperature=0"
            raise AdapterError(
                f"generation_kwargs: {name}={given[name]!r} does nothing beside {beside}",
                f"Set do_sample=true and a temperature to draw tokens; --gen_kwargs {name}=null leaves it out.",
            )
    for limit in _LIMITS:
        if limit in given:
            settings["max_tokens"] = given[limit]
            break
    until = given.get("until") or []
    if stop := [text for text in ([until] if isinstance(until, str) else until) if text]:
        settings["stop"] = stop
    return settings
