"""A captioner of the shapes world with planted faults: omissions and inventions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import AdapterError
from ...tasks.shapes.describing import name as name_of
from ...tasks.shapes.grading import absent_thing
from ...tasks.shapes.scene import Scene, Thing
from ..aliases import resolve_model
from ..contracts import Caption, Captioned, Captioner, CaptionRequest
from ..decoding.generating import generator_of
from ..images.handles import ImageHandle
from ..images.reading import UnreadableImage
from .regions import SceneView, see

_REVISION = 1
_IN_FULL = 0.9
"""Share of a thing's box that a crop shows, for it to be named."""


@dataclass(eq=False, repr=False)
class PlantedCaptioner(Captioner):
    """Captions whole pictures by a model, less their last sentences, and crops by the scene; both with inventions.

    Args:
        model: The captioner of whole pictures.
        omitted: Number of sentences omitted at the end; at least one is kept.
        inventions: Share of captions that get a thing that the picture does not show, in an additional sentence.
        seed: Seed of the random faults.
        name: How results call it.
    """

    model: str = "shapes-llava"
    omitted: int = 1
    inventions: float = 0.5
    seed: int = 0
    name: str = "shapes-planted"

    def __post_init__(self) -> None:
        loaded = resolve_model(self.model).load()
        if not isinstance(loaded, Captioner):
            raise AdapterError(f"model={self.model} writes no captions", "Name a captioner, such as shapes-llava.")
        self._inner = loaded
        self.batch_size = loaded.batch_size

    def fingerprint(self) -> dict[str, Any]:
        """Return the model and the planted faults."""
        return {
            "adapter": "shapes_planted",
            "revision": _REVISION,
            "omitted": self.omitted,
            "inventions": self.inventions,
            "seed": self.seed,
            "model": self._inner.fingerprint(),
        }

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Write the captions; see ``Captioner.stream``."""
        wholes: list[int] = []
        captions: dict[int, Caption] = {}
        unseen: dict[int, str] = {}
        seen: dict[int, SceneView] = {}
        for at, request in enumerate(requests):
            try:
                if not isinstance(request.pixels, ImageHandle):
                    raise UnreadableImage("there is no image")
                seen[at] = see(request.pixels)
                if request.pixels.box is None:
                    wholes.append(at)
                else:
                    captions[at] = Caption(self._of_crop(seen[at], request))
            except UnreadableImage as error:
                unseen[at] = str(error)
        yield Captioned(captions, unseen=unseen)
        for batch in self._inner.stream([requests[at] for at in wholes], batch_size):
            yield Captioned(
                {
                    wholes[at]: Caption(self._of_whole(caption.text, seen[wholes[at]].scene, requests[wholes[at]]))
                    for at, caption in batch.captions.items()
                },
                {wholes[at]: why for at, why in batch.failures.items()},
                {wholes[at]: why for at, why in batch.unseen.items()},
            )

    def _of_whole(self, text: str, scene: Scene, request: CaptionRequest) -> str:
        sentences = [sentence.strip() for sentence in text.split(".") if sentence.strip()]
        kept = sentences[: max(1, len(sentences) - self.omitted)]
        return self._planted(f"{'. '.join(kept)}.", scene, request)

    def _of_crop(self, seen: SceneView, request: CaptionRequest) -> str:
        names = [name_of(thing) for thing in seen.scene.things if _is_shown(thing, seen)]
        text = f"There is {' and '.join(names)}." if names else "There is nothing."
        return self._planted(text, seen.scene, request)

    def _planted(self, text: str, scene: Scene, request: CaptionRequest) -> str:
        pixels = request.pixels
        place = "" if not isinstance(pixels, ImageHandle) or pixels.box is None else str(pixels.box)
        rng = generator_of(self.seed, request.id, place)
        if rng.random() >= self.inventions:
            return text
        return f"{text} There is also {name_of(absent_thing(scene, rng))}."


def _is_shown(thing: Thing, seen: SceneView) -> bool:
    left, top, right, bottom = (edge * seen.side for edge in thing.box)
    window = seen.window
    across = max(0.0, min(right, window[2]) - max(left, window[0]))
    down = max(0.0, min(bottom, window[3]) - max(top, window[1]))
    return across * down >= _IN_FULL * (right - left) * (bottom - top)
