from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tiny_images import encoded
from tiny_regions import make_tiny_grounding_dino, make_tiny_owlv2

from capbench.adapters import ImageHandle
from capbench.adapters.images.reading import UnreadableImage
from capbench.adapters.regions.detectors import GroundingDinoDetector, HfDetector, Owlv2Detector

PHRASES = ["red star", "blue circles", "a star"]


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 70, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def handle(picture: Image.Image) -> ImageHandle:
    return ImageHandle(encoded(picture))


@pytest.fixture(scope="module")
def owlv2_folder(tmp_path_factory: pytest.TempPathFactory, tiny_clip) -> Path:
    return make_tiny_owlv2(tmp_path_factory.mktemp("owlv2"), tiny_clip.hf_folder)


@pytest.fixture(scope="module")
def owlv2(owlv2_folder: Path) -> Owlv2Detector:
    return Owlv2Detector(str(owlv2_folder), device="cpu")


@pytest.fixture(scope="module")
def dino_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_grounding_dino(tmp_path_factory.mktemp("dino"))


@pytest.fixture(scope="module")
def dino(dino_folder: Path) -> GroundingDinoDetector:
    return GroundingDinoDetector(str(dino_folder), device="cpu")


def test_boxes_and_scores_of_owlv2_are_those_of_transformers(owlv2_folder, owlv2, picture, handle):
    model = transformers.Owlv2ForObjectDetection.from_pretrained(owlv2_folder).eval()
    processor = transformers.Owlv2Processor.from_pretrained(owlv2_folder)
    inputs = processor(text=[PHRASES], images=picture, return_tensors="pt")
    with torch.inference_mode():
        output = model(**inputs)
    (theirs,) = processor.image_processor.post_process_object_detection(
        output, threshold=0.0, target_sizes=[(picture.height, picture.width)]
    )
    detections = owlv2.detect(handle, PHRASES)

    assert detections.boxes.shape == (16, 4) and detections.scores.shape == (16, 3)
    np.testing.assert_allclose(detections.boxes, theirs["boxes"], atol=1e-4)
    np.testing.assert_allclose(detections.scores.max(axis=1), theirs["scores"], atol=1e-6)
    assert detections.scores.argmax(axis=1).tolist() == theirs["labels"].tolist()
    np.testing.assert_allclose(detections.scores, output.logits[0].sigmoid(), atol=1e-6)
    # The scores of random weights differ enough for that to say something.
    assert detections.scores.std() > 1e-4 and np.ptp(detections.boxes, axis=0).min() > 1


def test_phrase_of_owlv2_has_the_same_score_whatever_else_is_asked_for(owlv2: Owlv2Detector, handle: ImageHandle):
    alone, among = owlv2.detect(handle, ["a star"]), owlv2.detect(handle, PHRASES)

    np.testing.assert_allclose(alone.scores[:, 0], among.scores[:, 2], atol=1e-6)
    np.testing.assert_allclose(alone.boxes, among.boxes, atol=1e-4)
    long = owlv2.detect(handle, ["star " * 40])
    assert np.isfinite(long.scores).all()


def test_owlv2_looks_once_at_an_image_that_several_lists_are_asked_of(owlv2, picture, handle):
    looked: list[int] = []
    tower = owlv2._model.owlv2.vision_model
    hook = tower.register_forward_hook(lambda *arguments: looked.append(len(looked)))
    cut = ImageHandle(handle.source, (0, 0, 30, 30))
    try:
        first = owlv2.detect(handle, PHRASES)
        assert len(looked) <= 1
        looked.clear()
        for phrases in (PHRASES[:1], [], PHRASES):
            again = owlv2.detect(ImageHandle(handle.source), phrases)
        assert not looked
        other = owlv2.detect(cut, PHRASES)
        assert len(looked) == 1
        owlv2.detect(handle, PHRASES)
        assert len(looked) == 2
    finally:
        hook.remove()
    assert (again.scores == first.scores).all() and (again.boxes == first.boxes).all()
    assert not np.allclose(other.scores, first.scores, atol=1e-6)


def test_boxes_and_scores_of_grounding_dino_are_those_of_transformers(dino_folder, dino, picture, handle):
    model = transformers.GroundingDinoForObjectDetection.from_pretrained(dino_folder).eval()
    processor = transformers.GroundingDinoProcessor.from_pretrained(dino_folder)
    inputs = processor(text=[PHRASES], images=picture, return_tensors="pt")
    words = processor.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    with torch.inference_mode():
        output = model(**inputs)
    (theirs,) = processor.post_process_grounded_object_detection(
        output, inputs["input_ids"], threshold=0.0, text_threshold=0.0, target_sizes=[(picture.height, picture.width)]
    )
    detections = dino.detect(handle, PHRASES)
    tokens = output.logits[0].sigmoid().numpy()

    assert words == ["[CLS]", "red", "star", ".", "blue", "circle", "##s", ".", "a", "star", ".", "[SEP]"]
    np.testing.assert_allclose(detections.boxes, theirs["boxes"], atol=1e-3)
    for number, own in enumerate(([1, 2], [4, 5, 6], [8, 9])):
        np.testing.assert_allclose(detections.scores[:, number], tokens[:, own].max(axis=1), atol=1e-5)
    assert detections.scores.std() > 1e-4


def test_phrases_beyond_the_tokens_of_grounding_dino_are_asked_for_in_lots(dino, handle):
    # 24 tokens, of which [CLS] and [SEP] are two: seven phrases of two words and a dot.
    phrases = ["red star"] * 7 + ["blue circle"] * 2
    detections = dino.detect(handle, phrases)
    first, second = dino.detect(handle, phrases[:7]), dino.detect(handle, phrases[7:])

    np.testing.assert_allclose(detections.boxes, np.vstack([first.boxes, second.boxes]), atol=1e-3)
    count = len(first.boxes)
    np.testing.assert_allclose(detections.scores[:count, :7], first.scores, atol=1e-5)
    np.testing.assert_allclose(detections.scores[count:, 7:], second.scores, atol=1e-5)
    assert (detections.scores[:count, 7:] == 0).all() and (detections.scores[count:, :7] == 0).all()
    # One that is too long by itself is cut; one of dots alone has nothing to be found.
    assert dino.detect(handle, ["star " * 50]).scores.shape[1] == 1
    assert (dino.detect(handle, ["...", "star"]).scores[:, 0] == 0).all()


def test_dot_in_a_phrase_does_not_end_it(dino: GroundingDinoDetector, handle: ImageHandle):
    dotted, plain = dino.detect(handle, ["red. star?", "a star"]), dino.detect(handle, ["red star", "A Star"])

    np.testing.assert_allclose(dotted.scores, plain.scores, atol=1e-6)


@pytest.mark.parametrize("name", ["owlv2", "dino"])
def test_no_phrases_have_no_boxes_and_what_cannot_be_read_is_named(name: str, request, handle: ImageHandle):
    detector: HfDetector = request.getfixturevalue(name)

    detections = detector.detect(handle, [])
    assert (detections.boxes.shape, detections.scores.shape) == ((0, 4), (0, 0))
    with pytest.raises(UnreadableImage, match="known format"):
        detector.detect(ImageHandle(b"no image"), PHRASES)
    with pytest.raises(UnreadableImage, match="known format"):
        detector.detect(ImageHandle(b"no image"), [])


def test_image_of_which_the_processor_makes_nothing_is_named(dino: HfDetector):
    thin = ImageHandle(encoded(Image.new("RGB", (3000, 1))))
    with pytest.raises(UnreadableImage, match="the model's processor does not take it"):
        dino.detect(thin, PHRASES)


@pytest.mark.parametrize("name", ["owlv2", "dino"])
def test_fingerprint_tells_checkpoints_and_precision(name: str, request):
    folder: Path = request.getfixturevalue(f"{name}_folder")
    detector: HfDetector = request.getfixturevalue(name)
    half = type(detector)(str(folder), dtype="bf16", device="cpu")

    assert detector.fingerprint()["checkpoint"].startswith("sha256:")
    assert half.fingerprint() == {**detector.fingerprint(), "dtype": "bf16"}
    assert detector.name == str(folder)
