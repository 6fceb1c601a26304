"""Time what a reader of the leaderboard waits for: its first table, all of it, a filter and a sort.

Run by hand, with Chromium installed::

    python speed/leaderboard_page.py results/leaderboard/index.html
"""

import argparse
import shutil
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright

WATCH = """
new MutationObserver(() => {
  if (document.querySelector("#tasks tbody tr")) window.firstTable ??= performance.now();
}).observe(document, {childList: true, subtree: true});
"""
"""Notes when the first row of the first table has been read; what is on the screen waits for paint."""

ACT = """(act) => {
  const start = performance.now();
  if (act === "filter") {
    const task = document.getElementById("task");
    task.selectedIndex = 1;
    task.dispatchEvent(new Event("change", {bubbles: true}));
  } else document.querySelector("#runs th:nth-child(2) button").click();
  document.body.offsetHeight;
  return performance.now() - start;
}"""


def measure(browser: Browser, page: Path) -> dict[str, float]:
    """Return milliseconds by step, of one visit with an empty cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.add_init_script(WATCH)
    tab.goto(page.resolve().as_uri())
    times = {
        "first table read": tab.evaluate("window.firstTable"),
        "first paint": tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"),
        "whole page read": tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"),
        "filter by task": tab.evaluate(ACT, "filter"),
        "sort runs": tab.evaluate(ACT, "sort"),
    }
    context.close()
    return times


def main() -> int:
    """Print the median of each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, help="index.html of a leaderboard")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="visits (5)")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        visits = [measure(browser, options.page) for _ in range(options.runs)]
        browser.close()
    print(f"{options.page}: {options.page.stat().st_size / 2**20:.2f} MB")
    for step in visits[0]:
        print(f"{step:17} median {median(visit[step] for visit in visits):6.0f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
