"""Single stages: what they make, what they try again, and what they say of it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pipeline_stages import Models, Scripted, asked_of, made_of
from tiny_dci import make_tiny_dci

from capbench.adapters import Captioner, CaptionRequest, ImageHandle, JudgeRequest, Region, Segmenter
from capbench.adapters.aliases import resolve_model
from capbench.adapters.contracts import Caption, Captioned
from capbench.errors import DataError, UsageError
from capbench.recipes.data_synthesis.contract import NotGenerated, PipelineRow
from capbench.recipes.data_synthesis.schema import Output
from capbench.recipes.data_synthesis.sources import file_name, read_input
from capbench.recipes.data_synthesis.stages.caption import CaptionSettings, CaptionStage
from capbench.recipes.data_synthesis.stages.check_negatives import CheckNegatives, CheckNegativesSettings
from capbench.recipes.data_synthesis.stages.elements import Select, SelectSettings
from capbench.recipes.data_synthesis.stages.masks import Masks, MasksSettings
from capbench.recipes.data_synthesis.stages.merge import Merge, MergeSettings
from capbench.recipes.data_synthesis.writing import write_output
from capbench.rows import read_rows
from capbench.tasks.shapes.drawing import draw, encoded
from capbench.tasks.shapes.sampling import sample_scene


class Writer(Captioner):
    """Answers by a function of the request and of how often it was asked for the same picture."""

    name = "writer"

    def __init__(self, answer: Callable[[CaptionRequest, int], Caption | str | None]) -> None:
        self.answer = answer
        self.asked: list[CaptionRequest] = []

    def fingerprint(self) -> dict[str, Any]:
        return {"captioner": "writer"}

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None):
        captions: dict[int, Caption] = {}
        failures: dict[int, str] = {}
        unseen: dict[int, str] = {}
        for at, request in enumerate(requests):
            before = sum(earlier.pixels == request.pixels for earlier in self.asked)
            self.asked.append(request)
            answer = self.answer(request, before)
            if isinstance(answer, Caption):
                captions[at] = answer
            elif answer is None:
                failures[at] = "ran out of memory"
            else:
                unseen[at] = answer
        yield Captioned(captions, failures, unseen)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "17.png"
    Image.new("RGB", (200, 100), "red").save(path)
    return path


DRAWN = {"do_sample": True, "temperature": 0.5}


def captioned(path: Path, writer: Writer, values: dict[str, Any] | None = None, **settings: Any):
    stage = CaptionStage("caption", CaptionSettings(prompt="Say.", to="said", **settings), 0)
    return made_of(stage, PipelineRow("17", path, values or {}), Models(captioner=writer))


def test_caption_of_no_use_is_asked_for_again_with_another_seed(picture: Path):
    texts = ["", "红色的星", "many " * 80, "A red star."]
    writer = Writer(lambda request, before: Caption(texts[before]))
    asked = {"language": "english", "most_tokens": 77, "generation_kwargs": DRAWN}
    row = captioned(picture, writer, tries=4, **asked)
    assert row.values == {"said": "A red star."}
    assert len({request.generation_kwargs["seed"] for request in writer.asked}) == 4
    assert captioned(picture, Writer(lambda request, before: Caption(texts[before])), tries=3, **asked) == NotGenerated(
        "the caption has 82 tokens, and 77 is the most"
    )
    assert captioned(picture, Writer(lambda request, before: None)) == NotGenerated("ran out of memory", passing=True)
    with pytest.raises(ValueError, match="do_sample"):
        CaptionSettings(prompt="", to="said", tries=2)


def test_caption_of_an_image_that_cannot_be_read_is_named(tmp_path: Path):
    path = tmp_path / "17.png"
    path.write_bytes(b"no image")
    outcome = captioned(path, Writer(lambda request, before: "is no image"))
    assert outcome == NotGenerated("image: is no image")
    outcome = captioned(path, Writer(lambda request, before: Caption("x")), {"boxes": [[0, 0, 9, 9]]}, boxes="boxes")
    assert outcome.reason.startswith("image cannot be read: ")
    with pytest.raises(DataError, match="row 17 has no image"):
        CaptionStage("caption", CaptionSettings(prompt="", to="said"), 0).carry_out([PipelineRow("17")], Models())


def test_boxes_are_dilated_within_the_image_and_small_ones_are_left_out(picture: Path):
    boxes = [[10, 20, 50, 60], [0, 0, 200, 100], [5, 5, 7, 90], [30, 30, 60, 60]]

    def answer(request: CaptionRequest, before: int) -> Caption:
        return Caption("" if request.pixels and request.pixels.box == (26.0, 28.0, 64.0, 62.0) else "A part.")

    writer = Writer(answer)
    row = captioned(picture, writer, {"boxes": boxes}, boxes="boxes", dilate=0.02)
    cuts = [request.pixels.box for request in writer.asked if request.pixels is not None]
    assert cuts == [(6.0, 18.0, 54.0, 62.0), (0.0, 0.0, 200.0, 100.0), (1.0, 3.0, 11.0, 92.0), (26.0, 28.0, 64.0, 62.0)]
    # What is said stands beside the boxes as they were given.
    assert row.values == {"boxes": boxes[:3], "said": ["A part."] * 3}
    assert row.provenance[0]["left_out"] == {"3": "the caption is empty"}
    row = captioned(picture, writer, {"boxes": [[5, 5, 7, 90], *boxes[:1]]}, boxes="boxes")
    assert row.values["boxes"] == boxes[:1]
    row = captioned(picture, writer, {"boxes": []}, boxes="boxes")
    assert row.values["said"] == []


def merged(answer: Callable[[JudgeRequest, int], str | None], elements: Sequence[str] = ("A.", "B "), **settings: Any):
    stage = Merge("merge", MergeSettings(overall="whole", elements="parts", to="merged", **settings), 0)
    return asked_of(stage, {"whole": "The {elements} are red.", "parts": list(elements)}, answer)


def test_merge_asks_as_the_released_code_does():
    row, judge = merged(lambda request, before: " A red\n\nthing of it. ")
    assert row.values["merged"] == "A red thing of it."
    (asked,) = judge.asked
    assert asked.prompt.startswith(
        "Overall description: The {elements} are red.\n\n Elements appearing in the image: A. B. \n\nPlease combine"
    )
    assert (asked.system, asked.max_tokens, dict(asked.decoding)) == (None, 500, {"num_beams": 3})
    row, judge = merged(lambda request, before: "no", elements=())
    assert (row.values["merged"], judge.asked) == ("The {elements} are red.", [])


def test_merge_of_no_use_is_tried_again_where_tokens_are_drawn():
    answers = ["", "红色的星", "A red star is there."]
    outcome, judge = merged(lambda request, before: answers[before], temperature=0.7, tries=3)
    assert outcome.values["merged"] == answers[2]
    assert len({request.decoding["seed"] for request in judge.asked}) == 3
    outcome, judge = merged(lambda request, before: answers[before + 1])
    assert (outcome, len(judge.asked)) == (NotGenerated("the answer is not in Latin letters"), 1)
    assert merged(lambda request, before: None)[0] == NotGenerated("the server is down", passing=True)


def described(**negatives: list[str]) -> PipelineRow:
    values = {
        "mask_data": {},
        "summaries": {"base": ["There is a red star in the sky.", "More."]},
        "negatives": {"base": negatives},
    }
    return PipelineRow("17", None, values)


def test_negatives_that_cannot_be_told_are_counted_and_may_go():
    same, other = "A picture of a red star in the sky.", "There is a red star on sand."
    row = described(basic=[same, other], swaps=["There is a star red in the sky.", "A red sun."], layout=[same, same])

    def answer(request: JudgeRequest, before: int) -> str:
        return "Yes." if same in request.prompt else "maybe" if "sun" in request.prompt else "No!"

    judge = Scripted(answer)
    settings = {"by": ["judge", "parser"], "parser": {"parser": "grammar"}}

    def checked(**more: Any) -> PipelineRow:
        stage = CheckNegatives("check", CheckNegativesSettings.model_validate({**settings, **more}), 0)
        outcome = made_of(stage, row, Models(judge=judge))
        return outcome

    outcome = checked()
    assert outcome.values == row.values
    # An answer that is neither yes nor no tells nothing apart; "red star" and "star red" are other graphs.
    assert outcome.provenance[-1]["counts"] == {
        "negatives": 6, "swaps": 2, "not told by judge": 4, "not told by parser": 3, "not a permutation": 1,
        "not told by any": 3,
    }  # fmt: skip
    outcome = checked(drop=True)
    assert outcome.values["negatives"]["base"] == {
        "basic": [other], "swaps": ["There is a star red in the sky."], "layout": [same],
    }  # fmt: skip
    assert [(entry["negative"], entry["why"]) for entry in outcome.provenance[-1]["removed"]] == [
        ("basic_0", "not told by judge, not told by parser"),
        ("swaps_1", "not told by judge, not a permutation"),
        ("layout_1", "not told by judge, not told by parser"),
    ]


def test_select_keeps_the_first_of_equal_ones_and_counts_each_element_once():
    texts = [
        "A star.",
        "A red star above a circle.",
        "A star and a circle.",
        "A star, a star and a star.",
        "A moon and a sun.",
    ]
    rows = [PipelineRow(str(number), None, {"caption": text}) for number, text in enumerate(texts)]

    def kept(**settings: Any) -> dict[str, int]:
        defaults = {"caption": "caption", "parser": {"parser": "grammar"}, **settings}
        stage = Select("select", SelectSettings.model_validate(defaults), 0)
        outcomes = [row for row in stage.carry_out(rows, Models()) if isinstance(row, PipelineRow)]
        left_out = stage.left_out(outcomes)
        return {row.id: row.values["elements"] for at, row in enumerate(outcomes) if at not in left_out}

    assert kept() == {"0": 1, "1": 4, "2": 2, "3": 1, "4": 1}
    assert kept(most=3) == {"0": 1, "1": 4, "2": 2}
    assert kept(most=2, elements=["objects"]) == {"1": 2, "2": 2}


def test_masks_are_numbered_parents_first_in_dcis_layout(tmp_path: Path):
    scene = sample_scene(17)
    path = tmp_path / "17.jpg"
    path.write_bytes(encoded(draw(scene)))
    models = Models(segmenter=resolve_model("shapes-segmenter").load())
    stage = Masks("masks", MasksSettings(grid=None, edge_points="none", least_area=0), 0)
    row = made_of(stage, PipelineRow("17", path), models)
    regions = models["segmenter"].masks(ImageHandle(path))
    assert sorted(map(tuple, row.values["boxes"])) == sorted(region.box for region in regions)
    assert len(regions) == len(scene.things)
    masks = row.values["mask_data"]
    assert list(masks) == [mask["idx"] for mask in masks.values()] == [str(number) for number in range(len(masks))]
    assert all(mask["parent"] == -1 for mask in masks.values())
    bounds = [mask["bounds"] for mask in masks.values()]
    assert [[*box["topLeft"].values(), *box["bottomRight"].values()] for box in bounds] == row.values["boxes"]
    largest = max(mask["area"] for mask in masks.values())
    settings = MasksSettings(grid=40, edge_points="none", least_area=largest)
    row = made_of(Masks("masks", settings, 0), PipelineRow("17", path), models)
    assert len(row.values["boxes"]) == 1
    broken = tmp_path / "18.jpg"
    broken.write_bytes(b"no image")
    row = made_of(stage, PipelineRow("18", broken), models)
    assert row.reason.startswith("image: ")


class Covering(Segmenter):
    """Finds the whole image, a corner of it, and nothing."""

    name = "covering"

    def fingerprint(self) -> dict[str, Any]:
        return {"segmenter": self.name}

    def masks(self, image: ImageHandle, *, points: Any = None, grid: int | None = None) -> list[Region]:
        corner = np.zeros((100, 200), bool)
        corner[:40, :50] = True
        drawn = (np.ones((100, 200), bool), corner, np.zeros((100, 200), bool))
        return [Region.of(mask, 0.9, 0.9) for mask in drawn]


def test_mask_of_everything_holds_the_others_and_one_of_nothing_is_left_out_and_told(picture: Path):
    stage = Masks("masks", MasksSettings(edge_points="none", least_area=10), 0)
    row = made_of(stage, PipelineRow("17", picture), Models(segmenter=Covering()))
    assert row.values["boxes"] == [[0, 0, 200, 100], [0, 0, 50, 40]]
    assert [(mask["parent"], mask["area"]) for mask in row.values["mask_data"].values()] == [(-1, 20000), (0, 2000)]
    entry = row.provenance[-1]
    assert (entry["counts"], entry["left_out"]) == ({"masks": 2}, {"mask 2": "the mask covers nothing"})


def test_given_boxes_are_masks(picture: Path):
    row = PipelineRow("17", picture, {"boxes": [[0.4, 0, 10, 9.6], [5, 5, 5.2, 50], [1, 1, 3, 3]]})
    outcome = made_of(Masks("masks", MasksSettings(boxes="boxes", least_area=5), 0), row)
    assert (outcome.values["boxes"], list(outcome.values["mask_data"])) == ([[0, 0, 10, 10]], ["0"])
    with pytest.raises(ValueError, match="replaces the segmenter"):
        MasksSettings(boxes="boxes", grid=3)


def test_folders_tables_dci_and_tasks_are_read(tmp_path: Path, picture: Path):
    (tmp_path / "images" / "more").mkdir(parents=True)
    for name in ("b.png", "more/a.PNG", "notes.txt"):
        (tmp_path / "images" / name).write_bytes(picture.read_bytes())
    source = read_input(str(tmp_path / "images"), None)
    assert [row.id for row in source.rows()] == ["b", "more/a"]

    lines = [{"id": 1, "image": "17.png", "x": 1}, {"id": 1, "x": 2}, {"image": "gone.png"}, {"id": "t", "text": "y"}]
    (tmp_path / "table.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    source = read_input(str(tmp_path / "table.jsonl"), None)
    assert [(row.id, row.image is not None, row.values) for row in source.rows()] == [
        ("1", True, {"x": 1}), ("t", False, {"text": "y"}),
    ]  # fmt: skip
    assert source.left_out["1"].startswith("has an id that occurred before")
    assert source.left_out["2"].startswith("there is no image")

    dci = read_input(str(make_tiny_dci(tmp_path / "dci")), None)
    rows = list(dci.rows())
    assert {"no_photo.json"} == set(dci.left_out)
    assert set(rows[0].values) == {"image", "short_caption", "extra_caption", "mask_data", "mask_keys"}
    assert not any(key in row.values for row in rows for key in ("summaries", "negatives"))

    rows = list(read_input("shapes_clip_f1", tmp_path / "out", limit=3).rows())
    assert [len(row.values["boxes"][0]) for row in rows] == [4, 4, 4]
    assert all(row.image is not None and row.image.parent == tmp_path / "out" / "images" for row in rows)
    with pytest.raises(DataError, match="there is no such file"):
        read_input(str(tmp_path / "tabel.jsonl"), None)
    with pytest.raises(UsageError, match="not a folder, a file or a task: unknown task 'no_such_task'"):
        list(read_input("no_such_task", None).rows())


def test_names_of_files_lead_nowhere_else():
    names = ["a/b", "../x", "a%2fb", "..", "ü 1"]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    assert not any("/" in file or file in ("..", ".") for file in files)


def test_output_names_the_value_that_is_missing(tmp_path: Path):
    with pytest.raises(DataError, match=r"row 17 has no 'a.c'; it has a"):
        write_output([PipelineRow("17", None, {"a": {"b": "x"}})], Output(columns={"captions": "a.c"}), tmp_path)
    path = write_output([PipelineRow("17", None, {"a": {"b": "x"}})], Output(columns={"captions": "a.b"}), tmp_path)
    assert list(read_rows(path)) == [{"id": "17", "captions": ["x"], "provenance": []}]
    with pytest.raises(DataError, match="row 17 has no image"):
        write_output([PipelineRow("17")], Output(form="dci"), tmp_path)
