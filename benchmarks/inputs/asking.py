"""Requests captions that the store does not have, a window of requests at a time.

Before the first caption only the images of the first windows are hashed, for any number of documents.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from ...adapters import Caption, Captioned, Captioner, CaptionRequest, VideoHandle
from ...adapters.images.handles import digests
from ...metrics import Cache
from ...progress import Reporter, unheard
from .items import image_key

_FIRST_WINDOW, _LAST_WINDOW = 64, 4096
"""Size of the first window and the largest size; windows double, and are multiples of the batch size."""


@dataclass(frozen=True)
class _KeyedRequest:
    """A request with its position among all and its key in the store; the key is empty where nothing is cached."""

    position: int
    request: CaptionRequest
    key: str


def answers(
    captioner: Captioner,
    requests: Iterable[CaptionRequest],
    cache: Cache,
    batch_size: int | None = None,
    report: Reporter = unheard,
    total: int = 0,
) -> Iterator[Captioned]:
    """Yield the answers of a captioner; captions in the store are not requested again.

    Images of a window are hashed while the model works on the window before. The model receives full batches in the
    order of the requests; only the last may be smaller. Each batch of captions is cached as soon as it is written.

    Args:
        captioner: The captioner.
        requests: The requests; may be an iterator.
        cache: The cache of captions.
        batch_size: Requests per batch; None is the captioner's default.
        report: Receives the number of captions so far, and ``total``.
        total: Number of requests.

    Yields:
        Answers by position among all requests; each position occurs once, in one of the four kinds of answers.

    Raises:
        AdapterError: The model failed as a whole.
    """
    batch = batch_size or captioner.batch_size
    producer, captions = captioner.fingerprint(), 0
    waiting: list[_KeyedRequest] = []

    def tell(new: int) -> None:
        report(captions + new, total)

    for window, is_last in _windows(requests, batch, captioner.keep):
        known = cache.get(producer, [question.key for question in window]) if captioner.keep else {}
        cached = {question.position: Caption(**known[question.key]) for question in window if question.key in known}
        captions += len(cached)
        report(captions, total)
        yield Captioned(cached)
        waiting += [question for question in window if question.position not in cached]
        if len(waiting) >= len(window) and not is_last:
            full = len(waiting) // batch * batch
            answered = _ask(captioner, waiting[:full], producer, cache, batch_size, tell)
            captions += len(answered.captions)
            yield answered
            waiting = waiting[full:]
    if waiting:
        yield _ask(captioner, waiting, producer, cache, batch_size, tell)


def merged(pieces: Iterable[Captioned]) -> Captioned:
    """Return pieces of answers as one, with captions in the order of the requests."""
    captions: dict[int, Caption] = {}
    failures: dict[int, str] = {}
    unseen: dict[int, str] = {}
    absent: set[int] = set()
    for piece in pieces:
        captions |= piece.captions
        failures |= piece.failures
        unseen |= piece.unseen
        absent |= piece.absent
    return Captioned(dict(sorted(captions.items())), failures, unseen, frozenset(absent))


def _windows(requests: Iterable[CaptionRequest], batch: int, keys: bool) -> Iterator[tuple[list[_KeyedRequest], bool]]:
    """Yield windows in order, and whether each is the last; keys are computed while the window before is in use."""
    numbered = enumerate(requests)
    size = -(-_FIRST_WINDOW // batch) * batch

    def taken(count: int) -> Future[list[_KeyedRequest]] | None:
        # In the caller's thread: the iterator of requests may not be thread-safe.
        window = list(islice(numbered, count))
        return ahead.submit(_keyed, window, keys) if window else None

    with ThreadPoolExecutor(1, thread_name_prefix="hash ahead") as ahead:
        upcoming = taken(size)
        while upcoming is not None:
            size = max(size, min(2 * size, _LAST_WINDOW // batch * batch))
            window, upcoming = upcoming, taken(size)
            yield window.result(), upcoming is None


def _keyed(window: Sequence[tuple[int, CaptionRequest]], keys: bool) -> list[_KeyedRequest]:
    if not keys:
        return [_KeyedRequest(position, request, "") for position, request in window]
    seen = [request.pixels for _, request in window if request.pixels is not None]
    hashes = iter(digests(seen))
    return [
        _KeyedRequest(position, request, _key(request, None if request.pixels is None else next(hashes)))
        for position, request in window
    ]


def _key(request: CaptionRequest, digest: str | OSError | None) -> str:
    # The captioner reports a missing file.
    image = digest if isinstance(digest, str) else image_key(request.image)
    parts = [request.prompt, dict(request.generation_kwargs), image, request.id]
    if isinstance(request.pixels, VideoHandle):
        parts += [request.pixels.span, asdict(request.sampling)]
    return json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)


def _ask(
    captioner: Captioner,
    asked: Sequence[_KeyedRequest],
    producer: Mapping[str, Any],
    cache: Cache,
    batch_size: int | None,
    tell: Callable[[int], object],
) -> Captioned:
    """Return the answers to some requests by position among all; captions are cached and counted."""
    batches: list[Captioned] = []
    for batch in captioner.stream([question.request for question in asked], batch_size):
        if captioner.keep:
            cache.put(producer, {asked[at].key: asdict(caption) for at, caption in batch.captions.items()})
        batches.append(batch)
        tell(sum(len(answered.captions) for answered in batches))
    answer = merged(batches)
    captions = answer.captions
    unseen = {at: reason for at, reason in answer.unseen.items() if at not in captions}
    absent = answer.absent - captions.keys() - unseen.keys()
    silent = set(range(len(asked))) - captions.keys() - unseen.keys() - absent
    return Captioned(
        {asked[at].position: caption for at, caption in captions.items()},
        {asked[at].position: answer.failures.get(at, "was not given by the model") for at in sorted(silent)},
        {asked[at].position: reason for at, reason in unseen.items()},
        frozenset(asked[at].position for at in absent),
    )
