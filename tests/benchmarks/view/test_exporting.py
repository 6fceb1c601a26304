"""Pages as files: they hold together, and hold nothing from elsewhere."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from viewed_runs import ROWS, Viewed, caption

from capbench.benchmarks.view.exporting import EXPORT_POLICY, export
from capbench.errors import UsageError
from capbench.progress import unheard


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, viewed: Viewed) -> Path:
    """The folder of the exported pages."""
    folder = tmp_path_factory.mktemp("exported") / "pages"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(viewed.folder / "cache"))
        written = export(viewed.site(EXPORT_POLICY), folder, unheard)
    assert written == sum(path.is_file() for path in folder.rglob("*"))
    return folder


def test_every_link_of_every_file_leads_to_a_file(exported: Path) -> None:
    files = [path for path in exported.rglob("*") if path.is_file()]
    pages = [path for path in files if path.suffix == ".html"]
    assert len([path for path in pages if path.parent.name == "samples" and "--" not in path.stem]) == 3 * ROWS
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "<form" not in text
        assert "content-security-policy" in text.lower()
        for link in re.findall(r'(?:href|src)="([^"]*)"', text):
            name, _, part = html.unescape(link).partition("#")
            if name != "data:,":
                assert not name or (page.parent / name).is_file(), f"{page}: {link}"
            if part:
                whole = (page.parent / name if name else page).read_text(encoding="utf-8")
                assert f'id="{part}"' in whole, f"{page}: {link}"
    matches = [page for page in pages if "matches-capture" in page.name]
    assert len(matches) == 2 * ROWS
    assert '<mark class="equal"' in matches[0].read_text(encoding="utf-8")


def test_files_hold_what_the_pages_do(exported: Path, viewed: Viewed) -> None:
    root = exported / "runs" / viewed.rated.key
    assert caption(5) in (root / "samples" / "5.html").read_text(encoding="utf-8")
    assert (root / "pictures" / "0.jpg").read_bytes() == (viewed.folder / "tasks/images/0.jpg").read_bytes()
    assert not (root / "pictures" / "2.jpg").exists()


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path, viewed: Viewed) -> None:
    with pytest.raises(UsageError, match="is there already"):
        export(viewed.site(EXPORT_POLICY), tmp_path, unheard)
    assert list(tmp_path.iterdir()) == [tmp_path / "cache"]
