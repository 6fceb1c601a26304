"""What is asked of a judge for DCI's summaries and negatives, and what becomes of each kind of answer."""

from collections.abc import Callable
from typing import Any

import pytest
from pipeline_stages import asked_of

from capbench.adapters import JudgeRequest
from capbench.adapters.encoders.clip_tokens import clip_tokens
from capbench.recipes.data_synthesis.asking import PROMPTS, cut_to_tokens, language_fault
from capbench.recipes.data_synthesis.contract import NotGenerated
from capbench.recipes.data_synthesis.stages.entries import (
    NEGATIVES,
    FirstSummary,
    FirstSummarySettings,
    MaskTree,
    MoreSummaries,
    MoreSummariesSettings,
    Negatives,
    NegativesSettings,
)


def mask(number: int, label: str, parent: int = -1, area: int = 9_000, caption: str = "") -> dict[str, Any]:
    bounds = {"topLeft": {"x": 0, "y": 0}, "bottomRight": {"x": 90, "y": 100}}
    return {"idx": number, "label": label, "caption": caption, "parent": parent, "area": area, "bounds": bounds}


def tree(*masks: dict[str, Any], short: str = "A street.", extra: str = "It is noon.") -> dict[str, Any]:
    return {"short_caption": short, "extra_caption": extra, "mask_data": {str(mask["idx"]): mask for mask in masks}}


HOUSE = tree(
    mask(7, "house", caption="A red house."),
    mask(2, "door", parent=7, caption="It is open."),
    mask(3, "knob", parent=2),
    mask(4, "pebble", area=100),
    mask(5, "grain", parent=4),
    mask(9, "tree"),
)


def test_texts_are_of_the_tree_in_its_order():
    texts = MaskTree(HOUSE, least_area=5_000)
    assert texts.whole() == (
        "A street. It is noon. The following can also be seen in the image:\n"
        "house: A red house.\ndoor: It is open.\nknob\ntree"
    )
    assert texts.part("7") == "This is an image of house. A red house.\ndoor: It is open.\nknob"
    assert texts.part("9") == "This is an image of tree."
    assert list(texts.entries()) == ["base", "m-7-sc", "m-2-sc", "m-3-sc", "m-9-sc"]
    assert list(MaskTree(HOUSE).masks) == ["7", "2", "3", "4", "5", "9"]
    assert MaskTree(tree()).whole() == "A street. It is noon."
    doors = MaskTree(
        tree(mask(1, "house"), mask(2, "door", parent=1), mask(3, "gate", parent=1), mask(4, "", parent=1))
    )
    assert doors.part("1") == "This is an image of house.\ndoor\ngate"
    # Of a mask of which nothing is said there is no entry.
    assert list(doors.entries()) == ["base", "m-1-sc", "m-2-sc", "m-3-sc"]


def test_long_texts_lose_their_last_lines_or_what_is_deepest():
    texts = MaskTree(HOUSE)
    whole, part = texts.whole(), texts.part("7")
    assert texts.cut_whole(clip_tokens(whole)) == whole
    assert texts.cut_whole(clip_tokens(whole) - 1) == whole.removesuffix("\ntree")
    assert texts.cut_part("7", clip_tokens(part) - 1) == part.removesuffix("\nknob")
    assert texts.cut_part("7", 5) == cut_to_tokens("This is an image of house. A red house.", 5)


def test_tokens_are_clips_with_start_and_end():
    assert (clip_tokens(""), clip_tokens("a dog"), clip_tokens("Dem Wahren")) == (2, 4, 5)
    text = "a dog runs " * 40
    for most in (10, 20, 77):
        assert most - 12 <= clip_tokens(cut_to_tokens(text, most)) <= most


LONG = "a very long summary of the street with " + "many " * 100 + "things"
"""Over 75 tokens, and not over 139."""


def summary_of(answer: Callable[[JudgeRequest, int], str | None], values: Any = None, **settings: Any):
    """Return what the stage makes of one row, and the judge."""
    return asked_of(FirstSummary("first", FirstSummarySettings(**settings), 0), values or tree(), answer)


def test_first_summary_is_asked_with_the_papers_prompts():
    row, judge = summary_of(lambda request, before: "Sure! Here it is:\n\nA street at noon.", HOUSE)
    entries = ["base", "m-7-sc", "m-2-sc", "m-3-sc", "m-9-sc"]
    assert row.values["summaries"] == {key: ["A street at noon."] for key in entries}
    # As released: what is short enough is said to be of a part, whatever it is of.
    assert {request.system for request in judge.asked} == {PROMPTS["submask"]}
    row, judge = summary_of(lambda request, before: "A street.", HOUSE, prompts="by_part")
    assert [request.system for request in judge.asked] == [PROMPTS["full image"]] + [PROMPTS["submask"]] * 4
    assert all(request.decoding["temperature"] == 0.72 for request in judge.asked)
    assert len({request.decoding["seed"] for request in judge.asked}) == 5
    _, judge = summary_of(lambda request, before: "A street.", tree(short="a long street " * 40))
    assert judge.asked[0].system == PROMPTS["full image"]


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        (["one line of it\n" * 20], "the answer has several lines"),
        (["红色的房子在街上，房子的门是打开的。"], "the answer is not in Latin letters"),
        (["Une maison rouge dans une rue avec une porte ouverte"], "the answer is not in English"),
        ([""], "the judge said nothing"),
        (["the thing " * 150], "the answer has more than 139 tokens"),
    ],
)
def test_answer_of_no_use_is_asked_for_again_and_then_named(answers: list[str], fault: str):
    outcome, judge = summary_of(lambda request, before: answers[0] if before < 4 else "A street at noon.")
    assert outcome.values["summaries"] == {"base": ["A street at noon."]}
    assert outcome.provenance[-1]["requests"] == 5
    outcome, judge = summary_of(lambda request, before: answers[0], tries=3)
    assert outcome.reason.startswith(f"the whole image has no summary: {fault}")
    assert not outcome.passing
    assert len(judge.asked) == 3
    _, judge = summary_of(lambda request, before: answers[0], temperature=0)
    assert (len(judge.asked), dict(judge.asked[0].decoding)) == (1, {})


def test_judge_that_never_answers_is_named_and_nothing_of_it_is_kept():
    outcome, judge = summary_of(lambda request, before: None)
    assert outcome == NotGenerated("the whole image has no summary: the server is down", passing=True)
    assert len(judge.asked) == 5
    outcome, _ = summary_of(lambda request, before: None if "of tree" in request.prompt else "A street.", HOUSE)
    assert outcome.passing
    assert outcome.provenance[-1]["left_out"] == {"m-9-sc": "the server is down"}
    assert "m-9-sc" not in outcome.values["summaries"]


def test_text_that_gets_no_shorter_goes_back_to_the_first_prompt():
    outcome, judge = summary_of(lambda request, before: LONG, tries=2)
    assert "cannot be reduced to 75 tokens: the answer is no shorter than the text" in outcome.reason
    # Four failures end a reduction: three are allowed.
    assert [request.system for request in judge.asked] == [PROMPTS["submask"], *[PROMPTS["shorter"]] * 4] * 2
    eight = "a street with " + "many " * 70 + "things of it"
    assert 75 < clip_tokens(eight) <= 84
    _, judge = summary_of(lambda request, before: eight if request.system == PROMPTS["submask"] else "A street.")
    assert judge.asked[1].system == PROMPTS["few words shorter"]


def several(before: int) -> str:
    lines = [f"{number}. The street number {before} {number}." for number in range(1, 6)]
    return "\n".join(["Here are the summaries:", "", *lines])


DOOR = tree(mask(1, "door", caption="A red one."))


def more_of(answer: Callable[[JudgeRequest, int], str | None], **settings: Any):
    values = {**DOOR, "summaries": {"base": ["First."], "m-1-sc": ["Door."]}}
    return asked_of(MoreSummaries("more", MoreSummariesSettings(**settings), 0), values, answer)


def test_more_summaries_are_asked_for_until_there_are_enough():
    row, judge = more_of(lambda request, before: several(before))
    # More than 8 of the image, after two answers of five and the first; of the mask one answer will do.
    assert {key: len(its) for key, its in row.values["summaries"].items()} == {"base": 11, "m-1-sc": 6}
    assert row.values["summaries"]["base"][:2] == ["First.", "The street number 0 1."]
    whole = next(request for request in judge.asked if request.prompt.startswith("Full description: A street."))
    assert (whole.system, whole.max_tokens) == (PROMPTS["several"], 1_400)
    assert whole.prompt.endswith("door: A red one.\n\nSummaries:")


SUMMARY = "A red house with an open door stands to the left of a large green tree in the street."


def negatives_of(answer: Callable[[JudgeRequest, int], str | None], **settings: Any):
    values = {"summaries": {"base": [SUMMARY, "More."], "m-1-sc": [SUMMARY]}}
    return asked_of(Negatives("negatives", NegativesSettings(**settings), 0), values, answer)


def test_negative_has_about_the_length_of_the_summary():
    own = clip_tokens(SUMMARY)

    def answer(request: JudgeRequest, before: int) -> str:
        if request.system in (PROMPTS["shorter"], PROMPTS["few words shorter"]):
            return SUMMARY.replace("red", "blue")
        # Of both entries: the same again, too little, too much, and then something longer that can be reduced.
        answers = [SUMMARY, "A house.", "the " * (own + 51), f"{SUMMARY} and {'more ' * 30}"]
        return answers[min(before // 2, 3)]

    row, judge = negatives_of(answer, of_image=1)
    assert row.values["negatives"]["base"]["swaps"] == [SUMMARY.replace("red", "blue")]
    assert {request.system for request in judge.asked} == {*NEGATIVES.values(), PROMPTS["shorter"]}


def test_entry_without_negatives_of_a_kind_is_none():
    def answer(request: JudgeRequest, before: int) -> str:
        # The fourth answer about swaps is the first that is of the mask.
        return SUMMARY if request.system == NEGATIVES["swaps"] and before >= 3 else f"No, {SUMMARY}"

    row, _ = negatives_of(answer, tries=1)
    assert list(row.values["negatives"]) == list(row.values["summaries"]) == ["base"]
    assert row.provenance[-1]["left_out"] == {"m-1-sc swaps 0": "the answer is the summary itself"}
    row, _ = negatives_of(lambda request, before: SUMMARY)
    assert row == NotGenerated("the whole image lacks negatives: the answer is the summary itself")


def test_english_is_told_by_letters_and_little_words():
    assert language_fault("A red star is to the left of a blue circle.", "english") is None
    assert language_fault("Rue de Rivoli", "english") is None
    assert language_fault("Κόκκινο αστέρι", "english") == "is not in Latin letters"
    assert language_fault("The sign says Ω, and that is all.", "english") is None
    french = "Un chien rouge court dans une rue pleine de gens"
    assert str(language_fault(french, "english")).startswith("is not in English")
    assert language_fault(french, "any") is None
