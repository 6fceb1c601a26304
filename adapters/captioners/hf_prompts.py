"""Turns a task's instruction into the text that a model was trained to answer."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ...errors import AdapterError

_PLACE = "{prompt}"


class PromptFormat:
    """How a model is asked.

    Args:
        processor: The model's processor.
        form: ``chat``: the model's chat template, with the image before the instruction. ``none``: the image alone,
            for models that caption what they see. Any other text is sent as it is, with the task's instruction
            where ``{prompt}`` stands in it. By default ``chat``, where the model has a template, and ``none``, where it
            takes no text.
        system: What stands before the conversation, in the template's system role.

    Raises:
        AdapterError: The model has no chat template, and nothing else was asked for; or it takes no text.
    """

    def __init__(self, processor: Any, form: str | None, system: str | None) -> None:
        self._processor = processor
        tokenizer = processor.tokenizer
        self._template = getattr(processor, "chat_template", None) or getattr(
            tokenizer, "chat_template", None
        )
        takes_text = getattr(processor, "takes_text", True)
        self._form = form or ("chat" if takes_text else "none")
        self._system = system
        if not takes_text and self._form != "none":
            raise AdapterError(
                f"prompt_format={form}: the model takes the image alone.", "Leave 'prompt_format' out."
            )
        if self._form == "chat" and not self._template:
            raise AdapterError(
                "the model has no chat template.",
                "Say how it is asked: --model_args prompt_format=none (the image alone), or a text such as "
                "'prompt_format=Question: {prompt} Answer:'.",
            )
        if system is not None and self._form != "chat":
            raise AdapterError(f"system=... needs a chat template, not prompt_format={form}.")

    def text(self, prompt: str) -> str | None:
        """Return what is sent beside the image; None for the image alone.

        Raises:
            AdapterError: The chat template does not take such a conversation.
        """
        if self._form == "none":
            return None
        if self._form != "chat":
            return self._form.replace(_PLACE, prompt)
        conversation: list[dict[str, Any]] = [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}
        ]
        if self._system is not None:
            system = {"role": "system", "content": [{"type": "text", "text": self._system}]}
            conversation.insert(0, system)
        try:
            return self._processor.apply_chat_template(
                conversation, chat_template=self._template_text(), add_generation_prompt=True, tokenize=False
            )
        except Exception as error:
            # A template raises what its author likes.
            raise AdapterError(
                f"the model's chat template failed: {type(error).__name__}: {error}",
                "--model_args prompt_format='...{prompt}...' asks without it.",
            ) from error

    def _template_text(self) -> str | None:
        # Of several templates by name the library takes its own default.
        return self._template if isinstance(self._template, str) else None

    def fingerprint(self) -> dict[str, Any]:
        """Return what decides the text."""
        template = json.dumps(self._template, sort_keys=True).encode() if self._form == "chat" else b""
        return {
            "prompt_format": self._form,
            "system": self._system,
            "chat_template": hashlib.sha256(template).hexdigest() if template else None,
        }
