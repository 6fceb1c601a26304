"""The house: which floor may lean on which, how large a room may be, and where names belong."""

import ast
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest
import yaml

import capbench

pytestmark = pytest.mark.costly

ROOT = Path(__file__).parents[1]
PACKAGES = ("adapters", "benchmarks", "cli", "metrics", "recipes", "tasks")

HOUSE = yaml.safe_load(Path(__file__).with_name("house.yaml").read_text(encoding="utf-8"))
FLOORS = tuple(map(tuple, HOUSE["floors"]))
"""Each imports from those before it; what shares a floor does not import from its neighbour."""
ROOMS = {package: tuple(rooms) for package, rooms in HOUSE["rooms"].items()}
"""The rooms of a package, each importing from those before it; so there is no circle among them."""
ASKS_FOR = {("benchmarks.running.execution", "benchmarks.scale")}
"""A module that imports, while it runs, what wraps its room: what is larger than a shard is mapped by that."""


class Import(NamedTuple):
    """An import statement of the package's own."""

    place: str
    """``file:line``."""
    source: str
    """The module that imports, without ``capbench.``."""
    target: str
    """The module that is imported."""
    is_registered: bool = False
    """Whether a registry names it: ``"capbench.metrics.cider:Cider"``."""


def sources() -> list[Path]:
    """Return the source files of the package, but for ``speed/``, which is no part of it."""
    return sorted(ROOT.glob("*.py")) + [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]


@cache
def syntax_of(file: Path) -> ast.Module:
    """Return a file's syntax tree."""
    return ast.parse(file.read_text(encoding="utf-8"))


REGISTERED = re.compile(r"\bcapbench\.([\w.]+):[A-Za-z_]")


def imports_of(file: Path, root: Path = ROOT) -> Iterator[Import]:
    """Yield what a file imports of the package, inside functions and for types alone, too, or names as a string."""
    parts = file.relative_to(root).with_suffix("").parts
    source = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = file.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        for registered in REGISTERED.finditer(line):
            yield Import(f"{file.relative_to(root)}:{number}", source, registered[1], is_registered=True)
    for node in ast.walk(syntax_of(file)) if file.suffix == ".py" else ():
        base = names = None
        if isinstance(node, ast.ImportFrom):
            named = node.module.split(".") if node.module else []
            if node.level:
                base, names = [*parts[: len(parts) - node.level], *named], [name.name for name in node.names]
            elif named and named[0] == "capbench":
                base, names = named[1:], [name.name for name in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "capbench":
                    base, names = alias.name.split(".")[1:], [""]
        for name in names or ():
            whole = root.joinpath(*(base or ()), name)
            is_module = bool(name) and (whole.is_dir() or whole.with_suffix(".py").is_file())
            target = ".".join([*(base or ()), *([name] if is_module else [])])
            yield Import(f"{file.relative_to(root)}:{node.lineno}", source, target)


def rank(module: str, groups: tuple[tuple[str, ...], ...]) -> tuple[int, str]:
    """Return the group of a module, and which of its members it is; the most particular one counts."""
    ranked = [
        (len(member), number, member)
        for number, group in enumerate(groups)
        for member in group
        if module == member or module.startswith(member + ".")
    ]
    _, number, member = max(ranked, default=(0, -1, ""))
    return number, member


def arrows_up(root: Path, files: list[Path]) -> list[str]:
    """Return the imports that lean on something above, or beside."""
    faults = []
    for link in (link for file in files for link in imports_of(file, root)):
        package = link.source.split(".")[0]
        if link.is_registered and package == link.target.split(".")[0]:
            continue  # The registry of a package names its rooms.
        if any(link.source == source and link.target.startswith(room) for source, room in ASKS_FOR):
            continue
        layers = [FLOORS]
        if package == link.target.split(".")[0] and package in ROOMS:
            layers.append(tuple((room,) for room in ROOMS[package]))
        for groups in layers:
            (low, here), (high, there) = rank(link.target, groups), rank(link.source, groups)
            if link.source and here != there and low >= high:
                faults.append(f"{link.place}: {link.source} imports {link.target}, which stands above or beside it")
    return faults


def test_imports_go_one_way():
    settings = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.yaml"))]
    faults = arrows_up(ROOT, sources() + settings)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("file", "line", "place"),
    [
        ("adapters/contracts.py", "from ..metrics.items import Items", "adapters/contracts.py:1"),
        ("tasks/schema.py", "import capbench.benchmarks.api", "tasks/schema.py:1"),
        ("benchmarks/records/files.py", "from ..running.plan import make_plan", "benchmarks/records/files.py:1"),
        ("metrics/words/ptb.py", "def f():\n    from ...cli.main import main", "metrics/words/ptb.py:2"),
        ("adapters/__init__.py", 'x = "capbench.recipes.shapes.pac:Pac"', "adapters/__init__.py:1"),
        ("tasks/coco/coco.yaml", "reader: capbench.metrics.cider:Cider", "tasks/coco/coco.yaml:1"),
    ],
)
def test_import_that_is_turned_around_is_named_with_its_line(tmp_path: Path, file: str, line: str, place: str):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(line, encoding="utf-8")

    (fault,) = arrows_up(tmp_path, [path])

    assert fault.startswith(f"{place}: ")


def test_every_room_has_its_place_in_the_order():
    rooms = {
        f"{package}.{entry.stem if entry.is_file() else entry.name}"
        for package in ("benchmarks",)
        for entry in (ROOT / package).iterdir()
        if not entry.name.startswith("_")
    }

    assert rooms == set(ROOMS["benchmarks"])


def test_rooms_stay_small_and_names_say_something():
    faults = []
    for file in sources():
        if file.stem in ("utils", "helpers", "common", "misc"):
            faults.append(f"{file.relative_to(ROOT)}: its name says nothing")
    # Where a file is a subcommand, there are as many as there are subcommands.
    for room in sorted({file.parent for file in sources()} - {ROOT / "cli"}):
        files = list(room.glob("*.py"))
        if room.is_relative_to(ROOT / "benchmarks") and len(files) > 16:
            faults.append(f"{room.relative_to(ROOT)}: {len(files)} files")
    entries = [entry for entry in (ROOT / "benchmarks").iterdir() if not entry.name.startswith("_")]
    if len(entries) > 20:
        faults.append(f"benchmarks: {len(entries)} entries")

    assert not faults, "\n".join(faults)


def test_wheel_lacks_what_makes_the_shapes_world_alone(monkeypatch: pytest.MonkeyPatch):
    shipped = set[str]()
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", lambda packages: shipped.update(packages))
    runpy.run_path("setup.py")
    packages = {".".join(("capbench", *file.parent.relative_to(ROOT).parts)) for file in sources()}
    assert packages - shipped == {"capbench.recipes.shapes.world"}


def test_no_protocol_is_spelled_outside_the_protocols():
    from capbench.benchmarks.protocols import protocols

    faults = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for file in sources()
        if (ROOT / "benchmarks" / "protocols") not in file.parents
        and str(file.relative_to(ROOT)) not in HOUSE["others_names"]
        for node in ast.walk(syntax_of(file))
        if isinstance(node, ast.Constant) and node.value in set(protocols)
    ]

    assert not faults, "\n".join(faults)


def test_no_key_of_a_record_is_spelled_outside_the_records():
    faults = []
    for file in sources():
        if (ROOT / "benchmarks" / "records") in file.parents:
            continue
        for node in ast.walk(syntax_of(file)):
            held = None
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                held = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                held = node.func.value
            if isinstance(held, ast.Attribute) and held.attr == "values":
                held = held.value
            name = held.attr if isinstance(held, ast.Attribute) else getattr(held, "id", "")
            # Rows of synthesised data call the record of a stage so, too.
            if name == "record" and "data_synthesis" not in file.parts:
                faults.append(f"{file.relative_to(ROOT)}:{node.lineno}")

    assert not faults, "\n".join(faults)


def test_docs_name_no_file_that_is_not_there():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "results/README.md", *(ROOT / "docs").glob("*.md")]
    named = re.compile(rf"`(?:[\w./]+ )?((?:{'|'.join((*PACKAGES, 'speed', 'tests', 'docs'))})/[\w./-]+\.\w+)`")
    linked = re.compile(r"\]\(([\w./-]+?)(?:#[\w-]*)?\)")
    faults = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        paths = [ROOT / path for path in named.findall(text)]
        paths += [page.parent / path for path in linked.findall(text) if not path.startswith("http")]
        faults += [f"{page.relative_to(ROOT)}: {path}" for path in paths if not path.exists() and path.stem != "NAME"]

    assert not faults, "\n".join(faults)


def test_no_class_is_called_as_another():
    places: dict[str, list[str]] = {}
    for file in sources():
        for node in syntax_of(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(file.relative_to(ROOT)))

    twice = {name: files for name, files in places.items() if len(files) > 1}

    assert not twice


def test_variables_are_named_after_what_they_hold():
    faults = []
    others = [file for room in ("docs", "tests") for file in sorted((ROOT / room).rglob("*.py"))]
    for file in sources() + others:
        nodes = list(ast.walk(syntax_of(file)))
        # Keys of files are fields of classes, and keep their names.
        fields = {node.target for node in nodes if isinstance(node, ast.AnnAssign) and node.value is None}
        for node in nodes:
            is_bound = isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
            name = getattr(node, "arg", None) or getattr(node, "id", None)
            if is_bound and node not in fields and name in ("one", "found", "made", "given", "told", "what"):
                faults.append(f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {name}")

    assert not faults, "\n".join(faults)


ROWS = [{"candidate": "a dog runs", "references": ["a dog is running", "the dog runs fast"]}] * 2


@pytest.mark.parametrize(
    ("call", "functions", "files"),
    [
        (lambda: capbench.score(ROWS, metrics=["cider"]), 80, 20),
        (lambda: capbench.evaluate("iiw-p5b", ["iiw_400"], metrics=["cider"], output_path=None), 455, 57),
    ],
    ids=["score of two rows", "evaluate of a small task"],
)
def test_way_of_a_score_stays_short(call: Callable[[], object], functions: int, files: int):
    called: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)) and ".venv" not in code.co_filename:
            called.add((code.co_filename, code.co_firstlineno))

    # What a first call sets up is no part of the way.
    call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    ours = {place for place in called if not Path(place[0]).is_relative_to(ROOT / "tests")}

    assert len(ours) <= functions
    assert len({file for file, _ in ours}) <= files
