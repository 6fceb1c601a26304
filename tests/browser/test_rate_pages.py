"""Raters at a real browser: answers past two kills, the keyboard alone, and every page looked at by axe-core."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opened_pages import WIDTHS, open_browser, served, violations
from rated_session import SYSTEMS, make_session, make_task
from synthetic_board import HOSTILE

from capbench.benchmarks.rate.app import application
from capbench.benchmarks.rate.questions import DEFAULTS
from capbench.benchmarks.rate.session import RatingQueue, Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ANSWERS = 30
FOUR = {f"system-{n}": [f"caption {n} of {row} {HOSTILE[n]}" for row in range(2)] for n in range(4)}
SCALES = [
    "precision=1-5: nothing is right | all is right",
    "recall=0-3: nothing | little | much | all that can be seen",
]
RATE = Path(__file__).with_name("rate.js").read_text()
"""Answers by keys, each as soon as it is asked for, as no hand could."""


@contextmanager
def of_its_own(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Give a server of the task in a folder, as a process of its own, and the address that it printed."""
    captions = [str(folder / f"{system}.jsonl") for system in SYSTEMS]
    command = [sys.executable, "-m", "capbench.cli.main", "rate", "photos"]
    command += ["--include_path", str(folder / "task"), "--output", str(folder / "session"), "--captions", *captions]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, next(line.split()[1] for line in process.stdout if line.startswith("Open "))
        finally:
            process.kill()


def number_of(page: Page) -> int:
    """Return which answer a page asks for, from 0; all of them where it asks for none."""
    heading = page.locator("h1").inner_text()
    return int(heading.split()[0]) - 1 if heading[0].isdigit() else ANSWERS


@pytest.mark.costly
def test_no_answer_is_lost_though_the_server_is_killed_twice(browser: Browser, tmp_path: Path) -> None:
    make_task(tmp_path, ANSWERS // len(SYSTEMS))
    context = browser.new_context(viewport={"width": 390, "height": 700})
    page = context.new_page()
    known = 0
    for until in (10, 20, ANSWERS):
        with of_its_own(tmp_path, "--aspect", "quality=1-5") as (process, address):
            page.goto(address)
            page.goto(f"{address.partition('/?')[0]}/raters/ann")
            # What the browser was told is kept; the answer that was on its way may be, too.
            assert known <= number_of(page) <= known + (until > 10)
            page.evaluate(RATE, [number_of(page), until])
            known = until
            if until < ANSWERS:
                page.keyboard.press("1")
                process.send_signal(signal.SIGKILL)
    assert number_of(page) == ANSWERS
    context.close()
    rows = [json.loads(line) for line in (tmp_path / "session/answers/ann.jsonl").read_text().splitlines()]
    assert len(rows) == len({(row["id"], row["system"]) for row in rows}) == ANSWERS
    assert {row["answer"]["quality"] for row in rows} == {1, 2, 3, 4, 5}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What servers of a session of scales, and of one of choices, printed."""
    asked: dict[str, dict[str, Any]] = {"scales": {"aspects": SCALES, "references": True}}
    asked |= {form: {"form": {form: question}, "captions": FOUR} for form, question in DEFAULTS.items()}
    asked["spans"] = {"form": {"spans": {"categories": ["object", HOSTILE[0]]}}}
    with ExitStack() as servers:
        yield {
            kind: servers.enter_context(pages_of(make_session(tmp_path_factory.mktemp(kind), rows=2, **settings)))
            for kind, settings in asked.items()
        }


def pages_of(session: Session, port: int = 0) -> AbstractContextManager[str]:
    """Serve a session from this process."""
    return served(application(RatingQueue(session)), "rate", port)


@pytest.mark.parametrize(("width", "themes"), WIDTHS)
def test_every_page_fits_is_accessible_in_both_themes_and_asks_nobody_else(
    browser: Browser, addresses: dict[str, str], axe: str, width: int, themes: list[str]
) -> None:
    faults, said = {}, []
    for kind, address in addresses.items():
        own = address.partition("/?")[0]
        context = open_browser(browser, address, said, viewport={"width": width, "height": 900})
        page = context.pages[0]

        def look(name: str, page: Page = page) -> None:
            if violated := violations(page, axe, width, themes):
                faults[name] = violated

        rater = f"rater-{width}"
        if kind == "scales":
            look("first")
        page.goto(f"{own}/raters/{rater}")
        page.wait_for_function("() => document.querySelector('img.large').naturalWidth === 16")
        if kind == "spans":
            for place in (1, 3):
                page.locator(".token").nth(place).click()
        look(kind)
        while kind == "scales" and page.locator("#answer").count():
            before = page.title()
            page.evaluate("for (const one of document.querySelectorAll('.first')) one.click()")
            page.locator(".keep").click()
            page.wait_for_function("title => document.title !== title", arg=before)
        if kind == "scales":
            look("done")
        context.close()
    assert (faults, said) == ({}, [])


def test_errors_are_marked_taken_back_and_saved_and_ranks_by_keys(browser: Browser, addresses: dict[str, str]) -> None:
    said: list[str] = []
    context = open_browser(browser, addresses["spans"], said, viewport={"width": 390, "height": 800}, has_touch=True)
    page = context.pages[0]
    own = addresses["spans"].partition("/?")[0]
    page.goto(f"{own}/raters/may")
    field = page.locator("[name=spans]")

    def mark(*words: int) -> None:
        for place in words:
            page.locator(".token").nth(place).tap()
        page.locator("[data-add]").tap()

    assert field.input_value() == "[]"
    mark(3, 1)
    mark(0, 0)
    page.get_by_role("button", name="Remove").last.tap()
    text = page.locator(".token").all_inner_texts()
    assert f"“{' '.join(text[1:4])}”: object, minor" in page.locator(".marked").inner_text()
    start, end = len(text[0]) + 1, len(" ".join(text[:4]))
    assert json.loads(field.input_value()) == [{"start": start, "end": end, "category": "object", "severity": "minor"}]
    page.locator("summary", has_text="remark").tap()
    page.get_by_label("Remark").fill("c u 1 are letters here")
    page.locator(".keep").tap()
    page.wait_for_function("() => document.title.startsWith('2 of 4')")
    # The next page has words to mark, and no marks.
    assert field.input_value() == "[]"
    page.keyboard.press("c")
    page.wait_for_function("() => document.title.startsWith('3 of 4')")
    context.close()
    context = open_browser(browser, addresses["ranking"], said)
    page = context.pages[0]
    page.goto(f"{addresses['ranking'].partition('/?')[0]}/raters/may")
    for key in "2143":
        page.keyboard.press(key)
    page.wait_for_function("() => document.title.startsWith('2 of 2')")
    context.close()
    assert said == []


def test_the_keyboard_alone_rates_corrects_and_takes_back(browser: Browser, addresses: dict[str, str]) -> None:
    said: list[str] = []
    address = addresses["scales"]
    context = open_browser(browser, address, said)
    page = context.pages[0]
    page.get_by_label("Your name").focus()
    page.keyboard.type("Kay u")
    page.keyboard.press("Enter")
    page.wait_for_url("**/raters/kay-u")

    def chosen() -> list[str]:
        return page.eval_on_selector_all("input:checked", "all => all.map((one) => one.value)")

    def arrive(number: int) -> None:
        page.wait_for_function("title => document.title.startsWith(title)", arg=f"{number} of 4")

    keys = page.keyboard
    # A digit answers one scale and leads to the next; ↑ leads back, → along; digits of no number do nothing.
    assert page.evaluate("document.activeElement.matches('input')") is False
    for key in ("4", "9", "ArrowUp", "ArrowRight"):
        keys.press(key)
    assert chosen() == ["5"]
    keys.press("ArrowDown")
    # A key that is held down answers one page.
    keys.down("0")
    keys.down("0")
    arrive(2)
    keys.down("0")
    keys.up("0")
    assert chosen() == []
    keys.press("u")
    arrive(1)
    # Enter keeps a page once all is answered; before, it leads to what is not.
    for key in ("2", "ArrowUp", "Enter"):
        keys.press(key)
    assert page.title().startswith("1 of 4")
    for key in ("Space", "ArrowLeft", "Enter"):
        keys.press(key)
    arrive(2)
    keys.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.key") == "1"
    for number in (2, 3, 4):
        arrive(number)
        for key in "13":
            keys.press(key)
    page.wait_for_function("() => document.title.startsWith('All questions answered')")
    context.close()
    assert said == []


def test_a_rater_is_told_when_the_server_is_gone_and_where_it_was_started_anew(browser: Browser, tmp_path: Path):
    session = make_session(tmp_path, rows=2, better=DEFAULTS["better"])
    context = browser.new_context()
    page = context.new_page()
    with pages_of(session) as address:
        page.goto(address)
        page.goto(f"{address.partition('/?')[0]}/raters/ann")
    page.keyboard.press("1")
    page.get_by_text("so this answer is not saved").wait_for()
    port = address.partition("/?")[0].rpartition(":")[2]
    with pages_of(session, int(port)):
        page.keyboard.press("1")
        page.get_by_text("open the address that 'bench rate' printed").wait_for()
    context.close()
    assert list((tmp_path / "session" / "answers").iterdir()) == []
