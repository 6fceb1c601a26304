"""Takes the pictures ``docs/*.webp`` of pages in a browser: ``python docs/site/pictures.py``.

It needs Chromium, and two minutes for runs of models that ship. Commit the pictures that look different.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
BENCH = (sys.executable, "-m", "capbench.cli.main")
CAPTURE = "capture[parser=grammar,parser_model=captions,synonyms=false,soft=false]"
RUN = ("run", "--model", "shapes-llava", "--task", "shapes_detailcaps", "--metrics", f"{CAPTURE},meteor,cider")
RATE = ("rate", "shapes_detailcaps", "--captions", "good.jsonl", "brief.jsonl", "--subset", "--better")
CAPTIONS = {"good": "A green star and a small white square in the sky.", "brief": "A green star."}


@contextmanager
def opened(page: Page, *command: str) -> Iterator[str]:
    """Start a server, open the address that it prints, and give the address without the token."""
    with subprocess.Popen([*BENCH, *command], stdout=subprocess.PIPE, text=True) as server:
        address = next(line[0] for text in server.stdout or () if (line := re.search(r"http\S+", text)))
        page.goto(address)
        yield address.partition("/?")[0]
        server.terminate()


def save(page: Page, name: str, address: str, height: int) -> None:
    """Write the top of a page as ``docs/NAME.webp``."""
    page.set_viewport_size({"width": 1200, "height": height})
    page.goto(address, wait_until="networkidle")
    Image.open(io.BytesIO(page.screenshot())).save(ROOT / f"docs/{name}.webp", quality=50, method=6)


def take(page: Page) -> None:
    """Take all pictures; runs and captions go to the current folder."""
    for tokens in (96, 24):
        subprocess.run([*BENCH, *RUN, "--gen_kwargs", f"max_new_tokens={tokens}"], check=True)
    whole, short = ("--".join(path.parts[1:4]) for path in sorted(Path().glob("runs/*/*/*/run.json")))
    with opened(page, "view", "runs") as own:
        save(page, "run", f"{own}/runs/{whole}", 760)
        save(page, "view", f"{own}/runs/{short}/samples/53?matches={quote(CAPTURE)}", 1180)
        save(page, "samples", f"{own}/runs/{whole}/samples?sort=-models_disagree&q={quote('cider < 8')}", 760)
        save(page, "compare", f"{own}/compare?a={whole}&b={short}&x=meteor", 1060)
    for name, caption in CAPTIONS.items():
        rows = [json.dumps({"id": str(document), "caption": caption}) for document in range(4)]
        Path(f"{name}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    with opened(page, *RATE) as own:
        save(page, "rate", f"{own}/raters/ann", 640)
    subprocess.run([*BENCH, "leaderboard", "build", "--runs", ROOT / "results/runs", "--output", "board"], check=True)
    save(page, "leaderboard", Path("board/index.html").resolve().as_uri(), 900)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.chdir(folder)
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        take(browser.new_page(color_scheme="light"))
