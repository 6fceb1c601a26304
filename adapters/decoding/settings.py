"""Reads ``generation_kwargs``: which strategy they ask for, with which settings.

Keys are spelled as in lm-eval: ``max_new_tokens`` (or ``max_gen_toks``; 512), ``do_sample``, ``temperature``,
``top_p``, ``top_k``, ``num_beams``, ``repetition_penalty``, ``length_penalty``, ``no_repeat_ngram_size``,
``min_new_tokens``, ``early_stopping``. What is drawn at random is drawn from the whole distribution, unless
``top_p`` or ``top_k`` say otherwise: the model's own settings of these are ignored. Additional settings:

- ``seed``: of what is drawn at random (0).
- ``decoding``: ``greedy``, ``beam``, ``nucleus``, ``vcd``, ``opera`` or ``dbd``. Without it ``num_beams`` above 1
  asks for ``beam``, ``do_sample`` or a ``temperature`` above 0 for ``nucleus``.
- ``vcd_alpha``, ``vcd_beta``, ``vcd_noise_step``: see ``Contrastive``; greedy unless ``do_sample`` is true.
- ``opera_beams``: see ``Opera``; ``opera_scale``, ``opera_weight``, ``opera_threshold``, ``opera_candidates``,
  ``opera_window``, ``opera_precision``: see ``OverTrust``.
- ``dbd_beams``, ``dbd_top_k``, ``dbd_alpha``, ``dbd_alpha_steps``, ``dbd_later_alpha``, ``dbd_max_fact_tokens``,
  ``dbd_selection_alpha``, ``dbd_facts``, ``dbd_prompts``: see ``DifferentiatedBeams``; the summary is greedy, and
  ``max_new_tokens`` are its own. ``dbd_prompts`` may bring settings with it, which go below those that are given.

``until`` is no business of the model: captions are cut by one rule for all of them.

A key that the strategy does not read is an error, unless its value asks for what is done anyhow: ``do_sample: false``,
``temperature: 0``, ``top_p: 1``, ``top_k: 0``, ``num_beams: 1``, ``length_penalty: 1``, ``early_stopping: false``, and
any ``seed`` where nothing is drawn.
"""

import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ...errors import UsageError, did_you_mean
from .contract import Decoder
from .dbd import DifferentiatedBeams, FactPrompts
from .generating import Generating, Sampling
from .opera import Opera, OverTrust
from .vcd import NOISE_STEPS, Contrastive

_MAX_NEW_TOKENS = 512
_BEAMS = 5
"""Width of a beam search that states none, as in the baselines of the DBD paper."""
_LARGEST = sys.float_info.max
_MORE = ("repetition_penalty", "length_penalty", "no_repeat_ngram_size", "min_new_tokens")
_VCD = ("vcd_alpha", "vcd_beta", "vcd_noise_step")
_OPERA = ("opera_scale", "opera_weight", "opera_threshold", "opera_candidates", "opera_window")
_DBD = tuple(f"dbd_{field.name}" for field in fields(DifferentiatedBeams) if field.name not in ("summary", "prompts"))
_LEAST_WHOLE = {
    **dict.fromkeys(("max_new_tokens", "num_beams", "opera_beams", "opera_candidates", "opera_window"), 1),
    **dict.fromkeys(("dbd_beams", "dbd_top_k", "dbd_max_fact_tokens", "dbd_facts"), 1),
    **dict.fromkeys(("top_k", "seed", "no_repeat_ngram_size", "min_new_tokens"), 0),
    **dict.fromkeys(("vcd_noise_step", "opera_threshold", "dbd_alpha_steps"), 0),
}
"""Key of a whole number to its least value."""
_NUMBERS = (
    *("max_new_tokens", "temperature", "top_p", "top_k", "num_beams", "seed"),
    *(*_MORE, *_VCD, "opera_beams", *_OPERA, *_DBD),
)
"""Keys of numbers; those that need not be whole are 0 or more, but for ``length_penalty``."""
_DRAWING = ("temperature", "top_p", "top_k")
_SEARCHING = ("length_penalty", "early_stopping")
_READ: dict[str, tuple[str, ...]] = {
    "greedy": (),
    "beam": ("num_beams", *_SEARCHING),
    "nucleus": ("do_sample", *_DRAWING),
    "vcd": ("do_sample", *_VCD),
    "opera": ("opera_beams", *_OPERA, "opera_precision", *_SEARCHING),
    "dbd": (*_DBD, "dbd_prompts"),
}
"""Strategy to the keys that it reads and some other does not; ``vcd`` reads those of drawing where it draws."""
_NEUTRAL = {"temperature": 0, "top_p": 1, "top_k": 0, "num_beams": 1, "length_penalty": 1, "early_stopping": False}
"""Key to the value that asks for nothing; ``do_sample`` does not where it is false or the temperature is 0."""
_OTHERS = ("decoding", "do_sample", "early_stopping", "opera_precision", "dbd_prompts", "until", "max_gen_toks")


def decoder_of(generation_kwargs: Mapping[str, Any]) -> Decoder:
    """Return the strategy that settings ask for.

    Raises:
        UsageError: A key is unknown or not read by the strategy, a value makes no sense, or two contradict each other.
    """
    settings = _checked(generation_kwargs)
    strategy = _strategy(settings)
    _require_all_read(settings, strategy)
    more = {key: settings[key] for key in (*_MORE, "early_stopping") if key in settings}
    if "repetition_penalty" in more:
        # The library takes no whole number.
        more["repetition_penalty"] = float(more["repetition_penalty"])
    tokens = settings.get("max_new_tokens", _MAX_NEW_TOKENS)
    if strategy == "beam":
        return Generating(tokens, num_beams=settings.get("num_beams", _BEAMS), more=more)
    if strategy == "nucleus":
        return Generating(tokens, sampling=_sampling(settings), more=more)
    own = {key.removeprefix(f"{strategy}_"): value for key, value in settings.items() if key.startswith(f"{strategy}_")}
    if strategy == "vcd":
        # Its paper draws tokens; a task that asks for greedy captions gets them.
        sampling = _sampling(settings) if _is_told_to_draw(settings) else None
        return Contrastive(tokens, sampling=sampling, more=more, seed=settings.get("seed", 0), **own)
    if strategy == "opera":
        beams = {"beams": own.pop("beams")} if "beams" in own else {}
        return Opera(tokens, trust=OverTrust(**own), more=more, **beams)
    greedy = Generating(tokens, more=more)
    if strategy == "greedy":
        return greedy
    prompts = FactPrompts.named(str(own.pop("prompts", "default")))
    return DifferentiatedBeams(greedy, prompts=prompts, **dict[str, Any](prompts.settings, **own))


def _strategy(settings: Mapping[str, Any]) -> str:
    """Return the strategy's name.

    Raises:
        UsageError: It is not known, or other keys contradict it.
    """
    strategy = settings.get("decoding")
    beams, temperature = settings.get("num_beams"), settings.get("temperature")
    draws = settings.get("do_sample") or (settings.get("do_sample") is None and bool(temperature))
    if strategy is None:
        draws = draws and temperature != 0
        if draws and beams is not None and beams > 1:
            raise UsageError("do_sample with num_beams above 1 is not supported.", "Leave out one of them.")
        return "nucleus" if draws else "beam" if beams is not None and beams > 1 else "greedy"
    if not isinstance(strategy, str) or strategy not in _READ:
        raise UsageError(
            f"decoding={strategy} is not known.{did_you_mean(str(strategy), _READ)}", f"Known are {', '.join(_READ)}."
        )
    if strategy == "beam" and beams == 1:
        raise UsageError("decoding=beam contradicts num_beams=1.", f"Set num_beams too, to {_BEAMS} for instance.")
    if strategy == "nucleus" and temperature == 0:
        raise UsageError("decoding=nucleus contradicts temperature=0.", "Set temperature too, to 1 for instance.")
    return strategy


def _is_told_to_draw(settings: Mapping[str, Any]) -> bool:
    return bool(settings.get("do_sample")) and settings.get("temperature") != 0


def _require_all_read(settings: Mapping[str, Any], strategy: str) -> None:
    """Check that the strategy reads every setting that asks for something.

    Raises:
        UsageError: It does not; the first such key is named.
    """
    told_to_draw = _is_told_to_draw(settings)
    read = {*_READ[strategy], *(_DRAWING if strategy == "vcd" and told_to_draw else ())}
    for key, value in settings.items():
        readers = [name for name, keys in _READ.items() if key in keys]
        asks = told_to_draw if key == "do_sample" else value != _NEUTRAL.get(key)
        if not readers or key in read or not asks:
            continue
        own = f"{strategy}_{key.removeprefix('num_')}"
        if own in read:
            remedy = f"Its own key is {own}."
        elif strategy == "vcd" and key in _DRAWING:
            remedy = "It draws tokens with do_sample=true."
        else:
            remedy = f"It is a key of {' and '.join(f'decoding={name}' for name in readers)}."
        raise UsageError(
            f"generation_kwargs: {key}={value!r} has no effect with decoding={strategy}.",
            f"{remedy} Or leave it out; {key}=null removes the task's setting.",
        )


def _sampling(settings: Mapping[str, Any]) -> Sampling:
    keys = ("temperature", "top_p", "top_k", "seed")
    return Sampling(**{key: settings[key] for key in keys if key in settings})


def _checked(generation_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not None, checked one by one."""
    settings = {key: value for key, value in generation_kwargs.items() if value is not None}
    if "max_gen_toks" in settings:
        other = settings.pop("max_gen_toks")
        if settings.setdefault("max_new_tokens", other) != other:
            raise UsageError(
                f"generation_kwargs: max_gen_toks={other!r} contradicts max_new_tokens={settings['max_new_tokens']!r}.",
                "They are two names of one key: set one of them to null.",
            )
    for key, value in settings.items():
        if key not in _NUMBERS and key not in _OTHERS:
            raise UsageError(
                f"generation_kwargs: unknown key '{key}'.{did_you_mean(key, (*_NUMBERS, *_OTHERS))}",
                f"Known are {', '.join((*_NUMBERS, *_OTHERS))}.",
            )
        if key in ("do_sample", "early_stopping") and not isinstance(value, bool):
            raise UsageError(f"generation_kwargs: {key}={value!r} is neither true nor false.")
        if key in _NUMBERS:
            _check_number(key, value)
    return settings


def _check_number(key: str, value: Any) -> None:
    least = _LEAST_WHOLE.get(key, -_LARGEST if key == "length_penalty" else 0)
    types = int if key in _LEAST_WHOLE else (int, float)
    if isinstance(value, bool) or not isinstance(value, types) or not least <= value <= _LARGEST:
        expected = "a whole number" if key in _LEAST_WHOLE else "a finite number"
        bound = f" of at least {least:g}" if least > -_LARGEST else ""
        raise UsageError(f"generation_kwargs: {key}={value!r} is not {expected}{bound}.")
    if key == "repetition_penalty" and value == 0:
        raise UsageError(f"generation_kwargs: {key}={value!r} is not above 0.", "1 leaves tokens as they are.")
    most = {"top_p": 1, "vcd_beta": 1, "vcd_noise_step": NOISE_STEPS - 1}.get(key, value)
    if value > most:
        raise UsageError(f"generation_kwargs: {key}={value!r} is above {most}.")
