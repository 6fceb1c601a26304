"""The pages of finished runs in a real browser, served by the server that users have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opened_pages import WIDTHS, open_browser, served, violations
from viewed_runs import METRIC, ROWS, Viewed

from capbench.benchmarks.view.app import application
from capbench.benchmarks.view.exporting import export
from capbench.benchmarks.view.samples import RunSamples
from capbench.errors import UsageError
from capbench.progress import unheard

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def address(viewed: Viewed) -> Iterator[str]:
    """What the server prints."""
    with served(application(viewed.site()), "view") as address:
        yield address


def pages_of(viewed: Viewed) -> dict[str, str]:
    """Return an address of each kind of page."""
    from urllib.parse import quote

    first, second, rated = viewed.first.key, viewed.second.key, viewed.rated.key
    return {
        "runs": "/", "run": f"/runs/{second}", "about": f"/runs/{second}/about",
        "samples": f"/runs/{second}/samples?sort=capture&q=%27circle%27",
        "grid": f"/runs/{second}/samples?view=grid&sort=-models_disagree", "fault": f"/runs/{second}/samples?q=meteo",
        "sample": f"/runs/{second}/samples/7?sort=capture", "capture": f"/runs/{first}/samples/3?matches=capture",
        "meteor": f"/runs/{first}/samples/3?matches=meteor", "cider": f"/runs/{first}/samples/3?matches=cider",
        "scatter": f"/runs/{rated}/scatter?x=ratings&y=length",
        "captioners": f"/compare?a={first}&b={second}&x=meteor",
        "metrics": f"/compare?a={rated}&b={rated}&x=length&y={quote(METRIC)}", "suites": "/suites",
    }  # fmt: skip


@pytest.mark.parametrize(("width", "themes"), WIDTHS)
def test_every_page_fits_is_accessible_in_both_themes_and_asks_nobody_else(
    browser: Browser, viewed: Viewed, address: str, axe: str, width: int, themes: list[str]
) -> None:
    said: list[str] = []
    context = open_browser(browser, address, said, viewport={"width": width, "height": 900})
    page, own = context.pages[0], address.partition("/?")[0]
    faults = {}
    for name, path in pages_of(viewed).items():
        page.goto(own + path)
        if violated := violations(page, axe, width, themes):
            faults[name] = violated
    context.close()
    assert (faults, said) == ({}, [])


def test_the_token_leaves_the_address_and_keys_lead_from_sample_to_sample(
    browser: Browser, viewed: Viewed, address: str
) -> None:
    said: list[str] = []
    context = open_browser(browser, address, said)
    page, own = context.pages[0], address.partition("/?")[0]
    assert page.url == own + "/"
    page.goto(f"{own}/runs/{viewed.first.key}/samples?sort=-meteor")
    order = page.eval_on_selector_all(".listed tbody th a", "links => links.map((link) => link.textContent)")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("Escape")
    page.locator(".listed tbody th a").first.focus()
    page.keyboard.press("Enter")

    def arrive(at: int) -> None:
        # Keys are listened to once the page's scripts have run.
        shown = "name => document.readyState === 'complete' && document.querySelector('h1').textContent === name"
        page.wait_for_function(shown, arg=f"Sample {order[at]}")

    for at in range(3):
        arrive(at)
        page.keyboard.press("ArrowRight")
    arrive(3)
    page.keyboard.press("ArrowLeft")
    arrive(2)
    page.wait_for_function("() => document.querySelector('p.large')?.textContent.startsWith('No image here: it ')")
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelector('h1')?.textContent === 'Samples'")
    assert "sort=-meteor" in page.url
    context.close()
    assert said == []


def test_on_a_narrow_screen_the_chosen_score_and_the_matches_are_in_view(
    browser: Browser, viewed: Viewed, address: str
) -> None:
    context = open_browser(browser, address, [], viewport={"width": 390, "height": 900})
    page, own = context.pages[0], address.partition("/?")[0]
    for path, shown in (("?sort=cider", ".listed td.by"), ("/3?sort=cider", "#scores + div a[href*=matches]")):
        page.goto(f"{own}/runs/{viewed.first.key}/samples{path}")
        box = page.locator(shown).first.bounding_box()
        assert box and box["x"] + box["width"] <= 390
    page.goto(f"{own}/runs/{viewed.first.key}/samples?view=grid")
    assert page.eval_on_selector(".grid img", "image => getComputedStyle(image).objectFit") == "contain"
    context.close()


def test_drawing_across_bars_filters_by_their_range(browser: Browser, viewed: Viewed, address: str) -> None:
    context = open_browser(browser, address, [])
    page, own = context.pages[0], address.partition("/?")[0]
    page.goto(f"{own}/runs/{viewed.first.key}/samples?sort=meteor&q=length+>+1")
    page.wait_for_function("() => document.readyState === 'complete'")
    bars = page.locator(".brush a")
    first, last = bars.nth(1), bars.nth(3)
    ends = first.get_attribute("data-low"), last.get_attribute("data-high")
    # From right to left, too.
    last.hover()
    page.mouse.down()
    first.hover()
    assert page.locator(".brush .chosen").count() == 3
    page.mouse.up()
    page.wait_for_function("() => document.getElementById('q').value.includes('meteor')")
    assert page.input_value("#q") == f"length > 1 and meteor >= {ends[0]} and meteor < {ends[1]}"
    assert "sort=meteor" in page.url
    context.close()


def test_a_run_in_one_file_lists_its_samples_and_is_accessible(
    browser: Browser, viewed: Viewed, axe: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.html"
    size = export(viewed.site(), viewed.second, file, thumbnails=True, progress=unheard)
    assert size == file.stat().st_size
    with pytest.raises(UsageError, match="already exists"):
        export(viewed.site(), viewed.second, file, thumbnails=False, progress=unheard)
    said: list[str] = []
    context = open_browser(browser, file.as_uri(), said, own="file:", viewport={"width": 390, "height": 900})
    page = context.pages[0]
    assert page.text_content("#count") == f"{ROWS} samples, page 1 of 1"
    page.select_option("#sort", "1+")
    page.locator("#list summary").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('img.large')?.naturalWidth === 64")
    meteor = RunSamples(viewed.second.folder, viewed.second.record).numbers("meteor")
    assert page.locator("#list b").first.text_content() == f"{min(meteor):.4f}"
    # Not rounded: samples are in the order of the served page.
    written = page.evaluate("() => JSON.parse(document.getElementById('data').textContent)")
    assert [sample["scores"][1] for sample in written] == meteor.tolist()
    page.fill("#q", "row 3")
    assert page.text_content("#count") == f"1 of {ROWS} samples, page 1 of 1"
    assert violations(page, axe, 390, ["light"]) == []
    context.close()
    assert said == []
