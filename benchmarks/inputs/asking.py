"""Asks a captioner for what the store does not have, a window of requests at a time.

Whatever the number of documents, only the images of the first windows are hashed before the first caption is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from ...adapters import Caption, Captioned, Captioner, CaptionRequest
from ...adapters.images.handles import digests
from ...metrics import Cache
from ...progress import Reporter, unheard
from .items import image_key

_FIRST_WINDOW, _LAST_WINDOW = 64, 4096
"""Requests of the first window and of the later ones, each twice the one before; whole batches in any case."""


@dataclass(frozen=True)
class _Asked:
    """A request, where it stands among all, and its key in the store; none where nothing is kept."""

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
    """Yield what a captioner answers; what the store knows is not asked for again.

    Requests are taken a window at a time, whose images are hashed while the model works on those before. It is asked in
    the order of the requests and in full batches, of which the last alone may be smaller. Captions are kept a batch at
    a time, as soon as they are written.

    Args:
        captioner: Who is asked.
        requests: What for; an iterator will do.
        cache: What knows captions, and keeps new ones.
        batch_size: Requests at once; None leaves it to the captioner.
        report: Is told how many captions there are, of ``total``.
        total: How many requests there are.

    Yields:
        Answers by position among all requests. Each position comes once, and in one of the four kinds of answers.

    Raises:
        AdapterError: The model failed as a whole.
    """
    batch = batch_size or captioner.batch_size
    producer = captioner.fingerprint()
    waiting: list[_Asked] = []
    captions = 0

    def tell(new: int) -> None:
        report(captions + new, total)

    for window, is_last in _windows(requests, batch, captioner.keep):
        known = cache.get(producer, [one.key for one in window]) if captioner.keep else {}
        found = {one.position: Caption(**known[one.key]) for one in window if one.key in known}
        captions += len(found)
        report(captions, total)
        yield Captioned(found)
        waiting += [one for one in window if one.position not in found]
        if len(waiting) >= len(window) and not is_last:
            full = len(waiting) // batch * batch
            answered = _ask(captioner, waiting[:full], producer, cache, batch_size, tell)
            captions += len(answered.captions)
            yield answered
            waiting = waiting[full:]
    if waiting:
        yield _ask(captioner, waiting, producer, cache, batch_size, tell)


def merged(pieces: Iterable[Captioned]) -> Captioned:
    """Return answers that came in pieces as one, captions in the order of the requests."""
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


def _windows(requests: Iterable[CaptionRequest], batch: int, keys: bool) -> Iterator[tuple[list[_Asked], bool]]:
    """Yield requests in order, and whether they are the last; their keys are made while those before are used."""
    numbered = enumerate(requests)
    size = -(-_FIRST_WINDOW // batch) * batch

    def taken(count: int) -> Future[list[_Asked]] | None:
        # In the caller's own thread: whoever gives the requests may not know of others.
        window = list(islice(numbered, count))
        return ahead.submit(_keyed, window, keys) if window else None

    with ThreadPoolExecutor(1, thread_name_prefix="hash ahead") as ahead:
        upcoming = taken(size)
        while upcoming is not None:
            size = max(size, min(2 * size, _LAST_WINDOW // batch * batch))
            window, upcoming = upcoming, taken(size)
            yield window.result(), upcoming is None


def _keyed(window: Sequence[tuple[int, CaptionRequest]], keys: bool) -> list[_Asked]:
    if not keys:
        return [_Asked(position, request, "") for position, request in window]
    seen = [request.pixels for _, request in window if request.pixels is not None]
    found = iter(digests(seen))
    return [
        _Asked(position, request, _key(request, None if request.pixels is None else next(found)))
        for position, request in window
    ]


def _key(request: CaptionRequest, digest: str | OSError | None) -> str:
    # A file that is missing is the captioner's to report.
    image = digest if isinstance(digest, str) else image_key(request.image)
    return json.dumps(
        [request.prompt, dict(request.generation_kwargs), image, request.id],
        sort_keys=True,
        ensure_ascii=False,
        default=str,
    )


def _ask(
    captioner: Captioner,
    asked: Sequence[_Asked],
    producer: Mapping[str, Any],
    cache: Cache,
    batch_size: int | None,
    tell: Callable[[int], object],
) -> Captioned:
    """Return the answers to some requests, one each, by position among all; captions are kept, and counted."""
    captions: dict[int, Caption] = {}
    failures: dict[int, str] = {}
    unseen: dict[int, str] = {}
    absent: set[int] = set()
    for batch in captioner.stream([one.request for one in asked], batch_size):
        if captioner.keep:
            cache.put(producer, {asked[at].key: asdict(caption) for at, caption in batch.captions.items()})
        captions |= batch.captions
        failures |= batch.failures
        unseen |= batch.unseen
        absent |= batch.absent
        tell(len(captions))
    unseen = {at: reason for at, reason in unseen.items() if at not in captions}
    absent -= captions.keys() | unseen.keys()
    silent = set(range(len(asked))) - captions.keys() - unseen.keys() - absent
    return Captioned(
        {asked[at].position: caption for at, caption in captions.items()},
        {asked[at].position: failures.get(at, "was not given by the model") for at in sorted(silent)},
        {asked[at].position: reason for at, reason in unseen.items()},
        frozenset(asked[at].position for at in absent),
    )
