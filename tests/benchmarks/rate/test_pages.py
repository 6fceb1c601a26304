"""The pages of raters, asked for without a browser: blind, safe, and never an answer lost or taken twice."""

from __future__ import annotations

import re
from typing import Any

import pytest
from page_markup import require_texts
from rated_session import make_session
from synthetic_board import HOSTILE

from capbench.benchmarks.rate.session import RatingQueue, Session

starlette = pytest.importorskip("starlette", reason="needs the extra view")

TOKEN, COOKIE = "0123456789abcdef", "capbench-rate-test"


def client_of(session: Session) -> Any:
    from starlette.testclient import TestClient

    from capbench.benchmarks.rate.app import application
    from capbench.benchmarks.tables.pages.serving import Guard

    guard = Guard(application(RatingQueue(session)), TOKEN, COOKIE, "bench rate")
    return TestClient(guard, base_url="http://127.0.0.1:8000", follow_redirects=False)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory):
    """A client that knows no token, of a session of scales with references."""
    folder = tmp_path_factory.mktemp("scales")
    session = make_session(
        folder, aspects=["precision=1-5: none | all", f"recall=0-2:{HOSTILE[0]}|some|all"], references=True
    )
    with client_of(session) as client:
        client.session = session
        yield client


@pytest.fixture
def client(outside: Any) -> Any:
    """A client that has opened the address with the token."""
    assert outside.get("/", params={"token": TOKEN}).status_code == 200
    return outside


@pytest.fixture
def choices(tmp_path):
    """A client of a session of choices."""
    session = make_session(tmp_path, better="Which is better?")
    with client_of(session) as client:
        client.session = session
        assert client.get("/", params={"token": TOKEN}).status_code == 200
        yield client


def send(browser: Any, link: str, number: int, **fields: str) -> Any:
    """Answer the page that a rater is shown, as if it were that of a number."""
    shown = re.findall(r'type="hidden" name="(captions)" value="(\w+)"', browser.get(f"/raters/{link}").text)
    return browser.post(f"/raters/{link}/answers", data={"number": str(number), **dict(shown), **fields})


def test_a_name_leads_to_what_is_asked_and_one_that_is_none_is_told(client: Any) -> None:
    answer = client.get("/", params={"name": "Ann B."})
    assert (answer.status_code, answer.headers["location"]) == (303, "/raters/ann-b")
    answer = client.get("/", params={"name": "..."})
    assert answer.status_code == 400
    assert "“...” is not a valid name" in answer.text
    assert "precision, recall" in client.get("/").text
    assert "12 captions" in client.get("/").text
    for name in ("Ann", "%2e%2e%2e", "a%2fb", "a" * 41):
        assert client.get(f"/raters/{name}").status_code == 404
        assert client.post(f"/raters/{name}/answers", data={}).status_code in (404, 405)


def test_pages_are_blind(client: Any, choices: Any) -> None:
    for browser in (client, choices):
        for path in ("/", "/raters/ann", "/raters/bob", "/nowhere"):
            answer = browser.get(path)
            said = answer.text + str(answer.headers)
            assert "secret-model" not in said
            assert not any(f"row {row}" in said for row in range(6))
    for number in range(6):
        send(choices, "eve", number, choice="0")
    assert "all 6 answers are saved" in choices.get("/raters/eve").text
    assert "secret-model" not in choices.get("/raters/eve").text
    assert "secret-model" not in choices.get("/").text


def test_a_rater_with_a_link_answers_by_it_alone(tmp_path) -> None:
    session = make_session(tmp_path, better="?", raters=("ann", "bob"))
    (ann, _), _ = session.links().items()
    with client_of(session) as client:
        first = client.get("/", params={"token": TOKEN, "name": "ann"})
        assert first.status_code == 200 and "Each rater has a link" in first.text and ann not in first.text
        for path in ("ann", f"ann-{'0' * 16}", ann.replace("ann", "bob")):
            assert client.get(f"/raters/{path}").status_code == 404
        assert "ann: 0 of 6 answered" in client.get(f"/raters/{ann}").text
        answer = send(client, ann, 0, choice="0", remark="  odd \n one")
        assert answer.headers["location"] == f"/raters/{ann}"
        assert "ann: 1 of 6 answered" in client.get(f"/raters/{ann}").text
    (row,) = session.answers("ann").rows.values()
    assert row["remark"] == "odd one" and row["seconds"] >= 0


def test_an_answer_to_a_page_of_an_earlier_server_is_of_the_captions_that_it_showed(tmp_path) -> None:
    captions = {f"s{system}": [f"caption {system} of row {row}" for row in range(8)] for system in range(4)}
    session = make_session(tmp_path, rows=8, captions=captions, form={"battle": "?"})
    refused = 0
    for number in range(8):
        with client_of(session) as client:
            page = client.get("/raters/ann", params={"token": TOKEN}).text
            # What others answer decides which battle is drawn.
            for done in range(2 * number, min(8, 2 * number + 2)):
                send(client, "bob", done, choice="0")
        sent = dict(re.findall(r'type="hidden" name="(number|captions)" value="(\w+)"', page)) | {"choice": "1"}
        with client_of(session) as client:
            client.get("/", params={"token": TOKEN})
            answer = client.post("/raters/ann/answers", data=sent)
            if answer.status_code == 409:
                refused += 1
                assert "does not name these captions (was the server restarted?)" in answer.text
                page = answer.text
                sent = dict(re.findall(r'type="hidden" name="(number|captions)" value="(\w+)"', page)) | {"choice": "1"}
                assert client.post("/raters/ann/answers", data=sent).status_code == 303
        row = list(session.answers("ann").rows.values())[-1]
        texts = next(item.texts for item in session.items if item.id == row["id"])
        assert re.findall(r"caption \d of row \d", page) == [texts[caption] for caption in row["shown"]]
        # How long a page was open that another server showed is not known.
        assert "seconds" not in row
    assert 0 < refused < 8


@pytest.mark.parametrize("form", ["battle", "ranking", "spans"])
def test_pages_of_other_forms_are_blind_and_hold_no_markup_of_captions(tmp_path, form: str) -> None:
    # Captions with words to press are no longer one text; categories are.
    asked = {form: {"categories": HOSTILE} if form == "spans" else "?"}
    with client_of(make_session(tmp_path, form=asked)) as client:
        texts = [client.get("/", params={"token": TOKEN}).text]
        for number in range(6):
            texts.append(client.get("/raters/ann").text)
            send(client, "ann", number, choice="cannot_tell")
    assert not any("secret-model" in text for text in texts)
    require_texts(texts, "rate")


def test_a_name_that_looks_like_another_raters_is_refused(choices: Any) -> None:
    send(choices, "ann", 0, choice="0")
    answer = choices.get("/", params={"name": "\u0430nn"})
    assert answer.status_code == 400 and "looks like ann, who has answers" in answer.text


def test_scales_are_answered_one_after_the_other_and_kept(client: Any) -> None:
    page = client.get("/raters/cy").text
    assert "words of" in page
    assert page.count('type="radio"') == 5 + 3 + 2
    assert "0 of 12 answered" in page
    answer = send(client, "cy", 0, aspect0="4", aspect1="0")
    assert (answer.status_code, answer.headers["location"]) == (303, "/raters/cy")
    assert list(client.session.answers("cy").current.values()) == [{"precision": 4, "recall": 0}]
    again = send(client, "cy", 0, aspect0="1", aspect1="1")
    assert again.headers["location"] == "/raters/cy?note=kept"
    assert "the first one is kept" in client.get(again.headers["location"]).text
    assert list(client.session.answers("cy").current.values()) == [{"precision": 4, "recall": 0}]
    assert "1 of 12 answered" in client.get("/raters/cy").text
    assert "1 of 12" in client.get("/").text


@pytest.mark.parametrize("numbers", [("", ""), ("4", ""), ("6", "0"), ("4.0", "0")])
def test_what_is_no_answer_is_asked_again(client: Any, numbers: tuple[str, str]) -> None:
    fields = {f"aspect{at}": number for at, number in enumerate(numbers) if number}
    answer = send(client, "dee", 0, **fields)
    assert answer.status_code == 400
    assert f"Choose a score for {'recall' if numbers[0] == '4' else 'precision'}." in answer.text
    assert client.session.answers("dee").current == {}


def test_a_choice_is_of_the_caption_and_not_of_its_place(choices: Any) -> None:
    session: Session = choices.session
    chosen: dict[str, set[str]] = {}
    for number in range(6):
        page = choices.get("/raters/ann").text
        assert "words of" not in page
        texts = re.findall(r'<span class="word">(.*?)</span></span>', page, flags=re.DOTALL)
        at = next(place for place, text in enumerate(texts) if "of many more" in text)
        send(choices, "ann", number, choice=str(at))
        chosen.setdefault(str(at), set()).add(texts[at])
    assert set(chosen) == {"0", "1"}
    assert list(session.answers("ann").current.values()) == [0] * 6
    page = choices.get("/raters/ann").text
    assert "all 6 answers are saved" in page


def test_ties_what_cannot_be_told_and_what_is_no_choice(choices: Any) -> None:
    for number, choice in enumerate(("tie", "cannot_tell")):
        assert send(choices, "ann", number, choice=choice).status_code == 303
    for choice in ("2", "-1", "", "tie2", "None"):
        answer = send(choices, "ann", 2, choice=choice)
        assert answer.status_code == 400
        assert "Choose a caption" in answer.text
    assert list(choices.session.answers("ann").current.values()) == ["tie", None]


@pytest.mark.parametrize("captions", [{}, {"captions": ""}, {"captions": "another"}])
def test_an_answer_that_does_not_name_its_captions_is_refused(choices: Any, captions: dict[str, str]) -> None:
    answer = choices.post("/raters/ann/answers", data={"number": "0", "choice": "0", **captions})
    assert answer.status_code == 409 and "not saved, as it does not name these captions" in answer.text
    assert choices.session.answers("ann").current == {}


def test_undo_leads_back_and_a_second_click_takes_nothing_more(choices: Any) -> None:
    for number in range(3):
        send(choices, "ann", number, choice="0")
    for _ in range(2):
        answer = choices.post("/raters/ann/undo", data={"number": "3"})
        assert answer.headers["location"] == "/raters/ann"
    assert len(choices.session.answers("ann").current) == 2


def test_an_answer_that_cannot_be_kept_is_told(choices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from capbench.benchmarks.rate import session

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    send(choices, "ann", 0, choice="0")
    monkeypatch.setattr(session.os, "fsync", full)
    for answer in (send(choices, "ann", 1, choice="0"), choices.post("/raters/ann/undo", data={"number": "1"})):
        assert answer.status_code == 500
        assert "could not be saved: No space left" in answer.text
    monkeypatch.undo()
    assert len((choices.session.folder / "answers/ann.jsonl").read_text().splitlines()) == 1
    assert "1 of 6 answered" in choices.get("/raters/ann").text
    send(choices, "ann", 1, choice="tie")
    assert list(choices.session.answers("ann").current.values())[1:] == ["tie"]
    assert "2 of 6 answered" in choices.get("/raters/ann").text


def test_answers_that_were_damaged_are_told_and_not_written_over(choices: Any) -> None:
    file = choices.session.folder / "answers" / "ann.jsonl"
    file.write_text("no answer\n")
    for page in (choices.get("/raters/ann"), send(choices, "ann", 0, choice="0")):
        assert page.status_code == 500
        assert "ann.jsonl:1: is no answer to an open question" in page.text
    assert file.read_text() == "no answer\n"


def test_pictures_are_those_of_the_items_and_of_nothing_else(client: Any) -> None:
    for number in range(6):
        answer = client.get(f"/pictures/{number}")
        assert answer.headers["content-type"] == "image/png"
        assert answer.content.startswith(b"\x89PNG")
    for path in ("6", "-1", "%2e%2e%2fdesign.json", "0x0", "../design.json"):
        assert client.get(f"/pictures/{path}").status_code == 404
    for path in ("/assets/app.py", "/assets/..%2fapp.py", "/design.json", "/answers/ann.jsonl"):
        assert client.get(path).status_code == 404


def test_nothing_is_answered_or_taken_without_the_token_or_from_pages_elsewhere(outside: Any) -> None:
    outside.cookies.clear()
    said = {"number": "0", "aspect0": "4", "aspect1": "0"}
    assert "'bench rate' printed" in outside.get("/").text
    assert outside.post("/raters/zoe/answers", data=said).status_code == 403
    assert outside.get("/", params={"token": TOKEN}).status_code == 200
    elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    for headers in ({"origin": "http://evil.example"}, elsewhere):
        assert outside.post("/raters/zoe/answers", data=said, headers=headers).status_code == 403
        # Nor with the token in the address: that opens pages, and sends nothing.
        answer = outside.post("/raters/zoe/undo", params={"token": TOKEN}, data={"number": "0"}, headers=headers)
        assert answer.status_code == 403
    assert outside.session.answers("zoe").current == {}


def test_forms_tell_this_server_where_they_come_from_and_nobody_else(client: Any) -> None:
    for path in ("/", "/raters/ann"):
        answer = client.get(path)
        assert answer.headers["referrer-policy"] == "same-origin"
        assert '<meta name="referrer" content="same-origin">' in answer.text
        assert "form-action 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


def test_what_is_more_than_a_page_sends_is_refused(client: Any) -> None:
    assert client.post("/raters/ann/answers", content=b"a" * 16_385).status_code == 413
    assert client.post("/raters/ann/answers", content=b"a" * 16_384).status_code == 303


def test_hostile_texts_stay_texts_on_every_page(client: Any, choices: Any) -> None:
    pages = [client.get("/", params={"name": name * 3}) for name in HOSTILE]
    pages += [client.get(path) for path in ("/nowhere" + HOSTILE[0].replace("#", ""), "/raters/" + HOSTILE[1])]
    for number in range(12):
        pages.append(client.get("/raters/hal"))
        send(client, "hal", number, aspect0="1", aspect1="0")
    for number in range(6):
        pages.append(choices.get("/raters/hal"))
        send(choices, "hal", number, choice="0")
    require_texts([answer.text for answer in pages], "rate")
