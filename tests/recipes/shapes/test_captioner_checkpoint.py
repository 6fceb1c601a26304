"""The captioner that ships for the shapes world: it sees what is there, and says it as the world does."""

import re
from collections import Counter

import pytest

from capbench.adapters import CaptionRequest
from capbench.adapters.aliases import resolve_model
from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.images.handles import ImageHandle
from capbench.tasks.shapes.describing import PLACES
from capbench.tasks.shapes.pictures import DrawnPicture
from capbench.tasks.shapes.sampling import SPLITS, sample_scene
from capbench.tasks.shapes.scene import COLOURS, SHAPES

HELD_OUT = [sample_scene(seed) for seed in SPLITS["validation"][:24]]
KIND = f"(?:{'|'.join(COLOURS)}) (?:{'|'.join(SHAPES)})"
NAME = f"[Aa]n? (?:(?:small|large) )?(?:(?:striped|dotted|checked) )?{KIND}"
WHERE = "(?:to the left of|to the right of|above|below)"
CAPTION = re.compile(rf"(?i:{'|'.join(PLACES.values())}) there is {NAME}\.(?: {NAME} is {WHERE} the {KIND}\.)*")


def captions_of(captioner: HfCaptioner) -> list[str]:
    requests = [
        CaptionRequest(
            str(scene.seed),
            None,
            "Describe this image in detail.",
            {"max_new_tokens": 96},
            pixels=ImageHandle(DrawnPicture(scene)),
        )
        for scene in HELD_OUT
    ]
    written = [part for batch in captioner.stream(requests) for part in batch.captions.items()]
    return [caption.text.strip() for _, caption in sorted(written, key=lambda pair: pair[0])]


def scenes_with_right_shapes(captions: list[str]) -> int:
    """Return in how many scenes a caption introduces all shapes that are there, and no others."""
    said = [Counter(name.split()[-1] for name in re.findall(NAME, caption)) for caption in captions]
    return sum(
        shapes == Counter(thing.shape for thing in scene.things) for shapes, scene in zip(said, HELD_OUT, strict=True)
    )


@pytest.fixture(scope="module")
def shipped() -> HfCaptioner:
    captioner = resolve_model("shapes-llava", {"device": "cpu"}).load()
    assert isinstance(captioner, HfCaptioner)
    return captioner


def test_captions_name_what_is_there_in_the_words_of_the_world(shipped: HfCaptioner):
    captions = captions_of(shipped)
    assert scenes_with_right_shapes(captions) >= 0.85 * len(HELD_OUT)
    assert [caption for caption in captions if not CAPTION.fullmatch(caption)] == []
