"""The leaderboard's pages in a real browser, opened from disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opened_pages import WIDE, WIDTHS, open_browser, violations
from synthetic_board import HOSTILE, make_board

from capbench.benchmarks.leaderboard.build import pages
from capbench.benchmarks.leaderboard.html.index import overview_page, task_page
from capbench.benchmarks.leaderboard.html.rendering import assets, run_pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VIEWPORT = {"width": 1280, "height": 900}
RATINGS = "#task-ratings-1-0"
RUN_PAGE = "runs/ratings--no-model--20261120T122949-a3d4ca58.html"

PAGES = ("index.html", "overview.html", RUN_PAGE, "runs/captions_01--model-00--20261120T122900-00000001.html")

STRUCTURE = Path(__file__).with_name("structure.js").read_text()
"""What axe-core does not look at."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small leaderboard with hostile names and captions."""
    folder = tmp_path_factory.mktemp("leaderboard")
    for name, content in chain(assets().items(), pages(make_board(folder / "data"))):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@contextmanager
def opened(browser: Browser, site: Path) -> Iterator[tuple[Page, list[str]]]:
    """Give the first page in a window of its own, and what is said on its console or asked of a network."""
    said: list[str] = []
    options = {"viewport": VIEWPORT, "color_scheme": "light"}
    context = open_browser(browser, (site / "index.html").as_uri(), said, "file:", **options)
    yield context.pages[0], said
    context.close()


@pytest.fixture(scope="module")
def window(browser: Browser, site: Path) -> Iterator[tuple[Page, list[str]]]:
    """One window for all tests that leave nothing in it."""
    with opened(browser, site) as window:
        yield window


@pytest.fixture
def page(window: tuple[Page, list[str]], site: Path) -> Iterator[Page]:
    """The first page; afterwards nothing may have been said on the console, asked of a network or run."""
    page, said = window
    said.clear()
    page.set_viewport_size(VIEWPORT)
    page.emulate_media(color_scheme="light")
    page.goto((site / "index.html").as_uri())
    yield page
    assert page.evaluate("window.ran") is None
    assert said == []


def names(page: Page, table: str = RATINGS) -> list[str]:
    """Return what the visible rows of a table are called."""
    rows = page.locator(f"{table} tbody tr:visible")
    return [row.locator("th a, th").first.inner_text().split("\n")[0] for row in rows.all()]


def column(page: Page, place: int) -> list[float | None]:
    """Return the numbers of a column, top to bottom; None where a cell has none."""
    return page.eval_on_selector_all(
        f"{RATINGS} tbody tr",
        "(rows, place) => rows.map((row) => row.cells[place].dataset.v ? Number(row.cells[place].dataset.v) : null)",
        place,
    )


def test_a_click_sorts_best_first_then_worst_first_with_missing_values_last(page: Page) -> None:
    head = page.locator(f"{RATINGS} thead th").nth(2)
    for order, reverse in (("descending", True), ("ascending", False)):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        values = column(page, 2)
        numbers = [value for value in values if value is not None]
        assert numbers == sorted(numbers, reverse=reverse)
        assert len(numbers) == 6
        assert values[6:] == [None, None]


def test_the_keyboard_sorts_and_only_one_column_says_so(page: Page) -> None:
    heads = page.locator(f"{RATINGS} thead th")
    heads.nth(1).locator("button").focus()
    page.keyboard.press("Enter")
    assert heads.nth(1).get_attribute("aria-sort") == "descending"
    page.keyboard.press("Space")
    assert heads.nth(1).get_attribute("aria-sort") == "ascending"
    heads.nth(0).locator("button").focus()
    page.keyboard.press("Enter")
    assert [heads.nth(place).get_attribute("aria-sort") for place in range(4)] == ["ascending", "none", "none", "none"]
    assert names(page)[1:4] == ["BLEU-4", "CIDEr", "CLIP-S"]


def test_the_filter_takes_metric_model_and_task_and_says_how_many_rows_are_left(page: Page) -> None:
    from playwright.sync_api import expect

    box = page.get_by_label("Filter rows by task, metric or model")
    box.fill("cider ratings")
    expect(page.locator("#count")).to_have_text("3 of 35 rows")
    assert names(page) == ["CIDEr"]
    box.fill("model-01")
    expect(page.locator("#task-captions_01-1-0")).to_be_visible()
    assert page.locator(RATINGS).is_hidden()
    assert names(page, "#task-captions_01-1-0") == ["model-01"]
    box.fill("openai-clip")
    expect(page.locator("#task-captions_01-1-0")).to_be_hidden()
    assert names(page) == ["CLIP-S"]
    box.press("Enter")
    assert page.url.endswith("?q=openai-clip")
    # A link into what is hidden shows it again.
    page.locator(".contents a", has_text="Captions 02").click()
    assert box.input_value() == ""
    assert len(names(page)) == 8
    assert page.locator("#task-captions_02-1-0").is_visible()


def test_published_rows_and_tasks_can_be_chosen(page: Page) -> None:
    assert page.locator(f"{RATINGS} .printed").count() == 1
    assert page.locator(f"{RATINGS} .printed .tag").inner_text() == "published only"
    page.get_by_label("Published rows").uncheck()
    assert page.locator(f"{RATINGS} .printed").is_hidden()
    page.locator("#task").select_option("captions_02")
    assert page.locator(RATINGS).is_hidden()
    assert page.locator("#task-captions_02-1-0").is_visible()
    runs = page.locator("#runs tbody tr:visible")
    assert {row.get_attribute("data-task") for row in runs.all()} == {"captions_02"}


def test_the_theme_follows_the_system_and_the_button_and_is_remembered(browser: Browser, site: Path) -> None:
    with opened(browser, site) as (page, said):
        look_at_themes(page)
        assert said == []


def look_at_themes(page: Page) -> None:
    def background() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = background()
    page.emulate_media(color_scheme="dark")
    dark = background()
    assert dark != light
    button = page.locator("#theme")
    # The page is told of the change with the next frame, whenever that is.
    button.filter(has_text="Light theme").wait_for()
    button.click()
    assert background() == light
    assert button.inner_text() == "Dark theme"

    # Chromium hands what a page stores to its other processes in the background, a moment after the click.
    def remembered() -> bool:
        page.reload()
        return background() == light

    assert any(remembered() or page.wait_for_timeout(100) for _ in range(50))
    assert button.inner_text() == "Dark theme"


def test_every_link_leads_to_a_page_that_is_there_and_back(page: Page, site: Path) -> None:
    # 'bench leaderboard build' writes the text beside the pages.
    (site / "README.md").touch()
    targets = page.eval_on_selector_all("a", "links => links.map((link) => link.getAttribute('href'))")
    files = {target.split("#")[0] for target in targets} - {""}
    assert len(files) == 11
    assert [name for name in files if not (site / name).is_file()] == []
    page.locator(f"{RATINGS} th a", has_text="CIDEr").click()
    assert page.url.endswith(RUN_PAGE)
    assert page.locator("h1").inner_text() == "Ratings"
    page.get_by_text("Back to the leaderboard").first.click()
    assert page.url.endswith(f"index.html{RATINGS}")
    hostile = page.locator("#runs tbody tr", has_text="script>").first
    hostile.locator("a").click()
    assert HOSTILE[1] in page.locator("header").inner_text()


def test_reasons_of_empty_cells_are_reached_by_keyboard(page: Page) -> None:
    mark = page.locator("#suite-pacspp_table1 .empty a").first
    mark.focus()
    page.keyboard.press("Enter")
    note = page.locator(page.evaluate("location.hash"))
    assert note.inner_text() == "not a metric of capbench " + HOSTILE[0]


def test_the_first_tab_stop_skips_to_the_content(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize(("width", "themes"), WIDTHS)
def test_every_page_fits_and_is_accessible_in_both_themes(
    page: Page, site: Path, axe: str, width: int, themes: list[str]
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    faults = {}
    for name in PAGES:
        page.goto((site / name).as_uri())
        assert page.evaluate(STRUCTURE) == [], name
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true;")
        # Later rows and samples look like these, and take most of the time.
        page.evaluate(
            "document.querySelectorAll('tr:nth-child(n+9), .samples li:nth-child(n+9)').forEach((o) => o.remove())"
        )
        faults[name] = violations(page, axe, width, themes)
    assert not any(faults.values()), faults


def test_poor_contrast_of_either_theme_is_found_behind_elements_of_one_look(browser: Browser, axe: str) -> None:
    width, themes = WIDE
    page = browser.new_page(viewport={"width": width, "height": 900})
    dark = "@media (prefers-color-scheme: dark) { .dark { color: #ddd } }"
    page.set_content(
        f'<!doctype html><html lang="en"><head><title>t</title><style>{dark}</style></head><body><main><h1>t</h1>'
        f'{"<p>good</p>" * 4}<p style="color: #ccc">poor</p><p class="dark">poor at night</p></main></body></html>'
    )
    assert [row[:2] for row in violations(page, axe, width, themes)] == [[theme, "color-contrast"] for theme in themes]
    page.close()


def test_what_is_filtered_and_sorted_stands_in_the_address_and_is_there_again(page: Page) -> None:
    from playwright.sync_api import expect

    page.get_by_label("Filter rows by task, metric or model").fill("ratings")
    page.get_by_label("Published rows").uncheck()
    page.locator(f"{RATINGS} thead th").nth(2).locator("button").click()
    page.locator(f"{RATINGS} thead th").nth(2).locator("button").click()
    expect(page.locator("#count")).to_have_text("10 of 35 rows")
    order = names(page)
    query = "?q=ratings&published=0&sort=task-ratings-1-0%3Akendall_c%3Aascending"
    assert page.url.endswith("index.html" + query)
    page.goto(page.url + RATINGS)
    page.reload()
    assert names(page) == order
    assert page.locator(f"{RATINGS} thead th").nth(2).get_attribute("aria-sort") == "ascending"
    assert page.locator("#task-captions_01-1-0").is_hidden()
    # What says nothing known is passed over.
    hostile = "?task=%22%3E%3Cimg%3E&sort=x&sort=%3A%3A&sort=task-ratings-1-0:kendall_c:up&sort=%22]:a:ascending"
    page.goto(page.url.partition("?")[0] + hostile)
    assert page.locator("#task").input_value() == ""
    assert page.locator(f"{RATINGS} tbody tr:visible").count() == 8


def test_tasks_and_metrics_of_the_overview_are_chosen_and_mean_ranks_follow(page: Page, site: Path) -> None:
    page.goto((site / "overview.html").as_uri())
    body = "#overview-model tbody"

    def means() -> list[float]:
        """The means as the page shows them, which must be those of the visible ranks, least first."""
        rows = page.locator(f"{body} tr").all()
        shown = [float(row.locator(".mean").inner_text()) for row in rows]
        visible = [row.locator("td[data-r]:visible").all() for row in rows]
        ranks = [[int(cell.get_attribute("data-r") or 0) for cell in of_row] for of_row in visible]
        assert shown == [round(sum(row) / len(row), 1) for row in ranks] == sorted(shown)
        return shown

    first = means()
    assert page.locator(f"{body} tr").first.locator("td:visible").count() == 3
    page.locator("#overview-model summary").nth(1).click()
    page.locator("#overview-model").get_by_label("CIDEr").check()
    assert page.locator(f"{body} tr").first.locator("td:visible").count() == 5
    assert means() != first
    page.locator("#overview-model summary").first.click()
    page.get_by_label("Captions 02").uncheck()
    chosen = means()
    assert page.locator("[data-count=metric]").inner_text() == "2 of 5"
    page.reload()
    assert means() == chosen
    page.goto(page.url.partition("?")[0])
    assert means() == first


def test_an_overview_of_40_models_and_20_tasks_is_low_and_keeps_its_first_columns(page: Page, site: Path, tmp_path):
    board = make_board(tmp_path, tasks=2, models=40)
    tables = [replace(board.tables[1], task=f"t{number}", alias=f"Task {number}") for number in range(20)]
    (site / "large.html").write_bytes(overview_page(replace(board, tables=tuple(tables)), run_pages(board.runs)))
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto((site / "large.html").as_uri())
    assert page.locator("#overview-model tbody tr").count() == 40
    height, width = page.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]")
    assert height <= 5_000 and width == 1400
    row = page.locator("#overview-model tbody tr").nth(20)
    first, mean, value = row.locator("th").first, row.locator(".mean"), row.locator("td[data-r]:visible").first
    places = [cell.bounding_box() for cell in (first, mean, value)]
    assert row.locator("td[data-r]:visible").count() == 20
    page.eval_on_selector(".scroll:has(#overview-model), #overview-model .scroll", "box => { box.scrollLeft = 500; }")
    assert [cell.bounding_box() for cell in (first, mean)] == places[:2]
    moved, start = value.bounding_box(), places[2]
    assert moved and start and moved["x"] < start["x"]


def test_the_page_of_one_task_is_filtered_and_lets_nobody_choose_a_task(page: Page, site: Path, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    board = make_board(tmp_path, tasks=2, models=2)
    table = board.tables[-1]
    runs = [run for run in board.runs if run.record.task == table.task]
    of_task = site / "runs" / "one.html"
    of_task.write_bytes(task_page(table, runs, run_pages(board.runs)))
    page.goto(f"{of_task.as_uri()}?task=another")
    assert page.evaluate(STRUCTURE) == []
    assert page.locator("select").count() == 0
    page.get_by_label("Filter rows by metric or model").fill("model-00")
    expect(page.locator("#count")).to_have_text("2 of 4 rows")
    page.get_by_role("link", name="Runs").click()
    assert page.url.endswith("?q=model-00#runs")
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_table_that_is_cut_says_how_many_columns_do_not_fit(page: Page) -> None:
    line = page.locator("#task-captions_01-1-0 .cut")
    page.set_viewport_size({"width": 390, "height": 900})
    line.wait_for()
    # How many depends on the fonts.
    assert line.inner_text()[0] in "456"
    assert line.inner_text()[1:] == " of 7 columns do not fit here: the table scrolls sideways."
    page.set_viewport_size({"width": 1900, "height": 900})
    line.wait_for(state="detached")


def test_hostile_names_and_captions_are_shown_as_text_and_run_nothing(page: Page, site: Path) -> None:
    assert page.locator("body > img, main img, main script").count() == 0
    assert HOSTILE[0] in page.locator(RATINGS).inner_text()
    page.goto((site / RUN_PAGE).as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    shown = page.locator("#samples").inner_text()
    assert sum(text.rstrip("\u2028") in shown for text in (HOSTILE[0], HOSTILE[1], HOSTILE[3])) == 3
    assert page.locator("main script, main style, main svg[onload]").count() == 0
    assert {image.split(",")[0] for image in page.eval_on_selector_all("img", "all => all.map((i) => i.src)")} == {
        "data:image/jpeg;base64"
    }


def test_the_policy_refuses_what_is_not_the_pages_own(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.ran = 'script'";
          document.body.append(script);
          const box = document.createElement("div");
          box.innerHTML = "<img src=x onerror=\\"window.ran='image'\\">";
          document.body.append(box);
        }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.ran") is None
    page.close()


def test_without_script_the_tables_are_there_and_a_line_says_what_is_missing(browser: Browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    assert page.locator(f"{RATINGS} tbody tr").count() == 8
    assert page.locator("#filter").is_hidden()
    assert "README.md" in page.locator("main").inner_text().split("How to read it")[0]
    context.close()
