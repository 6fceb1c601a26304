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


def sampling_settings(generation_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return decoding settings as the OpenAI API and vLLM's ``SamplingParams`` name them.

    ``max_new_tokens`` (or ``max_gen_toks``) becomes ``max_tokens``, ``until`` becomes ``stop``. Without
    ``do_sample: true`` the temperature is 0, unless one is given. A setting that is None is left out.

    Args:
        generation_kwargs: Settings as tasks write them, in the names of transformers and lm-eval.

    Raises:
        AdapterError: A setting has no counterpart, such as beams.
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
    if given.get("do_sample") is False:
        settings["temperature"] = 0.0
    elif not given.get("do_sample"):
        settings.setdefault("temperature", 0.0)
    for limit in _LIMITS:
        if limit in given:
            settings["max_tokens"] = given[limit]
            break
    until = given.get("until") or []
    if stop := [text for text in ([until] if isinstance(until, str) else until) if text]:
        settings["stop"] = stop
    return settings
