"""The site has every page and every name, and what it says of keys, tasks and metrics is what the code has."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import test_house
from pydantic import BaseModel

import capbench
from capbench.adapters import adapters
from capbench.adapters.aliases import list_aliases
from capbench.benchmarks.protocols import protocols
from capbench.benchmarks.statistics import statistics
from capbench.cli.main import COMMANDS
from capbench.metrics import metrics
from capbench.metrics.meteor import metric as formula
from capbench.recipes.data_synthesis.schema import LoadedPipeline
from capbench.recipes.self_training.schema import LoadedLoop
from capbench.recipes.training.schema import LoadedRecipe
from capbench.tasks.index import build_index
from capbench.tasks.schema import TaskConfig

pytestmark = pytest.mark.costly

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"
TEMPLATES = sorted({key for name in protocols for key in protocols[name].reads if key.startswith("doc_to_")})


def module(name: str) -> ModuleType:
    """Return a module of ``docs/site``, which is no part of the package."""
    sys.path.insert(0, str(SITE))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(SITE))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    module("stage").stage(target)
    return target


def test_every_page_of_the_repository_is_in_the_navigation(pages: Path):
    listed = list(module("stage").navigation())
    assert len(listed) == len(set(listed))
    staged = {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}
    assert set(listed) <= staged
    # The navigation has the index of a section of the reference, which links to its leaves.
    leaves = staged - set(listed)
    for leaf in leaves:
        folder, _, name = leaf.rpartition("/")
        assert f"{folder}/index.md" in listed
        assert f"]({name})" in (pages / folder / "index.md").read_text(encoding="utf-8")
    assert {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} <= set(listed)
    notebooks = (ROOT / "docs/notebooks").glob("*.ipynb")
    assert {f"docs/notebooks/{path.stem}.md" for path in notebooks} <= set(listed)


def test_page_that_the_navigation_leaves_out_and_link_to_nothing_are_named(tmp_path: Path):
    check = module("stage").check
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/view.md").write_text("[gone](gone.md) [a](https://example.org)\n```\n[e](code.md)\n```\n")
    with pytest.raises(LookupError, match=r"not on the site:\ndocs/view\.md: gone\.md$"):
        check(tmp_path)
    (tmp_path / "docs/gone.md").touch()
    with pytest.raises(LookupError, match=r"the navigation lacks docs/gone\.md$"):
        check(tmp_path)
    (tmp_path / "docs/gone.md").rename(tmp_path / "docs/verify.md")
    (tmp_path / "docs/view.md").write_text("[some](../reference/metrics/index.md)")
    (tmp_path / "reference/metrics").mkdir(parents=True)
    (tmp_path / "reference/metrics/index.md").write_text("[cider](cider.md)")
    for name in ("cider", "meteor"):
        (tmp_path / f"reference/metrics/{name}.md").touch()
    with pytest.raises(LookupError, match=r"the navigation lacks reference/metrics/meteor\.md$"):
        check(tmp_path)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("metrics/index.md", [name for name in metrics if metrics[name].__module__.startswith("capbench.")]),
        ("statistics.md", list(statistics)),
        ("protocols.md", list(protocols)),
        ("models.md", list(list_aliases())),
        ("adapters/index.md", list(adapters)),
        ("recipes/index.md", [*LoadedRecipe.shipped(), *LoadedPipeline.shipped(), *LoadedLoop.shipped()]),
        ("tasks/index.md", [entry.name for entry in build_index().tasks]),
        ("commands/index.md", list(COMMANDS)),
        ("python.md", capbench.__all__),
        ("yaml.md", [name for name, field in TaskConfig.model_fields.items() if not field.alias] + TEMPLATES),
    ],
)
def test_reference_has_every_name(pages: Path, page: str, names: list[str]):
    words = re.findall(r"[\w.+-]+", (pages / "reference" / page).read_text(encoding="utf-8"))
    missing = set(names) - {*words, *(word.removeprefix("capbench.").rstrip(".") for word in words)}
    assert not missing


def test_metric_is_told_with_formula_source_and_settings(pages: Path):
    folder = pages / "reference/metrics"
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.md") if path.stem != "index"}
    section = texts["refclip_s"]
    assert section.startswith("# RefCLIP-S (`refclip_s`)\n")
    assert "harmonic mean of CLIP-S and the largest cosine" in section
    assert "Hessel et al., EMNLP 2021" in section
    assert "- `w`: Factor of the cosine with the image; it changes ranks." in section
    # What a variant does not say itself, the kind that it is a variant of says.
    assert "Geometric mean of clipped n-gram" in texts["bleu_4"]
    assert f"α {formula.ALPHA:g}, β {formula.BETA:g}, γ {formula.GAMMA:g}" in texts["meteor"]
    weights = "an equal word counts {:g}, a stem {:g}, a synonym {:g}, a paraphrase {:g}"
    assert weights.format(*formula.MODULE_WEIGHTS) in " ".join(texts["meteor"].split())
    assert all(re.search(r"^- \*Source\*: \S", text, re.MULTILINE) for text in texts.values())
    assert "- *Better*: more\n" in section
    assert "- *Better*: less\n" in texts["chair_i"]


def test_task_has_a_page_with_the_card_of_its_data(pages: Path):
    text = (pages / "reference/tasks/flickr8k_expert.md").read_text(encoding="utf-8")
    task, _, card = text.partition("\n## Data: ")
    assert "Hodosh, Young, Hockenmaier" in card
    assert "raters: flatten (each rating of a caption is one row)" in task
    assert "(version 1.0, tasks/flickr8k/flickr8k_expert.yaml)" in task
    assert "\n## Known defects\n\n- Expert: 9,796 of the 16,992 ratings are 1" in card
    assert "\n### Sarto et al., PAC-S++, table 1, × 100\n\n| | Flickr8k-Expert τ-b | Flickr8k-Expert τ-c |\n" in card
    assert "\n| RefPAC-S++ | 55.3 | 55.7 |\n" in card
    assert "[Our rows](../../results/leaderboard/README.md#flickr8k_expert-1-0)" in card
    # No suite has this paper.
    battles = (pages / "reference/tasks/caparena.md").read_text(encoding="utf-8")
    assert "\n| CAPTURE | .525 |  |  |  |  | .613 | .538 |\n" in battles


def test_recipe_has_a_page_with_its_paper_choices_and_file(pages: Path):
    text = (pages / "reference/recipes/pacspp.md").read_text(encoding="utf-8")
    assert "Paper: Sarto et al. 2024, PAC-S++, sections 3 and 5.1, Table 7." in text
    assert "bench train pacspp --dry_run\n" in text
    assert "- `objective.prompt`: none; the paper" in text
    assert "objective: {batch: 256" in text
    assert "bench loop shapes_loop --output DIR\n" in (pages / "reference/recipes/shapes_loop.md").read_text("utf-8")


def test_key_is_told_with_what_it_holds_its_default_and_its_meaning(pages: Path):
    text = (pages / "reference" / "yaml.md").read_text(encoding="utf-8")
    assert "| `required` | `true` or `false` | `true` | Whether a document without a row is a failure" in text
    assert "| `task` | text | **required** | Name; unique" in text
    assert "| `rate` | number, above 0, at most 100 | **required** |" in text
    assert "| `join` | list of [Join](#schema-join) |" in text
    assert "`flatten`: each rating of a caption is one row." in text
    anchors = re.findall(r"\{ #([\w-]+) \}", text)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= set(anchors)


def test_key_without_a_meaning_is_refused():
    class Silent(BaseModel):
        shown: int = 1
        """Something."""
        untold: str = ""

    with pytest.raises(LookupError, match=r"Silent: the key 'untold' has no docstring$"):
        module("schemas").page_of(Silent, "", set())


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("of ``a | b``, a | b", "of ``a | b``, a &#124; b"),
        ("see :meth:`left_out` <b>", "see `left_out` &lt;b>"),
        ("2**-30", r"2\*\*-30"),
    ],
)
def test_docstring_says_as_markdown_what_it_says(text: str, markdown: str):
    assert module("docstrings").plain(text) == markdown


def test_what_a_page_loads_from_elsewhere_is_found(tmp_path: Path):
    outside = module("outside").outside
    (tmp_path / "page.html").write_text(
        '<link rel="canonical" href="https://example.org/page"><a href="https://example.org">x</a>'
        '<script src="../a.js"></script><link rel="stylesheet" href="style.css">'
    )
    assert outside(tmp_path) == []
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/page.html").write_text(
        '<script async src="https://example.org/a.js"></script>'
        '<link href="//example.org/font.css" rel="stylesheet"><img alt="x" src="http://example.org/b.png">'
    )
    (tmp_path / "style.css").write_text(
        "a {} @import 'https://example.org/c.css'; b { background: url(//example.org/d) }"
    )
    assert outside(tmp_path) == [
        "deep/page.html: https://example.org/a.js",
        "deep/page.html: //example.org/font.css",
        "deep/page.html: http://example.org/b.png",
        "style.css: https://example.org/c.css",
        "style.css: //example.org/d",
    ]


def test_notebook_becomes_a_page_with_its_title_first(pages: Path):
    page = (pages / "docs/notebooks/judge_a_metric.md").read_text(encoding="utf-8")
    cells = json.loads((ROOT / "docs/notebooks/judge_a_metric.ipynb").read_text(encoding="utf-8"))["cells"]
    title, *others = ["".join(cell["source"]) for cell in cells]
    assert page.startswith(f"{title}\n\n*A notebook")
    places = [page.index(text) for text in others]
    assert places == sorted(places)
    assert page.count("```python\n") == sum(cell["cell_type"] == "code" for cell in cells)
    assert ".ipynb)" not in (pages / "docs/python.md").read_text(encoding="utf-8")


def test_picture_of_the_house_has_its_floors_and_rooms():
    names = re.findall(r">([\w/]+)/</text>", (ROOT / "docs/house.svg").read_text(encoding="utf-8"))
    floors = [name for floor in test_house.FLOORS[::-1] for name in floor if "." not in name and (ROOT / name).is_dir()]
    rooms = [name.partition(".")[2] for name in test_house.ROOMS["benchmarks"]]
    drawn = [name.replace("/", ".") for name in names]
    assert [name for name in drawn if name in floors] == floors
    # Not drawn: a file, and the command, which is the roof.
    assert [name for name in drawn if name not in floors] == [name for name in rooms if name not in ("api", "cli")]


def test_overview_names_every_task():
    named = set(re.findall(r"`([\w]+)`", (ROOT / "docs/overview.md").read_text(encoding="utf-8")))
    index = build_index()
    tasks = {entry.name for entry in index.tasks if not entry.name.startswith("shapes")}
    grouped = {task for group in index.groups if group.name in named for task in group.members}
    assert not tasks - named - grouped - {"checklist_iiw_spacy", "checklist_flickr8k_spacy"}


def test_page_on_task_files_has_every_key():
    page = (ROOT / "docs/tasks.md").read_text(encoding="utf-8")
    keys = [name for name, field in TaskConfig.model_fields.items() if not field.alias]
    # A key that one protocol alone has may stand with that, which the site shows, too.
    page += " ".join(protocols[name].__doc__ or "" for name in protocols)
    assert not [key for key in [*keys, *TEMPLATES] if not re.search(rf"\b{key}\b", page)]
