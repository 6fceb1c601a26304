"""Models behind any server of the OpenAI API (vLLM, SGLang, hosted ones), as captioner and as judge."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ...errors import AdapterError
from ..contracts import Caption, Captioned, Captioner, CaptionRequest, Judge, Judged, Judgement, JudgeRequest
from ..images.video import own_sampling
from .client import ChatClient, ChatRequest, UnusableAnswer
from .messages import chat_messages, sampling_settings, shown_images

_TOP_LOGPROBS = 20
"""Number of probabilities to request at each place: the API's maximum."""


@dataclass(eq=False, repr=False)
class _OpenAIServer:
    """A model on a server of the OpenAI API.

    The key is read from the environment, and from there alone; it is in no record, fingerprint or message.

    Args:
        model: The name under which the server knows the model.
        base_url: The server's address with the version, such as ``http://localhost:8000/v1``.
        revision: Version of the served model, where the name has none; part of the fingerprint.
        system: Goes before every request.
        concurrency: Requests under way at once.
        timeout: Seconds that one attempt may take as a whole.
        max_retries: Attempts after the first, where another may help.
        api_key_env: Environment variable that holds the key, which is sent to ``base_url``, whichever it is.
        limit_name: How the server calls the limit of tokens: some hosted models only take
            ``max_completion_tokens``.
        send_temperature: Whether the temperature is sent; some hosted models take none.
        price_in: Price of a million prompt tokens, in any currency; with ``price_out`` gives ``cost``.
        price_out: Price of a million tokens of the answers.
        name: How results call it; the model's name unless given.

    Raises:
        AdapterError: A number is out of range, or ``base_url`` is no address.
    """

    model: str
    base_url: str = "https://api.openai.com/v1"
    revision: str | None = None
    system: str | None = None
    concurrency: int = 16
    timeout: float = 180.0
    max_retries: int = 5
    api_key_env: str = "OPENAI_API_KEY"
    limit_name: str = "max_tokens"
    send_temperature: bool = True
    price_in: float | None = None
    price_out: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.timeout <= 0 or self.max_retries < 0:
            raise AdapterError("concurrency must be at least 1, timeout above 0 and max_retries at least 0")
        self.name = self.name or self.model
        self._client = ChatClient(self.base_url, self.api_key_env, self.timeout, self.max_retries)

    def fingerprint(self) -> dict[str, Any]:
        """Return the model and its settings, not the address: a model is the same on another machine.

        Two servers may serve different weights under one name; ``revision`` distinguishes them.
        """
        return {
            "adapter": "openai",
            "model": self.model,
            "revision": self.revision,
            "system": self.system,
            "temperature": "as asked" if self.send_temperature else "the server's",
        }

    def usage(self) -> Mapping[str, float]:
        """Return tokens, requests and retries so far, and ``cost`` where both prices are known."""
        tokens = self._client.spent
        if self.price_in is None or self.price_out is None:
            return dict(tokens)
        millionths = tokens["prompt_tokens"] * self.price_in + tokens["completion_tokens"] * self.price_out
        return {**tokens, "cost": millionths / 1e6}

    def _body(self, messages: list[dict[str, Any]], settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        named = {self.limit_name if name == "max_tokens" else name: value for name, value in settings.items()}
        if not self.send_temperature:
            named.pop("temperature", None)
        return {"model": self.model, "messages": messages, **named, **more}


@dataclass(eq=False, repr=False)
class OpenAICaptioner(_OpenAIServer, Captioner):
    """Captions by any OpenAI-compatible server: vLLM, SGLang, hosted models.

    Each image goes with its request as a data URL, a video as some of its frames; a document without an image is asked
    about by text alone. A model that refuses to answer, or whose tokens are used up before it does, gave an empty
    caption. For the other arguments see ``_OpenAIServer``; ``batch_size`` of a run is the number of requests at once.

    Args:
        frames: Frames of a video that are sent, at equal distances; the task's number unless given.
        fps: Frames of a second that are sent, ``frames`` at most.
    """

    frames: int | None = None
    fps: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._sampling = own_sampling(self.frames, self.fps)

    def fingerprint(self) -> dict[str, Any]:
        """Return the model and its settings; see ``_OpenAIServer.fingerprint``."""
        own = {} if self._sampling is None else {"frames": asdict(self._sampling)}
        return {**super().fingerprint(), **own}

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Request all captions concurrently; each is yielded when it arrives."""
        # Fails here for settings that the API cannot express.
        settings = [sampling_settings(request.generation_kwargs) for request in requests]
        asked = [ChatRequest(partial(self._request, *both)) for both in zip(requests, settings, strict=True)]
        for at, answer in self._client.ask(asked, batch_size or self.concurrency):
            if not isinstance(answer, UnusableAnswer):
                tokens = answer.usage.get("completion_tokens")
                yield Captioned({at: Caption(answer.text, tokens, answer.cut, answer.remark)})
            elif answer.of == "silent":
                yield Captioned({at: Caption("")})
            else:
                reasons = {at: answer.reason}
                yield Captioned(unseen=reasons) if answer.of == "image" else Captioned(failures=reasons)

    def _request(self, request: CaptionRequest, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        images = shown_images(request, self._sampling)
        messages, remark = chat_messages(request.prompt, images, self.system)
        return self._body(messages, settings), remark


class OpenAIJudge(_OpenAIServer, Judge):
    """Judgements by any OpenAI-compatible server: vLLM, SGLang, hosted models.

    Answers are decoded greedily (temperature 0) unless a request says otherwise; servers have no beams.
    Probabilities are those of the 20 likeliest tokens of each place, the API's maximum. For the
    arguments see ``_OpenAIServer``.
    """

    def stream(self, requests: Sequence[JudgeRequest]) -> Iterator[Judged]:
        """Request all judgements concurrently; each is yielded when it arrives."""
        # Fails here for settings that the API cannot express.
        asked = [
            ChatRequest(partial(self._request, request, _decoding(request)), request.candidates) for request in requests
        ]
        for at, answer in self._client.ask(asked, self.concurrency):
            if isinstance(answer, UnusableAnswer):
                yield Judged({}, {at: answer.reason})
            else:
                yield Judged({at: Judgement(answer.text, answer.tokens, answer.remark)})

    def _request(self, request: JudgeRequest, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        system = self.system if request.system is None else request.system
        images = [] if request.image is None else [request.image]
        messages, remark = chat_messages(request.prompt, images, system)
        wanted = {"logprobs": True, "top_logprobs": _TOP_LOGPROBS} if request.candidates else {}
        return self._body(messages, settings, **wanted), remark


def _decoding(request: JudgeRequest) -> dict[str, Any]:
    """Return how an answer is found, in the server's names.

    Raises:
        AdapterError: By beams, say.
    """
    sampled = {"do_sample": True} if request.decoding.get("temperature") else {}
    return sampling_settings({**request.decoding, **sampled, "max_tokens": request.max_tokens})
