import numpy as np
import pytest

from capbench.adapters import Detector, ImageHandle, Painter, Segmenter
from capbench.adapters.aliases import resolve_model
from capbench.adapters.images.reading import UnreadableImage
from capbench.adapters.shapes import painter
from capbench.adapters.shapes.painter import described_scene
from capbench.benchmarks.inputs.models import NamedModels
from capbench.errors import AdapterError, UsageError
from capbench.tasks.shapes.describing import detailed_reference, name, short_references
from capbench.tasks.shapes.drawing import draw, mask_of, pixel_box, pixels
from capbench.tasks.shapes.grading import absent_thing
from capbench.tasks.shapes.pictures import DrawnPicture
from capbench.tasks.shapes.sampling import sample_scene
from capbench.tasks.shapes.scene import Scene, Stream, Thing, generator

SEGMENTER, DETECTOR, PAINTER = (resolve_model(f"shapes-{role}").load() for role in ("segmenter", "detector", "painter"))
assert isinstance(SEGMENTER, Segmenter) and isinstance(DETECTOR, Detector) and isinstance(PAINTER, Painter)
STAR = Thing("star", "red", "large", "striped", (0.1, 0.1, 0.44, 0.44))
CIRCLE = Thing("circle", "blue", "medium", "plain", (0.6, 0.6, 0.86, 0.86))
SCENE = Scene(7, (STAR, CIRCLE), "brick")
PICTURE = ImageHandle(DrawnPicture(SCENE))


def test_masks_are_the_things_exactly():
    star, circle = SEGMENTER.masks(PICTURE)

    assert np.array_equal(star.mask.unpacked(), mask_of(STAR, 128))
    # Its tips are finer than half a pixel.
    assert np.abs(np.subtract(star.box, pixel_box(STAR, 128))).max() == 1
    assert circle.box == pixel_box(CIRCLE, 128)
    assert (star.iou, star.stability) == (1, 1)
    assert not star.mask.shared(circle.mask)
    # A disc in its square.
    left, top, right, bottom = circle.box
    assert circle.mask.size == pytest.approx(np.pi / 4 * (right - left) * (bottom - top), rel=0.02)
    # Inside there is no background: in the picture without things these pixels differ.
    bare = pixels(Scene(7, (), "brick")).astype(int)
    assert (np.abs(pixels(SCENE).astype(int) - bare).sum(axis=2)[star.mask.unpacked()] > 20).mean() > 0.97


def test_points_and_grids_find_the_things_that_they_hit():
    middle = np.array([[0.27 * 128, 0.3 * 128]])

    (star,) = SEGMENTER.masks(PICTURE, points=middle)
    assert np.array_equal(star.mask.unpacked(), mask_of(STAR, 128))
    assert SEGMENTER.masks(PICTURE, points=np.array([[127, 0]])) == []
    assert SEGMENTER.masks(PICTURE, points=np.zeros((0, 2))) == []
    assert len(SEGMENTER.masks(PICTURE, grid=8)) == 2
    # The one point of the middle hits neither.
    assert SEGMENTER.masks(PICTURE, grid=1) == []


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"points": np.zeros((1, 2)), "grid": 8}, "points or a grid, not both"),
        ({"points": np.zeros(2)}, "points are not x and y"),
        ({"points": np.array([[np.nan, 0]])}, "points are not x and y"),
        ({"points": np.array([[128, 0]])}, "inside of the image of 128 x 128 pixels"),
        ({"points": np.array([[0, -1]])}, "points are not x and y"),
        ({"grid": 0}, "grid=0 is not a whole number above 0"),
    ],
)
def test_points_that_are_none_are_said(asked: dict, reason: str):
    with pytest.raises(AdapterError, match=reason):
        SEGMENTER.masks(PICTURE, **asked)


def test_crop_has_the_masks_and_boxes_of_its_window():
    crop = ImageHandle(PICTURE.source, (10, 20, 90, 128))
    star, circle = SEGMENTER.masks(crop)

    assert star.mask.shape == (108, 80)
    assert np.array_equal(star.mask.unpacked(), mask_of(STAR, 128)[20:128, 10:90])
    left, top, right, bottom = map(int, circle.box)
    assert circle.mask.unpacked()[top:bottom, left:right].sum() == circle.mask.size > 0
    assert right == 80
    # The star alone, and nothing of the background around it.
    detections = DETECTOR.detect(ImageHandle(PICTURE.source, (13, 13, 57, 57)), ["star", "circle"])
    best = detections.boxes[detections.scores[:, 0].argmax()]
    assert best.tolist() == [0, 0, 44, 44]
    assert detections.scores[:, 1].max() < 0.01


def test_file_is_recognised_by_its_name_and_pixels(tmp_path):
    scene = sample_scene(17)
    path = tmp_path / "photo 17.jpg"
    path.write_bytes(DrawnPicture(scene).read_bytes())
    large = tmp_path / "17.png"
    draw(sample_scene(17, least=3), 256).save(large)

    assert [np.array_equal(region.mask.unpacked(), mask_of(thing, 128)) for region, thing in zip(
        SEGMENTER.masks(ImageHandle(path)), scene.things, strict=True)]  # fmt: skip
    assert SEGMENTER.masks(ImageHandle(large))[0].mask.shape == (256, 256)

    encoded = path.read_bytes()
    others = [tmp_path / "18.jpg", tmp_path / "a.jpg"]
    for other in others:
        other.write_bytes(encoded)
    for source in (*others, encoded):
        with pytest.raises(UnreadableImage, match="no picture of the shapes world whose scene is known"):
            SEGMENTER.masks(ImageHandle(source))
    broken = tmp_path / "17.jpg"
    broken.write_bytes(b"\xff\xd8 broken")
    with pytest.raises(UnreadableImage, match="known format"):
        DETECTOR.detect(ImageHandle(broken), ["star"])


@pytest.mark.parametrize(
    ("phrase", "thing"), [("stars", STAR), ("a large striped red star", STAR), ("the Blue Circle", CIRCLE)]
)
def test_phrase_scores_high_in_the_box_of_its_thing_and_low_elsewhere(phrase: str, thing: Thing):
    detections = DETECTOR.detect(PICTURE, [phrase])
    scores = detections.scores[:, 0]

    # Its box, and the fellow of that.
    assert (scores > 0.4).sum() == 2
    assert detections.boxes[scores.argmax()].tolist() == list(pixel_box(thing, 128))
    assert np.sort(scores)[:-2].max() <= 0.005


@pytest.mark.parametrize("phrase", ["wall", "brick wall"])
def test_background_has_a_box_in_which_nothing_stands(phrase: str):
    detections = DETECTOR.detect(PICTURE, [phrase])
    left, top, right, bottom = detections.boxes[detections.scores[:, 0].argmax()].astype(int)

    assert not (mask_of(STAR, 128) | mask_of(CIRCLE, 128))[top:bottom, left:right].any()
    assert (right - left) * (bottom - top) > 0.1 * 128 * 128
    assert detections.scores.max() > 0.6


@pytest.mark.parametrize(
    "phrase", ["dog", "blue star", "plain star", "cross", "sand", "pink background", "red", "", "star and dog cross"]
)
def test_what_is_not_there_scores_low(phrase: str):
    assert DETECTOR.detect(PICTURE, [phrase]).scores.max() <= 0.005


def test_phrase_scores_above_a_whole_caption_and_an_invention_below_a_hundredth():
    for seed in range(40):
        scene = sample_scene(seed)
        wrong = absent_thing(scene, generator(seed, Stream.GRADING))
        phrases = [*(name(thing, "") for thing in scene.things), detailed_reference(scene), name(wrong, "")]
        scores = DETECTOR.detect(ImageHandle(DrawnPicture(scene)), phrases).scores

        assert (scores[:, :-2].max(axis=0) > scores[:, -2].max()).all()
        assert scores[:, -2].max() > 0.5
        assert scores[:, -1].max() < 0.01


def test_without_phrases_there_are_no_boxes():
    detections = DETECTOR.detect(PICTURE, [])

    assert (detections.boxes.shape, detections.scores.shape) == ((0, 4), (0, 0))


def test_painter_draws_the_scene_that_a_caption_describes():
    for seed in range(20):
        scene = sample_scene(seed)
        (image,) = PAINTER.paint([detailed_reference(scene)], seed=3)
        assert isinstance(image.source, DrawnPicture)
        drawn = image.source.scene

        assert drawn.background == scene.background
        assert {(t.shape, t.attributes) for t in drawn.things} == {(t.shape, t.attributes) for t in scene.things}
        for text in short_references(scene):
            described_scene(text, 0)


def test_relations_are_as_the_caption_says():
    for seed in range(20):
        drawn = described_scene("There is a red star. A small blue circle is to the left of the red star.", seed)

        assert detailed_reference(drawn).endswith("A small blue circle is to the left of the red star.")


def test_text_and_seed_have_one_picture_whatever_else_is_asked_for():
    texts = ["A red star above a moon.", "Two hearts.", "A red star above a moon."]
    first, second, third = PAINTER.paint(texts, seed=1)

    assert first == third != second
    assert PAINTER.paint(texts[1:2], seed=1) == [second]
    assert PAINTER.paint(texts[:1], seed=2) != [first]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("A dog on a sofa.", "names nothing of the shapes world"),
        ("", "names nothing"),
        ("A red star above a blue circle. The blue circle is above the red star.", "no picture can show"),
    ],
)
def test_text_that_cannot_be_drawn_is_named(text: str, reason: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(painter, "_ATTEMPTS", 200)
    with pytest.raises(AdapterError, match=reason) as caught:
        PAINTER.paint([text], seed=0)
    assert f"'{text}'" in caught.value.message


@pytest.mark.parametrize("role", ["segmenter", "detector", "painter"])
def test_models_of_recipes_say_what_they_do_and_are_no_model_of_a_task(role: str):
    spec = resolve_model(f"shapes-{role}")
    assert spec.role == role

    with pytest.raises(UsageError, match=f"is a {role}, which no task runs"):
        NamedModels.of(spec)
