"""The forms of questions: what is an answer, what it says of systems, what is drawn; and what tells raters apart."""

import json

import pytest
from rated_session import make_session, rate_all

from capbench.benchmarks.rate import session as module
from capbench.benchmarks.rate.forms import answer_of, credits_of, is_answer, judgements_of
from capbench.benchmarks.rate.items import RatedItem, Step
from capbench.benchmarks.rate.questions import questions_of
from capbench.benchmarks.rate.report import figures, rater_rows, report, warnings
from capbench.benchmarks.rate.session import RatingQueue, Session, read_session
from capbench.errors import UsageError

# The captions of a and c are equal.
ITEM = RatedItem(id="0", image="0.jpg", captions={"a": "a dog runs", "b": "a fox", "c": "a dog  runs"}, references=())
FOUR = RatedItem(
    id="0", image="0.jpg", captions=dict.fromkeys("abcd", "") | {x: f"{x} x" for x in "abcd"}, references=()
)
SPANS = {"categories": ["object", "colour"], "severities": {"minor": 1, "major": 5}}
MARK = {"start": 2, "end": 5, "category": "object", "severity": "major"}
BOTH = {"best": 2, "worst": 0}


@pytest.mark.parametrize(
    ("form", "item", "shown", "fields", "answer", "credit", "judged"),
    [
        ({"best_worst": "?"}, FOUR, (3, 2, 0, 1), {"best": "1", "worst": "2"}, BOTH, {0: -1, 1: 0, 2: 1, 3: 0},
         [(("best",), 2), (("worst",), 0)]),
        ({"ranking": "?"}, FOUR, (1, 0, 3, 2), {"rank0": "1", "rank1": "2", "rank2": "2", "rank3": "4"}, [2, 1, 4, 2],
         {0: 0.5, 1: 1, 2: 0, 3: 0.5}, [((0, 1), 1), ((0, 2), 0), ((0, 3), -1), ((1, 2), 1), ((1, 3), 1), ((2, 3), 3)]),
        # Equal captions are shown once, and have the same credit.
        ({"ranking": "?"}, ITEM, (1, 0), {"rank0": "2", "rank1": "1"}, [1, 2, None], {0: 1, 1: 0, 2: 1}, [((0, 1), 0)]),
        ({"battle": "?"}, FOUR, (3, 1), {"choice": "1"}, {"pair": [3, 1], "better": 1}, {1: 1, 3: 0}, [((1, 3), 1)]),
        ({"battle": "?"}, FOUR, (3, 1), {"choice": "tie"}, {"pair": [3, 1], "better": "tie"}, {1: 0.5, 3: 0.5},
         [((1, 3), -1)]),
        ({"battle": "?"}, FOUR, (3, 1), {"choice": "cannot_tell"}, {"pair": [3, 1], "better": None}, {}, []),
        ({"spans": SPANS}, ITEM, (0,), {"spans": json.dumps([MARK, {**MARK, "severity": "minor"}])},
         [MARK, {**MARK, "severity": "minor"}], {0: -6}, [((0,), -6)]),
        ({"spans": SPANS}, ITEM, (0,), {"spans": "[]"}, [], {0: 0}, [((0,), 0)]),
        ({"ranking": "?"}, FOUR, (0, 1, 2, 3), {"choice": "cannot_tell"}, None, {}, []),
    ],
)  # fmt: skip
def test_an_answer_is_of_captions_and_credits_their_systems(form, item, shown, fields, answer, credit, judged) -> None:
    questions = questions_of(**form)
    assert answer_of(questions, item, Step(0, shown), fields) == answer
    assert is_answer(questions, item, answer)
    at = None if questions.together else shown[0]
    assert credits_of(questions, item, answer, at) == credit
    assert list(judgements_of(questions, answer, at)) == judged


@pytest.mark.parametrize(
    ("form", "fields", "values"),
    [
        (
            {"best_worst": "?"},
            [{}, {"best": "1", "worst": "1"}, {"best": "4", "worst": "0"}],
            [BOTH | {"best": 0}, {}, 1],
        ),
        (
            {"ranking": "?"},
            [{}, {"rank0": "1", "rank1": "1", "rank2": "5", "rank3": "1"}],
            [[1], [1, 2, 3, 9], [True] * 4],
        ),
        ({"battle": "?"}, [{}, {"choice": "2"}], [{"pair": [0, 0], "better": 0}, {"pair": [0, 1], "better": 2}, 0]),
        (
            {"spans": SPANS},
            [{}, {"spans": "{"}, {"spans": json.dumps([{**MARK, "end": 99}])}, {"spans": "[3]"}],
            [[{**MARK, "start": 5}], [{**MARK, "category": "x"}], [{**MARK, "severity": "x"}], [{"start": 0}], {}],
        ),
    ],
)
def test_what_is_no_answer_of_a_form_is_refused_on_the_page_and_in_the_file(form, fields, values) -> None:
    questions = questions_of(**form)
    step = Step(0, (0, 1) if questions.battle else (0,) if questions.spans else (0, 1, 2, 3))
    assert all(isinstance(answer_of(questions, FOUR, step, sent), ValueError) for sent in fields)
    assert not any(is_answer(questions, FOUR, value) for value in values)


def test_a_severity_costs_points_and_a_questionnaire_has_one_form() -> None:
    for asked, said in (
        ({"spans": {**SPANS, "severities": {"x": 0}}}, "more than 0"),
        ({"battle": "?", "ranking": "?"}, "one"),
    ):
        with pytest.raises(UsageError, match=said):
            questions_of(**asked)


MANY = {f"s{n:02}": [f"caption {n} of {row}" for row in range(12)] for n in range(12)}
FEW = {system: MANY[system] for system in ("s00", "s01", "s02")}


def test_battles_are_drawn_among_many_systems_where_the_outcome_is_the_least_certain(tmp_path) -> None:
    session = make_session(tmp_path, rows=12, captions=MANY, form={"battle": "?"}, repeats=2)
    desk = RatingQueue(session)
    pairs = []
    while (place := desk.place("ann")).step is not None:
        pair = list(place.step.shown)
        assert desk.place("ann").step == place.step
        # System 0 wins whatever it is in, and the others tie.
        assert desk.answer("ann", place.number, {"pair": pair, "better": 0 if 0 in pair else "tie"}, "a remark")
        pairs.append(pair)
    assert len({tuple(sorted(pair)) for pair in pairs[:12]}) == 12, "of 66 pairs none again before all were met"
    rows = session.answers("ann").rows
    again = [key for key in rows if len(key) == 3]
    assert len(again) == 2 and all(rows[key]["shown"] == rows[key[:2]]["shown"][::-1] for key in again)
    assert all(row["seconds"] >= 0 and row["remark"] == "a remark" for row in rows.values())
    figure_of = {f.name: f for f in figures(session, {"ann": session.answers("ann").current})}
    assert figure_of["battles won by s00"].value == 1.0


@pytest.fixture
def rated(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session of which one rater is careful, one hasty and one constant."""
    known = ({"id": "row 1", "system": "secret-model-a", "answer": {"quality": 5}},)
    session = make_session(tmp_path, rows=6, aspects=["quality=1-5"], repeats=4, known=known)
    clock = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    monkeypatch.setattr("capbench.benchmarks.rate.report.RESAMPLES", 20)
    for rater, seconds, scores in (("ann", 9, [5, 4, 2]), ("bob", 0.1, [1, 5]), ("cy", 9, [3])):
        desk = RatingQueue(session)
        while (place := desk.place(rater)).step is not None:
            clock[0] += seconds
            # Who is careful says the same of a caption when asked again.
            score = scores[place.step.item % len(scores)] if rater == "ann" else scores[place.number % len(scores)]
            desk.answer(rater, place.number, {"quality": score})
    return session


def test_raters_who_do_not_read_or_always_say_the_same_are_named_with_their_self_agreement(rated: Session) -> None:
    answers = {rater: rated.answers(rater).current for rater in rated.raters()}
    rows = rater_rows(rated, answers)
    assert [rows[name]["seconds"] for name in ("ann", "bob", "cy")] == [9, 0.1, 9]
    assert [rows[name]["fast"] for name in ("ann", "bob")] == [(0, 16), (16, 16)]
    assert rows["ann"]["same_again"] == (4, 4)
    # A score within 1 of the known one meets it.
    assert [rows[name]["known"][0] for name in ("ann", "cy")] == [
        rated.answers("ann").current["row 1", 0]["quality"] >= 4,
        0,
    ]
    assert [rows[name]["constant"] for name in ("ann", "bob", "cy")] == [False, False, True]
    text = report(rated, answers, 0.05, "github")
    assert "Look at bob: more than half of their answers took less time than reading" in text
    assert "Look at cy: all their answers are equal" in text and "4 of 4 [0.51, 1.00]" in text
    assert warnings({}) == []


def test_who_always_chooses_the_same_places_is_named_and_not_who_always_prefers_a_system(tmp_path) -> None:
    for form, best_first in (
        ("best_worst", lambda order: {"best": order[0], "worst": order[-1]}),
        ("ranking", lambda order: [order.index(caption) + 1 for caption in range(len(order))]),
    ):
        session = make_session(tmp_path / form, rows=12, captions=FEW, form={form: "?"})
        for rater in ("by-place", "by-system"):
            desk = RatingQueue(session)
            while (place := desk.place(rater)).step is not None:
                order = list(place.step.shown) if rater == "by-place" else sorted(place.step.shown)
                desk.answer(rater, place.number, best_first(order))
        rows = rater_rows(session, {rater: session.answers(rater).current for rater in session.raters()})
        assert {rater: row["constant"] for rater, row in rows.items()} == {"by-place": True, "by-system": False}


def test_known_answers_are_of_the_battle_that_was_met_and_errors_are_in_any_order(tmp_path) -> None:
    known = tuple({"id": f"row {row}", "answer": {"pair": [0, 1], "better": 0}} for row in range(12))
    session = make_session(tmp_path / "battle", rows=12, captions=FEW, form={"battle": "?"}, known=known)
    desk, met = RatingQueue(session), []
    while (place := desk.place("ann")).step is not None:
        pair = list(place.step.shown)
        desk.answer("ann", place.number, {"pair": pair, "better": min(pair)})
        met.append({0, 1} == set(pair))
    rows = rater_rows(session, {"ann": session.answers("ann").current})
    assert rows["ann"]["known"] == (sum(met), sum(met)) and 0 < sum(met) < 12
    spans = {"spans": {"categories": ["object"]}}
    marks = [{"start": n, "end": n + 1, "category": "object", "severity": "minor"} for n in range(2)]
    known = ({"id": "row 0", "system": "secret-model-a", "answer": marks[::-1]},)
    session = make_session(tmp_path / "spans", rows=2, form=spans, known=known)
    rows = rater_rows(session, {"ann": rate_all(session, "ann", [marks]).session.answers("ann").current})
    assert rows["ann"]["known"] == (1, 1)


def test_raters_have_links_of_their_own_and_each_image_some_of_them(tmp_path) -> None:
    raters = ("ann", "bob", "cy", "dee", "eve")
    session = read_session(make_session(tmp_path, rows=10, better="?", raters=raters, per_item=3).folder)
    items = [{step.item for step in session.asked(rater)} for rater in raters]
    assert [sum(number in of_rater for of_rater in items) for number in range(10)] == [3] * 10
    assert {len(of_rater) for of_rater in items} == {6}
    links = session.links()
    assert list(links.values()) == list(raters) and len({link[-16:] for link in links}) == 5
    assert (session.folder / "links.json").stat().st_mode & 0o777 == 0o600


def test_a_name_in_letters_that_look_alike_is_the_same_rater(tmp_path) -> None:
    session = make_session(tmp_path, better="?")
    rate_all(session, "anne-m", [0])
    for name, taken in (
        ("anne-m", ""),
        ("annem", "anne-m"),
        ("ann\u00e9-m", "anne-m"),
        ("\u0430nne-m", "anne-m"),
        ("bob", ""),
    ):
        assert session.taken(name) == taken
