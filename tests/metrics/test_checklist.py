"""Checklists answered by a judge: against the released code of CAPEval, and answers that say less than they should."""

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from pipeline_stages import Scripted

from capbench.metrics import Context, Items, build_metric
from capbench.metrics.checklist import PROMPT, SYSTEM, listed, read_item, read_verdicts
from capbench.metrics.golden import golden_items, read_golden
from capbench.metrics.judging import fill

GOLDEN: dict[str, Any] = read_golden("capeval")
SAID = ("yes", "no", "not_mentioned", "Yes ", "b", "c", "a", "NM", "correctly_mentioned", "perhaps", "y", "incorrect")


def made_answers() -> list[tuple[str, list[dict[str, str]], str]]:
    """Return the name of each of 300 images, the items of its checklist and an answer, a third of them in ruins."""
    draw = np.random.default_rng(40).random

    def one_of(choices: Any) -> Any:
        return choices[int(draw() * len(choices))]

    answers: list[tuple[str, list[dict[str, str]], str]] = []
    for number in range(300):
        items = [
            {"question": f"Is {place} so?", "tags": one_of(("color", "size, shape", "")), "type": f"{kind}_checklist"}
            for place, kind in enumerate(["instance"] * (1 + int(draw() * 4)) + ["text"] * int(draw() * 4))
        ]
        entries: list[Any] = [
            {"item_index": one_of((place, place, place, str(place))), "verdict": one_of(SAID), "reasoning": "It {is}."}
            for place in range(len(items))
        ]
        answer = json.dumps({"gt_verdicts": entries})
        ruins = [
            f"<think>Is it {{so}}?</think>\n```json\n{answer}\n```",
            answer[: int(len(answer) * draw())],
            answer.replace('"reasoning"', "'reasoning'", 1),
            answer.replace("}, {", "} {"),
            "I cannot tell.",
            json.dumps({"verdicts": entries}),
            json.dumps({"gt_verdicts": [*entries[1:], "?", {"item_index": None}, {"item_index": "x"}]}),
            json.dumps({"gt_verdicts": [*entries, entries[0] | {"verdict": "no"}, {"item_index": 99}]}),
            f"Here:\n{answer}\nDone.",
            answer + answer,
            json.dumps(entries),
        ]
        name = f"{one_of(('SO', 'PA', 'TI', 'DK'))}{number:03}.jpg"
        answers.append((name, items, [*ruins, *[answer] * 22][number % 33]))
    return answers


def asked(caption: str, items: list[dict[str, str]]) -> str:
    """Return what a judge is asked about a caption."""
    entries = [read_item(json.dumps(item)) for item in items]
    return f"{SYSTEM}\n\n{fill(PROMPT, caption=caption, items=listed(entries))}"


@pytest.fixture
def judged(answers) -> tuple[Items, Context]:
    rows = [
        {"prompt": asked(f"caption of {name}", items), "response": answer} for name, items, answer in made_answers()
    ]
    captions = [f"caption of {name}" for name, _, _ in made_answers()]
    items = golden_items(captions, [[json.dumps(item) for item in items] for _, items, _ in made_answers()])
    return items, Context(judge=answers(rows))


def test_verdicts_are_read_and_pooled_as_the_released_code_does(judged: tuple[Items, Context]):
    name, items, _ = made_answers()[0]
    assert hashlib.sha256(asked(f"caption of {name}", items).encode()).hexdigest() == GOLDEN["prompt"]
    letters: list[str] = []
    for _, items, answer in made_answers():
        try:
            read = read_verdicts(answer, len(items))
        except ValueError:
            letters.append("error")
        else:
            letters.append("".join({"yes": "y", "no": "n"}.get(verdict or "", "-") for verdict in read))
    assert letters == GOLDEN["verdicts"]
    for metric, key in (("checklist_coverage", "C"), ("checklist_precision", "P")):
        built = build_metric(metric, {})
        scores = built.score(*judged)
        assert [item for item, said in enumerate(letters) if said == "error"] == sorted(scores.failures)
        assert np.isnan(scores.values).sum() == GOLDEN["summary"]["n_error"] == len(scores.failures)
        for category, released in (GOLDEN["per_category"] | {"": GOLDEN["summary"]}).items():
            inside = np.array([name.startswith(category) for name, _, _ in made_answers()])
            assert round(100 * built.corpus(scores, 1.0 * inside), 4) == released[key]
            counts = {part: int(values[inside].sum()) for part, values in scores.parts.items()}
            assert counts == {"yes": released["yes1"], "no": released["no1"], "items": released["total1"]}


def test_items_of_a_tag_or_type_count_alone(judged: tuple[Items, Context]):
    for of, total in GOLDEN["per_tag"].items():
        parts = build_metric("checklist_coverage", {"of": of}).score(*judged).parts
        assert {"yes1": parts["yes"].sum(), "total1": parts["items"].sum()} == total
    kinds = [build_metric("checklist_precision", {"of": f"{kind}_checklist"}) for kind in ("instance", "text")]
    assert [kind.label for kind in kinds] == ["Precision (instance_checklist)", "Precision (text_checklist)"]
    assert sum(int(kind.score(*judged).parts["items"].sum()) for kind in kinds) == GOLDEN["summary"]["total1"]


def test_what_an_answer_lacks_is_named():
    items = [{"question": "Is it red?"}, {"question": "Is it big?"}]
    references = [[*map(json.dumps, items)], ["Is it red?", "Is it big?"], ["Is it red?"], ['{"Question": "?"}']]
    captions = ["a", "b", " ", "c"]
    said = {asked("a", items): '{"gt_verdicts": [{"item_index": 1, "verdict": "yes"}]}', asked("b", items): "no idea"}
    judge = Scripted(lambda request, _: said[f"{request.system}\n\n{request.prompt}"])
    scores = build_metric("checklist_coverage", {}).score(golden_items(captions, references), Context(judge=judge))
    decoding = {"temperature": 0.0, "seed": 0}
    assert [(request.max_tokens, request.decoding) for request in judge.asked] == [(8192, decoding)] * 2
    assert scores.values == pytest.approx([0.5, np.nan, 0, np.nan], nan_ok=True)
    assert scores.remarks == {0: "1 of its 2 items: no verdict, counted as not_mentioned"}
    assert scores.failures[1] == "the judge's answer is not JSON, and has no whole entry (1 tries): 'no idea'"
    assert scores.failures[3].startswith("an item of its checklist has no 'question'")
    assert read_verdicts('<think></think>{"gt_verdicts": [{"item_index": 0, "verdict": "no"}]}</think>', 1) == ["no"]
